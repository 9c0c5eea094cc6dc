"""Which tasks a gang requests next, and which it loses first (semantics §1 "Sub-groups", §2, §3)."""

import pytest
from tests.builders import Sketch, group

from bailiff_core.model.demand import JobDemand, SubGroup
from bailiff_core.model.state import Eviction, Job, Task
from bailiff_core.model.units import next_unit, sub_group_problem, victim_units, whole_job


def job(*groups, sub_groups=(), min_tasks=None, running=(), done=()) -> Job:
    """A job of which these members run, and these have finished well."""
    made = Sketch().job("j", *groups)
    made.demand = JobDemand(job="j", tasks=groups, sub_groups=sub_groups, min_tasks=min_tasks)
    made.tasks = [Task(index, 0, 0, "running") for index in sorted(running)]
    made.tasks += [Task(index, 0, 0, "released", exit_code=0) for index in done]
    made.tasks.sort(key=lambda task: task.index)
    made.phase = "running" if running else "pending"
    return made


def asks(made: Job) -> list[int] | None:
    unit = next_unit(made)
    return None if unit is None else list(unit.indices)


def loses(made: Job) -> list[tuple[list[int], bool]]:
    return [(list(unit.indices), unit.core) for unit in victim_units(made)]


def leaf(name: str, parent: str | None = None, least: int | None = None) -> SubGroup:
    return SubGroup(name=name, parent=parent, min_tasks=least)


def inner(name: str, parent: str | None = None, least: int | None = None) -> SubGroup:
    return SubGroup(name=name, parent=parent, min_groups=least)


def test_a_rigid_gang_requests_all_and_loses_all() -> None:
    assert asks(job(group(3))) == [0, 1, 2]
    assert next_unit(job(group(3))).core
    assert asks(job(group(3), running=range(3))) is None
    assert loses(job(group(3), running=range(3))) == [([0, 1, 2], True)]
    assert loses(job(group(3))) == []


def test_an_elastic_gang_requests_its_minimum_and_then_one_more_at_a_time() -> None:
    elastic = {"min_tasks": 2}
    assert asks(job(group(4), **elastic)) == [0, 1]
    unit = next_unit(job(group(4), **elastic, running=(0, 1)))
    assert (unit.indices, unit.core) == ((2,), False)
    assert asks(job(group(4), **elastic, running=(0, 1, 3))) == [2]
    assert asks(job(group(4), **elastic, running=range(4))) is None


def test_surplus_is_evicted_one_by_one_in_reverse_and_the_core_whole() -> None:
    assert loses(job(group(4), min_tasks=2, running=range(4))) == [([3], False), ([2], False), ([0, 1], True)]


def test_tasks_go_by_order_then_by_index_as_a_string() -> None:
    made = job(group(1), group(1, order=1), group(1, order=5), group(9), min_tasks=3)
    assert asks(made) == [2, 1, 0], "order 5, then 1, then none: 0 before 10 before 3"
    made.tasks = [Task(index, 0, 0, "running") for index in (0, 1, 2)]
    assert asks(made) == [10]
    made.tasks = [Task(index, 0, 0, "running") for index in range(12)]
    assert [units[0] for units, core in loses(made) if not core] == [9, 8, 7, 6, 5, 4, 3, 11, 10]


def test_releasing_tasks_neither_count_nor_are_requested_again() -> None:
    made = job(group(4), min_tasks=2, running=range(3))
    made.tasks[2].eviction = Eviction(1, "scaled", 0)
    assert asks(made) == [3]
    assert loses(made) == [([0, 1], True)]
    assert whole_job(made).indices == (0, 1)
    made.eviction = Eviction(1, "preemption", 0)
    assert asks(made) is None
    assert loses(made) == []


def test_members_that_succeeded_count_as_present() -> None:
    made = job(group(3), min_tasks=2, running=(1,), done=(0,))
    assert asks(made) == [2], "one done, one running: the minimum is met"
    assert loses(made) == [([1], True)]
    assert loses(job(group(3), min_tasks=2, running=(1, 2), done=(0,))) == [([2], False), ([1], True)]
    assert asks(job(group(3), running=(1,), done=(0,))) == [2]


WORKERS = (group(3, sub_group="a"), group(3, sub_group="b"))


def test_below_the_minimum_the_first_children_get_their_missing_tasks_and_satisfied_ones_nothing() -> None:
    leaves = (leaf("a", least=2), leaf("b", least=2))
    assert asks(job(*WORKERS, sub_groups=leaves)) == [0, 1, 3, 4]
    assert asks(job(*WORKERS, sub_groups=leaves, running=(0, 1))) == [3, 4]
    assert asks(job(*WORKERS, sub_groups=leaves, running=(0, 3, 4))) == [1]


def test_above_it_the_child_with_less_of_its_minimum_gets_the_next_task() -> None:
    leaves = (leaf("a", least=2), leaf("b", least=1))
    assert asks(job(*WORKERS, sub_groups=leaves, running=(0, 1, 3))) == [2], "both at 1: by name"
    assert asks(job(*WORKERS, sub_groups=leaves, running=(0, 1, 2, 3))) == [4], "3/2 against 1/1"
    none_needed = (leaf("a", least=0), leaf("b", least=1))
    assert asks(job(*WORKERS, sub_groups=none_needed, running=(3, 4, 5))) == [0]
    assert asks(job(*WORKERS, sub_groups=none_needed, running=(3,))) == [4], "minimum 0 comes last"


def test_only_as_many_groups_as_needed_are_requested_and_the_next_is_requested_whole() -> None:
    tree = (inner("all", least=1), leaf("a", "all", 2), leaf("b", "all", 2))
    assert asks(job(*WORKERS, sub_groups=tree)) == [0, 1]
    unit = next_unit(job(*WORKERS, sub_groups=tree, running=(0, 1)))
    assert (unit.indices, unit.core) == ((3, 4), False), "the next whole child, before a third task of a"


def test_a_child_that_has_too_few_tasks_left_is_skipped() -> None:
    tree = (inner("all", least=1), leaf("a", "all", 2), leaf("b", "all", 2))
    broken = job(*WORKERS, sub_groups=tree)
    broken.tasks = [Task(index, 0, 0, "released", exit_code=1) for index in (0, 1)]
    assert asks(broken) == [3, 4]


def test_eviction_takes_surplus_tasks_then_a_surplus_child_whole_then_the_job() -> None:
    tree = (inner("all", least=1), leaf("a", "all", 2), leaf("b", "all", 2))
    assert loses(job(*WORKERS, sub_groups=tree, running=range(6))) == [
        ([5], False), ([2], False), ([3, 4], False), ([0, 1], True),
    ]  # fmt: skip


def test_of_surplus_tasks_the_one_of_the_fullest_child_is_evicted_first() -> None:
    leaves = (leaf("a", least=1), leaf("b", least=2), leaf("c", least=0))
    groups = (*WORKERS, group(1, sub_group="c"))
    assert [indices for indices, _ in loses(job(*groups, sub_groups=leaves, running=range(7)))] == [
        [6], [2], [1], [5], [0, 3, 4],
    ]  # fmt: skip


def test_tasks_in_no_sub_group_are_all_needed() -> None:
    made = job(group(1), group(2, sub_group="a"), sub_groups=(leaf("a", least=1),))
    assert sorted(asks(made)) == [0, 1]
    made.tasks = [Task(index, 0, 0, "running") for index in range(3)]
    assert loses(made) == [([2], False), ([0, 1], True)]


@pytest.mark.parametrize(
    ("groups", "sub_groups", "problem"),
    [
        ((group(1, sub_group="x"),), (), "tasks.0 belongs to the sub-group 'x', which is not defined"),
        ((group(1, sub_group="a"),), (leaf("a"), leaf("a")), "sub-group 'a' is defined twice"),
        ((group(1, sub_group="a"),), (leaf("a", "up"),), "sub-group 'a' names the parent 'up', which is not defined"),
        ((group(1, sub_group="a"),), (leaf("a", "b"), leaf("b", "a")), "sub-group 'a' is its own ancestor"),
        ((group(1, sub_group="a"),), (leaf("a"), leaf("b", "a")), "tasks.0 belongs to 'a', which has sub-groups"),
        ((group(1, sub_group="a"),), (leaf("a", least=2),), "sub-group 'a' needs 2 tasks and has 1"),
        ((group(1, sub_group="a"),), (leaf("a", "up"), inner("up", least=2)), "sub-group 'up' needs 2 sub-groups and has 1"),
    ],
)
def test_an_invalid_tree_is_reported(groups, sub_groups, problem: str) -> None:
    assert problem in (sub_group_problem(JobDemand(job="j", tasks=groups, sub_groups=sub_groups)) or "")


def test_a_valid_tree_is_accepted() -> None:
    tree = (inner("all", least=1), leaf("a", "all", 2), leaf("b", "all", 2))
    assert sub_group_problem(JobDemand(job="j", tasks=WORKERS, sub_groups=tree)) is None
