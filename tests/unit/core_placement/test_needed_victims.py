"""A reclaim that would only reverse an imbalance is not made acceptable by a victim whose resources nobody needs."""

from tests.builders import Sketch, group, requested_unit
from tests.unit.core_protections.kit import rules
from tests.unit.core_queue.kit import project

from bailiff_core.model.proposal import Proposal
from bailiff_core.placement import StepBudget
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import SelectionBatch, select_victims


def ask(*, others_may_leave: bool) -> Proposal:
    """`large` alone would leave b less than a. With `own`, of the preemptor's department, it would not."""
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
    sketch.running("own", "n1", [0], priority=25, preemptible=others_may_leave).project = "lends"
    sketch.running("small", "n1", [1], priority=75, preemptible=others_may_leave).project = "b"
    preemptor = sketch.job("preemptor", group(gpus=2))
    preemptor.project = "asks"
    batch = SelectionBatch.on(current_snapshot(sketch.state))
    return select_victims(batch, requested_unit(preemptor), "reclaim", StepBudget(20_000))


def test_a_job_is_not_evicted_only_to_balance_what_two_departments_lose() -> None:
    """Nobody needs the GPU of `own` beside `large`: it is evicted with the dearer `small`, whose GPU is needed."""
    answer = ask(others_may_leave=True)
    assert sorted(choice.job for choice in answer.victims) == ["own", "small"]
    assert answer.explanation.proven


def test_where_nothing_else_may_leave_and_nothing_can_move_it_is_proven_that_no_set_is_balanced() -> None:
    answer = ask(others_may_leave=False)
    assert (answer.victims, answer.refused, answer.explanation.proven) == ((), "impossible", True)
