"""The audit log of a pool: verification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bailiff.pool_results import Verification

from . import convert
from .access import Access, translated


class Audit:
    """Audit logs: their verification."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def verify(self, *, pool: str | None = None, file: str | Path | None = None, trust: Sequence[str] = ()) -> Verification:
        """Verifies hash chain, signatures and seals of a pool's log, or of an exported file or folder of segments.

        Args:
            trust: The log's first sealing key, from a source that you trust; without it, the keys that the seals name are
                trusted.
        """
        from bailiff.audit.log_sources import from_file, from_kafka
        from bailiff.audit.verify import verified

        with translated():
            if file is not None:
                return convert.verification(await verified(from_file(Path(file)), trust))
            name = await self._access.pool(pool)
            return convert.verification(await verified(await from_kafka(self._access.client, name), trust))
