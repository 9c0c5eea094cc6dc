"""One writer incarnation on one domain: begin, fence the nodes, then turn after turn (log protocol §3, §4, §6).

The pool of the view runs ahead of the log while a turn is being appended. Whatever goes wrong then, this incarnation
ends and the next one folds the log anew: nothing is repaired in place.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NoReturn

from bailiff_bus import gauges
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import domain_of
from bailiff_bus.log import AuditWriter, Entry, SteppedDown
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Batch, BusUnavailable, Message, Parcel
from bailiff_bus.runtime import ExitCode, MustStop
from bailiff_bus.view import DomainView
from bailiff_core.model.policy import Policy
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import (
    ClockAdvanced,
    ClockStepped,
    DecisionFailed,
    InputsAdvanced,
    InputsLost,
    LogSettled,
)
from bailiff_core.records.payload import Fact
from bailiff_core.turn import wake_at
from bailiff_core.verbs.failure import DecisionError

from .answers import Answers
from .beginning import first_records
from .clock import LogClock
from .debts import Debts
from .digests import Digests
from .draft import Draft
from .fencing import Fencing
from .inputs import Inputs, Lost, Moved
from .intake import Rejected
from .letters import send_late_letters, send_letters
from .liveness import Liveness
from .loss import BeyondTheLog, accepted, beyond_log, look_for_loss
from .outbox import Outbox
from .reading import Read, Reading
from .rejections import Rejections
from .specs import JobSpecs
from .suspects import Suspects, place

LONGEST_WAIT = 0.2
UNDER_WAY = 4  # rounds of the loop until aiokafka has written what it was given: the broker stores it while we decide
CHECK_EVERY = 1_000_000
ERASE_EVERY = 3_600_000_000
INPUTS_ADVANCED_EVERY = 3_600_000_000


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
        self._largest_turn = largest_turn
        self._rejected_lately, self._unsigned, self._clock_tolerance = rejected_lately, unsigned, clock_tolerance
        self._id = ambient.fresh().hex()
        self._log = logger(domain=view.domain, writer=self._id[:8])
        self._writer = AuditWriter(view.bus, view.reader)
        self._clock = LogClock(ambient, 0)
        self._specs = JobSpecs(view.domain)
        self._liveness = Liveness(ambient)
        self._reading = Reading(view.domain, strays, declared, ambient, self._liveness, unsigned)
        self._digests, self._rejections = Digests(digest_every, ambient), Rejections()
        self._inputs, self._moved = Inputs(view.bus, ambient, {}), Moved({}, 0)
        self._checked = self._erased = self._advanced = 0

    @property
    def _pool(self) -> Pool:
        return self._view.pool

    async def run(self) -> NoReturn:
        """Begin, then work for ever."""
        producer = await self._view.bus.producer()
        self._outbox, fencing = Outbox(producer, self._ambient, self._metrics, self._view.domain), Fencing()
        self._debts = Debts(self._outbox, self._specs, self._ambient)
        self._answers = Answers(self._outbox, fencing, self._debts, self._suspects, self._ambient)
        try:
            started = await self._begin()
            self._view.ready_to_decide()
            await self._specs.load(self._view.bus)
            self._inputs = Inputs(self._view.bus, self._ambient, self._pool.inputs)
            self._moved = Moved(self._pool.inputs, started)
            await look_for_loss(self._pool, self._view.bus, self._inputs.positions, fencing.heard)
            if self._pool.unsettled:
                await self._reading.settling.begin(self._pool, self._view.bus, self._liveness.broker_now())
            await self._answers.fence_all(self._pool)  # old commands are dead before the first decision of this epoch
            if self._pool.unsettled:
                await self._answers.ask_for_inventories(self._pool)
            await send_late_letters(self._outbox, self._view.bus, self._rejected_lately)
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

    async def _begin(self) -> int:
        """The position of `WriterStarted`."""
        boot = self._ambient.boot()
        started = await self._writer.begin(self._first_records, self._view.take)
        self._digests.begin(self._view.digest_seq, boot)
        self._check_clock(started.append_time, boot)
        self._liveness.broker_time(started.append_time)
        self._log.info("writing", epoch=self._pool.epoch, seq=started.record.seq)
        return started.record.seq

    def _first_records(self, head: ChainHead) -> Sequence[Record]:
        self._clock = LogClock(self._ambient, self._pool.now)
        # Nobody has compared this clock with the broker's yet, so where there is a log its time does not move on here.
        time = self._pool.now if head.next_seq > 1 else self._clock.now()
        return first_records(
            self._pool,
            self._view.domain,
            self._view.partition,
            head,
            writer=self._id,
            time=time,
            first_policy=self._first_policy,
            ambient=self._ambient,
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
        await self._debts.pay(self._pool, self._reading.orphans, behind=len(messages) >= limit)
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
                    draft.add(
                        fact,
                        cause=cause,
                        inputs=self._moved_inputs(),
                        actor=read.actor,
                        auth=read.auth,
                    )
            stored = await self._specs.store(self._outbox.producer, specs)
            for _ in range(UNDER_WAY if specs else 0):
                await asyncio.sleep(0)
            if not draft.records:
                await self._follow_up(letters, [], reads)
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
        digested = self._digests.appended()
        if digested is not None:
            self._view.keep(*digested, committed.entries[0])
        self._check_clock(committed.append_time, boot, self._clock.jump() if doubt else 0)
        self._liveness.broker_time(committed.append_time)
        self._metrics.turn_seconds.labels(self._view.domain).observe(asyncio.get_running_loop().time() - began)
        for name, count in Counter(record.type for record in records).items():
            self._metrics.records_appended.labels(self._view.domain, name.split(".")[2]).inc(count)
        self._metrics.log_head.labels(self._view.domain).set(self._pool.seq)
        await self._follow_up(letters, records, reads)

    def _own_facts(self, lost: list[Lost], first: bool, jumped: bool) -> list[Fact]:
        """What this writer itself has to say before it looks at messages."""
        pool = self._pool
        facts: list[Fact] = []
        digest = self._digests.due(pool)
        if digest is not None:
            facts.append(digest)
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
        facts += self._rejections.due(pool, self._clock)
        if pool.unsettled and not self._reading.orphans and self._settled():
            facts.append(LogSettled())
        if not first:
            facts += self._liveness.judge(pool)
        wake = wake_at(pool)
        if not facts and (first or (wake is not None and wake <= self._clock.now())):
            facts.append(ClockAdvanced())
        boot = self._ambient.boot()
        if not facts and self._moved.has(self._inputs.positions) and boot - self._advanced > INPUTS_ADVANCED_EVERY:
            facts.append(InputsAdvanced())
        if facts:
            self._advanced = boot
        return facts

    def _settled(self) -> bool:
        return self._reading.settling.is_over(self._pool, self._inputs.positions, self._liveness.broker_now())

    def _read(self, message: Message) -> Read | None:
        blame = self._suspects.guilty.get(place(message))
        if blame is not None and domain_of(message) in (self._view.domain, None):
            return Read(rejected=Rejected("internal-error", "an error of Bailiff itself; operators have been alarmed"))
        return self._reading.read(self._pool, message)

    def _facts(self, message: Message, read: Read) -> Sequence[Fact]:
        if read.rejected is None:
            return read.facts
        return self._rejections.take(self._pool, self._clock, message, read.rejected, read.source, read.id)

    def _moved_inputs(self) -> tuple[tuple[str, int], ...]:
        return self._moved.take(self._inputs.positions, self._pool.seq)

    def _check_clock(self, append_time: int, sent_at_boot: int, jump: int = 0) -> None:
        apart = self._clock.differs_from(append_time, sent_at_boot, self._clock_tolerance, jump)
        if apart is not None:
            raise MustStop(
                ExitCode.CLOCK,
                f"the broker's clock is {apart / 1_000_000:+.1f} s from this machine's: nothing more is written, set the clocks",
            )

    async def _follow_up(self, letters: list[tuple[Message, Rejected]], records: list[Record], reads: list[Read]) -> None:
        """What follows from these, which are committed."""
        await send_letters(self._outbox, self._metrics, self._view.domain, self._suspects, letters)
        await self._answers.answer(self._pool, records)
        for read in reads:
            if read.missed is not None:
                await self._answers.ask_for_inventory(self._pool, read.missed.node, read.missed.incarnation)

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
                word = accepted(self._pool, message, loss, self._unsigned)
                if word is not None:
                    fact, identity = word
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


def _culprit(error: Exception, draft: Draft | None) -> str | None:
    """The job that deciding failed about, unless it came with this turn, or a request of this turn is about it."""
    if not isinstance(error, DecisionError) or draft is None:
        return None
    return error.job if draft.knew(error.job) and not draft.asks_about(error.job) else None
