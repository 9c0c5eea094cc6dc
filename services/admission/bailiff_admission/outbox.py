"""What leaves admission besides audit records: commands to nodes, dead letters, alarms."""

from collections.abc import Awaitable, Sequence

from bailiff_bus import topics, tracing
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import wrap, wrap_dead_letter
from bailiff_bus.messages import Alarm, DeadLetter, MessageBody, StartTask
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Batch, Message, Parcel, Producer, Receipt

from .intake import Rejected


class Outbox:
    """Sends on behalf of one writer incarnation. Everything here may be sent again; receivers know repeats."""

    def __init__(self, producer: Producer, ambient: Ambient, metrics: Metrics, domain: str) -> None:
        self.producer, self._ambient, self._metrics, self._domain = producer, ambient, metrics, domain

    async def command(self, body: CommandBody) -> Awaitable[Receipt]:
        """A command to the node that the body names."""
        (batch,) = await self.commands([self.packed(body)])
        return batch.first

    def packed(self, body: CommandBody) -> Parcel:
        """A command to the node that the body names, to be sent with others. Raises `ValueError` for one that is too large."""
        headers, value = self._wrapped(body, self._ambient.fresh().hex())
        key = body.node.encode()
        topics.check_size(topics.NODE_COMMANDS.name, key, headers, value)
        self._metrics.commands_sent.labels(self._domain, type(body).__name__).inc()
        return key, headers, value

    async def commands(self, packed: Sequence[Parcel]) -> list[Batch]:
        """Send these, those to one node in their order."""
        return await self.producer.send_many(topics.NODE_COMMANDS.name, packed) if packed else []

    async def dead_letter(self, message: Message, rejected: Rejected) -> Awaitable[Receipt]:
        """The input as it was, and why it had no effect. Its id is the input's position, so repeats are known."""
        where = f"{message.topic}/{message.partition}/{message.offset}"
        letter = DeadLetter(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            code=rejected.code,
            reason=rejected.told,
        )
        headers, value = wrap_dead_letter(
            letter, message, source=self._source, id=where, domain=self._domain, time_us=self._ambient.wall()
        )
        key = message.topic.encode()
        return await self.producer.send(topics.DEAD_LETTERS.name, value, key=key, headers=headers)

    async def alarm(self, severity: str, code: str, text: str, seq: int | None = None) -> None:
        """Something for an operator to look at."""
        self._metrics.alarms.labels(self._domain, code).inc()
        body = Alarm.model_validate({"severity": severity, "code": code, "text": text[:4000], "seq": seq})
        headers, value = self._wrapped(body, self._ambient.fresh().hex())
        await (await self.producer.send(topics.ALARMS.name, value, key=self._domain.encode(), headers=headers))

    @property
    def _source(self) -> str:
        return f"/bailiff/{self._domain}/admission"

    def _wrapped(self, body: MessageBody, message_id: str) -> tuple[tuple[tuple[str, bytes], ...], bytes]:
        traceparent = (
            tracing.header(self._domain, body.job, "start", body.job, body.attempt) if isinstance(body, StartTask) else ""
        )
        return wrap(
            body, source=self._source, id=message_id, domain=self._domain, time_us=self._ambient.wall(), traceparent=traceparent
        )  # fmt: skip
