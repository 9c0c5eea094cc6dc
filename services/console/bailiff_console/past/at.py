"""`/at`: a pool as it was just after any record, or at any time, from replay."""

import asyncio
from collections import OrderedDict
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request

from bailiff.moments import moment
from bailiff.present.times import moment as text_of
from bailiff_console.answers import Answer
from bailiff_console.live.change import Show
from bailiff_console.live.follower import Followed
from bailiff_console.live.picture import Picture
from bailiff_console.live.pools import Pools
from bailiff_console.problems import Refused, missing

from .snapshots import Moment

router = APIRouter()
SHOWN: Show = frozenset({"nodes", "jobs", "projects", "queue"})
BOARDS_KEPT, BOARDS_BYTES = 16, 16 * 1024 * 1024
WANTED = "a time as in 2026-01-31T12:00:00Z, or how long ago, as in -10m"


class Boards:
    """The last few that were made, each the members of one without the braces, by pool, reading of its log, and record."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()

    def known(self, followed: Followed, seq: int | None) -> bytes | None:
        """One that was made before."""
        return None if seq is None else self._made.get((followed.name, followed.reading, seq))

    async def of(self, followed: Followed, at: Moment) -> bytes:
        """Just after the record that this is after."""
        key = (followed.name, followed.reading, at.seq)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = await asyncio.to_thread(_members, followed.name, at)  # pages that are live go on meanwhile
            while len(self._made) > 1 and (len(self._made) > BOARDS_KEPT or sum(map(len, self._made.values())) > BOARDS_BYTES):
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return made


def _members(name: str, at: Moment) -> bytes:
    picture = Picture(name, at.memo)
    picture.all_anew(at.pool, at.head.hash)
    return picture.members(SHOWN)


@router.get("/api/pools/{pool}/at")
async def at(
    request: Request,
    pool: str,
    seq: Annotated[int | None, Query(description="Just after this record.", ge=0)] = None,
    time: Annotated[str | None, Query(description=f"Just after the last record until then: {WANTED}.", max_length=64)] = None,
) -> Answer:
    """A board, with where the log begins and ends."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    if (seq is None) == (time is None):
        raise Refused(400, "give seq or time, and not both", [{"where": "seq", "text": "one of seq and time"}])
    micros = None if time is None else _micros(followed, time)
    if seq is not None and seq > followed.pool.seq:
        raise missing(f"{pool} has no record #{seq}: its log ends at #{followed.pool.seq}")
    if micros is not None and micros < followed.memo.began:
        raise missing(f"the log of {pool} begins later, at {text_of(followed.memo.began)}")
    if micros is not None and micros >= followed.pool.now:
        seq, micros = followed.pool.seq, None
    boards: Boards = request.app.state.boards
    members = boards.known(followed, seq)
    if members is None:
        async with followed.past.at(seq=seq, time=micros, end=followed.pool.seq) as then:
            members = await boards.of(followed, then)
    span = {
        "first_seq": 0, "head_seq": followed.pool.seq, "first_time": text_of(followed.memo.began),
        "head_time": text_of(followed.pool.now),
    }  # fmt: skip
    return Answer(b"{%b,%b}" % (members, orjson.dumps(span)[1:-1]), headers={"cache-control": "no-store"})


def _micros(followed: Followed, text: str) -> int:
    try:
        found = moment(text).at(followed.pool.now).time
    except ValueError:
        found = None
    if found is None:
        said = f"time: found {text[:64]!r}; expected {WANTED}"
        raise Refused(400, said, [{"where": "time", "found": text[:64], "allowed": WANTED, "text": said}])
    return found
