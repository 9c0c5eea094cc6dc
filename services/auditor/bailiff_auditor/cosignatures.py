"""Archives what witnesses say about a log's seals, and raises an alarm for what they refuse."""

import json

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused
from bailiff_bus.port import Bus, Message, OffsetOutOfRange
from bailiff_core.canonical import canonical_json
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_log.checkpoints import parse_origin
from bailiff_log.cosignatures import CosignatureBody, Cosigned, parse_cosignature

from .alarms import Alarms

WAIT = 30.0
SECOND = 1_000_000 * MICROSECOND
MAX_WITNESSES = 20
"""Whose refusals are alarms: those that cosigned the log first. Whoever may write the topic can invent later ones only."""
ALARM_EVERY = 3_600_000_000  # of each witness


class CosignatureArchiver:
    """Follows `bailiff.cosignatures` for one pool. pool_id: its row in the archive."""

    def __init__(self, bus: Bus, pool: str, pool_id: int, connection: Connection, alarms: Alarms) -> None:
        self._bus, self._pool, self._id, self._db, self._alarms = bus, pool, pool_id, connection, alarms
        self._witnesses: dict[str, int] = {}  # and when each refused last, as of its alarm

    async def run(self) -> None:
        """Follow until cancelled."""
        topic = topics.COSIGNATURES.name
        for row in await self._db.fetch(
            """SELECT witness FROM cosignatures WHERE pool = $1 AND kind = $2 GROUP BY witness ORDER BY min("offset") LIMIT $3""",
            self._id,
            CheckpointCosigned.__name__,
            MAX_WITNESSES,
        ):
            self._witnesses[row["witness"]] = -ALARM_EVERY
        while True:
            span = (await self._bus.spans(topic))[0]
            at = await self._db.fetchval("SELECT cosignatures_offset FROM pools WHERE id = $1", self._id)
            reader = await self._bus.reader([(topic, 0, min(max(at, span.begin), span.end))])
            try:
                while True:
                    for message in await reader.read(wait=WAIT):
                        await self._take(message)
            except OffsetOutOfRange:
                pass  # the topic was made anew
            finally:
                await reader.close()

    async def _take(self, message: Message) -> None:
        pool, body = self._pool, parse_cosignature(message, self._pool)
        found = await self._verified(body) if body is not None else None
        async with self._db.transaction():
            if body is not None and found is not None:
                await self._db.execute(
                    """INSERT INTO cosignatures (pool, "offset", kind, witness, size, cosigned_at, data)
                       VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING""",
                    self._id,
                    message.offset,
                    type(body).__name__,
                    body.witness,
                    found.checkpoint.size,
                    EPOCH_START + found.at * SECOND,
                    json.dumps(json.loads(canonical_json(body.to_data()))),
                )
            await self._db.execute("UPDATE pools SET cosignatures_offset = $2 WHERE id = $1", self._id, message.offset + 1)
        if isinstance(body, CheckpointCosigned) and found is not None and len(self._witnesses) < MAX_WITNESSES:
            self._witnesses.setdefault(body.witness, -ALARM_EVERY)
        last = self._witnesses.get(body.witness) if body is not None else None
        if isinstance(body, CheckpointRefused) and found is not None and last is not None and message.time - last >= ALARM_EVERY:
            self._witnesses[body.witness] = message.time
            text = (
                f"{pool}: the witness {found.witness.name} says that it refuses to cosign: {body.reason}; it has cosigned "
                f"{found.checkpoint.size} records"
            )
            await self._alarms.alarm(pool, "witness-refused", text)

    async def _verified(self, body: CosignatureBody) -> Cosigned | None:
        keys = [row["key"] for row in await self._db.fetch("SELECT key FROM sealing_keys WHERE pool = $1", self._id)]
        found = Cosigned.published(body, keys)
        identity = await self._db.fetchval("SELECT identity FROM pools WHERE id = $1", self._id)
        origin = parse_origin(found.checkpoint.origin) if found is not None else None
        return found if origin is not None and origin[:2] == (self._pool, identity) else None
