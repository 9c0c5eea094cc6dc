"""One writer incarnation on one domain: begin, fence the nodes, then turn after turn (log protocol §3, §4, §6).

The pool of the view runs ahead of the log while a turn is being appended. Whatever goes wrong then, this incarnation
ends and the next one folds the log anew: nothing is repaired in place.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NoReturn

from bailiff_bus import gauges, topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.engine_identity import engine_identity
from bailiff_bus.envelope import Unacceptable, domain_of, unwrap
from bailiff_bus.identity import Identity, verify
from bailiff_bus.log import AuditWriter, Entry, SteppedDown
from bailiff_bus.logs import logger
from bailiff_bus.messages import AcceptTruncation, Evict, Fence, RequestBody, SendInventory
from bailiff_bus.messages.commands import Order
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Batch, BusUnavailable, Message, OffsetGone, Parcel
from bailiff_bus.runtime import ExitCode, MustStop
from bailiff_bus.view import DomainView
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import digest_of, to_snapshot
from bailiff_core.lifecycle.grace import PART
from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import (
    ClockAdvanced,
    ClockStepped,
    DecisionFailed,
    DeviceClearRequested,
    DeviceQuarantined,
    DeviceUnhealthy,
    DomainCreated,
    InputRejected,
    InputsAdvanced,
    InputsLost,
    LogSettled,
    NodeJoined,
    PolicyApplied,
    ReportsStale,
    StateDigest,
    WriterStarted,
)
from bailiff_core.records.payload import Fact
from bailiff_core.turn import wake_at
from bailiff_core.verbs.failure import DecisionError

from .clock import LogClock
from .draft import Draft
from .inputs import Inputs, Lost
from .intake import Rejected
from .intake.requests import Asked, facts_of_request
from .liveness import Liveness
from .loss import (
    NEWEST_COMMANDS,
    NEWEST_REPORTS,
    BeyondTheLog,
    beyond_log,
    ends_of_reports,
    look_at_command,
    newest,
)
from .outbox import Outbox
from .owed import AGAIN_AFTER, OwedStarts, owed_clears, start_command
from .reading import Read, Reading
from .specs import JobSpecs
from .suspects import Suspects, place

LONGEST_WAIT = 0.2
UNDER_WAY = 4  # rounds of the loop until aiokafka has written what it was given: the broker stores it while we decide
LETTER_WAIT = 10.0  # a first read from the broker takes its time, and nobody asks for a letter twice
CHECK_EVERY = 1_000_000
ERASE_EVERY = 3_600_000_000
INPUTS_ADVANCED_EVERY = 3_600_000_000
ALL_INPUTS_EVERY = 10_000
MINUTE = 60_000_000
DIGEST_AFTER = MINUTE


class Writer:
    """Writes one domain's log until it is cancelled, or raises why it cannot go on."""

    def __init__(
        self,
        view: DomainView,
        ambient: Ambient,
        metrics: Metrics,
        *,
        first_policy: Policy,
        suspects: Suspects,
        declared: frozenset[str],
        strays: bool,
        digest_every: int = 10_000,
        largest_turn: int = 200,
        unsigned: Literal["none", "acl"] = "none",
        clock_tolerance: int = 5_000_000,
        rejected_lately: Sequence[Entry] = (),
    ) -> None:
        self._view, self._ambient, self._metrics = view, ambient, metrics
        self._first_policy, self._suspects = first_policy, suspects
        self._digest_every, self._largest_turn = digest_every, largest_turn
        self._rejected_lately, self._unsigned, self._clock_tolerance = rejected_lately, unsigned, clock_tolerance
        self._specs_missed: set[str] = set()
        self._id = ambient.fresh().hex()
        self._log = logger(domain=view.domain, writer=self._id[:8])
        self._writer = AuditWriter(view.bus, view.reader)
        self._clock = LogClock(ambient, 0)
        self._specs = JobSpecs(view.domain)
        self._liveness = Liveness(ambient)
        self._reading = Reading(view.domain, strays, declared, ambient, self._liveness, unsigned)
        self._starts = OwedStarts(ambient)
        self._inputs = Inputs(view.bus, ambient, {})
        self._recorded: dict[str, int] = {}
        self._muted: dict[str, tuple[int, InputRejected]] = {}
        self._orphans_told = self._clears_told = 0
        self._asked: dict[str, int] = {}
        self._incarnations: dict[str, dict[str, None]] = {}  # of each node, the newest last
        self._digested: tuple[bytes, int] | None = None  # the state of which a digest is being appended, and its time
        self._checked = self._erased = self._advanced = 0
        self._last_full_inputs = self._last_digest = self._digested_at = 0

    @property
    def _pool(self) -> Pool:
        return self._view.pool

    async def run(self) -> NoReturn:
        """Begin, then work for ever."""
        producer = await self._view.bus.producer()
        self._outbox = Outbox(producer, self._ambient, self._metrics, self._view.domain)
        try:
            await self._begin()
            self._view.ready_to_decide()
            await self._specs.load(self._view.bus)
            self._inputs = Inputs(self._view.bus, self._ambient, self._pool.inputs)
            self._recorded = dict(self._pool.inputs)
            await self._look_for_loss()
            await self._fence_nodes()
            if self._pool.unsettled:
                await self._ask_for_inventories()
            await self._send_late_letters()
            with self._metrics.pools.showing(self._view.domain, lambda: gauges.everything(self._pool)):
                await self._turn([], [], first=True)
                while True:
                    await self._step()
        except BeyondTheLog as loss:
            await self._wait_for_operator(loss)
        finally:
            await self._inputs.close()
            await self._writer.close(1.0)
            await producer.close(1.0)

    # --- the beginning

    async def _begin(self) -> None:
        boot = self._ambient.boot()
        started = await self._writer.begin(self._first_records, self._view.take)
        self._last_full_inputs = started.record.seq
        self._last_digest, self._digested_at = self._view.digest_seq, boot
        self._check_clock(started.append_time, boot)
        self._log.info("writing", epoch=self._pool.epoch, seq=started.record.seq)

    def _first_records(self, head: ChainHead) -> Sequence[Record]:
        """`WriterStarted`, after what creates the domain where that is missing."""
        pool, engine = self._pool, engine_identity()
        self._clock = LogClock(self._ambient, pool.now)
        # Nobody has compared this clock with the broker's yet, so where there is a log its time does not move on here.
        time = pool.now if head.next_seq > 1 else self._clock.now()
        records: list[Record] = []

        def record(seq: int, epoch: int, turn: int, turn_end: bool, fact: Fact) -> None:
            records.append(
                Record(
                    domain=self._view.domain,
                    seq=seq,
                    epoch=epoch,
                    turn=turn,
                    turn_end=turn_end,
                    time=time,
                    prev="",
                    writer=self._id,
                    engine=str(engine),
                    policy=pool.policy_revision,
                    type=fact.type_name(),
                    data=fact,
                )
            )

        if head.next_seq == 0:
            nonce = self._ambient.fresh().hex()
            record(0, 0, 0, False, DomainCreated(domain=self._view.domain, partition=self._view.partition, nonce=nonce))
        if head.next_seq <= 1:
            record(1, 0, 0, True, PolicyApplied(policy=self._first_policy.complete()))
        epoch = max(head.epoch, pool.accepted_loss[0]) + 1
        started = WriterStarted(
            writer=self._id,
            release=engine.release,
            digest=engine.digest,
            logic=engine.logic,
            state_schema=STATE_SCHEMA,
            inputs=pool.inputs,
        )
        record(max(head.next_seq, 2), epoch, max(pool.turn, 0) + 1, False, started)
        return records

    async def _look_for_loss(self) -> None:
        """Before anything is decided: was anybody told, or has an agent obeyed, what the log does not hold?

        Raises `BeyondTheLog`.
        """
        bus, domain, losses = self._view.bus, self._view.domain, []
        for message in await newest(bus, topics.NODE_REPORTS.name, domain, NEWEST_REPORTS, self._inputs.positions):
            try:
                report = self._reading.look_for_truncation(self._pool, message)
            except BeyondTheLog as loss:
                losses.append(loss)
            else:
                if report is not None:
                    self._heard_as(report.node, report.incarnation)
        for message in await newest(bus, topics.NODE_COMMANDS.name, domain, NEWEST_COMMANDS, {}):
            try:
                look_at_command(self._pool, message)
            except BeyondTheLog as loss:
                losses.append(loss)
        if losses:
            raise max(losses, key=lambda loss: (loss.epoch, loss.seq))
        self._reading.settling.until = await ends_of_reports(bus)

    async def _fence_nodes(self) -> None:
        """Old commands of earlier epochs are dead before the first decision of this one."""
        fences = [self._outbox.packed(self._fence(name)) for name in self._pool.node_numbers if self._is_here(name)]
        for batch in await self._outbox.commands(fences):
            await batch.first

    def _is_here(self, name: str) -> bool:
        """Not so for an agent that has joined anew since, perhaps in records that are lost: it would let go of its tasks."""
        known = self._pool.nodes[self._pool.node_numbers[name]].incarnation
        heard = self._incarnations.get(name)
        return not heard or next(reversed(heard)) == known

    def _heard_as(self, node: str, incarnation: str) -> None:
        self._incarnations.setdefault(node, {}).setdefault(incarnation)

    def _fence(self, name: str) -> Fence:
        node = self._pool.nodes[self._pool.node_numbers[name]]
        rules = self._pool.rules.nodes
        return Fence(
            node=name,
            incarnation=node.incarnation,
            sender="admission",
            sender_epoch=self._pool.epoch,
            lease=rules.lease,
            lost_margin=rules.lost_margin,
        )

    # --- turns

    async def _step(self) -> None:
        limit = 1 if self._suspects.careful else self._largest_turn
        jumped = self._clock.jump() != 0
        if jumped:
            await self._turn([], [], doubt=True)
        messages, lost = await self._inputs.read(limit, self._wait())
        self._liveness.looked(at_end=len(messages) < limit)
        await self._turn(messages, lost, jumped=jumped)
        self._suspects.careful.difference_update(place(message) for message in messages)
        await self._pay(behind=len(messages) >= limit)
        await self._keep_house()

    def _wait(self) -> float:
        """Seconds until time alone may matter, at most the longest wait."""
        wake = wake_at(self._pool)
        return LONGEST_WAIT if wake is None else max(0.0, min(LONGEST_WAIT, (wake - self._clock.now()) / 1_000_000))

    async def _turn(
        self, messages: list[Message], lost: list[Lost], *, first: bool = False, jumped: bool = False, doubt: bool = False
    ) -> None:
        """Fold the facts of these messages and of time, decide, append, and send what follows once it is committed.

        doubt: the clock has jumped, and the append time of this turn, which goes by the time before, says whether the
        broker's has, too. jumped: it has.
        """
        began = asyncio.get_running_loop().time()
        boot = self._ambient.boot()
        letters: list[tuple[Message, Rejected]] = []
        reads: list[Read] = []
        specs: list[Parcel] = []
        stored: list[Batch] = []
        draft: Draft | None = None
        try:
            # The clock may step in our own facts, and what stands in the turn comes after that.
            own = [ClockAdvanced()] if doubt else self._own_facts(lost, first, jumped)
            draft = Draft(self._pool, self._clock.now())
            for fact in own:
                draft.add(fact, inputs=self._moved_inputs())
            for message in messages:
                self._inputs.positions[f"{message.topic}/{message.partition}"] = message.offset + 1
                read = self._read(message)
                if read is None:
                    continue
                reads.append(read)
                if read.submitted is not None:
                    job, spec = read.submitted.demand.job, read.submitted.spec
                    specs.append(self._specs.take(job, read.spec_digest, spec, read.salt))
                if read.rejected is not None:
                    letters.append((message, read.rejected))
                for fact in self._facts(message, read):
                    cause = f"{message.topic}/{message.partition}/{message.offset}"
                    draft.add(fact, cause=cause, inputs=self._moved_inputs(), actor=read.actor, auth=read.auth)
            stored = await self._specs.store(self._outbox.producer, specs)
            for _ in range(UNDER_WAY if specs else 0):
                await asyncio.sleep(0)
            if not draft.records:
                await self._send_letters(letters)
                await self._send_after([], reads)
                return
            records = draft.finish()
        except (BeyondTheLog, BusUnavailable, asyncio.CancelledError):
            raise
        except Exception as error:
            raise self._suspects.failed(messages, error, _culprit(error, draft)) from error
        for batch in stored:
            await batch.first
        try:
            appended = await self._writer.append(records)
        except ValueError as too_large:
            raise self._suspects.failed(messages, too_large) from too_large
        committed = await appended
        self._checked = self._ambient.boot()  # it is ours: what it says about the log nobody need ask for
        self._view.written_to = committed.offset + 1
        if self._digested is not None:
            self._view.keep(*self._digested, committed.entries[0])
            self._digested = None
        self._check_clock(committed.append_time, boot, self._clock.jump() if doubt else 0)
        self._liveness.broker_time(committed.append_time)
        self._metrics.turn_seconds.labels(self._view.domain).observe(asyncio.get_running_loop().time() - began)
        for name, count in Counter(record.type for record in records).items():
            self._metrics.records_appended.labels(self._view.domain, name.split(".")[2]).inc(count)
        self._metrics.log_head.labels(self._view.domain).set(self._pool.seq)
        await self._send_letters(letters)
        await self._send_after(records, reads)

    def _own_facts(self, lost: list[Lost], first: bool, jumped: bool) -> list[Fact]:
        """What this writer itself has to say before it looks at messages."""
        pool = self._pool
        facts: list[Fact] = []
        if self._digest_is_due():
            self._last_digest, self._digested_at = pool.seq, self._ambient.boot()
            state = to_snapshot(pool)
            self._digested = (state, pool.now)
            facts.append(StateDigest(schema_version=STATE_SCHEMA, digest=digest_of(state)))
        if jumped:
            facts.append(ClockStepped(by=max(0, self._clock.step())))
        facts += [
            InputsLost(topic=gone.topic, partition=gone.partition, from_offset=gone.from_offset, to_offset=gone.to_offset)
            for gone in lost
        ]
        facts += [
            DecisionFailed(job=job, error=error)
            for job, error in self._suspects.jobs.items()
            if job in pool.jobs and pool.jobs[job].held_because is None
        ]
        facts += self._unmuted()
        if pool.unsettled and not self._reading.orphans and self._reading.settling.is_over(pool, self._inputs.positions):
            facts.append(LogSettled())
        if not first:
            facts += self._liveness.judge(pool)
        wake = wake_at(pool)
        if not facts and (first or (wake is not None and wake <= self._clock.now())):
            facts.append(ClockAdvanced())
        boot = self._ambient.boot()
        if not facts and self._inputs.positions != self._recorded and boot - self._advanced > INPUTS_ADVANCED_EVERY:
            facts.append(InputsAdvanced())
        if facts:
            self._advanced = boot
        return facts

    def _digest_is_due(self) -> bool:
        """After so many records, and after a minute where a tenth of them came: whoever restarts reads what came after it."""
        since = self._pool.seq - self._last_digest
        if self._pool.turn_open or since * 10 < self._digest_every:
            return False
        return since >= self._digest_every or self._ambient.boot() - self._digested_at >= DIGEST_AFTER

    def _read(self, message: Message) -> Read | None:
        blame = self._suspects.guilty.get(place(message))
        if blame is not None and domain_of(message) in (self._view.domain, None):
            return Read(rejected=Rejected("internal-error", "an error of Bailiff itself; operators have been alarmed"))
        return self._reading.read(self._pool, message)

    def _facts(self, message: Message, read: Read) -> list[Fact]:
        """The facts read, or the rejection as one, unless its source has had too many this minute."""
        if read.rejected is None:
            return read.facts
        fact = InputRejected(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            digest=hashlib.sha256(message.value).hexdigest(),
            code=read.rejected.code,
            reason=read.rejected.told,
            source=read.source,
            id=read.id,
            job=read.rejected.job,
        )
        source = read.source or message.topic
        recent = self._pool.rejections.get(source)
        if recent is None or recent.count < self._pool.rules.max_rejections_per_minute:
            return [fact]
        if self._clock.now() - recent.since >= MINUTE and source not in self._muted:
            return [fact]
        count = self._muted[source][0] if source in self._muted else 0
        self._muted[source] = (count + 1, fact)
        return []

    def _unmuted(self) -> list[Fact]:
        """One record for all that a source had rejected beyond its rate, when its minute is over."""
        due = []
        for source in list(self._muted):
            recent = self._pool.rejections.get(source)
            if recent is None or self._clock.now() - recent.since >= MINUTE:
                count, newest = self._muted.pop(source)
                due.append(newest.model_copy(update={"count": count}))
        return list(due)

    def _moved_inputs(self) -> tuple[tuple[str, int], ...]:
        """Positions that changed since the last record; all of them now and then."""
        positions = self._inputs.positions
        if self._pool.seq - self._last_full_inputs >= ALL_INPUTS_EVERY:
            self._last_full_inputs, self._recorded = self._pool.seq, {}
        moved = tuple(sorted((name, at) for name, at in positions.items() if self._recorded.get(name, 0) != at))
        self._recorded = dict(positions)
        return moved

    def _check_clock(self, append_time: int, sent_at_boot: int, jump: int = 0) -> None:
        apart = self._clock.differs_from(append_time, sent_at_boot, self._clock_tolerance, jump)
        if apart is not None:
            raise MustStop(
                ExitCode.CLOCK,
                f"the broker's clock is {apart / 1_000_000:+.1f} s from this machine's: nothing more is written, set the clocks",
            )

    # --- what follows from committed records

    async def _send_letters(self, letters: list[tuple[Message, Rejected]]) -> None:
        sent = [await self._outbox.dead_letter(message, rejected) for message, rejected in letters]
        for acknowledgement in sent:
            await acknowledgement
        for message, rejected in letters:
            self._metrics.inputs_rejected.labels(self._view.domain, message.topic, rejected.code).inc()
            if rejected.code == "internal-error":
                blame = self._suspects.guilty.get(place(message), "")
                await self._outbox.alarm("critical", "input-failed", f"{place(message)}: {blame}")

    async def _send_late_letters(self) -> None:
        """Dead letters of the newest rejections once more: the last writer may have died before it sent them."""
        for entry in list(self._rejected_lately):
            data = entry.record.data
            assert isinstance(data, InputRejected)
            reader = await self._view.bus.reader([(data.topic, data.partition, data.offset)])
            try:
                found = await reader.read(1, LETTER_WAIT)
            except OffsetGone:
                found = []
            finally:
                await reader.close()
            if found and found[0].offset == data.offset:
                await (await self._outbox.dead_letter(found[0], Rejected(data.code, data.reason, data.job)))

    async def _send_after(self, records: list[Record], reads: list[Read]) -> None:
        """Answers to single records. They are not owed: who misses one finds out and asks again."""
        for record in records:
            match record.data:
                case NodeJoined(node=node, incarnation=incarnation):
                    self._heard_as(node, incarnation)
                    if self._is_here(node):
                        await self._outbox.command(self._fence(node))
                case PolicyApplied():
                    await self._fence_nodes()  # the lease that it sets is what agents go by, too
                case ReportsStale(nodes=nodes):
                    text = f"{len(nodes)} nodes fell silent at once: {', '.join(nodes[:20])}; none is declared lost"
                    await self._outbox.alarm("critical", "reports-stale", text, record.seq)
                case DecisionFailed(job=job, error=error):
                    self._suspects.jobs.pop(job, None)
                    await self._outbox.alarm("critical", "decision-failed", f"{job} is held: {error}", record.seq)
                case InputsLost() as gone:
                    text = f"{gone.topic}/{gone.partition}: {gone.from_offset} to {gone.to_offset} were never read"
                    await self._outbox.alarm("critical", "inputs-lost", text, record.seq)
                    await self._ask_for_inventories()
                case DeviceQuarantined() as dirty:
                    text = f"{dirty.device} of {dirty.node} is quarantined ({dirty.reason}): {dirty.detail}"
                    await self._outbox.alarm("warning", "device-quarantined", text, record.seq)
                case DeviceUnhealthy() as sick:
                    text = f"{sick.device} of {sick.node} is out of use ({sick.reason}): {sick.detail}"
                    await self._outbox.alarm("critical", "device-unhealthy", text, record.seq)
                case DeviceClearRequested():
                    self._clears_told = 0
        for read in reads:
            if read.missed is not None:
                await self._ask_for_inventory(read.missed.node, read.missed.incarnation)

    async def _ask_for_inventories(self) -> None:
        for node in self._pool.nodes.values():
            await self._ask_for_inventory(node.name, node.incarnation)

    async def _ask_for_inventory(self, node: str, incarnation: str) -> None:
        """At most once in a while: a gap shows in every report until the announcement has come."""
        epoch, boot = self._pool.epoch, self._ambient.boot()
        if boot - self._asked.get(incarnation, -AGAIN_AFTER) < AGAIN_AFTER:
            return
        self._asked[incarnation] = boot
        await self._outbox.command(SendInventory(node=node, incarnation=incarnation, sender="admission", sender_epoch=epoch))

    async def _pay(self, *, behind: bool) -> None:
        """Send every command that the state owes and no agent has answered yet."""
        pool, starts = self._pool, []
        for job, node, tasks in self._starts.due(pool, behind):
            stored = self._specs.get(job.id, job.spec_digest)
            if stored is None:
                if job.id not in self._specs_missed:
                    self._specs_missed.add(job.id)
                    await self._outbox.alarm("critical", "spec-missing", f"{job.id} cannot start: its spec is gone")
                continue
            try:
                starts.append(self._outbox.packed(start_command(pool, job, node, tasks, stored.spec)))
            except ValueError as error:
                await self._outbox.alarm("critical", "start-too-large", f"{job.id} cannot start: {error}")
        await self._outbox.commands(starts)
        boot = self._ambient.boot()
        if boot - self._clears_told >= AGAIN_AFTER:
            self._clears_told = boot
            for command in owed_clears(pool):
                await self._outbox.command(command)
        if self._reading.orphans and boot - self._orphans_told >= AGAIN_AFTER:
            self._orphans_told = boot
            for name, job_id, attempt, task in self._reading.orphans:
                node = pool.nodes[pool.node_numbers[name]]
                await self._outbox.command(
                    Evict(
                        node=name,
                        incarnation=node.incarnation,
                        sender="admission",
                        sender_epoch=pool.epoch,
                        order=Order(epoch=pool.epoch, seq=pool.seq),
                        job=job_id,
                        attempt=attempt,
                        tasks=(task,),
                        grace=pool.rules.eviction.grace,
                        term_after=pool.rules.eviction.grace - pool.rules.eviction.grace // PART,
                        cause="not in the log",
                    )
                )

    async def _keep_house(self) -> None:
        boot = self._ambient.boot()
        if boot - self._checked >= CHECK_EVERY:
            self._checked = boot
            await self._writer.check()
        if boot - self._erased >= ERASE_EVERY:
            self._erased = boot
            await self._specs.erase_old(self._outbox.producer, self._pool)

    # --- a log that was cut short

    async def _wait_for_operator(self, loss: BeyondTheLog) -> NoReturn:
        """Append nothing until an operator says to go on; that is itself a record. Then begin anew, in a higher epoch."""
        await self._fold_anew()
        if not beyond_log(self._pool, loss.epoch, loss.seq):
            raise SteppedDown(f"another writer wrote what {loss.node} has obeyed")
        if self._pool.seq + 1 != self._writer.head.next_seq:
            raise SteppedDown("the log is not as this writer left it")
        self._log.error("the log was cut short; waiting for an operator", node=loss.node, epoch=loss.epoch, seq=loss.seq)
        await self._outbox.alarm("critical", "log-truncated", str(loss), self._pool.seq)
        while True:
            messages, _ = await self._inputs.read(self._largest_turn, LONGEST_WAIT)
            await self._keep_house()
            for message in messages:
                accepted = self._acceptance(message, loss)
                if accepted is not None:
                    fact, identity = accepted
                    draft = Draft(self._pool, self._clock.now())
                    cause = f"{message.topic}/{message.partition}/{message.offset}"
                    draft.add(fact, cause=cause, actor=identity.actor, auth=identity.auth)
                    await (await self._writer.append(draft.finish()))
                    raise SteppedDown("an operator accepted the loss; beginning anew")

    async def _fold_anew(self) -> None:
        """Throw the unfinished turn away: the pool and the positions as the log has them."""
        fresh = DomainView(self._view.bus, self._view.domain, self._view.partition, self._metrics)
        try:
            await fresh.catch_up()
        finally:
            await fresh.close()
        self._view.pool = fresh.pool
        await self._inputs.close()
        self._inputs = Inputs(self._view.bus, self._ambient, fresh.pool.inputs)

    def _acceptance(self, message: Message, loss: BeyondTheLog) -> tuple[Fact, Identity] | None:
        if message.topic != topics.REQUESTS.name or domain_of(message) != self._view.domain:
            return None
        try:
            envelope = unwrap(message, accept=(RequestBody,))
            identity = verify(envelope, self._pool.rules.identity.keys, unsigned=self._unsigned)
        except Unacceptable:
            return None
        body = envelope.body
        if not isinstance(body, AcceptTruncation) or (body.epoch, body.seq) < (loss.epoch, loss.seq):
            return None
        asked = Asked(envelope.source, envelope.id, envelope.digest, envelope.time, identity.actor, identity.auth, body)
        facts = facts_of_request(self._pool, asked)
        return (facts[0], identity) if isinstance(facts, list) and facts else None


def _culprit(error: Exception, draft: Draft | None) -> str | None:
    """The job that deciding failed about, unless it came with this turn, or a request of this turn is about it."""
    if not isinstance(error, DecisionError) or draft is None:
        return None
    return error.job if draft.knew(error.job) and not draft.asks_about(error.job) else None
