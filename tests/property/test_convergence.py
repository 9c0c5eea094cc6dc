"""Random pools converge: waves of jobs are submitted, passes run until one changes nothing, and then no valid claim remains.

No protections are enabled, so only the checks of the actions prevent two jobs from evicting each other alternately.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kits.core_invariants import (
    cached_snapshot_is_current,
    gangs_are_whole,
    no_device_over_allocated,
    no_node_over_allocated,
    sums_recompute,
)
from tests.kits.examples import examples
from tests.kits.snapshots import snapshot

from bailiff_core.model.resource_vector import UNLIMITED
from bailiff_core.model.state import PoolState
from bailiff_core.plan import Planning
from bailiff_core.plan.build import append_facts, submission
from bailiff_core.plan.report import PlanReport, Round
from bailiff_core.plan.snapshot_validation import validate_snapshot
from bailiff_core.queue.order import shares_now
from bailiff_core.queue.share_turn import TURN
from bailiff_core.scheduling_snapshot import current_snapshot

Fields = dict[str, Any]
MOST_ROUNDS = 40
SOUND = (no_device_over_allocated, sums_recompute, no_node_over_allocated, cached_snapshot_is_current, gangs_are_whole)
CLASSES = ("train", "train", "train", "interactive", "interactive", "build", "inference")
TREES: tuple[tuple[Fields, ...], ...] = (
    (),
    ({"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 4}}),
    ({"name": "a"}, {"name": "b", "over_quota_weight": 3}, {"name": "c", "over_quota_weight": 0, "quota": {"gpus": 1}}),
    (
        {"name": "a", "quota": {"gpus": 2}, "limit": {"gpus": 5}},
        {"name": "b", "quota": {"gpus": -1}},
        {"name": "c", "priority": 2},
    ),
    (
        {"name": "east", "quota": {"gpus": 4}},
        {"name": "west", "quota": {"gpus": 3}, "over_quota_weight": 2},
        {"name": "a", "parent": "east", "quota": {"gpus": 3}},
        {"name": "b", "parent": "east", "quota": {"gpus": 3}},
        {"name": "c", "parent": "west"},
    ),
)
SHAPES: tuple[Fields, ...] = (
    {"gpus": 1},
    {"gpus": 2},
    {"gpus": 3},
    {"gpus": 1, "tasks": 2},
    {"gpus": 2, "tasks": 2},
    {"gpus": 1, "tasks": 5, "min_tasks": 1},
    {"gpus": 1, "tasks": 4, "min_tasks": 2},
    {"gpus": 2, "tasks": 3, "min_tasks": 1},
    {"gpus": 0.5, "tasks": 3, "min_tasks": 1},
    {"gpus": 0.4},
    {"gpus": 4},
    {"gpus": 8},
)
RULES: tuple[Fields, ...] = (
    {},
    {"max_migrations": 2},
    {"max_migrations": None},
    {"scope": "pool"},
    {"scope": "pool", "max_migrations": None},
)
RIGID = tuple(shape for shape in SHAPES if "tasks" not in shape and shape["gpus"] >= 1)
job = st.tuples(st.integers(0, 11), st.integers(0, 6), st.integers(0, 2), st.booleans())
waves = st.lists(st.lists(job, min_size=1, max_size=4), min_size=1, max_size=4)
pools = st.tuples(
    st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=3), st.sampled_from(TREES), st.sampled_from(RULES), waves
)
crowded = st.tuples(st.sampled_from(((6,), (8,), (10,))), st.sampled_from(TREES[1:4]), st.just(RULES[0]), waves)
Given = tuple[Sequence[int], tuple[Fields, ...], Fields, Sequence[Sequence[tuple[int, int, int, bool]]]]


# A reservation on the GPUs of c, taken by c and reclaimed again, forever: the rule `no-reclaim-of-reserved` prevents this.
ALTERNATING: Given = (
    (6,),
    TREES[2],
    {},
    [
        [(0, 0, 0, False), (7, 4, 2, False), (11, 0, 0, True)],
        [(0, 3, 0, True), (3, 0, 1, False), (0, 0, 0, True), (0, 0, 0, True)],
        [(0, 4, 0, True)],
        [(0, 0, 0, True), (0, 1, 2, True), (1, 4, 2, True), (0, 4, 2, True)],
    ],
)


class History:
    """A pool to which waves of jobs are submitted, each when the pool is at rest."""

    def __init__(self, given: Given, shapes: tuple[Fields, ...] = SHAPES) -> None:
        sizes, self.projects, rules, self.waves = given
        self.shapes = shapes
        self.document: Fields = {
            "nodes": [{"name": f"n{number}", "gpus": gpus} for number, gpus in enumerate(sizes)],
            "projects": list(self.projects),
            "policy": {"backfill": "greedy", "preemption": rules},
        }
        self.planning = Planning(self._snapshot([]))
        self.jobs = 0
        self.displaced: dict[str, list[str]] = {}

    @property
    def state(self) -> PoolState:
        """The present state."""
        return self.planning.state

    def waves_at_rest(self) -> Iterator[Round]:
        """The last round of each wave. Raises `AssertionError` if the pool does not converge."""
        for wave in self.waves:
            yield self._wave(wave)

    def _wave(self, wave: Sequence[tuple[int, int, int, bool]]) -> Round:
        self.planning.advance()
        for entry in validate_snapshot(self._snapshot([self._job(*drawn) for drawn in wave])).jobs:
            append_facts(self.state, submission(entry))
            self.planning.names[entry.doc.name] = [f"{entry.doc.name}-{index}" for index in range(len(entry.tasks))]
        pushed: list[tuple[str, str]] = []
        for _ in range(MOST_ROUNDS):
            last = self.planning.round()
            for invariant in SOUND:
                invariant(self.state)
            if not last.changed:
                return last
            for line in last.decisions:
                for victim in line.victims:
                    if not victim["to"]:
                        self.displaced.setdefault(victim["job"], []).append(line.job)
                    if not victim["to"] and victim["effect"] != "loses its reservation":
                        pushed.append((line.job, victim["job"]))
                        assert not _alternates(pushed), (
                            f"{line.job} and {victim['job']} evict each other alternately:\n{self.transcript()}"
                        )
        raise AssertionError(f"not at rest after {MOST_ROUNDS} rounds:\n{self.transcript()}")

    def _job(self, shape: int, kind: int, project: int, keeps: bool) -> Fields:
        self.jobs += 1
        leaves = [
            each["name"] for each in self.projects if not any(other.get("parent") == each["name"] for other in self.projects)
        ]
        where = {"project": leaves[project % len(leaves)]} if leaves else {}
        firm = {"preemptible": not keeps} if kind == 5 else {}
        return {"name": f"j{self.jobs:02}", "class": CLASSES[kind], **self.shapes[shape % len(self.shapes)], **where, **firm}

    def _snapshot(self, jobs: list[Fields]) -> Any:
        return snapshot({**self.document, "jobs": jobs})

    def above(self, job: str) -> list[str]:
        """Its preemptors, their preemptors, and so on."""
        found: list[str] = []
        look = [job]
        while look:
            new = [name for name in self.displaced.get(look.pop(), []) if name not in found]
            found += new
            look += new
        return found

    def transcript(self) -> str:
        """The decisions of the last rounds."""
        report = PlanReport(actions=(), rounds=tuple(self.planning.rounds[-6:]), converged=False)
        return "\n".join(
            f"round {each.round}: {line.action} {line.job} {[victim['job'] for victim in line.victims]}"
            for each in report.rounds
            for line in each.decisions
        )


def _alternates(pushed: Sequence[tuple[str, str]]) -> bool:
    """Whether the last three evictions between the two jobs alternate in direction."""
    preemptor, victim = pushed[-1]
    back = [at for at, pair in enumerate(pushed) if pair == (victim, preemptor)]
    return bool(back) and (preemptor, victim) in pushed[: back[-1]]


def comes_to_rest(drawn: Given) -> None:
    """Each wave converges, and another pass, at once or short of a turn of shares later, changes nothing."""
    history = History(drawn)
    for _ in history.waves_at_rest():
        pass
    assert not history.planning.round(step=0).changed, history.transcript()
    assert not history.planning.round(step=TURN - 1).changed, history.transcript()


def no_valid_claim_is_left(drawn: Given) -> None:
    """On one node of whole GPUs, checks every set of jobs for a pending job that could still reclaim."""
    history = History(drawn, RIGID)
    for last in history.waves_at_rest():
        claims = _claims(history.state, {line.job: history.above(line.job) for line in last.pending})
        assert not claims, f"{claims}\n{history.transcript()}"


def _claims(state: PoolState, waiting: Mapping[str, Sequence[str]]) -> list[str]:
    """Pending jobs within their project's fair share, with jobs of a project above its share that would free enough.

    waiting: pending jobs, with the jobs that they may not evict because those preempted them.
    """
    snapshot = current_snapshot(state)
    shares = shares_now(snapshot)
    rules = {project.name: project for project in state.rules.projects}
    quota = {name: shares[name].quota.gpu_milli for name in rules}
    active = [state.jobs[each] for each in state.active]
    used = {name: sum(1000 * each.gpus for each in active if each.project == name) for name in rules}
    firm = {name: sum(1000 * each.gpus for each in active if each.project == name and not each.preemptible) for name in rules}
    idle = sum(1000 * len(node.devices) for node in state.nodes.values()) - sum(used.values())
    found = []
    for name, above in waiting.items():
        job = state.jobs[name]
        mine, requested = job.project, 1000 * job.gpus
        after = used[mine] + requested
        if after > shares[mine].share.gpu_milli or _over(rules[mine].limit.gpu_milli, after):
            continue
        if not job.preemptible and _over(quota[mine], firm[mine] + requested):
            continue
        others = [each for each in active if each.project != mine and each.preemptible and each.id not in above]
        for count in range(len(others) + 1):
            for chosen in combinations(others, count):
                enough = idle + sum(1000 * each.gpus for each in chosen) >= requested
                if enough and all(_may_lose(project, chosen, used, shares, quota, after <= quota[mine]) for project in rules):
                    found.append(f"{name} could reclaim the GPUs of {[each.id for each in chosen]}")
    return found


def _may_lose(project: str, chosen: Any, used: Mapping[str, int], shares: Any, quota: Mapping[str, int], within: bool) -> bool:
    """Whether in some order the project is above its allocatable share, or its quota, before each of them is evicted."""
    lost = [1000 * each.gpus for each in chosen if each.project == project]
    if not lost:
        return True
    before_last = used[project] - sum(lost) + max(lost)
    if quota[project] == UNLIMITED:
        return False
    return before_last > max(quota[project], shares[project].share.gpu_milli) or (within and before_last > quota[project])


def _over(bound: int | None, amount: int) -> bool:
    return bound is not None and bound != UNLIMITED and amount > bound


@examples(25)
@given(pools)
def test_pools_converge(drawn: Given) -> None:
    comes_to_rest(drawn)


@examples(60)
@given(crowded)
@example(ALTERNATING)
def test_no_project_below_its_share_stays_pending_while_another_is_above(drawn: Given) -> None:
    no_valid_claim_is_left(drawn)


@pytest.mark.long
@settings(max_examples=3_000, deadline=None)
@given(pools)
def test_pools_converge_thousands(drawn: Given) -> None:
    comes_to_rest(drawn)


@pytest.mark.long
@settings(max_examples=3_000, deadline=None)
@given(crowded)
def test_no_project_below_its_share_stays_pending_while_another_is_above_thousands(drawn: Given) -> None:
    no_valid_claim_is_left(drawn)
