"""Dead letters for inputs that were rejected."""

from collections.abc import Sequence

from bailiff_bus.port import Bus, Message, OffsetOutOfRange
from bailiff_core.admission.rejected import Rejected
from bailiff_core.records.facts import InputRejected
from bailiff_log.reader import Entry
from bailiff_service.metrics import Metrics

from .poison_inputs import PoisonInputs, place
from .publisher import Publisher

DEAD_LETTER_READ_S = 10.0  # the first read from a broker is slow, and this is not retried


async def send_dead_letters(
    publisher: Publisher, metrics: Metrics, pool: str, poison_inputs: PoisonInputs, rejections: Sequence[tuple[Message, Rejected]]
) -> None:
    """Send dead letters of committed rejections, and alarms for internal errors."""
    sent = [await publisher.dead_letter(message, rejected) for message, rejected in rejections]
    for acknowledgement in sent:
        await acknowledgement
    for message, rejected in rejections:
        metrics.inputs_rejected.labels(pool, message.topic, rejected.code).inc()
        if rejected.code == "internal-error":
            error = poison_inputs.errors.get(place(message), "")
            await publisher.alarm("critical", "input-failed", f"{place(message)}: {error}")


async def resend_dead_letters(publisher: Publisher, bus: Bus, recent_rejections: Sequence[Entry]) -> None:
    """Send the dead letters of recent rejections again: the last writer may have ended before it sent them."""
    for entry in list(recent_rejections):
        data = entry.record.data
        assert isinstance(data, InputRejected)
        reader = await bus.reader([(data.topic, data.partition, data.offset)])
        try:
            found = await reader.read(1, DEAD_LETTER_READ_S)
        except OffsetOutOfRange:
            found = []
        finally:
            await reader.close()
        if found and found[0].offset == data.offset:
            await (await publisher.dead_letter(found[0], Rejected(data.code, data.reason, data.job)))
