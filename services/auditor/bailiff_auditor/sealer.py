"""Seals one pool: signs the Merkle root of the archived records, publishes it, and checks the archive against published seals.

The topic is authoritative, not the database: a sealer reads it first. A seal published by a process that crashed before
storing it is found there, checked against the archive, and continued.
"""

import json
from collections.abc import AsyncIterator

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.seals import LogSealed, SealingKey, SealsInvalidated
from bailiff_bus.port import Bus, BusUnavailable, Headers, Message, OutgoingMessage, open_producer
from bailiff_core.canonical import canonical_json
from bailiff_core.humanize import count_text
from bailiff_core.records.merkle import Frontier
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_log.seals import SealBody, SealChain, VerificationFailed, make_invalidation, make_key, make_seal, parse_seal
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics

from .alarms import Alarms
from .archive_writer import Position, PositionMoved, hash_of, leaves, tree_at
from .topic_position import TopicPosition

WAIT = 0.5
LEAVES_KEPT = 1_000_000
LOOK_UP_US = 5_000_000
PAGE = 1_000


class Sealer:
    """Sealer of one pool. keys: the private sealing key, and its predecessor during a key rotation."""

    def __init__(
        self,
        bus: Bus,
        pool: str,
        keys: tuple[bytes, bytes | None],
        every_records: int,
        every_us: int,
        metrics: Metrics,
        alarms: Alarms,
        clock_and_ids: ClockAndIds,
    ) -> None:
        self._bus, self._pool, self._key, self._before = bus, pool, keys[0], keys[1]
        self._every_records, self._every_us = every_records, every_us
        self._metrics, self._alarms, self._clock_and_ids = metrics, alarms, clock_and_ids
        self._chain, self._base = SealChain(pool), Frontier()
        self._leaves: list[bytes] = []
        self._sealed_at = 0
        self._ready = False
        self._behind = 0  # size of a seal whose records are not all archived yet
        self._topic, self._looked_up_at = TopicPosition("", 0, 0, is_anew=False), 0

    async def begin(self, connection: Connection, position: Position) -> None:
        """Read the published seals, check them against the archive, and check that this auditor's key may continue."""
        self._chain, self._ready, self._behind = SealChain(self._pool), False, 0
        await self._known(connection, position)
        end = await self._published(connection, position)
        if end is None or not await self._invalidate_seals(connection, position):
            return
        await self._topic.store(connection, position.id, "seals", end)
        last = self._chain.last
        self._base = await tree_at(connection, position.id, last.size) if last is not None else Frontier()
        self._leaves = await leaves(connection, position.id, self._base.size, position.tree.size)
        self._sealed_at = last.sealed_at if last is not None else await self._begun_at(connection, position)
        self._metrics.sealed.labels(self._pool).set(self._base.size)
        self._ready = True

    async def _begun_at(self, connection: Connection, position: Position) -> int:
        """When the first record was appended, µs UTC: a restart must not put the first seal off."""
        first = await connection.fetchval("SELECT appended_at FROM records WHERE pool = $1 ORDER BY seq LIMIT 1", position.id)
        return self._clock_and_ids.wall() if first is None else int(first)

    def grown(self, more: list[bytes], size: int) -> None:
        """Cache leaves archived up to `size`. Beyond the cache limit they are read from the archive when needed."""
        if self._base.size + len(self._leaves) + len(more) == size and len(self._leaves) < LEAVES_KEPT:
            self._leaves += more

    def until_due(self, size: int) -> int:
        """Number of records from this size to the next seal."""
        return self._every_records - size % self._every_records

    async def seal_if_due(self, connection: Connection, position: Position) -> None:
        """Seal at each due multiple of `every_records`, and all records if the time interval has passed."""
        size, every = position.tree.size, self._every_records
        if 0 < self._behind <= size or (self._ready and await self._is_other_topic()):
            await self.begin(connection, position)
        while self._ready and (due := (self._base.size // every + 1) * every) <= size:
            await self._seal(connection, position, due)
        if self._ready and self._base.size < size and self._clock_and_ids.wall() - self._sealed_at >= self._every_us:
            await self._seal(connection, position, size)

    async def _is_other_topic(self) -> bool:
        """Whether the topic was made anew since `begin`. Looks at most every few seconds."""
        now = self._clock_and_ids.boot()
        if now - self._looked_up_at < LOOK_UP_US:
            return False
        self._looked_up_at = now
        return (await self._bus.spans(topics.SEALS.name))[0].topic_id != self._topic.topic_id

    async def _seal(self, connection: Connection, position: Position, size: int) -> None:
        new = size - self._base.size
        if len(self._leaves) < new:
            self._leaves = await leaves(connection, position.id, self._base.size, size)
        if not await self._may_seal(connection, position):
            self._ready = False
            return
        tree, head_hash, sealed = position.tree.copy(), position.head.hash, self._leaves[:new]
        if size < tree.size:  # the seal was due at an earlier record
            head_hash, tree = await hash_of(connection, position.id, size - 1), self._base.copy()
            tree.extend(sealed)
        seal = make_seal(
            self._key,
            self._pool,
            position.identity,
            tree,
            head_hash,
            self._clock_and_ids.wall(),
            self._base.size,
            self._base.followed_by(sealed),
            len(self._chain.invalidations),
        )
        self._chain.take(seal)
        offset = await self._publish(seal)
        await _store_seal(connection, position.id, seal, offset, tree)
        self._base, self._leaves, self._sealed_at = tree, self._leaves[new:], seal.sealed_at
        self._metrics.sealed.labels(self._pool).set(size)

    async def _may_seal(self, connection: Connection, position: Position) -> bool:
        """Whether this auditor's key is the log's sealing key or may succeed it."""
        pool = self._pool
        body = make_key(self._key, self._pool, position.identity, self._before if self._chain.keys else None)
        if body.key in self._chain.keys[-1:]:
            return True
        try:
            self._chain.take(body)
        except VerificationFailed as error:
            await self._alarms.alarm(pool, "seal-key-unknown", f"{pool}: sealing stopped: {error}")
            return False
        await _store_key(connection, position.id, body, await self._publish(body))
        return True

    async def _invalidate_seals(self, connection: Connection, position: Position) -> bool:
        """Publish the invalidation of forked seals if not done yet. Returns whether sealing may continue."""
        found = await self._lost(connection, position)
        if found is None:
            return True
        if not await self._may_seal(connection, position):
            return False
        lost, from_seq, reason = found
        body = make_invalidation(
            self._key, self._pool, position.identity, self._chain.last, lost, from_seq, reason, self._clock_and_ids.wall()
        )
        await _store_invalidation(connection, position.id, body, await self._publish(body))
        self._chain.invalidations.append(body)
        return True

    async def _lost(self, connection: Connection, position: Position) -> tuple[LogSealed, int, str] | None:
        """The newest forked seal that is not invalidated yet, the fork's first seq, and its reason."""
        row = await connection.fetchrow(
            """SELECT b.from_seq, b.reason, s.data FROM forks b JOIN fork_seals s USING (pool, fork)
               WHERE b.pool = $1 AND b.data IS NULL ORDER BY s.size DESC LIMIT 1""",
            position.id,
        )
        return (LogSealed.model_validate_json(row["data"]), row["from_seq"], row["reason"]) if row is not None else None

    async def _known(self, connection: Connection, position: Position) -> None:
        """Load the newest stored key and seal, which imply all earlier ones, and the accepted losses."""
        key = await connection.fetchval(
            'SELECT data FROM sealing_keys WHERE pool = $1 ORDER BY "offset" DESC LIMIT 1', position.id
        )
        seal = await connection.fetchval("SELECT data FROM seals WHERE pool = $1 ORDER BY size DESC LIMIT 1", position.id)
        if key is not None:
            body = SealingKey.model_validate_json(key)
            self._chain.keys, self._chain.identity = [body.key], body.identity
        if seal is not None:
            self._chain.seals = [LogSealed.model_validate_json(seal)]
        lost = await connection.fetch(
            'SELECT data FROM forks WHERE pool = $1 AND data IS NOT NULL ORDER BY "offset"', position.id
        )
        self._chain.invalidations = [SealsInvalidated.model_validate_json(row["data"]) for row in lost]

    async def _published(self, connection: Connection, position: Position) -> int | None:
        """Process seals on the topic beyond the stored ones. Returns the end offset; None if sealing must not continue.

        Of a topic that was made anew all are processed, and what it lacks of the archived ones is published again.
        """
        topic, pool = topics.SEALS.name, self._pool
        span = (await self._bus.spans(topic))[0]
        at = self._topic = await TopicPosition.of(connection, position.id, "seals", span)
        archived = _archived(connection, position.id, PAGE if at.is_anew else 0)
        missing = await anext(archived, None)
        reader = await self._bus.reader([(topic, 0, at.next)])
        try:
            while reader.position(topic, 0) < span.end:
                for message in await reader.read(wait=WAIT):
                    if missing is not None and parse_seal(message, self._pool) == missing:
                        missing = await anext(archived, None)
                    if not await self._take(connection, position, message):
                        return None
        finally:
            await reader.close()
        if at.is_anew:
            count = await self._publish_again(missing, archived)
            text = f"{pool}: {topic} was cut or made anew: {count_text(count, 'archived message')} published again"
            await self._alarms.alarm(pool, "topic-made-anew", text)
        return span.end

    async def _publish_again(self, first: SealBody | None, others: AsyncIterator[SealBody]) -> int:
        """In their order, as readers of the topic verify them; a reader ignores what stands before its key."""
        count, body = 0, first
        async with open_producer(self._bus) as producer:
            while body is not None:
                page = list[OutgoingMessage]()
                while body is not None and len(page) < PAGE:
                    page.append((self._pool.encode(), *self._wrapped(body)))
                    body = await anext(others, None)
                for batch in await producer.send_many(topics.SEALS.name, page, partition=0):
                    await batch.first
                count += len(page)
        return count

    async def _take(self, connection: Connection, position: Position, message: Message) -> bool:
        body, pool = parse_seal(message, self._pool), self._pool
        if body is None or await _is_stored(connection, position.id, body):
            return True
        offset = self._topic.first + message.offset
        known = list(self._chain.seals)
        if isinstance(body, SealsInvalidated) and (lost := await self._lost(connection, position)) is not None:
            self._chain.seals.append(lost[0])
        try:
            self._chain.take(body)
        except VerificationFailed as error:
            self._chain.seals = known
            text = f"{pool}: offset {message.offset} of {topics.SEALS.name} is not a valid seal of this log: {error}"
            await self._alarms.alarm(pool, "seal-foreign", text)
            return True
        if isinstance(body, SealingKey):
            await _store_key(connection, position.id, body, offset)
            return True
        if isinstance(body, SealsInvalidated):
            await _store_invalidation(connection, position.id, body, offset)
            return True
        if body.size > position.tree.size:
            self._behind = body.size
            text = (
                f"{body.size} records are sealed but only {position.tree.size} archived: sealing resumes when they are archived"
            )
            logger(pool=pool).warning(text)
            return False
        tree = await tree_at(connection, position.id, body.size)
        if tree.root().hex() != body.root:
            text = f"{pool}: the first {body.size} archived records do not match the seal; sealing stopped"
            await self._alarms.alarm(pool, "archive-not-sealed", text)
            return False
        await _store_seal(connection, position.id, body, offset, tree)
        return True

    def _wrapped(self, body: SealBody) -> tuple[Headers, bytes]:
        names = {LogSealed: "seal", SealingKey: "key", SealsInvalidated: "invalidation"}
        about = body.size if isinstance(body, LogSealed) else body.key if isinstance(body, SealingKey) else body.invalidated_size
        name, at = f"{names[type(body)]}/{about}", self._clock_and_ids.wall()
        return wrap(body, source=f"/bailiff/{self._pool}/auditor", id=name, pool=self._pool, time_us=at)

    async def _publish(self, body: SealBody) -> int:
        headers, value = self._wrapped(body)
        async with open_producer(self._bus) as producer:
            sent = await producer.send(topics.SEALS.name, value, key=self._pool.encode(), headers=headers, partition=0)
            receipt = await sent
        if receipt.offset is None:
            raise BusUnavailable("the broker did not return the offset of a seal")
        if (await self._bus.spans(topics.SEALS.name))[0].topic_id != self._topic.topic_id:
            raise PositionMoved(f"{topics.SEALS.name} was made anew")
        return self._topic.first + receipt.offset


async def _is_stored(connection: Connection, pool: int, body: SealBody) -> bool:
    """Whether this message is archived: by what it says, wherever it stands."""
    condition, about = "pool = $1 AND data = $2", [pool, _text(body)]
    if isinstance(body, LogSealed):
        condition, about = f"{condition} AND size = $3", [*about, body.size]  # by the index
    tables = {LogSealed: ("seals", "fork_seals"), SealingKey: ("sealing_keys",), SealsInvalidated: ("forks",)}[type(body)]
    found = " UNION ALL ".join(f"SELECT FROM {table} WHERE {condition}" for table in tables)
    return bool(await connection.fetchval(f"SELECT EXISTS ({found})", *about))


async def _archived(connection: Connection, pool: int, page: int) -> AsyncIterator[SealBody]:
    """All archived messages, in the order in which they were published, read by pages; none if `page` is 0."""
    kinds: dict[str, type[SealBody]] = {
        "seals": LogSealed,
        "fork_seals": LogSealed,
        "sealing_keys": SealingKey,
        "forks": SealsInvalidated,
    }
    parts = " UNION ALL ".join(
        f'SELECT "offset", \'{table}\' AS found_in, data FROM {table} WHERE pool = $1 AND data IS NOT NULL AND "offset" > $2'  # noqa: S608
        for table in kinds
    )
    after = -1
    while rows := await connection.fetch(f'{parts} ORDER BY "offset" LIMIT $3', pool, after, page):
        for row in rows:
            yield kinds[row["found_in"]].model_validate_json(row["data"])
        after = rows[-1]["offset"]


async def _store_seal(connection: Connection, pool: int, seal: LogSealed, offset: int, tree: Frontier) -> None:
    await connection.execute(
        """INSERT INTO seals (pool, size, root, key, sealed_at, "offset", peaks, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
           ON CONFLICT (pool, size) DO NOTHING""",
        pool,
        seal.size,
        seal.root,
        seal.key,
        EPOCH_START + seal.sealed_at * MICROSECOND,
        offset,
        b"".join(tree.peaks),
        _text(seal),
    )


async def _store_invalidation(connection: Connection, pool: int, body: SealsInvalidated, offset: int) -> None:
    await connection.execute(
        """UPDATE forks b SET "offset" = $3, data = $4 WHERE pool = $1 AND data IS NULL AND from_seq = $2
           AND EXISTS (SELECT FROM fork_seals s WHERE s.pool = b.pool AND s.fork = b.fork)""",
        pool,
        body.from_seq,
        offset,
        _text(body),
    )


async def _store_key(connection: Connection, pool: int, body: SealingKey, offset: int) -> None:
    await connection.execute(
        'INSERT INTO sealing_keys (pool, "offset", key, data) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING',
        pool,
        offset,
        body.key,
        _text(body),
    )


def _text(body: SealBody) -> str:
    return json.dumps(json.loads(canonical_json(body.to_data())))
