"""A proposal that relocates victims: which of them still have their new place, and which need not move by now."""

import pytest
from tests.builders import Sketch, group
from tests.unit.core_placement.test_revalidate import ask, policy, verdict

from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import Action
from bailiff_core.model.proposal import Proposal, VictimChoice
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import TaskPlacement
from bailiff_core.victims import Accepted
from bailiff_core.victims.revalidate import _Victim


def there(node: int, tasks: str, devices: str = "0") -> NodeShare:
    return NodeShare(node=node, tasks=tasks, devices=devices)


def accepted(
    made: Sketch, preemptor: Job, answer: Proposal, moved_to: tuple[NodeShare, ...], not_relocated: str = "", **other: object
) -> Accepted:
    """The verdict on the answer with these new places for its only victim, and other fields as given."""
    (victim,) = answer.victims
    changed = victim.model_copy(update={"moved_to": moved_to, "not_relocated": not_relocated})
    found = verdict(made, preemptor, answer.model_copy(update={"victims": (changed,), **other}))
    assert isinstance(found, Accepted), found
    return found


def only(found: Accepted) -> VictimChoice:
    (choice,) = found.victims
    return choice


def surplus_of_two(action: Action = "preempt", minimum: int = 1, **wants: object) -> tuple[Sketch, Job, Proposal]:
    """`wide` may lose all but its first task on node a; the preemptor takes two GPUs there. Nodes b and c take one task each."""
    made = Sketch()
    made.state.policy = policy(preemption={"max_migrations": None})
    made.node("a", gpus=4)
    wide = made.at(made.job("wide", group(4, gpus=1, cpu=1)), *[("a", [device]) for device in range(4)])
    wide.demand = wide.demand.model_copy(update={"min_tasks": minimum})
    priority = 50 if action == "consolidate" else 75
    preemptor = made.job("preemptor", group(2, gpus=1, nodes=("a", "d")), priority=priority)
    if action == "consolidate":
        made.node("b", gpus=2, cpu=1)
        made.node("c", gpus=1)
    answer = ask(made, preemptor, action)
    if action == "preempt":
        made.node("b", gpus=2, cpu=1)
        made.node("c", gpus=1)
    return made, preemptor, answer


def test_of_two_surplus_tasks_with_one_new_place_the_one_evicted_last_gets_it() -> None:
    made, preemptor, answer = surplus_of_two()
    found = accepted(made, preemptor, answer, (there(1, "2-3", "0-1"),))
    assert (only(found).tasks, only(found).moved_to) == ("2-3", (there(1, "2"),)), "b has a CPU for one of them"
    assert only(found).not_relocated == "", "said of jobs that are evicted whole"


def test_surplus_without_a_new_place_does_not_skip_the_check_of_the_other() -> None:
    made, preemptor, answer = surplus_of_two()
    assert only(accepted(made, preemptor, answer, (there(1, "3"),))).moved_to == (there(1, "3"),)
    made.running("arrived", "b", [0])
    assert only(accepted(made, preemptor, answer, (there(1, "3"),))).moved_to == ()


def test_a_gang_is_not_relocated_in_part() -> None:
    made, preemptor, answer = surplus_of_two(minimum=4)
    assert [choice.tasks for choice in answer.victims] == [""]
    assert only(accepted(made, preemptor, answer, (there(1, "3"), there(2, "2")), not_relocated="0-1")).moved_to == ()


def test_where_the_preemptor_needs_less_by_now_the_surplus_evicted_last_stays() -> None:
    made, preemptor, answer = surplus_of_two("consolidate")
    assert [choice.tasks for choice in answer.victims] == ["2-3"]
    made.node("d", gpus=1)
    placement = (there(0, "0", "3"), there(3, "1"))
    moved = (there(1, "2"), there(2, "3"))
    assert only(accepted(made, preemptor, answer, moved)).moved_to == moved
    found = accepted(made, preemptor, answer, moved, placement=placement)
    assert (only(found).tasks, only(found).moved_to, found.dropped) == ("3", (there(2, "3"),), ())


@pytest.mark.parametrize(
    ("moved", "core", "units"),
    [
        ((0, 1, 2, 3), True, [(0, 1, 2, 3)]),
        ((1, 2, 3), True, [(1, 2, 3)]),
        ((2, 3), True, [(2, 3)]),
        ((3,), True, [(0, 1, 2, 3)]),  # it needs two
        ((), True, [(0, 1, 2, 3)]),
        ((2, 3), False, [(2,), (3,)]),
    ],
)
def test_which_tasks_of_a_victim_move_together(moved: tuple[int, ...], core: bool, units: list[tuple[int, ...]]) -> None:
    made = Sketch()
    made.node("a", gpus=4)
    wide = made.at(made.job("wide", group(4, gpus=1)), *[("a", [device]) for device in range(4)])
    wide.demand = wide.demand.model_copy(update={"min_tasks": 2})
    surplus = [Unit(wide, (3,), core=False), Unit(wide, (2,), core=False)]
    evicted = [*surplus, Unit(wide, (0, 1), core=True)] if core else surplus
    victim = _Victim(made.state, wide, evicted, {index: TaskPlacement(index, 1, 1) for index in moved})
    found = victim.relocation_units()
    assert [unit.indices for unit in found] == units
    whole = len(moved) in (0, 1, 4) or not core
    assert all((unit.job is wide) is whole for unit in found), "without some tasks it is a smaller job"


@pytest.mark.parametrize("whole", [True, False])
def test_a_job_that_need_not_move_at_all_is_no_victim(whole: bool) -> None:
    made, preemptor, answer = surplus_of_two("consolidate")
    made.node("d", gpus=2)
    moved = (there(1, "2"), there(2, "3"))
    if whole:
        made.node("e", gpus=4)
        moved = (there(4, "0-3", "0-3"),)
        answer = answer.model_copy(update={"victims": (answer.victims[0].model_copy(update={"tasks": ""}),)})
    found = accepted(made, preemptor, answer, moved, placement=(there(3, "0-1", "0-1"),))
    assert (found.victims, found.dropped) == ((), ("wide",))
