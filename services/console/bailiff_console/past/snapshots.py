"""States of one pool's fold, kept on disk: bounded in number, spread evenly over the log, so that any moment is near to one.

They are for showing the past only. What the console goes on from after a restart is the view's own snapshot, which the log
confirms; one of these that cannot be read is thrown away, and the pool is folded from the one before it.
"""

import asyncio
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bailiff_bus.logs import logger
from bailiff_console.live.memo import Memo
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.pool import Pool
from bailiff_core.records import ChainHead
from bailiff_core.records.wire import time_value

FORMAT = 1
LEVEL = 1  # of compression: a state shrinks to a tenth at the first
LEAST_GAP = 4000  # records between two of them


@dataclass(slots=True)
class Moment:
    """A pool and what is remembered beside it, just after a record. offset: where the log goes on."""

    pool: Pool
    memo: Memo
    head: ChainHead
    offset: int

    @property
    def seq(self) -> int:
        """Of that record; -1 before the first."""
        return self.head.next_seq - 1


@dataclass(frozen=True, slots=True)
class _Kept:
    seq: int
    time: int
    path: Path


class Snapshots:
    """most: so many are kept. fault: why none can be written, as long as that is so."""

    def __init__(self, folder: Path, domain: str, most: int) -> None:
        self.folder, self.domain, self.most = folder, domain, most
        self.fault: str | None = None
        self._kept: list[_Kept] = []
        self._read = False
        self._writer: ThreadPoolExecutor | None = None

    async def before(self, *, seq: int | None = None, time: int | None = None) -> Moment:
        """The newest that is not after this record, or this time (µs); the empty pool where there is none."""
        kept = self._all()
        at = bisect_right(kept, seq, key=lambda each: each.seq) if seq is not None else 0
        at = bisect_right(kept, time, key=lambda each: each.time) if time is not None else at
        for each in reversed(kept[:at]):
            found = await asyncio.to_thread(self._load, each)  # to make a large one takes a second
            if found is not None:
                return found
            self._drop(each)
        return Moment(Pool(), Memo(), ChainHead(self.domain), 0)

    async def place_before(self, seq: int) -> tuple[ChainHead, int]:
        """Where a state stands from which the log can be read on to this record: just before it, or earlier."""
        kept = self._all()
        await asyncio.to_thread(self._until_written)
        for each in reversed(kept[: bisect_right(kept, seq - 1, key=lambda each: each.seq)]):
            about = _about(each.path)
            if about is not None:
                return ChainHead(**about["head"]), int(about["offset"])
        return ChainHead(self.domain), 0

    def newest_before(self, seq: int) -> int:
        """The record that it would be; -1 for none."""
        kept = self._all()
        at = bisect_right(kept, seq, key=lambda each: each.seq)
        return kept[at - 1].seq if at else -1

    def newest_until(self, time: int) -> int:
        """The same by time, µs."""
        kept = self._all()
        at = bisect_right(kept, time, key=lambda each: each.time)
        return kept[at - 1].seq if at else -1

    def wants(self, seq: int, end: int) -> bool:
        """Whether a state just after this record would be of use, in a log that is about so long."""
        gap = max(LEAST_GAP, 2 * end // self.most)
        kept = self._all()
        at = bisect_right(kept, seq, key=lambda each: each.seq)
        return (not at or seq - kept[at - 1].seq >= gap) and (at == len(kept) or kept[at].seq - seq >= gap // 2)

    def keep(self, moment: Moment, state: bytes | None = None) -> None:
        """Write this one; where there are too many, the one that is missed least goes. state: its pool, if written already."""
        state = state or to_snapshot(moment.pool)
        about = {
            "format": FORMAT, "schema": STATE_SCHEMA, "head": asdict(moment.head), "offset": moment.offset,
            "memo": moment.memo.to_data(),
        }  # fmt: skip
        path = self.folder / f"{moment.seq:012d}.past"
        kept = [each for each in self._all() if each.seq != moment.seq]
        self._kept = sorted([*kept, _Kept(moment.seq, time_value(moment.head.time), path)], key=lambda each: each.seq)
        self._later(self._write, path, json.dumps(about).encode(), state)
        while len(self._kept) > self.most:
            gaps = [
                (after.seq - before.seq, at) for at, (before, after) in enumerate(zip(self._kept, self._kept[2:], strict=False))
            ]
            self._drop(self._kept[min(gaps)[1] + 1])

    def _write(self, path: Path, about: bytes, state: bytes) -> None:
        """In a thread of its own: a large state takes longer to be compressed than a page should wait."""
        draft = path.with_suffix(".draft")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(about + b"\n" + zlib.compress(state, LEVEL))
            draft.replace(path)
        except OSError as error:
            if self.fault is None:
                logger(domain=self.domain).warning(
                    "states of the past cannot be kept on disk; showing it is slow", why=str(error)
                )
            self.fault = f"{self.folder}: {error.strerror or error}"
        else:
            self.fault = None

    def settle(self) -> None:
        """Until all that is to be kept is on disk."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None

    def forget(self, seq: int = -1) -> None:
        """All that are after this record: the log no longer holds what they are of."""
        for each in [each for each in self._all() if each.seq > seq]:
            self._drop(each)

    def _all(self) -> list[_Kept]:
        if not self._read:
            self._read = True
            for path in sorted(self.folder.glob("*.past")) if self.folder.is_dir() else ():
                about = _about(path)
                if about is not None:
                    self._kept.append(_Kept(int(path.stem), time_value(about["head"]["time"]), path))
        return self._kept

    def _later(self, work: Callable[..., None], *arguments: object) -> None:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="console-past")
        self._writer.submit(work, *arguments)

    def _until_written(self) -> None:
        if self._writer is not None:
            self._writer.submit(lambda: None).result()

    def _load(self, kept: _Kept) -> Moment | None:
        """In any thread."""
        self._until_written()
        try:
            line, _, packed = kept.path.read_bytes().partition(b"\n")
            about = json.loads(line)
            pool = from_snapshot(zlib.decompress(packed))
            return Moment(pool, Memo.from_data(about["memo"]), ChainHead(**about["head"]), int(about["offset"]))
        except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
            logger(domain=self.domain).warning(f"{kept.path.name} cannot be read and is thrown away: {error}")
            return None

    def _drop(self, kept: _Kept) -> None:
        self._kept = [each for each in self._kept if each.seq != kept.seq]
        self._later(_unlink, kept.path)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _about(path: Path) -> dict[str, Any] | None:
    """The first line of a file of this format; None for any other."""
    try:
        with path.open("rb") as file:
            about = json.loads(file.readline())
        time_value(about["head"]["time"])
        return dict(about) if about["format"] == FORMAT and about["schema"] == STATE_SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
