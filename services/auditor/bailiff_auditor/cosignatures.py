"""Archives what witnesses say about a log's seals, and raises an alarm for what they refuse, or where a named one is silent."""

import json
from collections.abc import Collection

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused, LogSealed
from bailiff_bus.port import Bus, Message, OffsetOutOfRange
from bailiff_core.canonical import canonical_json
from bailiff_core.humanize import duration_text
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_log.checkpoints import Checkpoint, parse_origin
from bailiff_log.cosignatures import CosignatureBody, Cosigned, Kept, parse_cosignature
from bailiff_log.signed_notes import Note
from bailiff_service.clock_and_ids import ClockAndIds

from .alarms import Alarms
from .topic_position import TopicPosition

WAIT = 30.0
SECOND = 1_000_000 * MICROSECOND
ALARM_EVERY = 3_600_000_000  # of each witness
SILENT_US = 600_000_000
"""A named witness that has not cosigned a seal for so long is silent."""


class CosignatureArchiver:
    """Follows `bailiff.cosignatures` for one pool. pool_id: its row in the archive. named: keys of known witnesses."""

    def __init__(
        self,
        bus: Bus,
        pool: str,
        pool_id: int,
        connection: Connection,
        alarms: Alarms,
        clock_and_ids: ClockAndIds,
        named: Collection[str] = (),
    ) -> None:
        self._bus, self._pool, self._id, self._db, self._alarms = bus, pool, pool_id, connection, alarms
        self._clock_and_ids, self._named = clock_and_ids, named
        self._kept = Kept(named)
        self._silent: dict[str, int] = {}  # when the last alarm of each was raised
        self._refused: dict[str, tuple[int, int]] = {}  # the last refusal of each witness that was an alarm, and when

    async def run(self) -> None:
        """Follow until cancelled."""
        topic, pool = topics.COSIGNATURES.name, self._pool
        for row in await self._db.fetch(
            """SELECT kind, witness, split_part(coalesce(data->>'checkpoint', data->>'cosigned'), E'\\n', 1) AS origin,
                      max(size) AS size
               FROM cosignatures WHERE pool = $1 GROUP BY 1, 2, 3 ORDER BY min("offset")""",
            self._id,
        ):
            self._kept.add(*row)
        while True:
            span = (await self._bus.spans(topic))[0]
            position = await TopicPosition.of(self._db, self._id, "cosignatures", span)
            if position.is_anew:
                text = f"{pool}: {topic} was cut or made anew: it is read from its begin; what is archived stays"
                await self._alarms.alarm(pool, "topic-made-anew", text)
            reader = await self._bus.reader([(topic, 0, position.next)])
            try:
                while True:
                    for message in await reader.read(wait=WAIT):
                        await self._take(message, position)
                    if reader.position(topic, 0) >= (await self._bus.spans(topic))[0].end:
                        await self._miss_silent()
            except OffsetOutOfRange:
                pass  # the topic was made anew
            finally:
                await reader.close()

    async def _take(self, message: Message, position: TopicPosition) -> None:
        pool, body = self._pool, parse_cosignature(message, self._pool)
        found = await self._verified(body) if body is not None else None
        async with self._db.transaction():
            if (
                body
                and found
                and self._kept.add(type(body).__name__, body.witness, found.checkpoint.origin, found.checkpoint.size)
            ):
                await self._db.execute(
                    """INSERT INTO cosignatures (pool, "offset", kind, witness, size, cosigned_at, data)
                       VALUES ($1, $2, $3, $4, $5, $6, $7)""",
                    self._id,
                    position.first + message.offset,
                    type(body).__name__,
                    body.witness,
                    found.checkpoint.size,
                    EPOCH_START + found.at * SECOND,
                    json.dumps(json.loads(canonical_json(body.to_data()))),
                )
            await position.store(self._db, self._id, "cosignatures", message.offset + 1)
        if isinstance(body, CheckpointRefused) and found is not None and self._is_alarm(body, message.time):
            text = (
                f"{pool}: the witness {found.witness.name} says that it refuses to cosign: {body.reason}; it has cosigned "
                f"{found.checkpoint.size} records"
            )
            await self._alarms.alarm(pool, "witness-refused", text)

    async def _miss_silent(self) -> None:
        """An alarm for each named witness that leaves seals without its cosignature, again every hour."""
        pool, now = self._pool, self._clock_and_ids.wall()
        newest = await self._db.fetchval("SELECT data FROM seals WHERE pool = $1 ORDER BY size DESC LIMIT 1", self._id)
        if newest is None:
            return
        origin = Checkpoint.parse(Note.parse(LogSealed.model_validate_json(newest).checkpoint).text).origin
        for witness in sorted(self._named):
            size = max(0, self._kept.size(CheckpointCosigned.__name__, witness, origin))
            oldest = await self._db.fetchval(
                "SELECT sealed_at FROM seals WHERE pool = $1 AND size > $2 ORDER BY size LIMIT 1", self._id, size
            )
            silent_for = 0 if oldest is None else now - (oldest - EPOCH_START) // MICROSECOND
            if silent_for < SILENT_US or now - self._silent.get(witness, -ALARM_EVERY) < ALARM_EVERY:
                continue
            self._silent[witness] = now
            text = (
                f"{pool}: the witness {witness.partition('+')[0]} has cosigned {size} records, and no seal of the last "
                f"{duration_text(silent_for)}"
            )
            await self._alarms.alarm(pool, "witness-silent", text)

    def _is_alarm(self, body: CheckpointRefused, now: int) -> bool:
        """One for each witness and hour, and none for what it said before, which anybody may send again."""
        refused_at, raised = self._refused.get(body.witness, (-1, -ALARM_EVERY))
        if not self._kept.knows(body.witness) or body.refused_at <= refused_at or now - raised < ALARM_EVERY:
            return False
        self._refused[body.witness] = body.refused_at, now
        return True

    async def _verified(self, body: CosignatureBody) -> Cosigned | None:
        keys = [row["key"] for row in await self._db.fetch("SELECT key FROM sealing_keys WHERE pool = $1", self._id)]
        found = Cosigned.published(body, keys)
        identity = await self._db.fetchval("SELECT identity FROM pools WHERE id = $1", self._id)
        origin = parse_origin(found.checkpoint.origin) if found is not None else None
        return found if origin is not None and origin[:2] == (self._pool, identity) else None
