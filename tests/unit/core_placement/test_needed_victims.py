"""A reclaim that would only reverse an imbalance is not made acceptable by a victim whose resources nobody needs."""

from tests.builders import Sketch, group, requested_unit
from tests.unit.core_protections.kit import rules
from tests.unit.core_queue.kit import project

from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims


def test_a_job_is_not_evicted_only_to_balance_what_two_departments_lose() -> None:
    """`large` alone would leave b less than a. With `own`, of the preemptor's department, it would not, but then nobody needs
    the GPU of `own`: it is evicted with the dearer `small` beside it, whose GPU is needed.
    """
    sketch = Sketch()
    tree = (
        project("a", quota=2),
        project("asks", "a", quota=2),
        project("lends", "a"),
        project("b", quota=2),
    )
    preemption = {"quota_shields": False, "max_migrations": 0}
    sketch.state.policy = rules(preemption=preemption).model_copy(update={"projects": tree})
    sketch.node("n0", gpus=2)
    sketch.node("n1", gpus=2)
    sketch.running("large", "n0", range(2), priority=25).project = "b"
    sketch.running("own", "n1", [0], priority=25).project = "lends"
    sketch.running("small", "n1", [1], priority=75).project = "b"
    preemptor = sketch.job("preemptor", group(gpus=2))
    preemptor.project = "asks"
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    answer = select_victims(batch, requested_unit(preemptor), "reclaim", StepBudget(20_000))
    assert sorted(choice.job for choice in answer.victims) == ["own", "small"]
    assert answer.explanation.proven
