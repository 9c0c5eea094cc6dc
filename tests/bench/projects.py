"""Decisions on a full cluster that belongs to a tree of projects: quotas, what is borrowed beyond them, reclaim and preempt.

Half of the projects use half as much again as their quota, the others half of it. The victims of one decision are still
leaving when the next job arrives, so `no-reclaim-of-reserved` has promises to look at; who may preempt is kept within its share.
Times are of the processor.
"""

import gc
import time
from statistics import median
from typing import Any

from tests.kits.builders import HOUR, Sketch, group

from bailiff_core.decision_cycle import decide
from bailiff_core.engine import LOGIC
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.records.facts import ProposalReceived, TaskExited, TaskReleased, TaskStarted
from bailiff_core.records.payload import Decision, Fact
from bailiff_core.victims.batch import select_batch
from bailiff_service.gc_tuning import raise_thresholds

from .table import Row, Run, percentile

DEPARTMENTS, TEAMS = 5, 2
JOBS_OF_A_NODE = ((1, 1, 2, 2, 2), (1, 1, 1, 1, 4), (2, 2, 2, 1, 1), (1, 1, 1, 2, 3))
BORROWERS = 3  # of four nodes, those on which projects above their quota run
ASKED = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (1, 1), (1, 2), (16, 1), (1, 8))
STAYS = 5


def measure(run: Run) -> list[Row]:
    """One decision with projects, by the size of the cluster."""
    raise_thresholds()
    sizes = (100, 1_000) if run.quick else (100, 1_000, 10_000)
    return [row for scope in ("project", "pool") for nodes in sizes for row in _decisions(run, nodes, scope)]


def _decisions(run: Run, nodes: int, scope: str) -> list[Row]:
    state = busy(nodes, scope)
    decisions = list(settle(state))
    gc.freeze()  # as services do once they have read the log
    seconds, actions = [], {}
    for number in range(len(ASKED) + (40 if run.quick else 120)):
        before = dict(state.evicting)
        arrives(state, number)
        began = time.process_time()
        decisions = decide_about(state)
        seconds.append(time.process_time() - began)
        for decision in decisions:
            actions[decision.type_name()] = actions.get(decision.type_name(), 0) + 1
        happen(state, before, f"preemptor-{number - STAYS}")
    gc.unfreeze()
    seconds = seconds[len(ASKED) :]
    half, most = median(seconds) * 1000, percentile(seconds, 99) * 1000
    counted = ", ".join(f"{count} {name}" for name, count in sorted(actions.items()))
    run.say(f"{nodes} nodes, scope {scope}: p50 {half:.1f} ms, p99 {most:.1f} ms; {counted}")
    at = f"{DEPARTMENTS * TEAMS} projects, scope {scope}, {nodes:,} nodes, {len(state.jobs):,} jobs"
    return [Row(f"one decision p50, {at}", half, "ms", "≤ 20 ms"), Row(f"one decision p99, {at}", most, "ms", "≤ 100 ms")]


def busy(nodes: int, scope: str) -> PoolState:
    """Every GPU taken, three quarters of them by every other project."""
    sketch = Sketch(PoolState(pool="bench", policy=_policy(nodes * 8, scope), now=100 * HOUR))
    for n in range(nodes):
        sketch.node(f"node-{n}")
    number = 0
    for n in range(nodes):
        first, project = 0, _team(2 * (n % (DEPARTMENTS * TEAMS // 2)) + (n % 4 >= BORROWERS))
        for gpus in JOBS_OF_A_NODE[n % len(JOBS_OF_A_NODE)]:
            age = 60_000_000 * (1 + number * 7919 % 500)
            priority = (50, 50, 50, 75)[number * 7 % 4]
            job = sketch.running(f"job-{number}", f"node-{n}", range(first, first + gpus), age=age, priority=priority)
            _belongs(job, project)
            first, number = first + gpus, number + 1
    return sketch.state


def arrives(state: PoolState, number: int) -> Job:
    """Two of three preemptors have quota left, and reclaim; the third is of a borrowing project, and preempts its own."""
    count, gpus = ASKED[number % len(ASKED)]
    job = Sketch(state).job(f"preemptor-{number}", group(count, gpus=gpus), priority=(50, 75, 100)[number % 3])
    at = number * 7 % (DEPARTMENTS * TEAMS // 2)
    return _belongs(job, _team(2 * at + (number % 3 != 2)))


def decide_about(state: PoolState) -> list[Decision]:
    """All decisions until no preemption request is pending."""
    decisions = settle(state)
    while state.selection is not None:
        proposals = select_batch(state, state.selection.requests, state.rules.preemption.search_steps)
        state.seq += 1
        fact = ProposalReceived(
            selection=state.selection.number, computed_at=state.seq - 1, logic=LOGIC, proposals=tuple(proposals)
        )
        FOLDS[ProposalReceived](state, fact)
        decisions += settle(state)
    return decisions


def happen(state: PoolState, leaving: dict[str, None], ends: str) -> None:
    """Those who were leaving are gone, all that can start runs, and one job has ended."""
    state.now += 10_000_000
    happened: list[Fact] = []
    done = [state.jobs[ends]] if ends in state.jobs and state.jobs[ends].phase == "running" else []
    for job in (*done, *(state.jobs[name] for name in leaving if name in state.evicting)):
        for task in job.tasks:
            at = _at(state, job, task)
            happened += [TaskExited(**at, exit_code=0 if job in done else 85), TaskReleased(**at)]
    _fold(state, happened)
    decide_about(state)
    starting = [(job, task) for job in map(state.jobs.__getitem__, state.starting) for task in job.tasks]
    _fold(state, [TaskStarted(**_at(state, job, task)) for job, task in starting if task.state == "starting"])
    decide_about(state)


def settle(state: PoolState) -> list[Decision]:
    """What the state asks for by itself."""
    decisions = list(decide(state))
    state.indices.touched.clear()
    return decisions


def _fold(state: PoolState, happened: list[Fact]) -> None:
    for fact in happened:
        state.seq += 1
        FOLDS[type(fact)](state, fact)


def _at(state: PoolState, job: Job, task: Task) -> dict[str, Any]:
    return {"node": state.nodes[task.node].name, "job": job.id, "attempt": job.attempt, "task": task.index}


def _policy(gpus: int, scope: str) -> Policy:
    teams = DEPARTMENTS * TEAMS
    projects: list[dict[str, object]] = [
        {"name": f"d{n}", "quota": {"gpus": gpus // DEPARTMENTS}, "over_quota_weight": 1 + n % 3} for n in range(DEPARTMENTS)
    ]
    for n in range(teams):
        quota = {"gpus": gpus // teams}
        projects.append({"name": _team(n), "parent": f"d{n % DEPARTMENTS}", "quota": quota, "over_quota_weight": 1 + n % 2})
    stated = DEFAULT_POLICY.model_dump(mode="json")
    stated["preemption"]["scope"] = scope
    return Policy.model_validate({**stated, "projects": projects}, strict=False)


def _team(number: int) -> str:
    return f"d{number % DEPARTMENTS}-t{number}"


def _belongs(job: Job, project: str) -> Job:
    job.project = project
    job.demand = JobDemand.model_validate({**job.demand.model_dump(), "project": project})
    return job
