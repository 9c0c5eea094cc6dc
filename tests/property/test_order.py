"""The order of a pass equals that of a slow reference, whatever is placed, evicted and reinserted in between."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.builders import group
from tests.kits.examples import examples
from tests.kits.pools import Town, Trials, whole
from tests.property.random_projects import ENDLESS, RESOURCES, random_projects

from bailiff_core.model.project_tree import ROOT
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, ResourceVector
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit, next_unit
from bailiff_core.placement.gang import GangPlacement, TaskPlacement
from bailiff_core.queue.order import Pass, shares_now


@dataclass
class Slow:
    """Reference that evaluates everything anew for each step."""

    snapshot: Trials
    shares: dict[str, ResourceVector]
    waiting: list[Job]

    def best(self, project: str = ROOT) -> Unit | None:
        """The best unit, level by level."""
        tree = self.snapshot.usage.tree
        if project not in tree.children:
            jobs = [job for job in self.waiting if tree.leaf_of(job.project) == project]
            jobs.sort(key=lambda job: (-job.priority, self.stage(job), job.seq, job.id))
            return next((unit for unit in map(next_unit, jobs) if unit is not None), None)
        found = [(child, unit) for child in tree.children[project] if (unit := self.best(child)) is not None]
        return min(found, key=cmp_to_key(self.compare))[1] if found else None

    def stage(self, job: Job) -> int:
        return (len(job.tasks) >= job.minimum) + (len(job.tasks) > job.minimum)

    def compare(self, one: tuple[str, Unit], other: tuple[str, Unit]) -> int:
        """Semantics §2, clause by clause."""
        for mine, theirs in zip(self.clauses(*one), self.clauses(*other), strict=True):
            if mine != theirs:
                return -1 if mine < theirs else 1  # type: ignore[operator]
        raise AssertionError("two projects have the same age")

    def clauses(self, name: str, unit: Unit) -> list[object]:
        usage = self.snapshot.usage
        branch, entitled = usage.tree.branches[name], self.shares[name]
        share = entitled.share
        used = usage.allocated(name)
        requested = ZERO
        for index in unit.indices:
            task = unit.job.groups()[index]
            requested = requested.plus(ResourceVector(task.gpu_milli, task.cpu_milli, task.memory_bytes))
        quota = [ENDLESS if most == UNLIMITED else most for most in entitled.quota]
        limit = [ENDLESS if most == UNLIMITED else most for most in branch.limit]
        most = [min(limit[at], max(quota[at], share[at])) for at in RESOURCES]
        then = [used[at] + requested[at] for at in RESOURCES]

        def dominant(amounts: list[int]) -> tuple[bool, Fraction]:
            parts = []
            for at in RESOURCES:
                whole = most[at] if most[at] < ENDLESS else usage.total[at]
                if amounts[at] > 0:
                    parts.append((whole == 0, Fraction(amounts[at], whole or usage.total[at] or 1)))
            return max(parts, default=(False, Fraction(0)))

        return [
            any(used[at] > share[at] for at in RESOURCES),
            any(then[at] > quota[at] for at in RESOURCES),
            -branch.priority,
            any(then[at] > 0 and most[at] == 0 for at in RESOURCES),
            dominant(then),
            dominant(list(used)),
            most,
            branch.age,
        ]


@examples(150)
@given(st.integers(0, 2**32))
def test_each_step_is_the_best_of_all(seed: int) -> None:
    take_steps(seed)


@pytest.mark.long
@settings(max_examples=5_000, deadline=None)
@given(st.integers(0, 2**32))
def test_each_step_is_the_best_of_all_at_length(seed: int) -> None:
    take_steps(seed)


def take_steps(seed: int) -> None:
    rng = Random(seed)
    town = Town(*random_projects(rng), gpus=rng.choice([0, 4, 16]))
    names = ["", *[entry.name for entry in town.state.rules.projects]]
    for number in range(rng.randrange(8)):
        town.runs(f"r{number}", rng.choice(names), group(gpus=rng.randrange(3), cpu=rng.randrange(3)))
    jobs = []
    for number in range(rng.randrange(12)):
        size, task = rng.randrange(1, 4), group(gpus=rng.randrange(3), cpu=rng.randrange(3))
        task = task.model_copy(update={"count": size})
        priority, minimum = rng.choice([50, 50, 75]), rng.randrange(1, size + 1)
        jobs.append(town.waits(f"w{number}", rng.choice(names), task, minimum=minimum, priority=priority))
    snapshot = town.snapshot()
    shares = shares_now(snapshot)
    order, slow = Pass(snapshot, jobs), Slow(snapshot, shares, list(jobs))
    evictable = [town.state.jobs[name] for name in town.state.active]
    for _ in range(100):
        expected, found = slow.best(), order.next()
        assert found == expected
        if found is None:
            return
        slow.waiting.remove(found.job)
        mark = snapshot.usage.mark()
        snapshot.usage.place(found, GangPlacement(tuple(TaskPlacement(index, 0, 0) for index in found.indices), future=False))
        if evictable and rng.randrange(3) == 0:
            snapshot.usage.evict(whole(evictable.pop()))
        if rng.randrange(3) == 0:
            snapshot.usage.rollback(mark)  # it did not fit
        elif rng.randrange(2):
            found.job.tasks = [*found.job.tasks, *Town().runs("x", "", group(count=len(found.indices))).tasks]
            for index, task in enumerate(found.job.tasks):
                task.index = index
            order.put_back(found.job)
            slow.waiting.append(found.job)
    raise AssertionError("the pass does not end")
