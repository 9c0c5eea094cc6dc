"""The policy engine alone, no Kafka: decisions on large clusters, proofs, one pass, fair share, memory.

Times are of the processor, so that what else runs on the machine does not count. The garbage collector is set as in the
services, which leave out of it what was built at their start.
"""

import gc
import resource
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from tests.kits.builders import HOUR, Sketch, group

from bailiff_core.decision_cycle import build_indices, decide
from bailiff_core.engine import LOGIC
from bailiff_core.fold.registry import FOLDS
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.records.facts import ProposalReceived, TaskExited, TaskReleased, TaskStarted
from bailiff_core.records.payload import Fact
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import select_batch
from bailiff_service.gc_tuning import raise_thresholds

from .table import Row, Run, percentile

JOBS_OF_A_NODE = ((1, 1, 2, 2, 2), (1, 1, 1, 1, 4), (2, 2, 2, 1, 1), (1, 1, 1, 2, 3))
PRIORITIES = (50, 50, 50, 75, 50, 50, 75, 50, 125, 50)
ASKED = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (1, 1), (1, 2), (16, 1), (1, 8))
STAYS = 5


def measure(run: Run) -> list[Row]:
    """Section 6 of the policy engine's issue."""
    raise_thresholds()
    sizes = (100, 1_000) if run.quick else (100, 1_000, 10_000)
    rows = [row for nodes in sizes for row in _decisions(run, nodes, 40 if run.quick else 200)]
    for measured in (_impossible, _large_reclaim, _one_pass, _fair_share):
        gc.collect()  # what the one before left
        rows.append(measured(run))
    return rows


def _decisions(run: Run, nodes: int, times: int) -> list[Row]:
    """Arrivals on a full cluster: each is tried, asks for victims, gets its answer, which is checked; then it starts.

    Victims have left, and are back in the queue, before the next one arrives; the fifth before it ends, and they return.
    Jobs that lost their reservation, or were refused and retry, count for the decision in whose cycle that falls.
    """
    state = _busy(nodes)
    began = time.process_time()
    build_indices(state)
    ready = time.process_time() - began
    gc.freeze()
    _settle(state)
    seconds, follow_up = [], []
    for number in range(len(ASKED) + times):
        job = _arrives(state, number)
        began = time.process_time()
        _decide_about(state)
        seconds.append(time.process_time() - began)
        assert job.phase != "pending" or job.refused_requests, job
        follow_up.append(_victims_leave(state, f"preemptor-{number - STAYS}"))
    assert not state.evicting
    assert not state.reserved
    jobs, memory = len(state.jobs), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    first, seconds, follow_up = seconds[0], seconds[len(ASKED) :], follow_up[len(ASKED) :]
    half, most = median(seconds) * 1000, percentile(seconds, 99) * 1000
    label = f"{nodes} nodes, {jobs} jobs, {len(state.queue)} waiting"
    gc.unfreeze()
    run.say(f"{label}: made ready in {ready * 1000:.0f} ms, first {first * 1000:.0f} ms, p50 {half:.1f} ms, p99 {most:.1f} ms")
    at = f"{nodes:,} nodes, {nodes * 8:,} GPUs, {jobs:,} jobs"
    rows = [
        Row(f"one decision p50, {at}", half, "ms", target="≤ 10 ms" if nodes == 10_000 else "-"),
        Row(f"one decision p99, {at}", most, "ms", target="≤ 60 ms" if nodes == 10_000 else "-"),
        Row(f"its victims have left, it starts, p50, {at}", median(follow_up) * 1000, "ms"),
        Row(f"its victims have left, it starts, p99, {at}", percentile(follow_up, 99) * 1000, "ms"),
    ]
    if nodes == 10_000:
        rows.append(Row(f"made ready to decide, at a service's start, {at}", ready * 1000, "ms"))
        rows.append(Row(f"the first decision after the state was read, {at}", first * 1000, "ms"))
        rows.append(Row(f"memory, {at}", memory, "GiB", target="≤ 1.5 GiB"))
    return rows


def _arrives(state: PoolState, number: int) -> Job:
    count, gpus = ASKED[number % len(ASKED)]
    sketch = Sketch(state)
    return sketch.job(f"preemptor-{number}", group(count, gpus=gpus), priority=(100, 75, 110)[number % 3])


def _decide_about(state: PoolState) -> None:
    _settle(state)
    while state.selection is not None:
        proposals = select_batch(state, state.selection.requests, state.rules.preemption.search_steps)
        number = state.selection.number
        fact = ProposalReceived(selection=number, computed_at=state.seq, logic=LOGIC, proposals=tuple(proposals))
        state.seq += 1
        FOLDS[ProposalReceived](state, fact)
        _settle(state)


def _victims_leave(state: PoolState, ends: str) -> float:
    """Evictions are complete, all jobs that can start run, and one job has ended. Returns the seconds of the longest cycle."""
    longest = 0.0
    state.now += 10_000_000
    done = [state.jobs[ends]] if ends in state.jobs and state.jobs[ends].phase == "running" else []
    while done or state.evicting or state.starting:
        happened: list[Fact] = []
        for job in (*done, *map(state.jobs.__getitem__, state.evicting)):
            for task in job.tasks:
                at = _at(state, job, task)
                happened += [TaskExited(**at, exit_code=0 if job in done else 85), TaskReleased(**at)]
        for job in map(state.jobs.__getitem__, state.starting):
            happened += [TaskStarted(**_at(state, job, task)) for task in job.tasks if task.state == "starting"]
        done = []
        for fact in happened:
            state.seq += 1
            FOLDS[type(fact)](state, fact)
        began = time.process_time()
        _decide_about(state)
        longest = max(longest, time.process_time() - began)
    return longest


def _at(state: PoolState, job: Job, task: Task) -> dict[str, Any]:
    return {"node": state.nodes[task.node].name, "job": job.id, "attempt": job.attempt, "task": task.index}


def _settle(state: PoolState) -> None:
    for _ in decide(state):
        pass
    state.indices.touched.clear()


def _busy(nodes: int) -> PoolState:
    """Every GPU taken: five jobs a node, of several sizes, priorities and ages."""
    sketch = Sketch()
    for n in range(nodes):
        sketch.node(f"node-{n}")
    number = 0
    for n in range(nodes):
        first = 0
        for gpus in JOBS_OF_A_NODE[n % len(JOBS_OF_A_NODE)]:
            priority = PRIORITIES[number * 7 % len(PRIORITIES)]
            sketch.running(
                f"job-{number}",
                f"node-{n}",
                range(first, first + gpus),
                age=60_000_000 * (1 + number * 7919 % 500),
                priority=priority,
                preemptible=priority < 100,
            )
            first, number = first + gpus, number + 1
    return sketch.state


def _impossible(run: Run) -> Row:
    """An 80-GPU gang where no job may be evicted."""
    nodes = 50 if run.quick else 500
    sketch = Sketch()
    for n in range(nodes):
        sketch.node(f"node-{n}")
    for n in range(nodes * 8):
        sketch.running(f"job-{n}", f"node-{n // 8}", [n % 8], priority=50, preemptible=False)
    preemptor = sketch.job("gang", group(10, gpus=8), priority=100)
    seconds, answer = _one_selection(sketch.state, preemptor)
    assert answer.refused == "impossible", answer
    return Row(f"impossible, with proof: 10 × 8 GPUs on {nodes} nodes without eligible victims", seconds, "s", target="≤ 0.5 s")


def _large_reclaim(run: Run) -> Row:
    """A whole cluster goes back to its owner."""
    nodes = 50 if run.quick else 500
    gpus = nodes * 8
    projects = [{"name": "owner", "quota": {"gpus": gpus}}, {"name": "borrower", "quota": {"gpus": 0}}]
    sketch = Sketch(_pool(_with(projects=projects)))
    for n in range(nodes):
        sketch.node(f"node-{n}")
    for n in range(gpus):
        _of(sketch.running(f"job-{n}", f"node-{n // 8}", [n % 8], age=60_000_000 * (1 + n * 7919 % 500)), "borrower")
    preemptor = _of(sketch.job("gang", group(nodes, gpus=8), priority=50), "owner")
    seconds, answer = _one_selection(sketch.state, preemptor)
    assert len(answer.victims) == gpus, answer
    return Row(f"reclaim for one gang of {nodes} × 8 GPUs from {gpus:,} one-GPU jobs", seconds, "s", target="≤ 3 s")


def _one_selection(state: PoolState, preemptor: Job):
    from bailiff_core.model.state import OpenRequest

    assert current_snapshot(state).allocation_index  # a service holds the state already; building it is no part of a decision
    began = time.process_time()
    (answer,) = select_batch(state, [OpenRequest(1, preemptor.id)], state.rules.preemption.search_steps)
    return time.process_time() - began, answer


def _one_pass(run: Run) -> Row:
    nodes = 50 if run.quick else 500
    sketch = Sketch()
    for n in range(nodes):
        sketch.node(f"node-{n}")
    for n in range(nodes * 8):
        sketch.job(f"job-{n}", group(gpus=1, cpu=1, gib=1))
    began = time.process_time()
    _settle(sketch.state)
    seconds = time.process_time() - began
    assert all(job.phase == "starting" for job in sketch.state.jobs.values())
    return Row(f"one pass: {nodes * 8:,} one-GPU jobs onto {nodes} empty nodes", seconds, "s", target="≤ 1 s")


def _fair_share(run: Run) -> Row:
    projects = list(_thousand_projects())
    sketch = Sketch(_pool(_with(projects=projects)))
    for n in range(200):
        sketch.node(f"node-{n}")
    for n, project in enumerate(projects):
        _of(sketch.job(f"job-{n}", group(1 + n % 5, gpus=1 + n % 3, cpu=4, gib=8)), str(project["name"]))
    usage = current_snapshot(sketch.state).usage
    seconds = []
    for _ in range(20):
        began = time.process_time()
        usage.entitlements_if(usage.requests)
        seconds.append(time.process_time() - began)
    run.say(f"fair share: {len(projects)} projects")
    return Row(f"fair share of {len(projects):,} projects, three levels", median(seconds) * 1000, "ms", target="≤ 5 ms")


def _thousand_projects() -> Iterator[dict[str, object]]:
    for one in range(10):
        yield {"name": f"d{one}", "quota": {"gpus": 100}, "over_quota_weight": 1 + one % 3}
        for two in range(9):
            yield {"name": f"d{one}-{two}", "parent": f"d{one}", "quota": {"gpus": 10}, "over_quota_weight": 1 + two}
            for three in range(10):
                name = f"d{one}-{two}-{three}"
                yield {"name": name, "parent": f"d{one}-{two}", "quota": {"gpus": 1}, "priority": three % 2}


def _with(**parts: object) -> Policy:
    return Policy.model_validate({**DEFAULT_POLICY.model_dump(mode="json"), **parts}, strict=False)


def _pool(policy: Policy) -> PoolState:
    return PoolState(pool="bench", policy=policy, now=100 * HOUR)


def _of(job: Job, project: str) -> Job:
    job.project = project
    job.demand = JobDemand.model_validate({**job.demand.model_dump(), "project": project})
    return job
