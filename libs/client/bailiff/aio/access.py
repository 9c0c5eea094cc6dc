"""What jobs, policy and audit share: the client below, requests with their answers, and errors of the client's own types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from bailiff.client.answers import ANSWER_WITHIN, job_in, require_accepted
from bailiff.client.errors import InvalidRequest, Rejected, as_client_error
from bailiff.results import Accepted

if TYPE_CHECKING:
    from bailiff.client.client import Client
    from bailiff.client.settings import ClientSettings
    from bailiff_core.model.state import Job, PoolState
    from bailiff_core.records.request import RequestBody

T = TypeVar("T")


@contextmanager
def translated() -> Iterator[None]:
    """Raises errors of the layers below as errors of the client."""
    try:
        yield
    except Exception as error:
        problem = as_client_error(error)
        if problem is None or problem is error:
            raise
        raise problem from error


class Access:
    """A connected client.

    Attributes:
        answer_within: Seconds for admission's answer to a request.
    """

    def __init__(self, client: Client, settings: ClientSettings, answer_within: float = ANSWER_WITHIN) -> None:
        self.client, self.settings, self.answer_within = client, settings, answer_within

    async def pool(self, name: str | None) -> str:
        """The pool of that name; else that of the settings; else the only pool."""
        with translated():
            return (await self.client.pool(name or self.settings.pool)).name

    async def state(self, pool: str | None) -> PoolState:
        """The pool's state at the end of its log. It changes with the next call."""
        name = await self.pool(pool)
        with translated():
            return (await self.client.projection(name)).state

    async def requester(self, pool: str | None) -> tuple[PoolState, str]:
        """The pool's state, and the user that it knows this client by."""
        from bailiff.client.requester import requester_of

        state = await self.state(pool)
        return state, requester_of(self.client, state).actor

    async def job_in(self, pool: str, job: str) -> tuple[PoolState, Job]:
        """The pool's state, and this job in it. Raises `JobNotFound`."""
        with translated():
            return await job_in(self.client, pool, job)

    async def until(self, pool: str, found: Callable[[PoolState], T | None], timeout: float | None) -> T | None:
        """The first result of `found` as the state changes; None if there is none in time."""
        with translated():
            return await self.client.until(pool, found, timeout)

    async def request(
        self, pool: str, body: RequestBody, rejection: type[Rejected] = Rejected, *, lose_permissions: bool = False
    ) -> Accepted:
        """Sends a request and waits until admission accepts it. Raises `Rejected`, `NoAnswer` or `Unreachable`.

        Raises `InvalidRequest` for one by which you would lose permissions, unless `lose_permissions` is set.
        """
        from bailiff.client.requester import lost_by, requester_of

        with translated():
            state = (await self.client.projection(pool)).state
            lost = [] if lose_permissions else lost_by(state, body, requester_of(self.client, state))
            if lost:
                raise InvalidRequest(lost, "to do it all the same: lose_permissions=True")
            sent = await self.client.request(pool, body)
            outcome = await require_accepted(self.client, sent, self.answer_within, rejection)
        return Accepted(pool, outcome.seq)
