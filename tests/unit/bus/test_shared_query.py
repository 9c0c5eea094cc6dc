"""Whoever asks while a query is open gets the answer of the next one, which all who wait share."""

import asyncio
from collections.abc import Callable

import pytest

from bailiff_bus.kafka.shared_query import SharedQuery


class Queries:
    """Each query is answered with its number when the test allows it."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[None]] = []

    async def __call__(self, about: str) -> str:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun.append(answered)
        number = len(self.begun)
        await answered
        return f"answer {number}"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the queries have no event for it
        await asyncio.sleep(0)


async def test_an_answer_is_never_older_than_the_question() -> None:
    queries = Queries()
    query = SharedQuery(queries)
    first = asyncio.create_task(query("a"))
    await until(lambda: len(queries.begun) == 1)
    later = [asyncio.create_task(query("a")) for _ in range(5)]
    other = asyncio.create_task(query("b"))
    await until(lambda: len(queries.begun) == 2)  # about b; those about a wait
    queries.begun[0].set_result(None)
    assert await first == "answer 1"
    await until(lambda: len(queries.begun) == 3)
    queries.begun[2].set_result(None)
    assert await asyncio.gather(*later) == ["answer 3"] * 5
    queries.begun[1].set_result(None)
    assert await other == "answer 2"
    again = asyncio.create_task(query("a"))
    await until(lambda: len(queries.begun) == 4)
    queries.begun[3].set_result(None)
    assert await again == "answer 4"


async def test_an_error_reaches_those_who_share_the_query_and_nobody_else() -> None:
    queries = Queries()
    query = SharedQuery(queries)
    first = asyncio.create_task(query("a"))
    await until(lambda: len(queries.begun) == 1)
    second = asyncio.create_task(query("a"))
    await asyncio.sleep(0)
    queries.begun[0].set_exception(OSError("no answer"))
    with pytest.raises(OSError, match="no answer"):
        await first
    await until(lambda: len(queries.begun) == 2)
    queries.begun[1].set_result(None)
    assert await second == "answer 2"


async def test_who_stops_waiting_takes_the_answer_from_nobody() -> None:
    queries = Queries()
    query = SharedQuery(queries)
    first, second = asyncio.create_task(query("a")), asyncio.create_task(query("a"))
    await until(lambda: len(queries.begun) == 1)
    first.cancel()
    queries.begun[0].set_result(None)
    assert await second == "answer 1"
    assert len(queries.begun) == 1
