"""`/snapshot`: the state of a pool after any record, or at any time, from replay."""

import asyncio
from collections import OrderedDict
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Request

from bailiff.audit.log_positions import moment
from bailiff.render.serializers.times import moment as text_of
from bailiff_console.live.change import Show
from bailiff_console.live.follower import PoolFollower
from bailiff_console.live.pool_projection import PoolProjection, PoolSnapshot
from bailiff_console.live.pools import Pools
from bailiff_core.views import Moment
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import ErrorDetail, invalid, invalid_value, not_found

from .snapshots import PointInTime

router = APIRouter()
SHOWN: Show = frozenset({"nodes", "jobs", "projects", "queue"})
MAX_SNAPSHOTS, MAX_BYTES = 16, 16 * 1024 * 1024
EXPECTED = "a time such as 2026-01-31T12:00:00Z, or an age such as -10m"


class PastSnapshot(PoolSnapshot):
    """A snapshot, with begin and end of the log."""

    first_seq: int
    head_seq: int
    first_time: Moment | None
    head_time: Moment | None


class SnapshotCache:
    """Recent snapshots as JSON members without the braces, by pool, reading of its log, and record."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()

    def known(self, followed: PoolFollower, seq: int | None) -> bytes | None:
        """A cached snapshot, or None."""
        return None if seq is None else self._made.get((followed.name, followed.reading, seq))

    async def of(self, followed: PoolFollower, at: PointInTime) -> bytes:
        key = (followed.name, followed.reading, at.seq)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = await asyncio.to_thread(
                _members, followed.name, at
            )  # in a thread, so that live streams are not blocked
            while len(self._made) > 1 and (len(self._made) > MAX_SNAPSHOTS or sum(map(len, self._made.values())) > MAX_BYTES):
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return made


def _members(name: str, at: PointInTime) -> bytes:
    pool_projection = PoolProjection(name, at.view_cache)
    pool_projection.rebuild(at.state, at.head.hash)
    return pool_projection.members(SHOWN)


@router.get("/api/pools/{pool}/snapshot", response_model=PastSnapshot, tags=["history"])
async def at(
    request: Request,
    pool: str,
    seq: Annotated[int | None, Query(description="State after this record.", ge=0)] = None,
    time: Annotated[str | None, Query(description=f"State after the last record until then: {EXPECTED}.", max_length=64)] = None,
) -> JsonResponse:
    """A snapshot, with begin and end of the log."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    if (seq is None) == (time is None):
        raise invalid(ErrorDetail(location="seq", detail="give exactly one of seq and time"))
    micros = None if time is None else _micros(followed, time)
    if seq is not None and seq > followed.state.seq:
        raise not_found(f"{pool} has no record #{seq}: its log ends at #{followed.state.seq}")
    if micros is not None and micros < followed.view_cache.first_record_at:
        raise not_found(f"the log of {pool} begins later: at {text_of(followed.view_cache.first_record_at)}")
    if micros is not None and micros >= followed.state.now:
        seq, micros = followed.state.seq, None
    snapshot_cache: SnapshotCache = request.app.state.snapshot_cache
    members = snapshot_cache.known(followed, seq)
    if members is None:
        async with followed.history.at(seq=seq, time=micros, end=followed.state.seq) as then:
            members = await snapshot_cache.of(followed, then)
    span = {
        "first_seq": 0,
        "head_seq": followed.state.seq,
        "first_time": text_of(followed.view_cache.first_record_at),
        "head_time": text_of(followed.state.now),
    }
    return JsonResponse(b"{%b,%b}" % (members, orjson.dumps(span)[1:-1]), headers={"cache-control": "no-store"})


def _micros(followed: PoolFollower, text: str) -> int:
    try:
        found = moment(text).at(followed.state.now).time
    except ValueError:
        found = None
    if found is None:
        raise invalid(invalid_value("time", text, EXPECTED))
    return found
