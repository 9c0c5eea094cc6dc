"""Sends admission's messages: commands to nodes, dead letters, alarms."""

from collections.abc import Awaitable, Sequence

from bailiff_bus import topics
from bailiff_bus.envelope import wrap_dead_letter
from bailiff_bus.messages.commands import CommandBody, StartBase
from bailiff_bus.messages.dead_letters import Alarm, DeadLetter
from bailiff_bus.messages.spec_copies import JobSpecCopy
from bailiff_bus.port import Batch, Message, OutgoingMessage, Producer, Receipt
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.message import MessageBody
from bailiff_log.credentials import Credentials
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.order_evidence import subject_of
from bailiff_service import tracing
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import Metrics


class Publisher:
    """Publisher of one writer incarnation. All messages may be sent again; receivers ignore repeats.

    credentials: sign all messages with them; None: the pool has no root key.
    """

    def __init__(
        self, producer: Producer, clock_and_ids: ClockAndIds, metrics: Metrics, pool: str, credentials: Credentials | None = None
    ) -> None:
        self.producer, self._clock_and_ids, self._metrics, self._pool = producer, clock_and_ids, metrics, pool
        self._credentials = credentials

    async def command(self, body: CommandBody) -> Awaitable[Receipt]:
        """Send a command to the node that it names."""
        (batch,) = await self.commands([self.prepare(body)])
        return batch.first

    def prepare(self, body: CommandBody) -> OutgoingMessage:
        """A command to send with others. Raises `ValueError` if it is too large."""
        headers, value = self._wrapped(body, self._clock_and_ids.random_bytes().hex())
        key = body.node.encode()
        topics.check_size(topics.NODE_COMMANDS.name, key, headers, value)
        self._metrics.commands_sent.labels(self._pool, type(body).__name__).inc()
        return key, headers, value

    async def commands(self, prepared: Sequence[OutgoingMessage]) -> list[Batch]:
        """Send these commands; those to one node keep their order."""
        return await self.producer.send_many(topics.NODE_COMMANDS.name, prepared) if prepared else []

    async def dead_letter(self, message: Message, rejected: Rejected) -> Awaitable[Receipt]:
        """Send the input with the reason of its rejection. Its id is the input's position, so repeats are recognised."""
        where = f"{message.topic}/{message.partition}/{message.offset}"
        dead_letter = DeadLetter(
            topic=message.topic, partition=message.partition, offset=message.offset, code=rejected.code, reason=rejected.text
        )
        headers, value = wrap_dead_letter(
            dead_letter, message, source=self._source, id=where, pool=self._pool, time_us=self._clock_and_ids.wall()
        )
        key = message.topic.encode()
        return await self.producer.send(topics.DEAD_LETTERS.name, value, key=key, headers=headers)

    async def spec_copy(self, copy: JobSpecCopy) -> None:
        """Send an encrypted copy of a spec to whom it was granted."""
        headers, value = self._wrapped(copy, self._clock_and_ids.random_bytes().hex())
        await self.producer.send(topics.JOB_SPEC_COPIES.name, value, key=f"{self._pool}/{copy.grant}".encode(), headers=headers)

    async def alarm(self, severity: str, code: str, text: str, seq: int | None = None, about: str = "") -> None:
        """Raise an alarm for operators."""
        self._metrics.alarms.labels(self._pool, code).inc()
        body = Alarm.model_validate({"severity": severity, "code": code, "text": text[:4000], "seq": seq, "about": about[:300]})
        headers, value = self._wrapped(body, self._clock_and_ids.random_bytes().hex())
        await (await self.producer.send(topics.ALARMS.name, value, key=self._pool.encode(), headers=headers))

    @property
    def _source(self) -> str:
        return f"/bailiff/{self._pool}/admission"

    def _wrapped(self, body: MessageBody, message_id: str) -> tuple[tuple[tuple[str, bytes], ...], bytes]:
        traceparent = tracing.header(self._pool, body.job, "start", body.job, body.attempt) if isinstance(body, StartBase) else ""
        return wrap_signed(
            self._credentials,
            body,
            source=self._source,
            id=message_id,
            pool=self._pool,
            time_us=self._clock_and_ids.wall(),
            subject=subject_of(body, self._pool) if isinstance(body, CommandBody) else "",
            traceparent=traceparent,
        )
