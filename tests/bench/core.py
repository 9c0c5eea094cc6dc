"""The core alone, no Kafka: a pass of placements, and a preemption decision on a full pool.

Times are of the processor, so that what else runs on the machine does not count.
"""

import time
from statistics import median

from tests.kits.builders import Sketch, group

from bailiff_core.actions.allocate import allocate
from bailiff_core.actions.preempt import MAX_SELECTION_REQUESTS
from bailiff_core.decision_cycle import decide
from bailiff_core.fold import enact
from bailiff_core.model.state import OpenRequest, PoolState
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims.batch import select_batch
from bailiff_core.victims.revalidate import Accepted, revalidate_proposal

from .table import Row, Run, percentile


def measure(run: Run) -> list[Row]:
    """500 nodes of 8 GPUs, 4,000 jobs of one."""
    nodes, times = (100, 1) if run.quick else (500, 3)
    return [_allocate(run, nodes, times), *_preempt(run, nodes, 5 if run.quick else 15), _one_turn(nodes)]


def _allocate(run: Run, nodes: int, times: int) -> Row:
    seconds = []
    for _ in range(times):
        state = _empty(nodes)
        began = time.process_time()
        placed = 0
        for decision in allocate(state):
            enact(state, decision)
            placed += 1
        seconds.append(time.process_time() - began)
        assert placed == nodes * 8
    run.say("allocate: " + ", ".join(f"{each:.2f} s" for each in seconds))
    return Row(f"allocate pass, {nodes * 8:,} jobs onto {nodes} empty nodes, in memory", median(seconds), "s")


def _preempt(run: Run, nodes: int, times: int) -> list[Row]:
    state = _full(nodes)
    found, checked = [], []
    for cycle in range(times):
        preemptor = state.jobs[f"urgent-{cycle % 3}"]
        began = time.process_time()
        (answer,) = select_batch(state, [OpenRequest(1, preemptor.id)], state.rules.preemption.search_steps)
        found.append(time.process_time() - began)
        assert len(answer.victims) == preemptor.gpus, answer
        began = time.process_time()
        accepted = revalidate_proposal(current_snapshot(state), shares_now(current_snapshot(state)), preemptor, answer)
        checked.append(time.process_time() - began)
        assert isinstance(accepted, Accepted), accepted
    run.say(f"select_batch p99 {percentile(found, 99) * 1000:.0f} ms, check p99 {percentile(checked, 99) * 1000:.1f} ms")
    batch = [OpenRequest(n, f"batch-{n}") for n in range(MAX_SELECTION_REQUESTS)]
    began = time.process_time()
    select_batch(state, batch, state.rules.preemption.search_steps)
    batched = time.process_time() - began
    on = f"{nodes} nodes full of one-GPU jobs, in memory"
    return [
        Row(f"one preemption chosen (select_batch), {on}", median(found) * 1000, "ms", detail={"ms": found}),
        Row(f"one preemption checked, {on}", median(checked) * 1000, "ms", detail={"ms": checked}),
        Row(f"preemptions chosen in a batch of {len(batch)}, {on}", len(batch) / batched, "/s", target="≥ 200 /s"),
    ]


def _one_turn(nodes: int) -> Row:
    """A decision cycle for one more job on the full pool: the cost of a request that changes nothing."""
    state = _full(nodes)
    list(_settled(state))
    seconds = []
    for _ in range(30):
        state.cycle_open = True
        state.indices.retry_unschedulable = True
        began = time.process_time()
        list(decide(state))
        seconds.append(time.process_time() - began)
    return Row(f"decide once more on {nodes} full nodes after resources were freed, in memory", median(seconds) * 1000, "ms")


def _settled(state: PoolState):
    yield from decide(state)


def _empty(nodes: int) -> PoolState:
    sketch = Sketch()
    for n in range(nodes):
        sketch.node(f"node-{n}")
    for n in range(nodes * 8):
        sketch.job(f"job-{n}", group(gpus=1, cpu=1, gib=1))
    return sketch.state


def _full(nodes: int) -> PoolState:
    sketch = Sketch()
    for n in range(nodes):
        sketch.node(f"node-{n}")
    for n in range(nodes * 8):
        sketch.running(f"job-{n}", f"node-{n // 8}", [n % 8], age=60_000_000 * (1 + n * 7919 % 500))
    for n, gpus in enumerate((1, 4, 8)):
        sketch.job(f"urgent-{n}", group(gpus=gpus), priority=100)
    for n in range(MAX_SELECTION_REQUESTS):
        sketch.job(f"batch-{n}", group(gpus=1), priority=100)
    return sketch.state
