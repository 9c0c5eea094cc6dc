"""What jobs, policy and audit share: the client below, requests with their answers, and errors of the client's own types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from bailiff.client.answers import ANSWER_WITHIN, no_such_job, require_accepted
from bailiff.client.errors import Rejected, as_client_error
from bailiff.results import Accepted

if TYPE_CHECKING:
    from bailiff.client.client import Client
    from bailiff.client.settings import ClientSettings
    from bailiff_bus.messages import RequestBody
    from bailiff_core.model.state import Job, PoolState

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
    """A connected client. answer_within: seconds for admission's answer to a request."""

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

    async def job_in(self, pool: str, job: str) -> tuple[PoolState, Job]:
        """The pool's state, and this job in it. Raises `JobNotFound`."""
        state = await self.state(pool)
        if job not in state.jobs:
            raise no_such_job(job, pool)
        return state, state.jobs[job]

    async def until(self, pool: str, found: Callable[[PoolState], T | None], timeout: float | None) -> T | None:
        """The first result of `found` as the state changes; None if there is none in time."""
        with translated():
            return await self.client.until(pool, found, timeout)

    async def request(self, pool: str, body: RequestBody, rejection: type[Rejected] = Rejected) -> Accepted:
        """Sends a request and waits until admission accepts it. Raises `Rejected`, `NoAnswer` or `Unreachable`."""
        with translated():
            await self.client.projection(pool)
            sent = await self.client.request(pool, body)
            outcome = await require_accepted(self.client, sent, self.answer_within, rejection)
        return Accepted(pool, outcome.seq)
