"""Sends the bridge's requests, each again while the log shows no effect, but not more often than the interval."""

import hmac
from collections.abc import Iterable

from bailiff.client.client import Client
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger

from .actions import Send
from .pool_log import PoolLog

RESEND_AFTER = 5_000_000


class Requests:
    """client: has the key that signs, and its name in the policy as the actor. secret: makes ids that nobody can guess."""

    def __init__(self, client: Client, clock: ClockAndIds, secret: bytes) -> None:
        self._client, self._clock, self._secret = client, clock, secret
        self._sent: dict[tuple[str, str], int] = {}

    async def send(self, pool: PoolLog, requests: Iterable[Send]) -> int:
        """Send those that are due. Returns how many."""
        now = self._clock.boot()
        still: dict[tuple[str, str], int] = {}
        due: dict[str, list[Send]] = {}
        for request in requests:
            key = (pool.name, self._id(pool, request))
            last = self._sent.get(key)
            if last is None or now - last >= RESEND_AFTER:
                due.setdefault(request.user, []).append(request)
                last = now
            still[key] = last
        self._sent = {key: at for key, at in self._sent.items() if key[0] != pool.name} | still
        for user, those in due.items():
            bodies = [
                request.body if self._is_vouched(user) else request.body.model_copy(update={"vouched_by": None})
                for request in those
            ]
            ids = [self._id(pool, request) for request in those]
            sent = await self._client.requests(pool.name, bodies, ids=ids, actor=self._actor(user))
            for request, each in zip(those, sent, strict=True):
                pool.note_sent(request.id, each)
                logger(pool=pool.name).info("sent", type=type(request.body).__name__, id=each.id)
        return sum(len(those) for those in due.values())

    def _id(self, pool: PoolLog, request: Send) -> str:
        """Under which it is sent: the same for a repeat. Another one after a rejection, with which everybody can read the id."""
        rejection = pool.rejected.get(request.id)
        what = f"bailiff-bridge-id-1 {pool.name} {request.id} {'' if rejection is None else rejection.seq}"
        return f"{request.id}/{hmac.digest(self._secret, what.encode(), 'sha256').hex()[:32]}"

    def _is_vouched(self, user: str) -> bool:
        """Admission accepts who vouches for a user only in a signed request in the user's name."""
        return bool(user and self._client.key_id)

    def _actor(self, user: str) -> str:
        """The user's name below that of the bridge's key; of requests for nobody the bridge's own."""
        holder = self._client.actor
        if not user:
            return holder
        return f"{holder}/{user}" if self._client.key_id else user
