"""The query interface behind `/api/archive`: who asks here needs no token of its own."""

from collections.abc import Mapping
from typing import Any


class ArchiveProxy:
    """address: none, and there is no archive to ask."""

    def __init__(self, address: str | None, token: str | None) -> None:
        self.address, self._token = address, token
        self.answers = False
        self._behind: Mapping[str, int] = {}

    def state(self) -> dict[str, Any]:
        """Whether it is configured, whether it answers, and how far each pool's archive is behind its log."""
        return {"configured": self.address is not None, "answers": self.answers, "behind": dict(self._behind)}
