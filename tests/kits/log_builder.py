"""Stories of one pool without Kafka: facts are added cycle by cycle, the core decides, and the log is kept in wire format.

    story = Story()
    story.node("n1", gpus=8)
    story.submit("train-1", gpus=4)
    story.expect("JobPlaced", job="train-1")

Every story is also a valid chained log: `story.wires` hold headers and values with seq, epoch, cycle, time and prev as
admission writes them. Time does not advance between cycles except where `after` or `wait` moves it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.kits.claims import complete

from bailiff_core.decision_cycle import decide, decision_record, wake_at
from bailiff_core.engine import LOGIC, RELEASE, STATE_SCHEMA
from bailiff_core.fold import apply, close_cycle, fold
from bailiff_core.fold.snapshot import state_digest
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, PoolState
from bailiff_core.recorded import OF_WRITER
from bailiff_core.records import ChainHead, Record, Wire, continues, decode, facts
from bailiff_core.records.payload import Decision, Fact
from bailiff_core.records.request import RequestFact
from bailiff_core.replay import Replay
from bailiff_core.victims.batch import select_batch
from bailiff_log.credentials import Credentials
from bailiff_log.writer import chain_records

MS = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
GIB = 2**30
NEW_YEAR = 1_767_225_600 * SECOND  # 2026-01-01
ENGINE_DIGEST = "0" * 64
ENGINE = f"{RELEASE}+{ENGINE_DIGEST[:12]}/{LOGIC}"
LateFacts = Callable[[], Iterable[Fact]]
REQUESTS, REPORTS = "bailiff.requests", "bailiff.node-reports"
PROPOSALS, PROGRESS = "bailiff.proposals", "bailiff.eviction-progress"
TOPIC_OF: dict[type[Fact], str] = {
    **dict.fromkeys(
        (
            *(facts.JobSubmitted, facts.JobCancelled, facts.JobScaled, facts.JobPriorityClassChanged, facts.PolicyApplied),
            *(facts.NodeReplaced, facts.NodeReturned, facts.NodeDrained, facts.NodeUndrained, facts.JobEvictionRequested),
            *(facts.JobPaused, facts.JobResumed, facts.JobMigrationRequested),
        ),
        REQUESTS,
    ),
    **dict.fromkeys(
        (
            *(facts.NodeJoined, facts.TaskStarted, facts.TaskStartRefused, facts.TaskExited, facts.TaskReleased),
            *(facts.TaskVanished, facts.EvictionStageReached, facts.TaskEvictionCancelled, facts.TaskCancelEvictionRefused),
        ),
        REPORTS,
    ),
    **dict.fromkeys((facts.EvictionStarted, facts.PreemptionAbandoned), PROGRESS),
    facts.ProposalReceived: PROPOSALS,
}


def policy(**parts: Any) -> Policy:
    """The default policy with these parts changed: `policy(preemption={"reservation_expiry": "1m"})`."""
    data = DEFAULT_POLICY.model_dump(mode="json")
    for name, value in parts.items():
        data[name] = {**(data[name] or {}), **value} if isinstance(value, dict) else value
    return Policy.model_validate(data, strict=False)


def digest(text: str) -> str:
    """Some SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()


def folded(wires: Iterable[Wire]) -> PoolState:
    """The state after these records, folded from their bytes alone."""
    state = PoolState()
    for wire in wires:
        apply(state, decode(wire))
    return state


class Follower:
    """Folds and replays a log from its bytes alone: goes on from where it was, or begins anew where the log is another one."""

    def __init__(self) -> None:
        self._folded, self._state = list[Wire](), PoolState()
        self._records = list[Record]()
        self._replayed, self._replay = list[Wire](), Replay()

    def state(self, wires: list[Wire]) -> PoolState:
        """The state after these records."""
        if self._folded != wires[: len(self._folded)]:
            self._folded, self._state, self._records = [], PoolState(), []
        for wire in wires[len(self._folded) :]:
            self._records.append(decode(wire))
            apply(self._state, self._records[-1])
        self._folded = wires[:]
        return self._state

    def replay(self, wires: list[Wire]) -> Replay:
        """The replay of every cycle, with a search for every proposal again."""
        self.state(wires)
        proposals = (each.data for each in self._records[len(self._replayed) :])
        searched = {each.computed_at for each in proposals if isinstance(each, facts.ProposalReceived)}
        begin = len(self._replayed)
        if self._replayed != wires[:begin] or min(searched, default=begin) < begin - 1:
            self._replayed, self._replay = [], Replay()
            return self.replay(wires)
        if begin - 1 in searched:
            self._replay.search()
        for record, wire in zip(self._records[begin:], wires[begin:], strict=True):
            self._replay.feed(record, wire)
            if record.seq in searched:
                self._replay.search()
        self._replayed = wires[:]
        return self._replay


def replayed(wires: Iterable[Wire]) -> Replay:
    """Replay every cycle of this log, and search again for every proposal."""
    return Follower().replay([*wires])


@dataclass(frozen=True)
class Cut(Exception):
    """The writer stopped inside a cycle; the log has only the first records of it."""

    records: int


class Story:
    """One pool and its log, with a method for each event."""

    def __init__(
        self,
        rules: Policy = DEFAULT_POLICY,
        pool: str = "test",
        begin: int = NEW_YEAR,
        check: Callable[[PoolState], None] | None = None,
        partition: int = 0,
        credentials: Credentials | None = None,
        checked: set[str] | None = None,
    ) -> None:
        """check: called with the state after every cycle. credentials: of a writer that signs the log. checked: hashes of logs
        after which it was called already, for stories that begin alike.

        `actor` sends its requests, as an access list has verified; empty: nobody does.
        """
        self.credentials = credentials
        self.state = PoolState()
        self.check, self.checked = check, set() if checked is None else checked
        self.head = ChainHead(pool)
        self.records: list[Record] = []
        self.wires: list[Wire] = []
        self._follower = Follower()
        self.last_decisions: list[Decision] = []
        self.time = begin
        self.pool = pool
        self._offsets: dict[str, int] = {}
        self._ids = 0
        self._writers = 0
        self.actor = ""
        certificate = credentials.certificate if credentials is not None else None
        root_key = credentials.root_key if credentials is not None else None
        created = facts.PoolCreated(pool=pool, partition=partition, nonce="00" * 16, root_key=root_key, certificate=certificate)
        self._append(self._record(created, cycle=0))
        self._append(self._record(facts.PolicyApplied(policy=complete(rules)), cycle=0, cycle_end=True))
        close_cycle(self.state)
        self.restart()

    # --- the log

    def cycle(self, *given: Fact | LateFacts, after: int = 0, cut: int | None = None) -> list[Decision]:
        """One cycle: these facts and the decisions on them. cut: number of its records that reach the log.

        A function instead of a fact is called when the facts before it have been folded. No facts: no cycle.
        """
        self.time += after
        state = self.state
        number = state.cycle if state.cycle_open else state.cycle + 1
        drafts = []
        for part in given:
            for fact in (part,) if isinstance(part, Fact) else part():
                record = self._record(fact, cycle=number)
                fold(state, record)
                drafts.append(record)
        self.last_decisions = []
        if not drafts:
            return self.last_decisions
        for decision in decide(state):
            self.last_decisions.append(decision)
            drafts.append(decision_record(state, decision, prev="", cycle_end=False))
        drafts[-1] = replace(drafts[-1], cycle_end=True)
        if cut is not None and cut < len(drafts):
            self._keep(*drafts[:cut])
            self.state = folded(self.wires)
            raise Cut(cut)
        close_cycle(state)
        self._keep(*drafts)
        if self.check is not None and self.head.hash not in self.checked:
            self.check(state)
            self.checked.add(self.head.hash)
        return self.last_decisions

    def restart(self, after: int = 0, logic: int = LOGIC) -> list[Decision]:
        """A new writer folds the log, starts a higher epoch, and decides."""
        self.time += after
        self.state = folded(self.wires)
        self._writers += 1
        started = facts.WriterStarted(
            writer=digest(f"writer {self._writers}")[:32],
            release=RELEASE,
            digest=ENGINE_DIGEST,
            logic=logic,
            state_schema=STATE_SCHEMA,
            inputs=dict(self.state.inputs),
            certificate=self.credentials.certificate if self.credentials is not None else None,
        )
        record = self._record(started, cycle=self.state.cycle + 1)
        engine = ENGINE if logic == LOGIC else f"{ENGINE.rpartition('/')[0]}/{logic}"
        record = replace(record, epoch=self.state.epoch + 1, writer=started.writer, engine=engine)
        self._append(record)
        return self.cycle(facts.ClockAdvanced())

    def _record(self, fact: Fact, cycle: int, cycle_end: bool = False) -> Record:
        state = self.state
        self.time = max(self.time, state.now)
        topic = TOPIC_OF.get(type(fact))
        if topic is None and self.state.root_key and not isinstance(fact, (*OF_WRITER, facts.InputRejected)):
            topic = REQUESTS if isinstance(fact, RequestFact) else REPORTS  # in a signed log every such fact has a cause
        cause, inputs = "", ()
        if topic is not None and state.seq > 0:
            at = self._offsets.get(topic, 0)
            self._offsets[topic] = at + 1
            cause, inputs = f"{topic}/0/{at}", ((f"{topic}/0", at + 1),)
        return Record(
            pool=self.pool,
            seq=state.seq + 1,
            epoch=state.epoch,
            cycle=cycle,
            cycle_end=cycle_end,
            time=self.time,
            prev="",
            writer=state.writer or "creator",
            engine=state.engine or ENGINE,
            policy=state.policy_revision,
            type=fact.type_name(),
            data=fact,
            cause=cause,
            inputs=inputs,
            actor=self.actor if isinstance(fact, RequestFact) else "",
            auth="acl" if self.actor and isinstance(fact, RequestFact) else "",
        )

    def _append(self, record: Record) -> None:
        """A writer folds its first records when it reads them back."""
        self._keep(record)
        fold(self.state, decode(self.wires[-1]))

    def _keep(self, *records: Record) -> None:
        """Add records that are appended together."""
        for record, wire, head in chain_records(self.head, records, self.credentials):
            self.records.append(record)
            self.wires.append(wire)
            self.head = head

    def resumed(self, records: int) -> "Story":
        """Another story on the first `records` records of this log. A new writer must be started on it."""
        other = Story.__new__(Story)
        other.__dict__.update(self.__dict__)
        other.records, other.wires = self.records[:records], self.wires[:records]
        other.last_decisions, other._offsets = [], dict(self._offsets)
        other.head = ChainHead(self.pool)
        for wire in other.wires:
            head = continues(other.head, wire)
            assert isinstance(head, ChainHead)
            other.head = head
        other.state = folded(other.wires)
        other.time = other.state.now
        return other

    # --- requests

    def request(self) -> facts.RequestId:
        """A fresh request id."""
        self._ids += 1
        return facts.RequestId(source="laptop", id=f"r-{self._ids}", digest=digest(f"r-{self._ids}"))

    def submitted(self, job: str, *groups: TaskGroup, gpus: int = 1, tasks: int = 1, cls: str | None = None, **demand: Any):
        """The fact that a job was submitted: `tasks` tasks of `gpus` GPUs each, or these groups."""
        groups = groups or (TaskGroup(count=tasks, gpu_milli=gpus * 1000),)
        requested = JobDemand(job=job, tasks=groups, priority_class=cls, **demand)
        return facts.JobSubmitted(request=self.request(), demand=requested, spec_digest=digest(job))

    def submit(self, job: str, *groups: TaskGroup, after: int = 0, **requested: Any) -> list[Decision]:
        """A job is submitted; keywords as in `submitted`."""
        return self.cycle(self.submitted(job, *groups, **requested), after=after)

    def cancel(self, job: str, after: int = 0) -> list[Decision]:
        """Cancel the job."""
        return self.cycle(facts.JobCancelled(request=self.request(), job=job), after=after)

    def scale(self, job: str, tasks: int, minimum: int | None = None) -> list[Decision]:
        """Change the number of its tasks."""
        return self.cycle(facts.JobScaled(request=self.request(), job=job, tasks=tasks, min_tasks=minimum))

    def evict(self, job: str, reason: str = "", after: int = 0) -> list[Decision]:
        """An operator evicts the job."""
        return self.cycle(facts.JobEvictionRequested(request=self.request(), job=job, reason=reason), after=after)

    def pause(self, job: str, reason: str = "", after: int = 0) -> list[Decision]:
        """Pause the job."""
        return self.cycle(facts.JobPaused(request=self.request(), job=job, reason=reason), after=after)

    def resume(self, job: str, after: int = 0, *, keep_failed_starts: bool = False) -> list[Decision]:
        """Resume the job."""
        return self.cycle(facts.JobResumed(request=self.request(), job=job, keep_failed_starts=keep_failed_starts), after=after)

    def migrate(self, job: str, node: str | None = None, reason: str = "", after: int = 0) -> list[Decision]:
        """Migrate the job."""
        return self.cycle(facts.JobMigrationRequested(request=self.request(), job=job, node=node, reason=reason), after=after)

    def drain(self, node: str, mode: str = "quick", deadline: int | None = None, reason: str = "") -> list[Decision]:
        """An operator drains the node."""
        fact = {"request": self.request(), "node": node, "mode": mode, "deadline": deadline, "reason": reason}
        return self.cycle(facts.NodeDrained.model_validate(fact))

    def undrain(self, node: str) -> list[Decision]:
        """The node is schedulable again."""
        return self.cycle(facts.NodeUndrained(request=self.request(), node=node))

    def members(self, job: str, *states: str) -> list[int]:
        """Indices of the job's placed tasks, or of those in one of these states."""
        return [task.index for task in self.job(job).tasks if not states or task.state in states]

    def apply_policy(self, rules: Policy) -> list[Decision]:
        """Apply another policy."""
        return self.cycle(facts.PolicyApplied(policy=complete(rules), request=self.request()))

    # --- machines

    def joined(
        self,
        name: str,
        gpus: int = 8,
        cpu: int = 1000,
        gib: int = 1000,
        slots: int = 1000,
        boot: int = 1,
        missing: Sequence[int] = (),
        sick: Sequence[int] = (),
        labels: dict[str, str] | None = None,
        model: str = "h100",
        checkpoints: str | None = None,
    ) -> facts.NodeJoined:
        """The fact that a node's agent joined after its `boot`th boot."""
        known = self.state.node_numbers.get(name)
        return facts.NodeJoined(
            node=name,
            number=len(self.state.nodes) if known is None else known,
            incarnation=f"{name}-life-{boot}",
            machine_id=f"machine-{name}",
            boot_id=f"{name}-boot-{boot}",
            report_number=0,
            cpu_milli=cpu * 1000,
            memory_bytes=gib * GIB,
            max_tasks=slots,
            labels=labels or {},
            checkpoint_store=checkpoints,
            devices=tuple(
                facts.DeviceInfo(id=f"GPU-{name}-{n}", model=model, memory_bytes=80 * GIB, healthy=n not in sick)
                for n in range(gpus)
                if n not in missing
            ),
        )

    def quarantined(self, node: str, device: int, job: str | None = None, foreign: str = "") -> list[Decision]:
        """A device of the node was not seen free in time. foreign: who has it, where that is no task."""
        found = self.state.nodes[self.state.node_numbers[node]].devices[device].id
        seen = facts.DeviceReading(device=found, memory_used=GIB, processes=0)
        why: Any = {"reason": "foreign", "detail": foreign} if foreign else {"reason": "not-free"}
        return self.cycle(facts.DeviceQuarantined(node=node, device=found, reading=seen, job=job, **why))

    def cleared(self, node: str, device: int) -> list[Decision]:
        """The quarantined device was seen free."""
        found = self.state.nodes[self.state.node_numbers[node]].devices[device].id
        return self.cycle(facts.DeviceCleared(node=node, device=found))

    def breaks(self, node: str, device: int) -> list[Decision]:
        """A device of the node falls off the bus."""
        found = self.state.nodes[self.state.node_numbers[node]].devices[device].id
        return self.cycle(facts.DeviceUnhealthy(node=node, device=found, reason="xid", code=79))

    def repaired(self, node: str, device: int) -> list[Decision]:
        """The device works again."""
        found = self.state.nodes[self.state.node_numbers[node]].devices[device].id
        return self.cycle(facts.DeviceHealthy(node=node, device=found))

    def node(self, name: str, **about: Any) -> list[Decision]:
        """A node joins the pool, or joins again; keywords as in `joined`."""
        return self.cycle(self.joined(name, **about))

    def silent(self, name: str, after: int = 0) -> list[Decision]:
        """The node is silent."""
        return self.cycle(facts.NodeUnreachable(node=name, last_contact=self.time), after=after)

    def reachable(self, name: str, after: int = 0) -> list[Decision]:
        """The node reports again."""
        return self.cycle(facts.NodeReachable(node=name), after=after)

    def lost(self, name: str, after: int = 0) -> list[Decision]:
        """The node's lease expired."""
        return self.cycle(facts.NodeLost(node=name, last_contact=self.time), after=after)

    # --- tasks

    def job(self, name: str) -> Job:
        """The job in the present state."""
        return self.state.jobs[name]

    def at(self, job: str, task: int) -> dict[str, Any]:
        """Fields of a fact that identify this task of the job's present attempt."""
        found = self.job(job)
        member = found.task(task)
        assert member is not None, f"{job} has no task {task}"
        return {"job": job, "attempt": found.attempt, "task": task, "node": self.state.nodes[member.node].name}

    def _tasks(self, job: str, task: int | None, states: Sequence[str]) -> list[int]:
        members = self.job(job).tasks
        return [found.index for found in members if task in (None, found.index) and found.state in states]

    def started(self, job: str, task: int | None = None, after: int = 0) -> list[Decision]:
        """The agents report that the job's tasks (or this one) run."""
        return self.cycle(*(facts.TaskStarted(**self.at(job, n)) for n in self._tasks(job, task, ["starting"])), after=after)

    def refuse(self, job: str, reason: str = "no such user") -> list[Decision]:
        """Every task that is to start is refused by its node."""
        starting = self._tasks(job, None, ["starting"])
        return self.cycle(*(facts.TaskStartRefused(**self.at(job, n), reason=reason) for n in starting))

    def exits(self, job: str, code: int = 0, task: int | None = None, after: int = 0) -> list[Decision]:
        """The job's tasks exit with this code; their resources are not released yet."""
        gone = [facts.TaskExited(**self.at(job, n), exit_code=code) for n in self._tasks(job, task, ["starting", "running"])]
        return self.cycle(*gone, after=after)

    def releases(self, job: str, task: int | None = None, after: int = 0) -> list[Decision]:
        """The resources of exited tasks are released."""
        return self.cycle(*(facts.TaskReleased(**self.at(job, n)) for n in self._tasks(job, task, ["exited"])), after=after)

    def ends(self, job: str, code: int = 0, task: int | None = None, after: int = 0) -> list[Decision]:
        """Exit and release in one cycle."""
        going = self._tasks(job, task, ["starting", "running"])
        exits: list[Fact] = [facts.TaskExited(**self.at(job, n), exit_code=code) for n in going]
        return self.cycle(*exits, *(facts.TaskReleased(**self.at(job, n)) for n in going), after=after)

    def runs(self, job: str, *groups: TaskGroup, after: int = 0, **requested: Any) -> None:
        """Submit, place and start a job."""
        self.submit(job, *groups, after=after, **requested)
        self.expect("JobPlaced", job=job, reserved=False)
        self.started(job)
        assert self.job(job).phase == "running"

    # --- evictions

    def proposal(self, at: int | None = None, proposals: Sequence[Proposal] | None = None) -> facts.ProposalReceived:
        """The proposal for the open selection, computed on the state after record `at` (default: the present one)."""
        selection = self.state.selection
        assert selection is not None, "there is no open selection"
        at = self.state.seq if at is None else at
        if proposals is None:
            state = self._follower.state(self.wires[: at + 1])
            state.cycle_open = False
            proposals = select_batch(state, selection.requests, self.state.rules.preemption.search_steps)
        return facts.ProposalReceived(selection=selection.number, computed_at=at, logic=LOGIC, proposals=tuple(proposals))

    def propose(self, at: int | None = None, proposals: Sequence[Proposal] | None = None, after: int = 0) -> list[Decision]:
        """Victim selection sends a proposal; arguments as in `proposal`."""
        return self.cycle(self.proposal(at, proposals), after=after)

    def propose_all(self) -> None:
        """Victim selection answers until no selection is open."""
        while self.state.selection is not None:
            self.propose()

    def begin(self, job: str, after: int = 0) -> list[Decision]:
        """The executor starts the eviction."""
        found = self.job(job)
        alone = [task.eviction.decided_seq for task in found.tasks if task.eviction is not None]
        decided = [found.eviction.decided_seq] if found.eviction is not None else list(dict.fromkeys(alone))
        assert decided, f"{job} is not being evicted"
        begun = (facts.EvictionStarted(job=job, attempt=found.attempt, decided_by=seq) for seq in decided)
        return self.cycle(*begun, after=after)

    def abandon(self, preemptor: str, after: int = 0) -> list[Decision]:
        """The executor abandons the preemption, because the preemptor fits without evictions."""
        plan = self.job(preemptor).preemption
        assert plan is not None
        return self.cycle(facts.PreemptionAbandoned(preemption=plan, reason="there is room by now"), after=after)

    def staged(self, job: str, stage: str, task: int | None = None) -> list[Decision]:
        """Every task of the job (or this one) reached this stage of its eviction."""
        here = self._tasks(job, task, ["starting", "running"])
        return self.cycle(*(facts.EvictionStageReached.model_validate({**self.at(job, n), "stage": stage}) for n in here))

    def yields(self, job: str, code: int = 85, after: int = 0) -> list[Decision]:
        """A complete eviction of the evicted tasks: started, noticed, TERM, exit with this code, released."""
        self.begin(job, after=after)
        found = self.job(job)
        going = [task.index for task in found.tasks if found.eviction is not None or task.eviction is not None]
        for stage in ("noticed", "term_sent"):
            self.cycle(*(facts.EvictionStageReached.model_validate({**self.at(job, n), "stage": stage}) for n in going))
        exits: list[Fact] = [facts.TaskExited(**self.at(job, n), exit_code=code) for n in going]
        return self.cycle(*exits, *(facts.TaskReleased(**self.at(job, n)) for n in going))

    def eviction_cancelled(self, job: str, task: int | None = None) -> list[Decision]:
        """The agents confirm the cancellation of the eviction."""
        here = [found.index for found in self.job(job).tasks] if task is None else [task]
        return self.cycle(*(facts.TaskEvictionCancelled(**self.at(job, n)) for n in here))

    def cancel_eviction_refused(self, job: str, task: int = 0) -> list[Decision]:
        """One agent refuses the cancellation, because it came too late."""
        return self.cycle(facts.TaskCancelEvictionRefused(**self.at(job, task)))

    # --- time

    def wait(self, duration: int) -> list[Decision]:
        """Advance time, with a cycle at each timer of the core. Returns the decisions of all cycles."""
        until = self.time + duration
        last_decisions: list[Decision] = []
        while (wake := wake_at(self.state)) is not None and wake <= until:
            last_decisions += self.cycle(facts.ClockAdvanced(), after=max(0, wake - self.time))
        self.time = until
        self.last_decisions = last_decisions
        return last_decisions

    def back_off(self, job: str) -> list[Decision]:
        """Wait until the job may start again."""
        return self.wait(max(0, self.job(job).not_before - self.time))

    # --- expectations

    def expect(self, kind: str, **fields: Any) -> Any:
        """The decision of this kind with these fields in the last cycle; fails if there is none."""
        for found in self.last_decisions:
            if type(found).__name__ == kind and all(getattr(found, name) == value for name, value in fields.items()):
                return found
        values = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        listing = "\n  ".join(map(repr, self.last_decisions)) or "nothing"
        raise AssertionError(f"expected {kind}({values}); decided:\n  {listing}")

    def expect_only(self, *kinds: str) -> None:
        """The last cycle decided exactly these kinds, in this order."""
        found = [type(decision).__name__ for decision in self.last_decisions]
        assert found == list(kinds), f"expected {list(kinds)}, decided {found}: {self.last_decisions}"

    def decisions(self, kind: str) -> Iterator[Any]:
        """All decisions of this kind in the whole log."""
        return (record.data for record in self.records if type(record.data).__name__ == kind)

    def phases(self) -> dict[str, str]:
        """The phase of every job."""
        return {name: job.phase for name, job in self.state.jobs.items()}

    def holds(self) -> None:
        """Check that the log decodes, folds and replays to this story's state."""
        again = self._follower.replay(self.wires)
        assert again.difference is None, again.difference
        assert state_digest(again.state) == state_digest(self.state) == state_digest(self._follower.state(self.wires))
