"""Sends the bridge's requests, each again while the log shows no effect, but not more often than the interval."""

from collections.abc import Iterable

from bailiff.client.client import Client
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger

from .actions import Send

RESEND_AFTER = 5_000_000


class Requests:
    """client: has the key that signs, and its name in the policy as the actor."""

    def __init__(self, client: Client, clock: ClockAndIds) -> None:
        self._client, self._clock = client, clock
        self._sent: dict[tuple[str, str], int] = {}

    async def send(self, pool: str, requests: Iterable[Send]) -> int:
        """Send those that are due. Returns how many."""
        now = self._clock.boot()
        still: dict[tuple[str, str], int] = {}
        due: dict[str, list[Send]] = {}
        for request in requests:
            key = (pool, request.id)
            last = self._sent.get(key)
            if last is None or now - last >= RESEND_AFTER:
                due.setdefault(request.user, []).append(request)
                last = now
            still[key] = last
        self._sent = {key: at for key, at in self._sent.items() if key[0] != pool} | still
        for user, those in due.items():
            bodies = [
                request.body if self._is_vouched(user) else request.body.model_copy(update={"vouched_by": None})
                for request in those
            ]
            await self._client.requests(pool, bodies, ids=[request.id for request in those], actor=self._actor(user))
            for request in those:
                logger(pool=pool).info("sent", type=type(request.body).__name__, id=request.id)
        return sum(len(those) for those in due.values())

    def _is_vouched(self, user: str) -> bool:
        """Admission accepts who vouches for a user only in a signed request in the user's name."""
        return bool(user and self._client.key_id)

    def _actor(self, user: str) -> str:
        """The user's name below that of the bridge's key; of requests for nobody the bridge's own."""
        holder = self._client.actor
        if not user:
            return holder
        return f"{holder}/{user}" if self._client.key_id else user
