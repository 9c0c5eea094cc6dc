"""One writer incarnation on one pool: begin, fence the nodes, then decision cycles.

See docs/reference/log-protocol-fences.md#writer-start. The projection's state is ahead of the log while a cycle is appended.
On any error this incarnation ends and the next one folds the log again: nothing is repaired in memory.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NoReturn

from bailiff_bus.port import Batch, BusUnavailable, Message, OutgoingMessage
from bailiff_bus.topics import JOB_SPECS
from bailiff_core.actions.failure import DecisionError
from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead, Record
from bailiff_core.records.facts import (
    ClockAdvanced,
    ClockStepped,
    DecisionFailed,
    InputsAdvanced,
    InputsLost,
    TruncationReconciled,
)
from bailiff_core.records.payload import Fact
from bailiff_log.credentials import Credentials
from bailiff_log.projection import Projection
from bailiff_log.reader import Entry
from bailiff_log.writer import AuditWriter, SteppedDown
from bailiff_service import pool_metrics
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import prepare_state
from bailiff_service.signing import require_certificate

from .clock import LogClock
from .cycle_builder import CycleBuilder
from .dead_letters import resend_dead_letters, send_dead_letters
from .fencing import Fencing
from .input_consumer import InputConsumer, InputPartitions, LostOffsets, PositionChanges
from .input_decoder import DecodedInput, InputDecoder, LatestPool
from .job_specs import JobSpecs, SpecsKeys
from .liveness import Liveness
from .poison_inputs import PoisonInputs, place
from .publisher import Publisher
from .reactions import Reactions
from .reconciler import Reconciler
from .rejection_limiter import RejectionLimiter
from .request_handlers import Rejected
from .startup_records import first_records
from .state_digests import StateDigests
from .truncation import TruncationDetected, accepted, beyond_log_end, detect_truncation

MAX_WAIT = 0.2
QUIET_WAIT = 1.0  # nothing is in progress: only the silence of the nodes is judged
IDLE_WAIT = 30.0  # a pool without nodes: inputs, timers of its state and `log_ends_at` wake it
SEND_YIELDS = 4  # event loop iterations until aiokafka has sent a batch: the broker stores it while we decide
CHECK_EVERY = 1_000_000
ERASE_EVERY = 3_600_000_000
INPUTS_ADVANCED_EVERY = 3_600_000_000


class Writer:
    """Writes one pool's log until it is cancelled or raises."""

    def __init__(
        self,
        projection: Projection,
        clock_and_ids: ClockAndIds,
        metrics: Metrics,
        *,
        first_policy: Policy,
        poison_inputs: PoisonInputs,
        partitions: InputPartitions,
        latest_pool: LatestPool,
        declared: frozenset[str],
        strays: bool,
        digest_every: int = 10_000,
        max_cycle_inputs: int = 200,
        unsigned: Literal["none", "acl"] = "none",
        clock_tolerance: int = 5_000_000,
        recent_rejections: Sequence[Entry] = (),
        credentials: Credentials | None = None,
        specs_keys: SpecsKeys | None = None,
    ) -> None:
        self._projection, self._clock_and_ids, self._metrics = projection, clock_and_ids, metrics
        self._first_policy, self._poison_inputs = first_policy, poison_inputs
        self._largest_turn = max_cycle_inputs
        self._rejected_lately, self._unsigned, self._clock_tolerance = recent_rejections, unsigned, clock_tolerance
        self._id = clock_and_ids.random_bytes().hex()
        self._log = logger(pool=projection.pool, writer=self._id[:8])
        self._credentials = credentials
        self._writer = AuditWriter(projection.bus, projection.reader, credentials=credentials)
        self._clock = LogClock(clock_and_ids, 0)
        self._specs = JobSpecs(projection.pool, specs_keys)
        self._liveness = Liveness(clock_and_ids)
        self._decoder = InputDecoder(projection.pool, strays, declared, clock_and_ids, self._liveness, unsigned, latest_pool)
        self._digests, self._rejections = StateDigests(digest_every, clock_and_ids), RejectionLimiter()
        self._partitions = partitions
        self._inputs, self._position_changes = self._input_consumer({}), PositionChanges({}, 0)
        self._check_due = False
        self._checked = self._erased = self._advanced = 0

    @property
    def _state(self) -> PoolState:
        return self._projection.state

    async def run(self) -> NoReturn:
        """Start, then run decision cycles."""
        producer = await self._projection.bus.producer()
        pool, fencing = self._projection.pool, Fencing()
        self._publisher = Publisher(producer, self._clock_and_ids, self._metrics, pool, self._credentials)
        self._reconciler = Reconciler(self._publisher, self._specs, self._clock_and_ids)
        self._reactions = Reactions(
            self._publisher, fencing, self._reconciler, self._poison_inputs, self._clock_and_ids, self._specs,
            self._projection.bus,
        )  # fmt: skip
        try:
            started = await self._begin()
            prepare_state(self._state)
            await self._specs.load(self._projection.bus, self._state)
            self._inputs = self._input_consumer(self._state.inputs)
            self._position_changes = PositionChanges(self._state.inputs, started)
            await detect_truncation(self._state, self._projection.bus, self._inputs.positions, fencing.observe)
            if self._state.truncation_unreconciled:
                await self._decoder.reconciliation.begin(self._state, self._projection.bus, self._liveness.broker_now())
            await self._reactions.fence_all(self._state)  # agents refuse old commands before the first decision of this epoch
            if self._state.truncation_unreconciled:
                await self._reactions.request_inventories(self._state)
            await self._store_replaced_specs()
            await resend_dead_letters(self._publisher, self._projection.bus, self._rejected_lately)
            with self._metrics.pools.export(self._projection.pool, lambda: pool_metrics.pool_samples(self._state)):
                await self._run_cycle([], [], first=True)
                while True:
                    await self._step()
        except TruncationDetected as loss:
            await self._wait_for_operator(loss)
        finally:
            await self._inputs.close()
            await self._writer.close(1.0)
            await producer.close(1.0)

    # --- start

    async def _begin(self) -> int:
        """Append `WriterStarted`; returns its seq."""
        boot = self._clock_and_ids.boot()
        started = await self._writer.begin(self._first_records, self._projection.take)
        self._digests.begin(self._projection.digest_seq, boot)
        self._check_clock(started.append_time, boot)
        self._liveness.broker_time(started.append_time)
        self._log.info("writing", epoch=self._state.epoch, seq=started.record.seq)
        return started.record.seq

    async def _store_replaced_specs(self) -> None:
        """Store again what somebody wrote over, before Kafka deletes the older value."""
        for stored in self._specs.replaced:
            job = stored.key.decode().split("/")[1]
            text = f"the spec of {job} was written over or erased in {JOB_SPECS.name} by somebody else: it is stored again"
            await self._publisher.alarm("critical", "spec-replaced", text)
        await self._specs.store(self._publisher.producer, [self._specs.message(stored) for stored in self._specs.replaced])
        self._specs.replaced.clear()

    def _first_records(self, head: ChainHead) -> Sequence[Record]:
        self._clock = LogClock(self._clock_and_ids, self._state.now)
        # this clock is not compared with the broker's yet: in an existing log, time does not advance here
        time = self._state.now if head.next_seq else self._clock.now()
        return first_records(
            self._state,
            self._projection.pool,
            self._projection.partition,
            head,
            writer=self._id,
            time=time,
            first_policy=self._first_policy,
            clock_and_ids=self._clock_and_ids,
            credentials=self._credentials,
        )

    def _input_consumer(self, positions: dict[str, int]) -> InputConsumer:
        return InputConsumer(self._projection.bus, self._partitions, positions, self._decoder.wants)

    # --- decision cycles

    def log_ends_at(self, end: int) -> None:
        """The end of the log, as it was queried for all pools. Another one than ours: verify that the log is still ours."""
        if end != self._projection.offset:
            self._check_due = True
            self._inputs.wake()

    async def _step(self) -> None:
        limit = 1 if self._poison_inputs.suspected else self._largest_turn
        messages, lost = await self._inputs.read(limit, self._wait())
        require_certificate(self._state, self._credentials, "admission", self._clock_and_ids.wall())
        jumped = self._clock.jump() != 0
        if jumped:
            await self._run_cycle([], [], verify_jump=True)
        self._liveness.inputs_read(at_end=len(messages) < limit)
        await self._run_cycle(messages, lost, jumped=jumped)
        self._inputs.pass_over_others()
        self._poison_inputs.suspected.difference_update(place(message) for message in messages)
        await self._reconciler.reconcile(self._state, self._decoder.orphans, behind=len(messages) >= limit)
        await self._run_periodic_tasks()

    def _wait(self) -> float:
        """Seconds until the next timer of the state, at most `MAX_WAIT`, or longer where nothing is in progress."""
        state, longest = self._state, IDLE_WAIT
        if state.queue or state.starting or state.evicting or state.truncation_unreconciled or self._decoder.orphans:
            longest = MAX_WAIT
        elif state.nodes:
            longest = QUIET_WAIT
        wake = wake_at(state)
        return longest if wake is None else max(0.0, min(longest, (wake - self._clock.now()) / 1_000_000))

    async def _run_cycle(
        self,
        messages: list[Message],
        lost: list[LostOffsets],
        *,
        first: bool = False,
        jumped: bool = False,
        verify_jump: bool = False,
    ) -> None:
        """Run one cycle: fold the facts of these messages and timers, decide, append, and react once it is committed.

        verify_jump: the wall clock has jumped; the append time of this cycle shows whether the broker's has as well.
        jumped: both have.
        """
        started_at = asyncio.get_running_loop().time()
        boot = self._clock_and_ids.boot()
        rejections: list[tuple[Message, Rejected]] = []
        inputs: list[DecodedInput] = []
        specs: list[OutgoingMessage] = []
        stored: list[Batch] = []
        builder: CycleBuilder | None = None
        try:
            # the writer's own facts may step the clock, so they come first
            own = [ClockAdvanced()] if verify_jump else self._own_facts(lost, first, jumped)
            builder = CycleBuilder(self._state, self._clock.now())
            for fact in own:
                builder.add(fact, inputs=self._changed_positions())
            for message in messages:
                self._inputs.positions[f"{message.topic}/{message.partition}"] = message.offset + 1
                decoded = self._read(message)
                inputs.append(decoded)
                if decoded.without_effect:
                    self._metrics.inputs_without_effect.labels(self._projection.pool, message.topic, decoded.without_effect).inc()
                if decoded.submitted is not None:
                    specs.append(self._specs.take(decoded.submitted.demand.job, decoded.spec, decoded.salt))
                if decoded.rejected is not None:
                    rejections.append((message, decoded.rejected))
                for fact in self._facts(message, decoded):
                    cause = f"{message.topic}/{message.partition}/{message.offset}"
                    builder.add(
                        fact,
                        cause=cause,
                        inputs=self._changed_positions(),
                        actor=decoded.actor,
                        auth=decoded.auth,
                        request=decoded.request,
                    )
            stored = await self._specs.store(self._publisher.producer, specs)
            for _ in range(SEND_YIELDS if specs else 0):
                await asyncio.sleep(0)
            if not builder.records:
                await self._follow_up(rejections, [], inputs)
                return
            records = builder.finish()
        except (TruncationDetected, BusUnavailable, asyncio.CancelledError):
            raise
        except Exception as error:
            raise self._poison_inputs.failed(messages, error, _failed_job(error, builder)) from error
        for batch in stored:
            await batch.first
        try:
            appended = await self._writer.append(records)
        except ValueError as too_large:
            raise self._poison_inputs.failed(messages, too_large) from too_large
        committed = await appended
        self._checked = self._clock_and_ids.boot()  # this commit verifies ownership of the log
        self._projection.written_to = committed.offset + 1
        snapshot = self._digests.appended()
        if snapshot is not None:
            self._projection.save_snapshot(*snapshot, committed.entries[0])
        self._check_clock(committed.append_time, boot, self._clock.jump() if verify_jump else 0)
        self._liveness.broker_time(committed.append_time)
        self._metrics.cycle_seconds.labels(self._projection.pool).observe(asyncio.get_running_loop().time() - started_at)
        for name, count in Counter(record.type for record in records).items():
            self._metrics.records_appended.labels(self._projection.pool, name.split(".")[2]).inc(count)
        self._metrics.log_head.labels(self._projection.pool).set(self._state.seq)
        await self._follow_up(rejections, records, inputs)

    def _own_facts(self, lost: list[LostOffsets], first: bool, jumped: bool) -> list[Fact]:
        """Facts of the writer itself, before those of messages: digest, clock, lost inputs, liveness."""
        state = self._state
        facts: list[Fact] = []
        digest = self._digests.due(state)
        if digest is not None:
            facts.append(digest)
        if jumped:
            facts.append(ClockStepped(jump=max(0, self._clock.step())))
        facts += [
            InputsLost(topic=gone.topic, partition=gone.partition, from_offset=gone.from_offset, to_offset=gone.to_offset)
            for gone in lost
        ]
        facts += [
            DecisionFailed(job=job, error=error)
            for job, error in self._poison_inputs.jobs.items()
            if job in state.jobs and state.jobs[job].suspended_reason is None
        ]
        facts += self._rejections.due(state, self._clock)
        if state.truncation_unreconciled and not self._decoder.orphans and self._is_reconciled():
            facts.append(TruncationReconciled())
        if not first:
            facts += self._liveness.check(state)
        wake = wake_at(state)
        if not facts and (first or (wake is not None and wake <= self._clock.now())):
            facts.append(ClockAdvanced())
        boot = self._clock_and_ids.boot()
        if not facts and self._position_changes.has(self._inputs.positions) and boot - self._advanced > INPUTS_ADVANCED_EVERY:
            facts.append(InputsAdvanced())
        if facts:
            self._advanced = boot
        return facts

    def _is_reconciled(self) -> bool:
        return self._decoder.reconciliation.is_over(self._state, self._inputs.positions, self._liveness.broker_now())

    def _read(self, message: Message) -> DecodedInput:
        if place(message) in self._poison_inputs.errors:
            return DecodedInput(
                rejected=Rejected("internal-error", "internal error of Bailiff; an alarm was raised for its operators")
            )
        return self._decoder.read(self._state, message)

    def _facts(self, message: Message, decoded: DecodedInput) -> Sequence[Fact]:
        if decoded.rejected is None:
            return decoded.facts
        return self._rejections.take(self._state, self._clock, message, decoded.rejected, decoded.source, decoded.id)

    def _changed_positions(self) -> tuple[tuple[str, int], ...]:
        return self._position_changes.take(self._inputs.positions, self._state.seq)

    def _check_clock(self, append_time: int, sent_at_boot: int, jump: int = 0) -> None:
        apart = self._clock.differs_from(append_time, sent_at_boot, self._clock_tolerance, jump)
        if apart is not None:
            raise MustStop(
                ExitCode.CLOCK,
                f"the broker's clock is {apart / 1_000_000:+.1f} s from this machine's: synchronise the clocks, then restart",
            )

    async def _follow_up(
        self, rejections: list[tuple[Message, Rejected]], records: list[Record], inputs: list[DecodedInput]
    ) -> None:
        """React to these committed records, and send dead letters."""
        await send_dead_letters(self._publisher, self._metrics, self._projection.pool, self._poison_inputs, rejections)
        await self._reactions.react(self._state, records)
        for decoded in inputs:
            if decoded.missed is not None:
                await self._reactions.request_inventory(self._state, decoded.missed.node, decoded.missed.incarnation)
            if decoded.refusals is not None:
                await self._reactions.report_refusals(decoded.refusals)

    async def _run_periodic_tasks(self) -> None:
        boot = self._clock_and_ids.boot()
        if self._check_due and boot - self._checked >= CHECK_EVERY:
            self._checked, self._check_due = boot, False
            await self._writer.check()
        if boot - self._erased >= ERASE_EVERY:
            self._erased = boot
            await self._specs.erase_old(self._publisher.producer, self._state)

    # --- truncated log

    async def _wait_for_operator(self, loss: TruncationDetected) -> NoReturn:
        """Append nothing until an operator accepts the truncation, by a record. Then start again in a higher epoch."""
        await self._fold_anew()
        if not beyond_log_end(self._state, loss.epoch, loss.seq):
            raise SteppedDown(f"another writer has written the record that {loss.node} refers to")
        if self._state.seq + 1 != self._writer.head.next_seq:
            raise SteppedDown("the log has changed since this writer's last record")
        self._log.error("the log was truncated; waiting for an operator", node=loss.node, epoch=loss.epoch, seq=loss.seq)
        await self._publisher.alarm("critical", "log-truncated", str(loss), self._state.seq)
        while True:
            messages, _ = await self._inputs.read(self._largest_turn, MAX_WAIT)
            await self._run_periodic_tasks()
            for message in messages:
                acceptance = accepted(self._state, message, loss, self._unsigned)
                if acceptance is not None:
                    fact, identity = acceptance
                    builder = CycleBuilder(self._state, self._clock.now())
                    cause = f"{message.topic}/{message.partition}/{message.offset}"
                    builder.add(fact, cause=cause, actor=identity.actor, auth=identity.auth, request=identity.request)
                    await (await self._writer.append(builder.finish()))
                    raise SteppedDown("an operator accepted the truncation; starting again")

    async def _fold_anew(self) -> None:
        """Discard the unfinished cycle: state and positions as of the log."""
        fresh = Projection(self._projection.bus, self._projection.pool, self._projection.partition, self._metrics)
        try:
            await fresh.catch_up()
        finally:
            await fresh.close()
        self._projection.state = fresh.state
        await self._inputs.close()
        self._inputs = self._input_consumer(fresh.state.inputs)


def _failed_job(error: Exception, builder: CycleBuilder | None) -> str | None:
    """The job that the failure concerns, unless it is new in this cycle or a request of this cycle names it."""
    if not isinstance(error, DecisionError) or builder is None:
        return None
    return error.job if builder.existed_before(error.job) and not builder.has_request_for(error.job) else None
