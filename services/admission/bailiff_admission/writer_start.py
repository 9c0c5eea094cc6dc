"""The first two phases of a writer: it starts an epoch in the log, then fences the nodes."""

from collections.abc import Sequence

from bailiff_bus.topics import JOB_SPECS
from bailiff_core.records import ChainHead, Record
from bailiff_service.logs import logger
from bailiff_service.pool_ownership import prepare_state

from .dead_letters import resend_dead_letters
from .startup_records import first_records
from .truncation import detect_truncation
from .writer_context import WriterContext


async def start(context: WriterContext) -> None:
    """Append `WriterStarted`, then continue from what the log says. Raises `TruncationDetected`."""
    replica, projection = context.replica, context.projection
    boot = replica.clock_and_ids.boot()
    started = await context.log.begin(lambda head: _first_records(context, head), projection.take)
    context.digests.begin(projection.digest_seq, boot)
    context.check_broker_clock(started.append_time, boot)
    context.liveness.broker_time(started.append_time)
    state = context.state
    logger(pool=context.pool, writer=context.id[:8]).info("writing", epoch=state.epoch, seq=started.record.seq)
    prepare_state(state)
    await context.specs.load(replica.bus, state)
    await context.inputs.restart(state.inputs, state.topic_ids, started.record.seq)
    await detect_truncation(state, replica.bus, state.inputs, context.fencing.observe)
    if state.truncation_unreconciled:
        await context.decoder.reconciliation.begin(state, replica.bus, context.liveness.broker_now())


async def fence(context: WriterContext) -> None:
    """Make agents refuse commands of earlier epochs, and send again what the last writer may not have sent."""
    await context.reactions.fence_all(context.state)
    if context.state.truncation_unreconciled:
        await context.reactions.request_inventories(context.state)
    await _store_replaced_specs(context)
    await resend_dead_letters(context.publisher, context.replica.bus, context.memory.rejections)


def _first_records(context: WriterContext, head: ChainHead) -> Sequence[Record]:
    state, replica = context.state, context.replica
    context.clock.begin(state.now)
    # this clock is not compared with the broker's yet: in an existing log, time does not advance here
    time = state.now if head.next_seq else context.clock.now()
    return first_records(
        state,
        context.pool,
        context.projection.partition,
        head,
        writer=context.id,
        time=time,
        first_policy=replica.first_policy,
        clock_and_ids=replica.clock_and_ids,
        credentials=replica.credentials,
    )


async def _store_replaced_specs(context: WriterContext) -> None:
    """Store again what somebody wrote over, before Kafka deletes the older value."""
    specs = context.specs
    for stored in specs.replaced:
        job = stored.key.decode().split("/")[1]
        text = f"the spec of {job} was written over or erased in {JOB_SPECS.name} by somebody else: it is stored again"
        await context.publisher.alarm("critical", "spec-replaced", text)
    await specs.store(context.producer, [specs.message(stored) for stored in specs.replaced])
    specs.replaced.clear()
