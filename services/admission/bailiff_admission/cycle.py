"""One decision cycle: facts, decide, append, react. Nothing is appended of a cycle that fails."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bailiff_bus.port import Batch, BusUnavailable, Message, OutgoingMessage
from bailiff_core.actions.failure import DecisionError
from bailiff_core.admission.rejected import Rejected
from bailiff_core.records import Record
from bailiff_core.records.facts import InputRejected, KeyRevoked, PolicyApplied, RootKeyChanged
from bailiff_core.records.payload import Fact
from bailiff_log.writer import Committed

from .cycle_builder import CycleBuilder
from .dead_letters import send_dead_letters
from .input_decoder import DecodedInput
from .poison_inputs import place
from .truncation import TruncationDetected
from .writer_context import WriterContext

SEND_YIELDS = 4  # event loop iterations until aiokafka has sent a batch: the broker stores it while we decide


@dataclass(slots=True)
class Cycle:
    """A cycle on these messages. verify_jump: the wall clock has jumped; the append time shows whether the broker's has, too."""

    context: WriterContext
    messages: Sequence[Message] = ()
    verify_jump: bool = False
    builder: CycleBuilder | None = None
    inputs: list[DecodedInput] = field(default_factory=list)
    rejections: list[tuple[Message, Rejected]] = field(default_factory=list)

    async def run(self, own_facts: Callable[[], list[Fact]]) -> bool:
        """Returns whether records were appended. own_facts: may step the clock, so they come first."""
        metrics, pool = self.context.replica.metrics, self.context.pool
        began, boot = asyncio.get_running_loop().time(), self.context.replica.clock_and_ids.boot()
        records, specs = await self._decide(own_facts)
        if records:
            for batch in specs:
                await batch.first
            self._committed(await self._append(records), boot)
            metrics.cycle_seconds.labels(pool).observe(asyncio.get_running_loop().time() - began)
            for name, count in Counter(record.type for record in records).items():
                metrics.records_appended.labels(pool, name.split(".")[2]).inc(count)
            for record in records:
                if isinstance(record.data, InputRejected) and record.data.offsets:
                    metrics.inputs_rejected.labels(pool, record.data.topic, record.data.code).inc(record.data.count)
            metrics.log_head.labels(pool).set(self.context.state.seq)
        await self._react(records)
        return bool(records)

    async def _decide(self, own_facts: Callable[[], list[Fact]]) -> tuple[list[Record], list[Batch]]:
        """Fold the facts and let the core decide. Returns the records, and the specs that must be stored before them."""
        context = self.context
        try:
            facts = own_facts()
            self.builder = CycleBuilder(context.state, context.clock.now())
            for fact in facts:
                self.builder.add(fact, inputs=self._changed_positions())
            self._reject_shed(self.builder)
            specs = [spec for message in self.messages for spec in self._take(self.builder, message)]
            stored = await context.specs.store(context.producer, specs)
            for _ in range(SEND_YIELDS if specs else 0):
                await asyncio.sleep(0)
            return self.builder.finish() if self.builder.records else [], stored
        except (TruncationDetected, BusUnavailable, asyncio.CancelledError):
            raise
        except Exception as error:
            failed_job = _failed_job(error, self.builder)
            raise context.memory.poison_inputs.failed(list(self.messages), error, failed_job) from error

    def _take(self, builder: CycleBuilder, message: Message) -> list[OutgoingMessage]:
        """Fold the facts of the message. Returns the spec of a job that it submits."""
        context = self.context
        context.inputs.done(message.topic, message.partition, (message.offset,))
        decoded = self._read(message)
        self.inputs.append(decoded)
        if decoded.without_effect:
            context.replica.metrics.inputs_without_effect.labels(context.pool, message.topic, decoded.without_effect).inc()
        specs = []
        if decoded.submitted is not None:
            specs.append(context.specs.take(decoded.submitted.demand.job, decoded.spec, decoded.salt))
        if decoded.rejected is not None:
            self.rejections.append((message, decoded.rejected))
        for fact in self._facts_of(message, decoded):
            builder.add(
                fact,
                cause=f"{message.topic}/{message.partition}/{message.offset}",
                inputs=self._changed_positions(),
                actor=decoded.actor,
                auth=decoded.auth,
                request=decoded.request,
            )
        return specs

    def _reject_shed(self, builder: CycleBuilder) -> None:
        context, replica = self.context, self.context.replica
        for fact, offsets in context.inputs.shed.due(replica.clock_and_ids.boot()):
            context.inputs.done(fact.topic, fact.partition, offsets)
            context.memory.poison_inputs.suspected.difference_update((fact.topic, fact.partition, each) for each in offsets)
            builder.add(fact, cause=f"{fact.topic}/{fact.partition}/{fact.offset}", inputs=self._changed_positions())

    def _read(self, message: Message) -> DecodedInput:
        if place(message) in self.context.memory.poison_inputs.errors:
            return DecodedInput(
                rejected=Rejected("internal-error", "internal error of Bailiff; an alarm was raised for its operators")
            )
        return self.context.decoder.read(self.context.state, message)

    def _facts_of(self, message: Message, decoded: DecodedInput) -> Sequence[Fact]:
        if decoded.rejected is None:
            return decoded.facts
        context = self.context
        return context.rejections.take(context.state, context.clock, message, decoded.rejected, decoded)

    def _changed_positions(self) -> tuple[tuple[str, int], ...]:
        return self.context.inputs.positions.take_changes(self.context.state.seq)

    async def _append(self, records: list[Record]) -> Committed:
        try:
            appended = await self.context.log.append(records)
        except ValueError as too_large:
            raise self.context.memory.poison_inputs.failed(list(self.messages), too_large) from too_large
        return await appended

    def _committed(self, committed: Committed, sent_at_boot: int) -> None:
        context = self.context
        context.projection.written_to = committed.offset + 1
        snapshot = context.digests.appended()
        if snapshot is not None:
            context.projection.save_snapshot(snapshot, committed.entries[0])
        context.check_broker_clock(committed.append_time, sent_at_boot, context.clock.jump() if self.verify_jump else 0)
        context.liveness.broker_time(committed.append_time)

    async def _react(self, records: list[Record]) -> None:
        """React to these committed records, and send dead letters."""
        context = self.context
        poison_inputs, reactions = context.memory.poison_inputs, context.reactions
        await send_dead_letters(context.publisher, context.replica.metrics, context.pool, poison_inputs, self.rejections)
        if any(isinstance(record.data, PolicyApplied | KeyRevoked | RootKeyChanged) for record in records):
            context.inputs.queue_again()
        await reactions.react(context.state, records)
        for decoded in self.inputs:
            if decoded.missed is not None:
                await reactions.request_inventory(context.state, decoded.missed.node, decoded.missed.incarnation)
            if decoded.troubles is not None:
                await reactions.report_troubles(context.state, decoded.troubles)


def _failed_job(error: Exception, builder: CycleBuilder | None) -> str | None:
    """The job that the failure concerns, unless it is new in this cycle or a request of this cycle names it."""
    if not isinstance(error, DecisionError) or builder is None:
        return None
    return error.job if builder.existed_before(error.job) and not builder.has_request_for(error.job) else None
