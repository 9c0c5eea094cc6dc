"""A console in this process on an in-memory pool whose admission answers each request as soon as it is stored."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.kits.console import Console, sign_in
from tests.kits.http import problem
from tests.kits.log_builder import policy
from tests.kits.memory_bus import MemoryBus
from tests.unit.client.kit import MINUTE, AnsweringBus, LogWriter

from bailiff_bus import topics
from bailiff_bus.envelope import Envelope, unwrap
from bailiff_bus.port import Producer, Receipt
from bailiff_console.actions.worker_tasks import run_task

EIGHT = {"gpus": 8}
PROJECTS = [
    {"name": "research", "quota": EIGHT},
    {"name": "vision", "parent": "research", "quota": EIGHT},
    {"name": "speech", "quota": EIGHT},
]


class _Sending:
    def __init__(self, inner: Producer, answer: Callable[[], None]) -> None:
        self._inner, self._answer = inner, answer

    async def send(self, topic: str, value: bytes, **rest: Any) -> Receipt:
        return await self._inner.send(topic, value, **rest)

    async def close(self) -> None:
        await self._inner.close()
        self._answer()


class AnsweringInProcessBus(AnsweringBus):
    """Answers each request when its producer closes. mute: admission is down."""

    def __init__(self, log_writer: LogWriter) -> None:
        super().__init__(log_writer)
        self.mute = False

    async def producer(self) -> Any:
        inner = await MemoryBus.producer(self)
        return _Sending(inner, self.answer)

    def answer(self) -> None:
        if not self.mute:
            super().answer()


def story() -> LogWriter:
    """Two nodes of four GPUs: train-7 (vision) runs on the first, train-8 (speech) on the second, and train-9 is pending."""
    log_writer = LogWriter()
    log_writer.begin(policy(projects=PROJECTS))
    log_writer.node("gpu-01", gpus=4)
    log_writer.node("gpu-02", gpus=4)
    log_writer.submit("train-7", gpus=4, project="vision")
    log_writer.start("train-7")
    log_writer.submit("train-8", gpus=4, project="speech")
    log_writer.start("train-8")
    log_writer.after(10 * MINUTE).submit("train-9", gpus=4, project="speech")
    return log_writer


class RequestService:
    """A signed-in client of the console."""

    def __init__(self, console: Console, log_writer: LogWriter, bus: AnsweringInProcessBus, headers: dict[str, str]) -> None:
        self.console, self.log_writer, self.bus, self.headers = console, log_writer, bus, headers

    async def post(self, what: str, body: Any) -> httpx.Response:
        """Posts the request. Returns the response."""
        return await self.console.http.post(f"/api/pools/pool-a/{what}", json=body, headers=self.headers)

    async def posted(self, what: str, **body: Any) -> Any:
        """Posts the request. Returns the body of the response, whose status must be 200."""
        answer = await self.post(what, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, status: int, what: str, **body: Any) -> Any:
        """Posts the request. Returns the problem, which must have this status."""
        return problem(await self.post(what, body), status)


@asynccontextmanager
async def running_console(folder: Path, log_writer: LogWriter | None = None, **settings: Any) -> AsyncIterator[RequestService]:
    """Runs a console for the duration of the context."""
    found = log_writer or story()
    bus = AnsweringInProcessBus(found)
    settings_of_test = {
        "console_user": "ada",
        "console_posts_per_minute": 100_000,
        "console_sign_ins_per_minute": 1000,
        **settings,
    }
    console = Console(bus, MemoryBus(found.cluster, "watch"), folder, **settings_of_test)
    async with console.running("pool-a"):
        yield RequestService(console, found, bus, await sign_in(console.http))


def task_result(log_writer: LogWriter, question: str, **fields: Any) -> Any:
    """Returns the worker's result, computed in this process."""
    return run_task(question, {"now": log_writer.now, "user": "ada", "requester": {"actor": "ada"}, **fields}, log_writer.state)


def published(request_service: RequestService) -> list[Envelope]:
    """Requests published to Kafka."""
    partitions = range(topics.REQUESTS.partition_count(1))
    return [
        unwrap(each)
        for number in partitions
        for each in request_service.log_writer.cluster.messages(topics.REQUESTS.name, number)
    ]
