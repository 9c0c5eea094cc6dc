"""Seals of one domain: signs the root of what is archived, publishes it, and holds the archive against what was published.

The topic is what counts, not the database: whoever seals next reads it first. So a seal that was published by a process
which died before it noted that is found, checked against the archive, and gone on from.
"""

import json

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import LogSealed, SealingKey, SealsSetAside
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, BusUnavailable, Message
from bailiff_bus.seals import Disproved, SealBody, SealChain, make_aside, make_key, make_seal, seal_in
from bailiff_core.canonical import canonical_json
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import EPOCH_START, MICROSECOND

from .alarms import Alarms
from .keeper import Position, hash_of, leaves, tree_at

WAIT = 0.5
LEAVES_KEPT = 1_000_000


class Sealer:
    """keys: the private key that seals, and the one before it where a new one takes over."""

    def __init__(
        self, bus: Bus, domain: str, keys: tuple[bytes, bytes | None], every_records: int, every_us: int,
        metrics: Metrics, alarms: Alarms, ambient: Ambient,
    ) -> None:  # fmt: skip
        self._bus, self._domain, self._key, self._before = bus, domain, keys[0], keys[1]
        self._every_records, self._every_us = every_records, every_us
        self._metrics, self._alarms, self._ambient = metrics, alarms, ambient
        self._chain, self._base = SealChain(domain), Frontier()
        self._later: list[bytes] = []
        self._sealed_at = 0
        self._ready = False
        self._behind = 0  # so many records were sealed, and the archive does not have them yet

    async def begin(self, connection: Connection, position: Position) -> None:
        """Read what was published, check it against the archive, and see whether our key may go on."""
        self._chain, self._ready, self._behind = SealChain(self._domain), False, 0
        await self._known(connection, position)
        offset = await self._published(connection, position)
        if offset is None or not await self._set_aside(connection, position):
            return
        await connection.execute("UPDATE domains SET seals_offset = $2 WHERE id = $1", position.id, offset)
        last = self._chain.last
        self._base = await tree_at(connection, position.id, last.size) if last is not None else Frontier()
        self._later = await leaves(connection, position.id, self._base.size, position.tree.size)
        self._sealed_at = last.sealed_at if last is not None else self._ambient.wall()
        self._metrics.sealed.labels(self._domain).set(self._base.size)
        self._ready = True

    def grown(self, more: list[bytes], size: int) -> None:
        """These leaves were archived, which makes so many. What is not kept is read again when it is needed."""
        if self._base.size + len(self._later) + len(more) == size and len(self._later) < LEAVES_KEPT:
            self._later += more

    def until_due(self, size: int) -> int:
        """How many records there are from this size to the next multiple."""
        return self._every_records - size % self._every_records

    async def seal_if_due(self, connection: Connection, position: Position) -> None:
        """Seal at each multiple of so many records that is archived by now; and all of it, if its time has come."""
        size, every = position.tree.size, self._every_records
        if 0 < self._behind <= size:
            await self.begin(connection, position)
        while self._ready and (due := (self._base.size // every + 1) * every) <= size:
            await self._seal(connection, position, due)
        if self._ready and self._base.size < size and self._ambient.wall() - self._sealed_at >= self._every_us:
            await self._seal(connection, position, size)

    async def _seal(self, connection: Connection, position: Position, size: int) -> None:
        new = size - self._base.size
        if len(self._later) < new:
            self._later = await leaves(connection, position.id, self._base.size, size)
        if not await self._may_seal(connection, position):
            self._ready = False
            return
        tree, head_hash, sealed = position.tree.copy(), position.head.hash, self._later[:new]
        if size < tree.size:  # it was due before, and could not be made then
            head_hash, tree = await hash_of(connection, position.id, size - 1), self._base.copy()
            tree.extend(sealed)
        seal = make_seal(
            self._key, self._domain, position.identity, tree, head_hash, self._ambient.wall(),
            self._base.size, self._base.followed_by(sealed),
        )  # fmt: skip
        self._chain.take(seal)
        offset = await self._publish(seal)
        await _note_seal(connection, position.id, seal, offset, tree)
        self._base, self._later, self._sealed_at = tree, self._later[new:], seal.sealed_at
        self._metrics.sealed.labels(self._domain).set(size)

    async def _may_seal(self, connection: Connection, position: Position) -> bool:
        """Whether our key is the log's, or may become it."""
        domain = self._domain
        body = make_key(self._key, self._domain, position.identity, self._before if self._chain.keys else None)
        if body.key in self._chain.keys[-1:]:
            return True
        try:
            self._chain.take(body)
        except Disproved as no:
            await self._alarms.alarm(domain, "seal-key-unknown", f"{domain} is not sealed any more: {no}")
            return False
        await _note_key(connection, position.id, body, await self._publish(body))
        return True

    async def _set_aside(self, connection: Connection, position: Position) -> bool:
        """Publish which seals count no more, where that is not done yet. Returns whether sealing may go on."""
        found = await self._lost(connection, position)
        if found is None:
            return True
        if not await self._may_seal(connection, position):
            return False
        lost, from_seq, reason = found
        body = make_aside(
            self._key, self._domain, position.identity, self._chain.last, lost, from_seq, reason, self._ambient.wall()
        )
        await _note_aside(connection, position.id, body, await self._publish(body))
        return True

    async def _lost(self, connection: Connection, position: Position) -> tuple[LogSealed, int, str] | None:
        """The newest seal of a branch that was not said to be set aside yet, where that begins, and why."""
        row = await connection.fetchrow(
            """SELECT b.from_seq, b.reason, s.data FROM branches b JOIN branch_seals s USING (domain, branch)
               WHERE b.domain = $1 AND b.data IS NULL ORDER BY s.size DESC LIMIT 1""",
            position.id,
        )
        return (LogSealed.model_validate_json(row["data"]), row["from_seq"], row["reason"]) if row is not None else None

    async def _known(self, connection: Connection, position: Position) -> None:
        """The newest key and the newest seal that the database knows stand for all before them."""
        key = await connection.fetchval(
            'SELECT data FROM sealing_keys WHERE domain = $1 ORDER BY "offset" DESC LIMIT 1', position.id
        )
        seal = await connection.fetchval("SELECT data FROM seals WHERE domain = $1 ORDER BY size DESC LIMIT 1", position.id)
        if key is not None:
            body = SealingKey.model_validate_json(key)
            self._chain.keys, self._chain.identity = [body.key], body.identity
        if seal is not None:
            self._chain.seals = [LogSealed.model_validate_json(seal)]

    async def _published(self, connection: Connection, position: Position) -> int | None:
        """Take what the topic holds beyond what the database knows. Returns where it ends; None where we may not go on from."""
        topic = topics.SEALS.name
        span = (await self._bus.spans(topic))[0]
        at = min(max(position.seals_offset, span.begin), span.end)
        reader = await self._bus.reader([(topic, 0, at)])
        try:
            while reader.position(topic, 0) < span.end:
                for message in await reader.read(wait=WAIT):
                    if not await self._take(connection, position, message):
                        return None
        finally:
            await reader.close()
        return span.end

    async def _take(self, connection: Connection, position: Position, message: Message) -> bool:
        body, domain = seal_in(message, self._domain), self._domain
        if body is None or await _is_noted(connection, position.id, message.offset):
            return True
        known = list(self._chain.seals)
        if isinstance(body, SealsSetAside) and (lost := await self._lost(connection, position)) is not None:
            self._chain.seals.append(lost[0])
        try:
            self._chain.take(body)
        except Disproved as no:
            self._chain.seals = known
            text = f"{domain}: offset {message.offset} of {topics.SEALS.name} is no seal of this log: {no}"
            await self._alarms.alarm(domain, "seal-foreign", text)
            return True
        if isinstance(body, SealingKey):
            await _note_key(connection, position.id, body, message.offset)
            return True
        if isinstance(body, SealsSetAside):
            await _note_aside(connection, position.id, body, message.offset)
            return True
        if body.size > position.tree.size:
            self._behind = body.size
            text = f"{body.size} records were sealed, the archive has {position.tree.size}: sealing goes on when it has them"
            logger(domain=domain).warning(text)
            return False
        tree = await tree_at(connection, position.id, body.size)
        if tree.root().hex() != body.root:
            text = f"{domain}: the archive's first {body.size} records are not those that were sealed; sealing stops"
            await self._alarms.alarm(domain, "archive-not-sealed", text)
            return False
        await _note_seal(connection, position.id, body, message.offset, tree)
        return True

    async def _publish(self, body: SealBody) -> int:
        at = self._ambient.wall()
        names = {LogSealed: "seal", SealingKey: "key", SealsSetAside: "aside"}
        about = body.size if isinstance(body, LogSealed) else body.key if isinstance(body, SealingKey) else body.lost
        name = f"{names[type(body)]}/{about}"
        headers, value = wrap(body, source=f"/bailiff/{self._domain}/auditor", id=name, domain=self._domain, time_us=at)
        producer = await self._bus.producer()
        try:
            sent = await producer.send(topics.SEALS.name, value, key=self._domain.encode(), headers=headers, partition=0)
            receipt = await sent
        finally:
            await producer.close(1.0)
        if receipt.offset is None:
            raise BusUnavailable("the broker did not say where a seal is stored")
        return receipt.offset


async def _is_noted(connection: Connection, domain: int, offset: int) -> bool:
    found: bool = await connection.fetchval(
        """SELECT EXISTS (SELECT FROM seals WHERE domain = $1 AND "offset" = $2
           UNION ALL SELECT FROM branch_seals WHERE domain = $1 AND "offset" = $2
           UNION ALL SELECT FROM branches WHERE domain = $1 AND "offset" = $2
           UNION ALL SELECT FROM sealing_keys WHERE domain = $1 AND "offset" = $2)""",
        domain, offset,
    )  # fmt: skip
    return found


async def _note_seal(connection: Connection, domain: int, seal: LogSealed, offset: int, tree: Frontier) -> None:
    await connection.execute(
        """INSERT INTO seals (domain, size, root, key, sealed_at, "offset", peaks, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
           ON CONFLICT (domain, size) DO NOTHING""",
        domain, seal.size, seal.root, seal.key, EPOCH_START + seal.sealed_at * MICROSECOND, offset, b"".join(tree.peaks),
        _text(seal),
    )  # fmt: skip


async def _note_aside(connection: Connection, domain: int, body: SealsSetAside, offset: int) -> None:
    await connection.execute(
        """UPDATE branches b SET "offset" = $3, data = $4 WHERE domain = $1 AND data IS NULL AND from_seq = $2
           AND EXISTS (SELECT FROM branch_seals s WHERE s.domain = b.domain AND s.branch = b.branch)""",
        domain, body.from_seq, offset, _text(body),
    )  # fmt: skip


async def _note_key(connection: Connection, domain: int, body: SealingKey, offset: int) -> None:
    await connection.execute(
        'INSERT INTO sealing_keys (domain, "offset", key, data) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING',
        domain, offset, body.key, _text(body),
    )  # fmt: skip


def _text(body: SealBody) -> str:
    return json.dumps(json.loads(canonical_json(body.to_data())))
