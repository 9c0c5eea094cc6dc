"""Tiny random pools with parts of GPUs and topologies, and placements by exhaustive search, without the code under test."""

from collections.abc import Iterator
from itertools import combinations
from random import Random

from tests.kits.builders import Sketch

from bailiff_core.model.demand import JobDemand, SubGroup, TaskGroup, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Topology
from bailiff_core.model.state import Device, Job, Node, PoolState

RULES = Policy(**{**dict(DEFAULT_POLICY), "topologies": (Topology(name="dc", levels=("zone", "rack")),)})
LEVELS = ("zone", "rack")
Places = dict[int, tuple[int, tuple[int, ...]]]  # node and devices by task


def tiny_pool(random: Random, *, topology: bool = False) -> tuple[Sketch, Job]:
    """Up to three nodes of up to three small devices, some in use, and a preemptor."""
    sketch = Sketch()
    sketch.state.policy = RULES
    for number in range(random.randint(2, 4) if topology else random.randint(1, 3)):
        labels = {level: random.choice("ab") for level in LEVELS if random.random() < 0.9}
        node = sketch.node(
            f"n{number}", gpus=random.randint(0, 3), cpu=random.randint(1, 5), slots=random.choice((3, 9)), labels=labels
        )
        same = random.random() < 0.6
        for device in node.devices:
            device.memory_bytes = 6 if same else random.choice((4, 6))
    for number in range(random.randint(0, 5)):
        occupy(random, sketch, f"j{number}")
    names = random.choice(((), ("a",), ("a", "b"))) if topology else ()
    groups = tuple(random_tasks(random, random.choice((None, *names))) for _ in range(random.choice((1, 1, 1, 2))))
    used = [name for name in names if any(part.sub_group == name for part in groups)]
    preemptor = sketch.job("preemptor", *groups)
    rule = random_rule(random) if topology else None
    sub_groups = tuple(SubGroup(name=name, topology=random_rule(random)) for name in used)
    preemptor.demand = JobDemand(
        job="preemptor", tasks=groups, topology=rule, sub_groups=sub_groups, pack=random.choice((None, "spread"))
    )
    return sketch, preemptor


def random_rule(random: Random) -> TopologyRule | None:
    """A rule, or none."""
    if random.random() < 0.2:
        return None
    required, preferred = random.choice((("rack", None), ("zone", None), ("zone", "rack"), (None, "rack"), (None, "zone")))
    return TopologyRule(topology="dc", required=required, preferred=preferred)


def random_tasks(random: Random, sub_group: str | None = None) -> TaskGroup:
    """One to three equal tasks with whole devices, parts of some, or none."""
    kind = random.choice(("none", "whole", "milli", "milli", "bytes"))
    requested: dict[str, object] = {
        "count": random.randint(1, 3),
        "cpu_milli": random.choice((0, 0, 1000, 2000)),
        "sub_group": sub_group,
    }
    if kind == "whole":
        requested["gpu_milli"] = random.choice((1000, 2000))
    if kind == "milli":
        requested["gpu_share_milli"] = random.choice((200, 300, 500, 700, 1000))
    if kind == "bytes":
        requested["gpu_share_bytes"] = random.choice((1, 2, 3, 5))
    if kind in ("milli", "bytes"):
        requested["gpu_devices"] = random.choice((None, None, 2, 3))
    return TaskGroup.model_validate(requested)


def occupy(random: Random, sketch: Sketch, name: str) -> None:
    """Place or reserve one task of a job somewhere, unless it does not fit."""
    group = random_tasks(random).model_copy(update={"count": 1})
    phase = random.choice(("running", "running", "evicting", "reserved"))
    node = random.choice(list(sketch.state.nodes.values()))
    room = Left(sketch.state, node, now=phase != "reserved")
    devices = [chosen for chosen in room.choices(group) if room.fits(group, chosen)]
    if not devices:
        return
    chosen = random.choice(devices)
    if phase != "reserved" and not Left(sketch.state, node, now=False).fits(group, chosen):
        return
    sketch.at(sketch.job(name, group), (node.name, chosen), phase=phase)


class Left:
    """Free resources of a node: now (all tasks count), or later (evicted tasks do not count, reserved ones do)."""

    def __init__(self, state: PoolState, node: Node, *, now: bool) -> None:
        self.node = node
        self.cpu, self.slots = node.capacity.cpu_milli, node.capacity.slots
        self.whole = {device.number: True for device in node.devices}
        self.units = {device.number: 1000 * device.memory_bytes for device in node.devices}
        self.shared_tasks = dict.fromkeys(self.whole, 0)
        for job in state.jobs.values():
            if job.phase == ("reserved" if now else "evicting"):
                continue
            for task, group in zip(job.tasks, job.groups(), strict=False):
                if task.node == node.number:
                    self.take(group, tuple(number for number in range(64) if task.devices >> number & 1))

    def choices(self, group: TaskGroup) -> Iterator[tuple[int, ...]]:
        """Sets of devices that a task might take."""
        return combinations(sorted(self.whole), count_of(group))

    def fits(self, group: TaskGroup, devices: tuple[int, ...]) -> bool:
        """Whether the task fits there."""
        shared = is_shared(group)
        return (
            self.slots >= 1
            and (not group.cpu_milli or self.cpu >= group.cpu_milli)
            and all(
                self.units[number] >= part_of(group, self.node.devices[number]) if shared else self.whole[number]
                for number in devices
            )
        )

    def take(self, group: TaskGroup, devices: tuple[int, ...], sign: int = 1) -> None:
        """Place the task there, or with -1 remove it."""
        self.cpu -= sign * group.cpu_milli
        self.slots -= sign
        for number in devices:
            full = 1000 * self.node.devices[number].memory_bytes
            self.units[number] -= sign * (part_of(group, self.node.devices[number]) if is_shared(group) else full)
            self.whole[number] = self.units[number] == full
            self.shared_tasks[number] += sign * is_shared(group)

    def overfull(self) -> bool:
        """Whether the node is over-allocated."""
        return self.cpu < 0 or self.slots < 0 or min(self.units.values(), default=0) < 0


def is_shared(group: TaskGroup) -> bool:
    """Whether its tasks take parts of devices."""
    return group.gpu_share_milli is not None or group.gpu_share_bytes is not None


def count_of(group: TaskGroup) -> int:
    """Devices per task."""
    return (group.gpu_devices or 1) if is_shared(group) else group.gpu_milli // 1000


def part_of(group: TaskGroup, device: Device) -> int:
    """A thousandth of a device is as many units as it has bytes."""
    return 1000 * group.gpu_share_bytes if group.gpu_share_bytes else (group.gpu_share_milli or 0) * device.memory_bytes


def placements(state: PoolState, preemptor: Job) -> Iterator[Places]:
    """Every placement of all tasks of the preemptor after the evictions that keeps the topology rules."""
    left = {node.number: Left(state, node, now=False) for node in state.nodes.values()}
    groups = preemptor.groups()

    def place(index: int, places: Places) -> Iterator[Places]:
        if index == len(groups):
            if stands_together(state, preemptor, places):
                yield dict(places)
            return
        group = groups[index]
        for number, room in left.items():
            for devices in room.choices(group):
                if room.fits(group, devices):
                    room.take(group, devices)
                    places[index] = (number, devices)
                    yield from place(index + 1, places)
                    del places[index]
                    room.take(group, devices, -1)

    return place(0, {})


def stands_together(state: PoolState, preemptor: Job, places: Places) -> bool:
    """Whether every required topology level is kept."""
    rules = {"": preemptor.demand.topology, **{group.name: group.topology for group in preemptor.demand.sub_groups}}
    for name, rule in rules.items():
        if rule is None or rule.required is None:
            continue
        depth = LEVELS.index(rule.required) + 1
        mine = [index for index, group in enumerate(preemptor.groups()) if not name or group.sub_group == name]
        pools = [tuple(state.nodes[places[index][0]].labels.get(level) for level in LEVELS[:depth]) for index in mine]
        if any(None in pool or pool != pools[0] for pool in pools):
            return False
    return True
