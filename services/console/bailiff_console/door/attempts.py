"""Sign-ins under way, each bound to the browser that began it by a cookie."""

import secrets
import time
from collections.abc import Callable

from .oidc import Attempt

LASTS_S = 600
MOST = 5_000


class Attempts:
    """Kept for ten minutes at most, each to be taken once."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[str, tuple[float, Attempt]] = {}

    def keep(self, attempt: Attempt) -> str:
        """The value of the browser's cookie."""
        now = self._now()
        over = [key for key, (began, _) in self._kept.items() if now - began >= LASTS_S]
        for key in over or list(self._kept)[: len(self._kept) - MOST + 1]:
            del self._kept[key]
        made = secrets.token_urlsafe(32)
        self._kept[made] = (now, attempt)
        return made

    def take(self, value: str | None) -> Attempt | None:
        """The attempt of this browser; a second time there is none."""
        began, attempt = self._kept.pop(value or "", (float("-inf"), None))
        return attempt if self._now() - began < LASTS_S else None
