"""A long audit log without Kafka: the facts of an imaginary busy pool, decided by the real core, as wire bytes.

Jobs of one to eight GPUs come, run and end; every 40th is urgent and displaces others, who leave and come back.
"""

from collections.abc import Iterator
from itertools import islice

from bailiff_admission.draft import Draft
from bailiff_bus.log import chained
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold import fold
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead, Record, Wire, facts
from bailiff_core.records.payload import Fact
from bailiff_core.victims.batch import select_batch

DOMAIN = "pool-a"
NODES = 20
SECOND = 1_000_000
START = 1_800_000_000 * SECOND
DIGEST_EVERY = 10_000
JOBS_A_TURN = 4
ENGINE = "bench/0/1"


def long_log(records: int) -> list[Wire]:
    """At least so many records, ended by a closed turn."""
    wires: list[Wire] = []
    for turn in _turns():
        wires += turn
        if len(wires) >= records:
            break
    return wires


def _turns() -> Iterator[list[Wire]]:
    pool, head = Pool(), ChainHead(DOMAIN)
    first = [
        _first(0, 0, False, facts.DomainCreated(domain=DOMAIN, partition=0, nonce="0" * 32)),
        _first(1, 0, True, facts.PolicyApplied(policy=DEFAULT_POLICY.complete())),
        _first(2, 1, False, facts.WriterStarted(writer="w", release="0", digest="0", logic=LOGIC, state_schema=STATE_SCHEMA)),
    ]
    for record in first:
        fold(pool, record)
        pool.turn_open = not record.turn_end
    prepared = chained(head, first)
    yield [wire for _, wire, _ in prepared]
    head = prepared[-1][2]
    digest_at = pool.seq
    for number in range(10_000_000):
        draft = Draft(pool, START + number * SECOND)
        new = [facts.ClockAdvanced()] if number == 0 else []
        if pool.seq - digest_at >= DIGEST_EVERY:
            digest_at = pool.seq
            new.append(facts.StateDigest(schema_version=STATE_SCHEMA, digest=state_digest(pool)))
        for fact in [*new, *_facts(pool, number)]:
            draft.add(fact, cause=f"bailiff.requests/0/{pool.seq}", inputs=(("bailiff.requests/0", pool.seq),))
        if draft.records:
            prepared = chained(head, draft.finish())
            yield [wire for _, wire, _ in prepared]
            head = prepared[-1][2]


def _first(seq: int, epoch: int, turn_end: bool, fact: Fact) -> Record:
    return Record(
        domain=DOMAIN, seq=seq, epoch=epoch, turn=epoch, turn_end=turn_end, time=START, prev="", writer="w",
        engine=ENGINE, policy=0, type=fact.type_name(), data=fact,
    )  # fmt: skip


def _facts(pool: Pool, number: int) -> list[Fact]:
    """What happens in this second."""
    if number == 0:
        return [_joined(node) for node in range(NODES)]
    found: list[Fact] = []
    if pool.selection is not None and pool.answers is None:
        answers = select_batch(pool, pool.selection.requests, 2_000)
        found.append(
            facts.ProposalReceived(number=pool.selection.number, computed_at=pool.seq, logic=LOGIC, answers=tuple(answers))
        )
    for name in pool.starting:
        job = pool.jobs[name]
        found += [facts.TaskStarted(**_at(pool, name, task.index)) for task in job.tasks if task.state == "starting"]
    for name in pool.leaving:
        job = pool.jobs[name]
        assert job.eviction is not None
        if job.eviction.begun_seq is None:
            found.append(facts.EvictionBegun(job=name, attempt=job.attempt, decided=job.eviction.decided_seq))
            continue
        for task in job.tasks:
            at = _at(pool, name, task.index)
            found += [facts.EvictionStaged(**at, stage="noticed"), facts.EvictionStaged(**at, stage="term_sent", after=1000)]
            found += [facts.TaskExited(**at, exit_code=85), facts.TaskReleased(**at)]
    running = (name for name in pool.active if pool.jobs[name].phase == "running")
    for name in islice(running, JOBS_A_TURN if len(pool.queue) > 10 else 0):
        for task in pool.jobs[name].tasks:
            at = _at(pool, name, task.index)
            found += [facts.TaskExited(**at, exit_code=0), facts.TaskReleased(**at)]
    if len(pool.queue) < 60:
        found += [_submitted(number * JOBS_A_TURN + n) for n in range(JOBS_A_TURN)]
    return found


def _at(pool: Pool, name: str, task: int) -> dict[str, object]:
    job = pool.jobs[name]
    return {"job": name, "attempt": job.attempt, "task": task, "node": pool.nodes[job.tasks[task].node].name}


def _submitted(number: int) -> Fact:
    urgent = number % 40 == 0
    gpus = 1 << number * 7 % 4
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
        facts.DeviceFacts(id=f"GPU-{number}-{n}", kind="gpu", model="H100-80GB", memory_bytes=80 << 30) for n in range(8)
    )
    return facts.NodeJoined(
        node=f"node-{number}", number=number, incarnation=f"i-{number}", machine_id=f"m-{number}", boot_id="b",
        report=0, cpu_milli=128_000, memory_bytes=1 << 40, max_tasks=100, labels={}, devices=devices,
    )  # fmt: skip
