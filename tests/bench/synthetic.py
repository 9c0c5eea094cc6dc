"""A long audit log without Kafka: the facts of an imaginary busy pool, decided by the real core, as wire bytes.

Jobs of one to eight GPUs come, run and end; every 40th is urgent and displaces others, who leave and come back.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, islice

from bailiff_admission.cycle_builder import CycleBuilder
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold import apply, fold
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record, Wire, decisions, facts
from bailiff_core.records.payload import Fact, Payload
from bailiff_core.victims.batch import select_batch
from bailiff_log.writer import chain_records

POOL = "pool-a"
NODES = 20
SECOND = 1_000_000
START = 1_800_000_000 * SECOND
DIGEST_EVERY = 10_000
JOBS_A_TURN = 4
ENGINE = f"bench/0/{LOGIC}"


def long_log(records: int) -> list[Wire]:
    """At least this many records, ended by a closed decision cycle."""
    wires: list[Wire] = []
    for cycle in _cycles():
        wires += cycle
        if len(wires) >= records:
            break
    return wires


def plain_log(records: int, start: int = START) -> Iterator[Wire]:
    """At least this many records that chain and fold, made quickly: one job after another runs for a minute.

    What stands in it as decisions was not decided, so it is for reading only. Ended jobs and ids of requests are
    forgotten after their time, as they are in a log of years. The last digest is a tenth of their usual distance from the
    end, as admission's are where a minute passes. start: of log time, µs; it takes ten seconds for each record.
    """
    state, head, digest_at = PoolState(), ChainHead(POOL), 0
    last_digest = records - DIGEST_EVERY // 10
    first = _first_records(start) + [_plain(state, 2 + 1 + n, False, _joined(n), start) for n in range(NODES)]
    pending = [*first[:-1], replace(first[-1], cycle_end=True)]
    for number in count():
        for record, wire, after in chain_records(head, pending):
            apply(state, record)
            head = after
            yield wire
        if state.seq >= records:
            return
        pending, now = [], start + number * 60 * SECOND
        if state.seq - digest_at >= DIGEST_EVERY or digest_at < last_digest <= state.seq:
            digest_at = state.seq
            digest = facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(state))
            pending.append(_plain(state, state.seq + 1, False, digest, now))
        for kind, ends_turn in _LIFE:
            data = kind(number, state.nodes[number % NODES].name)
            pending.append(_plain(state, state.seq + 1 + len(pending), ends_turn, data, now))


def _plain(state: PoolState, seq: int, cycle_end: bool, data: Payload, time: int) -> Record:
    """`turn`: one per job is enough."""
    return Record(
        pool=POOL,
        seq=seq,
        epoch=1,
        cycle=max(1, state.cycle + 1),
        cycle_end=cycle_end,
        time=time,
        prev="",
        writer="w",
        engine=ENGINE,
        policy=1,
        type=data.type_name(),
        data=data,
        cause=f"bailiff.requests/0/{seq}",
        inputs=(("bailiff.requests/0", seq),),
    )


def _task(number: int, node: str) -> dict[str, object]:
    return {"job": f"job-{number}", "attempt": 1, "task": 0, "node": node}


def _placed(number: int, node: str) -> Payload:
    share = NodeShare(node=number % NODES, tasks="0", devices="0")
    return decisions.JobPlaced(job=f"job-{number}", attempt=1, placement=(share,), reserved=False)


_LIFE: tuple[tuple[Callable[[int, str], Payload], bool], ...] = (
    (lambda number, node: _submitted(number, gpus=1), False),
    (_placed, True),
    (lambda number, node: facts.TaskStarted(**_task(number, node)), True),
    (lambda number, node: facts.TaskExited(**_task(number, node), exit_code=0), False),
    (lambda number, node: facts.TaskReleased(**_task(number, node)), False),
    (lambda number, node: decisions.JobEnded(job=f"job-{number}", attempt=1, outcome="succeeded"), True),
)


def _cycles() -> Iterator[list[Wire]]:
    state, head = PoolState(), ChainHead(POOL)
    prepared = chain_records(head, _first_records())
    for record, _, _ in prepared:
        fold(state, record)
        state.cycle_open = not record.cycle_end
    yield [wire for _, wire, _ in prepared]
    head = prepared[-1][2]
    digest_at = state.seq
    for number in range(10_000_000):
        draft = CycleBuilder(state, START + number * SECOND)
        own: list[Fact] = [facts.ClockAdvanced()] if number == 0 else []
        if state.seq - digest_at >= DIGEST_EVERY:
            digest_at = state.seq
            own.append(facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(state)))
        for fact in own:
            draft.add(fact)
        for fact in _facts(state, number):
            draft.add(fact, cause=f"bailiff.requests/0/{state.seq}", inputs=(("bailiff.requests/0", state.seq + 1),))
        if draft.records:
            prepared = chain_records(head, draft.finish())
            yield [wire for _, wire, _ in prepared]
            head = prepared[-1][2]


def _first_records(start: int = START) -> list[Record]:
    started = facts.WriterStarted(writer="w", release="0", digest="0", logic=LOGIC, state_schema=STATE_SCHEMA)
    return [
        _first(0, 0, False, start, facts.PoolCreated(pool=POOL, partition=0, nonce="0" * 32)),
        _first(1, 0, True, start, facts.PolicyApplied(policy=DEFAULT_POLICY.complete())),
        _first(2, 1, False, start, started),
    ]


def _first(seq: int, epoch: int, cycle_end: bool, time: int, fact: Fact) -> Record:
    return Record(
        pool=POOL,
        seq=seq,
        epoch=epoch,
        cycle=epoch,
        cycle_end=cycle_end,
        time=time,
        prev="",
        writer="w",
        engine=ENGINE,
        policy=0,
        type=fact.type_name(),
        data=fact,
    )


def _facts(state: PoolState, number: int) -> list[Fact]:
    """What happens in this second."""
    if number == 0:
        return [_joined(node) for node in range(NODES)]
    found: list[Fact] = []
    if state.selection is not None and state.proposals is None:
        proposals = select_batch(state, state.selection.requests, 2_000)
        found.append(
            facts.ProposalReceived(
                selection=state.selection.number, computed_at=state.seq, logic=LOGIC, proposals=tuple(proposals)
            )
        )
    for name in state.starting:
        job = state.jobs[name]
        found += [facts.TaskStarted(**_at(state, name, task.index)) for task in job.tasks if task.state == "starting"]
    for name in state.evicting:
        job = state.jobs[name]
        assert job.eviction is not None
        if job.eviction.started_seq is None:
            found.append(facts.EvictionStarted(job=name, attempt=job.attempt, decided_by=job.eviction.decided_seq))
            continue
        for task in job.tasks:
            at = _at(state, name, task.index)
            found += [
                facts.EvictionStageReached(**at, stage="noticed"),
                facts.EvictionStageReached(**at, stage="term_sent", elapsed=1000),
            ]
            found += [facts.TaskExited(**at, exit_code=85), facts.TaskReleased(**at)]
    running = (name for name in state.active if state.jobs[name].phase == "running")
    for name in islice(running, JOBS_A_TURN if len(state.queue) > 10 else 0):
        for task in state.jobs[name].tasks:
            at = _at(state, name, task.index)
            found += [facts.TaskExited(**at, exit_code=0), facts.TaskReleased(**at)]
    if len(state.queue) < 60:
        found += [_submitted(number * JOBS_A_TURN + n) for n in range(JOBS_A_TURN)]
    return found


def _at(state: PoolState, name: str, task: int) -> dict[str, object]:
    job = state.jobs[name]
    return {"job": name, "attempt": job.attempt, "task": task, "node": state.nodes[job.tasks[task].node].name}


def _submitted(number: int, gpus: int = 0) -> Fact:
    urgent = number % 40 == 0
    gpus = gpus or 1 << number * 7 % 4
    demand = JobDemand(
        job=f"job-{number}",
        tasks=(TaskGroup(gpu_milli=gpus * 1000, cpu_milli=4000, memory_bytes=8 << 30),),
        priority_class="build" if urgent else "train",
        user=f"user-{number % 17}",
    )
    request = facts.RequestId(source="/bench", id=f"request-{number}", digest="ab" * 32)
    return facts.JobSubmitted(request=request, demand=demand, spec_digest="cd" * 32)


def _joined(number: int) -> Fact:
    devices = tuple(
        facts.DeviceInfo(id=f"GPU-{number}-{n}", kind="gpu", model="H100-80GB", memory_bytes=80 << 30) for n in range(8)
    )
    return facts.NodeJoined(
        node=f"node-{number}",
        number=number,
        incarnation=f"i-{number}",
        machine_id=f"m-{number}",
        boot_id="b",
        report_number=0,
        cpu_milli=128_000,
        memory_bytes=1 << 40,
        max_tasks=100,
        labels={},
        devices=devices,
    )
