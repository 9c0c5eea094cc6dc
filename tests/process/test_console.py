"""The console as a process on real Kafka, PostgreSQL and services: from the first snapshot to its own restart."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.kits.console import ClientState, StreamClient, page, sign_in
from tests.kits.console_demo import POOL, UNNAMED, Demo
from tests.kits.http import PATIENCE_S, get

from bailiff.client.client import Client
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_devstack.kafka import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture
def demo(tmp_path: Path) -> Any:
    """Two machines of eight GPUs, the archive, the query API and the console."""
    made = Demo(tmp_path, 2)
    try:
        made.start()
        yield made
    finally:
        made.stack.close()


def running(job: str) -> Callable[[ClientState], bool]:
    return lambda client_state: client_state.snapshot.get("jobs", {}).get(job, {}).get("state") == "running"


async def test_the_console_shows_the_pool_and_resumes_after_every_outage(demo: Demo) -> None:
    await asyncio.to_thread(demo.console.wait_ready)
    async with demo.client() as client, httpx.AsyncClient(base_url=demo.console.address, timeout=PATIENCE_S) as http:
        await sign_in(http)
        # A page is opened; a job is submitted and seen to run.
        async with page(http, POOL) as live:
            await live.until("both machines are shown", lambda client_state: len(client_state.snapshot.get("nodes", ())) == 2)
            big = demo.job("research-language", gpus=8, name="big")
            printer = SubmitJob(
                demand=demo.job("guests", gpus=4, name="printer").demand,
                spec=JobSpec(command=("sh", "-c", "echo hello; exec sleep 3600")),
            )
            await client.requests(POOL, [big, printer, demo.job("guests", gpus=4, name="third")], actor=UNNAMED)
            await live.until(
                "all run", lambda client_state: all(running(job)(client_state) for job in ("big", "printer", "third"))
            )
            client_state = live.client_state
        # The connection is lost while the pool changes: after the reconnect nothing is missing, without a new snapshot.
        boards = client_state.snapshots
        urgent = [demo.job("product-serving", "inference", 4, name="serve"), demo.job("guests", gpus=2, name="late")]
        await client.requests(POOL, urgent, actor=UNNAMED)
        await until_signalled(client, lambda pool: "serve" in pool.jobs and pool.jobs["serve"].phase == "running")
        async with page(http, POOL, client_state=client_state) as live:
            await live.until("serve is shown as running", running("serve"))
            assert client_state.snapshots == boards
            without_gap(client_state)
            assert "Reclaimed" in [each["event"] for each in client_state.events]
            # The console is killed; a reconnecting page gets a snapshot of the current state.
            demo.console.kill()
            with pytest.raises((httpx.HTTPError, ConnectionError)):
                await live.until("it ends", lambda _: False)
        await client.requests(POOL, [CancelJob(job="late")], actor=UNNAMED)
        await asyncio.to_thread(demo.console.start)
        await asyncio.to_thread(demo.console.wait_ready)
        await sign_in(http)  # sessions are not kept
        async with page(http, POOL, client_state=client_state) as live:
            await live.until(
                "the page is up to date",
                lambda client_state: client_state.snapshots == boards + 1 and "late" not in client_state.snapshot["jobs"],
            )
            without_gap(client_state)
            seq = await the_decision(http)
            await about_the_decision(http, seq, client_state)
            await what_is_printed(http)
            await from_the_archive(http, client, seq)
            await kafka_stops(demo, live)


def without_gap(client_state: ClientState) -> None:
    """Check that event lines are in order, each once; after a new snapshot a page drops those that it has."""
    keys = dict.fromkeys((each["seq"], each["event"], each["job"]) for each in client_state.events)
    assert all(before[0] <= after[0] for before, after in itertools.pairwise(keys))


async def until_signalled(client: Client, condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition((await client.projection(POOL)).state):  # noqa: ASYNC110 - it is another process that makes it so
            await asyncio.sleep(0.1)


async def the_decision(http: httpx.AsyncClient) -> int:
    explained = await get(http, f"/api/pools/{POOL}/explain/serve")
    (section,) = [each for each in explained["sections"] if each["question"] == "Which jobs did it preempt?"]
    return int(section["sentences"][0]["seqs"][0])


async def about_the_decision(http: httpx.AsyncClient, seq: int, client_state: ClientState) -> None:
    """The decision is returned in full, with the pool's state just before it."""
    decision = await get(http, f"/api/pools/{POOL}/decisions/{seq}")
    victims = {each["job"] for each in decision["view"]["victims"]}
    assert victims <= {"big", "printer", "third"}
    assert {each["job"] for each in decision["candidates"] if each["chosen"]} == victims
    then = await get(http, f"/api/pools/{POOL}/snapshot", seq=seq - 1)
    assert {name: then["jobs"][name]["state"] for name in victims} == dict.fromkeys(victims, "running")
    now = await get(http, f"/api/pools/{POOL}/snapshot", time="now")
    assert now["nodes"] == client_state.snapshot["nodes"]
    assert (await get(http, f"/api/pools/{POOL}/jobs/serve"))["summary"]["state"] == "running"


async def what_is_printed(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", f"/api/pools/{POOL}/logs/printer") as answer:
        async for line in data_lines(answer):
            if "hello" in [each["text"] for each in json.loads(line)]:
                return


async def from_the_archive(http: httpx.AsyncClient, client: Client, seq: int) -> None:
    """The query API behind the console: a response, a stream, and the error for a missing object."""
    async with asyncio.timeout(PATIENCE_S):
        while (await http.get(f"/api/archive/pools/{POOL}/records/{seq}")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    record = await get(http, f"/api/archive/pools/{POOL}/records/{seq}")
    assert record["type"] == "PreemptionDecided"
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", "/api/archive/events", params={"from": "start"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in data_lines(answer):
            assert json.loads(line)["seq"] == 0
            break
    again = await http.get(f"/api/archive/pools/{POOL}/records/{seq}", headers={"if-none-match": '"another"'})
    assert "etag" in again.headers
    assert (await http.get("/api/archive/pools/nowhere")).status_code == 404


async def kafka_stops(demo: Demo, live: StreamClient) -> None:
    """The outage is shown, the snapshot stays, and the stream resumes with Kafka."""
    nodes = live.client_state.snapshot["nodes"]
    assert isinstance(demo.stack.kafka, EmbeddedKafka)
    demo.stack.kafka.pause()
    try:
        await live.until("the page shows that Kafka is unavailable", lambda client_state: client_state.state["kafka"] is False)
    finally:
        demo.stack.kafka.resume()
    assert live.client_state.snapshot["nodes"] == nodes
    await live.until("the page shows that Kafka is available", lambda client_state: client_state.state["kafka"] is True)


async def data_lines(answer: httpx.Response) -> AsyncIterator[str]:
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
