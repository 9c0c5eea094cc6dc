"""Dead letters for inputs that were rejected."""

from collections.abc import Sequence

from bailiff_bus.log import Entry
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, Message, OffsetGone
from bailiff_core.records.facts import InputRejected

from .intake import Rejected
from .outbox import Outbox
from .suspects import Suspects, place

LETTER_WAIT = 10.0  # a first read from the broker takes its time, and nobody asks for a letter twice


async def send_letters(
    outbox: Outbox, metrics: Metrics, domain: str, suspects: Suspects, letters: Sequence[tuple[Message, Rejected]]
) -> None:
    """Once their rejections are committed. Operators are alarmed about those that are our own fault."""
    sent = [await outbox.dead_letter(message, rejected) for message, rejected in letters]
    for acknowledgement in sent:
        await acknowledgement
    for message, rejected in letters:
        metrics.inputs_rejected.labels(domain, message.topic, rejected.code).inc()
        if rejected.code == "internal-error":
            blame = suspects.guilty.get(place(message), "")
            await outbox.alarm("critical", "input-failed", f"{place(message)}: {blame}")


async def send_late_letters(outbox: Outbox, bus: Bus, rejected_lately: Sequence[Entry]) -> None:
    """Dead letters of the newest rejections once more: the last writer may have died before it sent them."""
    for entry in list(rejected_lately):
        data = entry.record.data
        assert isinstance(data, InputRejected)
        reader = await bus.reader([(data.topic, data.partition, data.offset)])
        try:
            found = await reader.read(1, LETTER_WAIT)
        except OffsetGone:
            found = []
        finally:
            await reader.close()
        if found and found[0].offset == data.offset:
            await (await outbox.dead_letter(found[0], Rejected(data.code, data.reason, data.job)))
