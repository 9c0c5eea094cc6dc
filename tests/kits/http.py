"""An HTTP service under test: the real one in this process, and a client of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx

PATIENCE_S = 60.0
TOKEN = "a-token-of-the-tests-that-is-long-enough"
POLL_S = 0.02


class Service(Protocol):
    """A service that runs until `stop` is set."""

    @property
    def address(self) -> str:
        """The service's URL; empty until it listens."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run the service."""


@asynccontextmanager
async def serving(service: Service, ready: Callable[[], bool]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the running service, once it is ready."""
    stop = asyncio.Event()
    work = asyncio.create_task(service.run(stop))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not ready() or not service.address:
                if work.done():
                    work.result()
                await asyncio.sleep(POLL_S)
        async with httpx.AsyncClient(base_url=service.address, timeout=PATIENCE_S) as http:
            yield http
    finally:
        stop.set()
        await work


async def get(http: httpx.AsyncClient, path: str, **parameters: Any) -> Any:
    """The JSON body of a successful response."""
    answer = await http.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(http: httpx.AsyncClient, status: int, path: str, **parameters: Any) -> Any:
    """The problem."""
    return problem(await http.get(path, params=parameters), status)


def problem(answer: httpx.Response, status: int) -> Any:
    """The problem document of a refused request, which must have this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()
