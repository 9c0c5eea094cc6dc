"""Builds valid audit logs in memory: facts are folded, the core decides, the records are chained and stored.

Most tests use the log of `preemption_story`; `command_on` runs `bailiff` on an in-memory cluster.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.kits.memory_bus import MemoryBus, MemoryCluster
from typer.testing import CliRunner, Result

from bailiff.cli import app, session
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap
from bailiff_bus.messages.spec_copies import JobSpecCopy
from bailiff_core.admission import Context, Rejected, admit
from bailiff_core.decision_cycle import decide, decision_record
from bailiff_core.engine import LOGIC, STATE_SCHEMA
from bailiff_core.fold import close_cycle, fold
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import ROOT_ACTOR, Requester
from bailiff_core.records import ChainHead, Record, facts
from bailiff_core.records.job_requests import ReadJobSpec, SubmitJob
from bailiff_core.records.payload import Fact
from bailiff_core.victims.batch import compute_proposals
from bailiff_log.credentials import Credentials
from bailiff_log.engine_identity import engine_identity
from bailiff_log.keys import known_keys
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.rejected_requests import evidence_of
from bailiff_log.spec_copies import encrypt_copy
from bailiff_log.writer import chain_records

NOON = 1_795_262_400_000_000  # 2026-11-21 12:00 UTC
SECOND = 1_000_000
MINUTE = 60 * SECOND
GIB = 2**30


class LogWriter:
    """Writes one pool's log into an in-memory cluster, cycle by cycle, as admission does.

    credentials: to sign it with. auth: how requests are verified.
    """

    auth = "acl"

    def __init__(
        self,
        pool: str = "pool-a",
        partition: int = 0,
        cluster: MemoryCluster | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.now, self.credentials = NOON, credentials
        self.cluster = cluster or MemoryCluster(clock=lambda: self.now)
        self.cluster.create_topics(pools=partition + 1)
        self.pool, self.partition = pool, partition
        self.state = PoolState()
        self.head = ChainHead(pool)
        self.records: list[Record] = []
        self.engine = str(engine_identity())
        self.specs: dict[str, tuple[JobSpec, bytes]] = {}  # by job, with the salt

    def copied(self) -> "LogWriter":
        """Another one, which has written the same log into a cluster of its own."""
        other = LogWriter(self.pool, self.partition, credentials=self.credentials)
        other.now, other.head, other.records = self.now, self.head, [*self.records]
        other.state = from_snapshot(to_snapshot(self.state))
        for message in self.cluster.messages(topics.AUDIT.name, self.partition):
            other.cluster.keep(message)
        return other

    def begin(self, policy: Policy = DEFAULT_POLICY, logic: int = LOGIC) -> None:
        """Writes the first records of a pool and starts its first writer."""
        created = facts.PoolCreated(pool=self.pool, partition=self.partition, nonce="0" * 8, **self._signed_by())
        self._append(0, 0, False, created)
        self._append(0, 0, True, facts.PolicyApplied(policy=policy.complete()))
        self.writer("writer-1", logic)

    def writer(self, name: str, logic: int = LOGIC) -> None:
        """Starts a new writer incarnation, with its first decision cycle."""
        engine = engine_identity()
        certificate = self.credentials.certificate if self.credentials is not None else None
        started = facts.WriterStarted(
            writer=name,
            release=engine.release,
            digest=engine.digest,
            logic=logic,
            state_schema=STATE_SCHEMA,
            certificate=certificate,
        )
        self.state.writer = name
        self.cycle(started, epoch=self.state.epoch + 1)

    def _signed_by(self) -> dict[str, Any]:
        if self.credentials is None:
            return {}
        return {"root_key": self.credentials.root_key, "certificate": self.credentials.certificate}

    def cycle(self, *new_facts: Fact, actor: str = "", epoch: int | None = None, cause: str = "") -> list[Record]:
        """Writes one decision cycle: the facts, then the core's decisions. Returns its records."""
        number = self.state.cycle + 1
        begun = len(self.records)
        for fact in new_facts:
            self._note(number, self.state.epoch if epoch is None else epoch, False, fact, actor, cause)
        for decision in decide(self.state):
            self.records.append(decision_record(self.state, decision, prev="", cycle_end=False))
        self.records[-1] = dataclasses.replace(self.records[-1], cycle_end=True)
        close_cycle(self.state)
        written = self.records[begun:]
        self._store(written)
        return written

    def after(self, micros: int) -> "LogWriter":
        """Advances the clock, in microseconds. Returns the same log_writer."""
        self.now += micros
        return self

    def _append(self, cycle: int, epoch: int, cycle_end: bool, fact: Fact) -> None:
        self._note(cycle, epoch, cycle_end, fact, "")
        if cycle_end:
            close_cycle(self.state)
        self._store(self.records[-1:])

    def _note(self, cycle: int, epoch: int, cycle_end: bool, fact: Fact, actor: str, cause: str = "") -> None:
        record = Record(
            pool=self.pool,
            seq=self.state.seq + 1,
            epoch=epoch,
            cycle=cycle,
            cycle_end=cycle_end,
            time=self.now,
            prev="",
            writer=self.state.writer,
            engine=self.engine,
            policy=self.state.policy_revision,
            type=fact.type_name(),
            data=fact,
            cause=cause,
            actor=actor,
            auth=self.auth if actor else "",
        )
        fold(self.state, dataclasses.replace(record, prev=self.head.hash))
        self.records.append(record)

    def _store(self, records: list[Record]) -> None:
        for _, wire, head in chain_records(self.head, records, self.credentials):
            self.cluster.store(topics.AUDIT.name, self.partition, None, wire.headers, wire.value)
            self.head = head

    # --- facts

    def node(self, name: str, gpus: int = 8, model: str = "H100-80GB", labels: Mapping[str, str] | None = None) -> None:
        """Adds a node to the pool."""
        devices = tuple(facts.DeviceInfo(id=f"GPU-{name}-{at}", model=model, memory_bytes=80 * GIB) for at in range(gpus))
        number = len(self.state.nodes)
        self.cycle(
            facts.NodeJoined(
                node=name,
                number=number,
                incarnation=f"inc-{name}",
                machine_id=f"machine-{name}",
                boot_id="boot",
                report_number=0,
                cpu_milli=64_000,
                memory_bytes=512 * GIB,
                devices=devices,
                labels={"zone": "a", **(labels or {})},
            )
        )

    def submit(
        self,
        job: str,
        gpus: int,
        tasks: int = 1,
        class_: str = "train",
        request: facts.RequestId | None = None,
        project: str | None = None,
        **demand: Any,
    ) -> None:
        """Accepts a job. demand: further fields of it."""
        group = TaskGroup(count=tasks, gpu_milli=gpus * 1000, cpu_milli=2000, memory_bytes=8 * GIB)
        demand = JobDemand(job=job, tasks=(group,), priority_class=class_, project=project, **demand)
        self.cycle(facts.JobSubmitted(request=request or request_id(job), demand=demand, spec_digest="a" * 64), actor="alice")

    def start(self, job: str) -> None:
        """Starts all tasks of the job."""
        for task in list(self.state.jobs[job].tasks):
            self.cycle(facts.TaskStarted(**self._at(job, task.index)))

    def propose(self, lie: Callable[[Proposal], Proposal] = lambda honest: honest) -> None:
        """Runs victim selection and writes its proposal. lie: changes each answer."""
        selection = self.state.selection
        assert selection is not None
        proposals = tuple(lie(proposal) for proposal in compute_proposals(self.state))
        proposal = {"selection": selection.number, "computed_at": self.state.seq, "logic": LOGIC}
        self.cycle(facts.ProposalReceived(**proposal, proposals=proposals))

    def evict(self, job: str) -> None:
        """Carries out the decided eviction: notice, TERM, exit and release of every task."""
        found = self.state.jobs[job]
        assert found.eviction is not None
        decided = found.eviction.decided_seq
        self.cycle(facts.EvictionStarted(job=job, attempt=found.attempt, decided_by=decided))
        for task in list(found.tasks):
            at = self._at(job, task.index)
            self.cycle(facts.EvictionStageReached(**at, stage="noticed"))
            self.after(2 * SECOND).cycle(facts.EvictionStageReached(**at, stage="term_sent", elapsed=2 * SECOND))
            self.after(SECOND).cycle(facts.TaskExited(**at, exit_code=-15))
            self.cycle(facts.TaskReleased(**at))

    def finish(self, job: str, exit_code: int = 0) -> None:
        """Ends and releases every task of the job."""
        for task in list(self.state.jobs[job].tasks):
            at = self._at(job, task.index)
            self.cycle(facts.TaskExited(**at, exit_code=exit_code))
            self.cycle(facts.TaskReleased(**at))

    def _at(self, job: str, task: int) -> dict[str, object]:
        found = self.state.jobs[job]
        node = self.state.nodes[found.tasks[task].node].name
        return {"job": job, "attempt": found.attempt, "task": task, "node": node}


def request_id(job: str, source: str = "laptop") -> facts.RequestId:
    """Id of the request that submitted the job."""
    return facts.RequestId(source=source, id=f"r-{job}", digest=hashlib.sha256(job.encode()).hexdigest())


def quiet_story(log_writer: LogWriter) -> LogWriter:
    """A pool with two nodes, one job that runs and one that has ended."""
    log_writer.begin()
    log_writer.node("gpu-01")
    log_writer.node("gpu-02", gpus=4, model="A100-40GB")
    log_writer.after(MINUTE).submit("train-7", gpus=4)
    log_writer.start("train-7")
    log_writer.submit("done-1", gpus=1)
    log_writer.start("done-1")
    log_writer.after(MINUTE).finish("done-1")
    return log_writer


def preemption_story(log_writer: LogWriter, lie: Callable[[Proposal], Proposal] = lambda honest: honest) -> LogWriter:
    """The quiet story and train-8; then serve-2 needs all twelve GPUs and preempts both; train-9 is pending.

    lie: changes the answer of victim selection.
    """
    quiet_story(log_writer)
    log_writer.submit("train-8", gpus=4)
    log_writer.start("train-8")
    log_writer.after(3 * MINUTE).submit("serve-2", gpus=4, tasks=3, class_="inference")
    log_writer.propose(lie)
    log_writer.submit("train-9", gpus=8)
    return log_writer


def finished_story(log_writer: LogWriter) -> LogWriter:
    """The preemption story to its end: both victims are evicted, serve-2 runs and ends, both victims resume."""
    preemption_story(log_writer)
    log_writer.evict("train-7")
    log_writer.evict("train-8")
    log_writer.start("serve-2")
    log_writer.after(MINUTE).finish("serve-2")
    log_writer.start("train-7")
    log_writer.start("train-8")
    return log_writer


# --- the command


Run = Callable[..., Result]


class AnsweringBus(MemoryBus):
    """A client's bus on a pool whose admission answers each request as soon as it is stored."""

    def __init__(self, log_writer: LogWriter, then: Callable[[LogWriter, str], None] = lambda log_writer, job: None) -> None:
        super().__init__(log_writer.cluster, "client")
        self.log_writer, self.then = log_writer, then
        self.missing: tuple[int, int] | None = None  # of a truncated log

    async def reader(self, positions):  # type: ignore[no-untyped-def]
        self.answer()
        return await super().reader(positions)

    async def spans(self, topic):  # type: ignore[no-untyped-def]
        self.answer()
        return await super().spans(topic)

    def answer(self) -> None:
        """Writes the records for requests that have arrived since the last call."""
        for partition in range(topics.REQUESTS.partition_count(1)):
            for message in self.cluster.messages(topics.REQUESTS.name, partition):
                self._answer(unwrap(message), message)

    def _answer(self, envelope, message) -> None:  # type: ignore[no-untyped-def]
        if (envelope.source, envelope.id) in _SEEN:
            return
        _SEEN.add((envelope.source, envelope.id))
        owner = envelope.actor or known_keys(self.log_writer.state).get(envelope.keyid, "") if envelope.sig else ""
        request = facts.RequestId(source=envelope.source, id=envelope.id, digest=envelope.digest, owner=owner)
        of_user = isinstance(envelope.body, SubmitJob | ReadJobSpec)
        requester = Requester(envelope.actor) if of_user else Requester(ROOT_ACTOR, "signed")
        evidence = replace(evidence_of(self.log_writer.state, envelope.body, "a" * 64), missing=self.missing)
        found = admit(Context(self.log_writer.state, requester, request, evidence), envelope.body)
        if isinstance(found, Rejected):
            where = {
                "topic": topics.REQUESTS.name,
                "partition": message.partition,
                "offset": message.offset,
                "digest": envelope.digest,
            }
            why = {"code": found.code, "reason": found.reason}
            self.log_writer.cycle(facts.InputRejected(**where, **why, source=envelope.source, id=envelope.id))
            return
        self.log_writer.cycle(found, actor=envelope.actor, cause=f"{topics.REQUESTS.name}/{message.partition}/{message.offset}")
        if isinstance(envelope.body, SubmitJob):
            self.then(self.log_writer, envelope.body.demand.job)
        elif isinstance(envelope.body, ReadJobSpec):
            self._send_copy(envelope.body)

    def _send_copy(self, body: ReadJobSpec) -> None:
        """As admission: a copy of the spec, unless it was erased."""
        log_writer = self.log_writer
        grant, encrypted = log_writer.state.seq, None
        if body.job in log_writer.specs:
            spec, salt = log_writer.specs[body.job]
            encrypted = encrypt_copy("pool-a", grant, spec.to_json(), salt.hex(), body.encryption_key)
        copy = JobSpecCopy(job=body.job, grant=grant, encrypted=encrypted)
        headers, value = wrap_signed(None, copy, source="/admission", id=f"c-{grant}", pool="pool-a", time_us=log_writer.now)
        log_writer.cluster.store(topics.JOB_SPEC_COPIES.name, 0, f"pool-a/{grant}".encode(), headers, value)


_SEEN: set[tuple[str, str]] = set()


def command_on(bus: Callable[[], MemoryBus], monkeypatch: pytest.MonkeyPatch, cache: str) -> Run:
    """Returns a function that runs `bailiff` with its arguments on this bus."""
    monkeypatch.setattr(session, "make_bus", lambda settings: bus())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("BAILIFF_ACTOR", "ada")
    monkeypatch.setenv("BAILIFF_CACHE", cache)
    runner = CliRunner()

    def run(*arguments: str) -> Result:
        return runner.invoke(app, list(arguments))

    return run
