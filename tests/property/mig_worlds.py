"""Stories of pools with partitioned GPUs."""

from collections.abc import Iterable

from tests.kits.mig import devices
from tests.property.random_stories import CLASSES, Chance

from bailiff_core.model.demand import TaskGroup
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

CARDS = (
    "4xH100-80GB/nvlink2,2xH100-80GB:3g.40gb,3xH100-80GB:1g.10gb",
    "2xH100-80GB/nvlink2,6xH100-80GB:3g.40gb",
    "8xH100-80GB/nvlink4",
)
SHAPES = (
    [TaskGroup(mig_profile="3g.40gb")],
    [TaskGroup(count=2, mig_profile="3g.40gb")],
    [TaskGroup(mig_profile="3g.40gb", gpu_devices=2)],
    [TaskGroup(count=3, mig_profile="1g.10gb")],
    [TaskGroup(mig_profile="3g.40gb"), TaskGroup(gpu_milli=1000)],
    [TaskGroup(gpu_milli=2000)],
    [TaskGroup(count=2, gpu_milli=2000)],
    [TaskGroup(gpu_milli=4000)],
    [TaskGroup(gpu_share_milli=500)],
    [TaskGroup(count=2, gpu_milli=1000), TaskGroup(count=2, cpu_milli=1000)],
)


class Partitioned(Chance):
    """Histories on nodes with MIG devices and islands."""

    def _join(self, number: int, b: int) -> Iterable[Fact]:
        spec = CARDS[(number + b // 4) % len(CARDS)]
        for fact in super()._join(number, b):
            if isinstance(fact, facts.NodeJoined):
                yield fact.model_copy(update={"devices": devices(spec, fact.node)})
            else:
                yield fact

    def _submit(self, a: int, b: int) -> Fact:
        self.jobs += 1
        project = ("red-day", "red-night", "blue", "guest")[(a + b) % 4] if self.shared else None
        rest: dict[str, object] = {"project": project} if project is not None else {}
        if a % 3:
            rest["placement"] = "prefer nvlink"
        shape = SHAPES[b % len(SHAPES)]
        if self.shared and b % 3 == 0:
            rest["min_tasks"] = 1
        return self.story.submitted(f"job-{self.jobs}", *shape, cls=CLASSES[a % len(CLASSES)], **rest)
