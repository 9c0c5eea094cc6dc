"""One writer incarnation on one pool, in phases: start → fence → cycles, or, where the log was cut short, → wait for an operator.

See docs/reference/log-protocol-fences.md#writer-start. The projection's state is ahead of the log while a cycle is appended.
On any error this incarnation ends and the next one folds the log again: nothing is repaired in memory.
"""

from collections.abc import Callable, Iterator
from typing import NoReturn

from bailiff_core.decision_cycle import wake_at
from bailiff_core.records.facts import ClockAdvanced
from bailiff_core.records.payload import Fact
from bailiff_log.projection import Projection
from bailiff_log.writer import SteppedDown
from bailiff_service import pool_metrics
from bailiff_service.logs import logger
from bailiff_service.metrics import REQUEST_RATE, Sample
from bailiff_service.signing import require_certificate

from .cycle import Cycle
from .cycle_builder import CycleBuilder
from .own_facts import OwnFacts
from .poison_inputs import place
from .rates import NearestRate
from .truncation import TruncationDetected, accepted, beyond_log_end
from .writer_context import WriterContext
from .writer_start import fence, start

MAX_WAIT = 0.2
QUIET_WAIT = 1.0  # nothing is in progress: only the silence of the nodes is judged
IDLE_WAIT = 30.0  # a pool without nodes: inputs, timers of its state and `log_ends_at` wake it
CHECK_EVERY = 1_000_000
ERASE_EVERY = 3_600_000_000


class Writer:
    """Writes one pool's log until it is cancelled or raises."""

    def __init__(self, context: WriterContext) -> None:
        self._context, self._own_facts = context, OwnFacts(context)
        self._check_due = False
        self._checked = self._erased = 0

    async def run(self) -> NoReturn:
        """Start, then run decision cycles."""
        context = self._context
        try:
            await start(context)
            await fence(context)  # before the first decision of this epoch
            with context.replica.metrics.pools.export(context.pool, self._samples):
                await self._run(Cycle(context), lambda: self._own_facts.due(first=True))
                while True:
                    await self._step()
        except TruncationDetected as loss:
            await self._wait_for_operator(loss)
        finally:
            await context.close()

    def _samples(self) -> Iterator[Sample]:
        yield from pool_metrics.pool_samples(self._context.state)
        yield from self._context.liveness.samples(self._context.state)
        for rate in self._nearest_rates():
            yield REQUEST_RATE, (rate.of,), rate.percent

    def _nearest_rates(self) -> Iterator[NearestRate]:
        yield from self._context.inputs.nearest_rates()
        yield self._context.decoder.nearest_rate(self._context.replica.partitions.now())

    def log_ends_at(self, end: int) -> None:
        """The end of the log, as it was queried for all pools. Another one than ours: verify that the log is still ours."""
        if end != self._context.projection.offset:
            self._check_due = True
            self._context.inputs.wake()

    # --- decision cycles

    async def _step(self) -> None:
        context, replica, suspected = self._context, self._context.replica, self._context.memory.poison_inputs.suspected
        limit = 1 if suspected else replica.settings.max_cycle_inputs
        inputs = await context.inputs.read(limit, self._wait())
        context.memory.poison_inputs.forget(inputs.topic_ids)
        require_certificate(context.state, replica.credentials, "admission", replica.clock_and_ids.wall())
        jumped = context.clock.jump() != 0
        if jumped:
            await self._run(Cycle(context, verify_jump=True), lambda: [ClockAdvanced()])
        context.liveness.inputs_read(inputs.at_end)
        await self._run(Cycle(context, inputs.messages), lambda: self._own_facts.due(inputs, jumped=jumped))
        suspected.difference_update(place(message) for message in inputs.messages)
        await context.reconciler.reconcile(context.state, context.decoder.orphans, behind=not inputs.at_end)
        await context.reactions.report_silence(context.liveness.newly_silent(context.state), context.liveness.broker_now())
        await context.reactions.report_near_rates(self._nearest_rates)
        await self._run_periodic_tasks()

    def _wait(self) -> float:
        """Seconds until the next timer of the state, at most `MAX_WAIT`, or longer where nothing is in progress."""
        context, state, longest = self._context, self._context.state, IDLE_WAIT
        if state.queue or state.starting or state.evicting or state.truncation_unreconciled or context.decoder.orphans:
            longest = MAX_WAIT
        elif state.nodes:
            longest = QUIET_WAIT
        wake = wake_at(state)
        return longest if wake is None else max(0.0, min(longest, (wake - context.clock.now()) / 1_000_000))

    async def _run(self, cycle: Cycle, own_facts: Callable[[], list[Fact]]) -> None:
        if await cycle.run(own_facts):
            self._checked = self._context.replica.clock_and_ids.boot()  # a commit shows that the log is ours

    async def _run_periodic_tasks(self) -> None:
        context, boot = self._context, self._context.replica.clock_and_ids.boot()
        if self._check_due and boot - self._checked >= CHECK_EVERY:
            self._checked, self._check_due = boot, False
            await context.log.check()
        if boot - self._erased >= ERASE_EVERY:
            self._erased = boot
            await context.specs.erase_old(context.producer, context.state)

    # --- truncated log

    async def _wait_for_operator(self, loss: TruncationDetected) -> NoReturn:
        """Append nothing until an operator accepts the truncation, by a record. Then start again in a higher epoch."""
        context = self._context
        await self._fold_anew()
        state = context.state
        if not beyond_log_end(state, loss.epoch, loss.seq):
            raise SteppedDown(f"another writer has written the record that {loss.node} refers to")
        if state.seq + 1 != context.log.head.next_seq:
            raise SteppedDown("the log has changed since this writer's last record")
        log = logger(pool=context.pool, writer=context.id[:8])
        log.error("the log was truncated; waiting for an operator", node=loss.node, epoch=loss.epoch, seq=loss.seq)
        await context.publisher.alarm("critical", "log-truncated", str(loss), state.seq)
        while True:
            inputs = await context.inputs.read(context.replica.settings.max_cycle_inputs, MAX_WAIT)
            await self._run_periodic_tasks()
            for message in inputs.messages:
                acceptance = accepted(state, message, loss, context.replica.settings.unsigned)
                if acceptance is not None:
                    fact, identity = acceptance
                    builder = CycleBuilder(state, context.clock.now())
                    cause = f"{message.topic}/{message.partition}/{message.offset}"
                    builder.add(fact, cause=cause, actor=identity.actor, auth=identity.auth, request=identity.request)
                    await (await context.log.append(builder.finish()))
                    raise SteppedDown("an operator accepted the truncation; starting again")

    async def _fold_anew(self) -> None:
        """Discard the unfinished cycle: state and positions as of the log."""
        projection = self._context.projection
        fresh = Projection(projection.bus, projection.pool, projection.partition, self._context.replica.metrics)
        try:
            await fresh.catch_up()
        finally:
            await fresh.close()
        projection.state = fresh.state
        await self._context.inputs.restart(fresh.state.inputs, fresh.state.topic_ids, fresh.state.seq)
