"""Snapshots of one pool's state on disk, bounded in number and spread evenly over the log, for point-in-time queries.

They serve queries of the past only: after a restart the console resumes from the projection's own snapshot, which the log's
digests confirm. An unreadable snapshot is deleted, and the state is folded from the one before it.
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

from bailiff_console.live.view_cache import ViewCache
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.fold.snapshot import from_snapshot, snapshot_parts
from bailiff_core.model.state import PoolState
from bailiff_core.records import ChainHead
from bailiff_core.records.wire import time_value
from bailiff_service.logs import logger

FORMAT = 1
LEVEL = 1  # of compression: already reduces a state to a tenth
PART = 1 << 20  # bytes of a state compressed at a time
MIN_GAP = 4000  # records between two snapshots


@dataclass(slots=True)
class PointInTime:
    """State and view cache of a pool after one record. head: of the chain; offset: of the next message."""

    state: PoolState
    view_cache: ViewCache
    head: ChainHead
    offset: int

    @property
    def seq(self) -> int:
        """Seq of that record; -1 before the first."""
        return self.head.next_seq - 1


@dataclass(frozen=True, slots=True)
class _SnapshotFile:
    seq: int
    time: int
    path: Path


class Snapshots:
    """most: maximum number of snapshots. fault: why the last write failed; None if it succeeded."""

    def __init__(self, folder: Path, pool: str, most: int) -> None:
        self.folder, self.pool, self.most = folder, pool, most
        self.fault: str | None = None
        self._kept: list[_SnapshotFile] = []
        self._read = False
        self._writer: ThreadPoolExecutor | None = None

    async def before(self, *, seq: int | None = None, time: int | None = None) -> PointInTime:
        """The newest snapshot at or before this record, or this time (µs); the empty state if there is none."""
        kept = self._all()
        at = bisect_right(kept, seq, key=lambda each: each.seq) if seq is not None else 0
        at = bisect_right(kept, time, key=lambda each: each.time) if time is not None else at
        for each in reversed(kept[:at]):
            found = await asyncio.to_thread(self._load, each)  # parsing a large one takes a second
            if found is not None:
                return found
            self._drop(each)
        return PointInTime(PoolState(), ViewCache(), ChainHead(self.pool), 0)

    async def position_before(self, seq: int) -> tuple[ChainHead, int]:
        """Chain head and offset of the newest snapshot before this record."""
        kept = self._all()
        await asyncio.to_thread(self._until_written)
        for each in reversed(kept[: bisect_right(kept, seq - 1, key=lambda each: each.seq)]):
            about = _about(each.path)
            if about is not None:
                return ChainHead.from_data(about["head"]), int(about["offset"])
        return ChainHead(self.pool), 0

    def newest_before(self, seq: int) -> int:
        """Seq of the newest snapshot at or before this record; -1 for none."""
        kept = self._all()
        at = bisect_right(kept, seq, key=lambda each: each.seq)
        return kept[at - 1].seq if at else -1

    def newest_until(self, time: int) -> int:
        """Seq of the newest snapshot at or before this time, µs; -1 for none."""
        kept = self._all()
        at = bisect_right(kept, time, key=lambda each: each.time)
        return kept[at - 1].seq if at else -1

    def wants(self, seq: int, end: int) -> bool:
        """Whether to take a snapshot after this record. end: approximate length of the log."""
        gap = max(MIN_GAP, 2 * end // self.most)
        kept = self._all()
        at = bisect_right(kept, seq, key=lambda each: each.seq)
        return (not at or seq - kept[at - 1].seq >= gap) and (at == len(kept) or kept[at].seq - seq >= gap // 2)

    def keep(self, moment: PointInTime, state: Path | None = None) -> None:
        """Write a snapshot; above the maximum, drop the one with the smallest gap. state: already written, if given."""
        state = state or self.write_state(moment)
        if state is None:
            return
        about = {
            "format": FORMAT,
            "schema": STATE_SCHEMA,
            "head": asdict(moment.head),
            "offset": moment.offset,
            "view_cache": moment.view_cache.to_data(),
        }
        path = self.folder / f"{moment.seq:012d}.past"
        kept = [each for each in self._all() if each.seq != moment.seq]
        self._kept = sorted([*kept, _SnapshotFile(moment.seq, time_value(moment.head.time), path)], key=lambda each: each.seq)
        self._later(self._compress, path, json.dumps(about).encode(), state)
        while len(self._kept) > self.most:
            gaps = [
                (after.seq - before.seq, at) for at, (before, after) in enumerate(zip(self._kept, self._kept[2:], strict=False))
            ]
            self._drop(self._kept[min(gaps)[1] + 1])

    def write_state(self, moment: PointInTime) -> Path | None:
        """Write the state, uncompressed and in parts, for `keep`, in any thread. None: it cannot be written."""
        path = self.folder / f"{moment.seq:012d}.state"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.writelines(snapshot_parts(moment.state))
        except OSError as error:
            self._failed(error)
            return None
        return path

    def _compress(self, path: Path, about: bytes, state: Path) -> None:
        """Runs in the writer thread: compressing a large state takes too long for the event loop."""
        draft, compressor = path.with_suffix(".draft"), zlib.compressobj(LEVEL)
        try:
            with state.open("rb") as parts, draft.open("wb") as file:
                file.write(about + b"\n")
                while part := parts.read(PART):
                    file.write(compressor.compress(part))
                file.write(compressor.flush())
            draft.replace(path)
        except OSError as error:
            self._failed(error)
        else:
            self.fault = None
        _unlink(state)

    def _failed(self, error: OSError) -> None:
        if self.fault is None:
            logger(pool=self.pool).warning("cannot write snapshots; point-in-time queries will be slow", why=str(error))
        self.fault = f"{self.folder}: {error.strerror or error}"

    def flush(self) -> None:
        """Wait until all snapshots are on disk."""
        if self._writer is not None:
            self._writer.shutdown()
            self._writer = None

    def forget(self, seq: int = -1) -> None:
        """Drop all snapshots after this record: the log no longer holds their records."""
        for each in [each for each in self._all() if each.seq > seq]:
            self._drop(each)

    def _all(self) -> list[_SnapshotFile]:
        if not self._read:
            self._read = True
            for path in sorted(self.folder.glob("*.past")) if self.folder.is_dir() else ():
                about = _about(path)
                if about is not None:
                    self._kept.append(_SnapshotFile(int(path.stem), time_value(about["head"]["time"]), path))
        return self._kept

    def _later(self, work: Callable[..., None], *arguments: object) -> None:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="console-past")
        self._writer.submit(work, *arguments)

    def _until_written(self) -> None:
        if self._writer is not None:
            self._writer.submit(lambda: None).result()

    def _load(self, kept: _SnapshotFile) -> PointInTime | None:
        """Runs in any thread."""
        self._until_written()
        try:
            line, _, packed = kept.path.read_bytes().partition(b"\n")
            about = json.loads(line)
            state = from_snapshot(zlib.decompress(packed))
            return PointInTime(
                state, ViewCache.from_data(about["view_cache"]), ChainHead.from_data(about["head"]), int(about["offset"])
            )
        except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
            logger(pool=self.pool).warning(f"{kept.path.name} cannot be read and is deleted: {error}")
            return None

    def _drop(self, kept: _SnapshotFile) -> None:
        self._kept = [each for each in self._kept if each.seq != kept.seq]
        self._later(_unlink, kept.path)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _about(path: Path) -> dict[str, Any] | None:
    """The header line of a snapshot file; None if the format differs."""
    try:
        with path.open("rb") as file:
            about = json.loads(file.readline())
        time_value(about["head"]["time"])
        return dict(about) if about["format"] == FORMAT and about["schema"] == STATE_SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
