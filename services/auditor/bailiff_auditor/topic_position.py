"""Where the archive has read a topic of seals or cosignatures to: an offset counts for the topic of one id only."""

from dataclasses import dataclass
from typing import Literal

from asyncpg import Connection

from bailiff_bus.port import Span

Name = Literal["seals", "cosignatures"]
TABLES: dict[Name, tuple[str, ...]] = {
    "seals": ("seals", "fork_seals", "forks", "sealing_keys"),
    "cosignatures": ("cosignatures",),
}


@dataclass(frozen=True, slots=True)
class TopicPosition:
    """The archived position of a topic.

    Attributes:
        topic_id: Kafka's id of the topic as it is now.
        first: What the archive counts as the topic's offset 0.
        next: The next offset to read, in Kafka.
        is_anew: The topic was cut, or deleted and made anew, since the archive has read it.
    """

    topic_id: str
    first: int
    next: int
    is_anew: bool

    @classmethod
    async def of(cls, connection: Connection, pool: int, name: Name, span: Span) -> "TopicPosition":
        """The position in this topic as it is now."""
        row = await connection.fetchrow(
            f"SELECT {name}_offset AS next, {name}_topic AS topic_id, {name}_from AS first FROM pools WHERE id = $1",  # noqa: S608
            pool,
        )
        assert row is not None
        known, at = row["topic_id"] or span.topic_id, row["next"] - row["first"]
        if known == span.topic_id and at <= span.end:
            return cls(span.topic_id, row["first"], max(at, span.begin), is_anew=False)
        used = " UNION ALL ".join(f'SELECT max("offset") FROM {table} WHERE pool = $1' for table in TABLES[name])  # noqa: S608
        after = await connection.fetchval(f"SELECT max(max) + 1 FROM ({used}) used", pool)  # noqa: S608
        return cls(span.topic_id, max(row["next"], after or 0), span.begin, is_anew=True)

    async def store(self, connection: Connection, pool: int, name: Name, offset: int) -> None:
        """The topic is archived up to this offset, in Kafka."""
        await connection.execute(
            f"UPDATE pools SET {name}_offset = $2, {name}_topic = $3, {name}_from = $4 WHERE id = $1",  # noqa: S608
            pool,
            self.first + offset,
            self.topic_id,
            self.first,
        )
