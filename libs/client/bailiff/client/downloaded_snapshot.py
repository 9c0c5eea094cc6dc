"""Downloads a snapshot from the HTTP API, for the first command on a machine: it is used only if the log confirms it.

Nothing of it is believed before. It is JSON, and read as such; size and time are bounded. Where it is refused, one line says why,
and the log is folded from its start.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from bailiff_bus.lazy_logger import lazy_logger
from bailiff_core.engine import STATE_SCHEMA
from bailiff_log.offered_snapshot import SnapshotRefused, check_offered
from bailiff_log.snapshot_file import read_snapshot
from bailiff_service.settings import SettingsError

from .errors import ClientError
from .http_connection import RequestFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bailiff_log.projection import Projection

    from .http_connection import HttpConnection
    from .pool_ref import PoolRef

MAX_BYTES, MAX_BYTES_PER_MESSAGE = 1 << 30, 1 << 16
WITHIN_S = 10.0
NOT_FOUND = 404


async def open_downloaded(
    offers: Callable[[], HttpConnection], projection: Projection, pool: PoolRef, folder: Path, messages: int
) -> None:
    """Let the projection begin at a downloaded snapshot, if there is one that may be of this log.

    Args:
        offers: Connects to the HTTP API.
        folder: Of local snapshots.
        messages: In the log.
    """
    file = folder / f"{pool.name}.{os.getpid()}.downloaded.new"
    try:
        most = min(MAX_BYTES, MAX_BYTES_PER_MESSAGE * messages)
        await offers().save(f"/pools/{pool.name}/snapshot", file, most, WITHIN_S, schema=STATE_SCHEMA)
        offered = read_snapshot(file, undecoded=True)
        if offered is not None:
            await check_offered(projection.bus, offered, pool.name, pool.partition, pool.identity, pool.root_key)
            projection.open_offered(file, offered)
            return
    except (ClientError, SettingsError, SnapshotRefused) as error:
        if not isinstance(error, RequestFailed) or error.status != NOT_FOUND:
            lazy_logger(pool=pool.name).warning("no downloaded snapshot is used: folding from the start", reason=str(error))
    with suppress(OSError):
        file.unlink(missing_ok=True)
