"""The console's live stream on the in-memory bus, over HTTP: snapshots, changes, and the state of unavailable services."""

import asyncio
import contextlib
import json
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.kits.archive import Log
from tests.kits.console import Console, page
from tests.kits.log_builder import SECOND, Story, policy
from tests.kits.oidc_provider import served
from tests.kits.waiting import until

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.reports import FenceStatus, NodeHeartbeat
from bailiff_bus.messages.telemetry import DeviceTelemetry, NodeTelemetry
from bailiff_bus.topics import TELEMETRY
from bailiff_console.history import snapshots, state_at
from bailiff_console.live import pool_projection, subscribers
from bailiff_core.model.demand import Dependency
from bailiff_core.records import Wire
from bailiff_core.records.decisions import PreemptionDecided

PROJECTS = [{"name": "red", "quota": {"gpus": 4}}, {"name": "blue", "quota": {"gpus": 4}}]


class World:
    """A pool's story, its log in memory, and the console that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.story = folder, Log(), Story(policy(projects=PROJECTS), pool="pool-a")
        self._written = 0

    def write(self) -> int:
        """Append the story's new records; the seq of the last one."""
        wires = self.story.wires
        self.log.append(wires[self._written :])
        self._written = len(wires)
        return self._written - 1

    @contextlib.asynccontextmanager
    async def console(self, **settings: Any) -> AsyncIterator[Console]:
        """Run the console inside the context."""
        made = Console(self.log.cluster.client("console"), self.log.cluster.client("watch"), self.folder / "state", **settings)
        async with made.running("pool-a"):
            yield made


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two nodes, and one job that runs."""
    made = World(tmp_path)
    made.story.node("n1", gpus=4)
    made.story.node("n2", gpus=4)
    made.story.runs("train-1", gpus=4, project="red")
    made.write()
    return made


def at(seq: int) -> Any:
    return lambda client_state: client_state.snapshot.get("seq") == seq


async def test_a_page_gets_a_snapshot_then_changes_and_resumes_after_a_disconnect(world: World) -> None:
    story = world.story
    async with world.console() as console:
        async with page(console.http, "pool-a") as live:
            await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
            snapshot = live.client_state.snapshot
            assert snapshot["pool"]["gpus_allocated"] == 4
            assert [cell[0] for cell in snapshot["nodes"]["n1"]["devices"]] == ["allocated"] * 4
            assert snapshot["nodes"]["n1"]["devices"][0][1] == "train-1"
            assert (
                snapshot["jobs"]["train-1"] | {"state": "running", "priority_class": "train", "nodes": ["n1"]}
                == snapshot["jobs"]["train-1"]
            )
            assert snapshot["projects"]["red"]["used"]["gpus"] == 4
            assert snapshot["queue"] == []
            assert [each["event"] for each in snapshot["events"]][-1] == "Started"
            story.runs("train-2", gpus=4, project="blue")
            story.submit("train-3", gpus=4, project="red")
            await live.until("the third job is pending", at(world.write()))
            client_state = live.client_state
            assert client_state.snapshot["queue"] == ["train-3"]
            waits = client_state.snapshot["jobs"]["train-3"]
            assert waits["state"] == "pending"
            assert waits["pending_reason"] == "needs a node with 4 free GPUs, no node has them"
            assert client_state.snapshots == 1
        # While no page is connected, train-1 ends and train-3 takes its place.
        story.ends("train-1")
        story.started("train-3")
        seq = world.write()
        await until(lambda: console.service.pools.get("pool-a").pool_projection.position.seq == seq)
        async with page(console.http, "pool-a", client_state=client_state) as again:
            await again.until("the page has caught up", at(seq))
            assert client_state.snapshots == 1, "the stream did not resume: a new snapshot was sent"
            assert "train-1" not in client_state.snapshot["jobs"]
            assert client_state.snapshot["jobs"]["train-3"]["nodes"] == ["n1"]
            reply = [each["seq"] for each in client_state.events]
            assert reply == sorted(reply)
            assert len({(each["seq"], each["event"], each["job"]) for each in client_state.events}) == len(client_state.events)
            assert {"Succeeded", "Started"} <= {each["event"] for each in client_state.events}


async def test_of_many_jobs_a_page_gets_the_first_and_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_projection, "MAX_PENDING", 2)
    monkeypatch.setattr(pool_projection, "MAX_ASIDE", 1)
    world.story.runs("train-0", gpus=4)
    for number in range(1, 6):
        world.story.submit(f"wait-{number}", gpus=8)
    for number in range(1, 4):
        world.story.cycle(world.story.submitted(f"after-{number}", after=(Dependency(job="train-1"),)))
    world.write()
    async with (
        world.console() as console,
        page(console.http, "pool-a") as live,
        page(console.http, "pool-a", job="wait-4") as own,
    ):
        await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        await own.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        assert list(live.client_state.snapshot["jobs"]) == ["train-1", "train-0", "wait-1", "wait-2", "after-3"]
        assert live.client_state.snapshot["queue"] == ["wait-1", "wait-2"]
        assert live.client_state.snapshot["pool"]["jobs_pending"] == 5
        assert own.client_state.snapshot["jobs"]["wait-4"]["state"] == "pending"
        for job in ("wait-1", "wait-4"):
            world.story.cancel(job)
        seq = world.write()
        await live.until("the next job takes the place", at(seq))
        await own.until("its job has ended", at(seq))
        assert live.client_state.snapshot["queue"] == ["wait-2", "wait-3"]
        assert "wait-3" in live.client_state.snapshot["jobs"]
        assert "wait-4" not in own.client_state.snapshot["jobs"]


async def test_all_jobs_are_listed_page_by_page(world: World) -> None:
    for number in range(1, 6):
        world.story.submit(f"wait-{number}", gpus=number, project="red" if number % 2 else "blue")
    world.write()

    async def names(console: Console, **asked: Any) -> list[str]:
        found, cursor = list[str](), None
        while True:
            params = {**asked, "limit": 2, **({"cursor": cursor} if cursor is not None else {})}
            answer = await console.http.get("/api/pools/pool-a/jobs", params=params)
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["items"]) <= 2
            found += [row["job"] for row in answer.json()["items"]]
            cursor = answer.json()["next"]
            if cursor is None:
                assert answer.json()["total"] == len(found)
                return found

    async with world.console() as console:
        oldest_first = ["train-1", *(f"wait-{number}" for number in range(1, 6))]
        assert await names(console) == oldest_first
        assert await names(console, sort="submitted", order="desc") == oldest_first[::-1]
        assert await names(console, sort="gpus", order="desc", contains="ait-", project="red") == ["wait-5", "wait-3", "wait-1"]
        assert await names(console, state="running") == ["train-1"]
        assert await names(console, state="evicted") == []
        assert await names(console, contains="*") == []
        assert (await console.http.get("/api/pools/pool-a/jobs", params={"from": "soon"})).status_code == 400


async def test_a_restarted_console_sends_a_new_snapshot_to_reconnecting_pages(world: World) -> None:
    async with world.console() as console, page(console.http, "pool-a") as live:
        await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
    world.story.submit("train-2", gpus=8)
    seq = world.write()
    async with world.console() as console, page(console.http, "pool-a", client_state=live.client_state) as again:
        await again.until("the page is up to date", at(seq))
        assert live.client_state.snapshots == 2
        assert "train-2" in live.client_state.snapshot["jobs"]
        assert "train-2" in [each["job"] for each in live.client_state.snapshot["events"]]


async def test_changes_are_sent_at_most_five_times_a_second_and_are_equal_for_all_pages(world: World) -> None:
    async with world.console() as console, contextlib.AsyncExitStack() as stack:
        open_pages = [await stack.enter_async_context(page(console.http, "pool-a")) for _ in range(3)]
        for each in open_pages:
            await each.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(30):
            world.story.submit(f"job-{number}", gpus=1, after=SECOND)
            seq = world.write()
            await asyncio.sleep(0.02)
        for each in open_pages:
            await each.until("the page has all changes", at(seq))
        most = 2 + (loop.time() - began) * 5
        assert all(each.client_state.changes <= most for each in open_pages)
        assert open_pages[0].client_state.snapshot == open_pages[1].client_state.snapshot == open_pages[2].client_state.snapshot


async def test_a_page_gets_only_the_parts_that_it_subscribed_to(world: World) -> None:
    async with world.console() as console:
        async with page(console.http, "pool-a", show="projects") as live:
            await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
            assert set(live.client_state.snapshot) == {"seq", "time", "pool", "projects", "classes"}
            world.story.submit("train-2", gpus=8)
            await live.until("the page gets the change", at(world.write()))
            assert "jobs" not in live.client_state.snapshot
        refused = await console.refused(400, "/pools/pool-a/live", include="nodes,everything")
        assert refused["errors"][0]["location"] == "include"
        assert "everything" in refused["detail"]
        assert "pool-a" in (await console.refused(404, "/pools/nowhere/live"))["detail"]


async def test_a_page_that_reads_nothing_is_not_buffered_and_gets_a_new_snapshot(world: World) -> None:
    async with world.console() as console:
        followed = console.service.pools.get("pool-a")
        slow = followed.subscribers.add(frozenset({"jobs"}), None)
        assert await slow.take(followed.snapshot_event, 0) is not None
        for number in range(subscribers.QUEUE + 3):
            world.story.submit(f"job-{number}", gpus=1)
            seq = world.write()
            await until(lambda seq=seq: followed.pool_projection.position.seq == seq)
        snapshot = await slow.take(followed.snapshot_event, 0)
        assert snapshot is not None
        assert b"event: snapshot" in snapshot
        assert f"job-{number}".encode() in snapshot
        assert await slow.take(followed.snapshot_event, 0) is None


async def test_the_snapshot_stays_while_kafka_is_away(world: World) -> None:
    async with world.console() as console, page(console.http, "pool-a") as live:
        await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        world.log.cluster.begin_outage()
        await live.until(
            "the page shows that Kafka is unavailable", lambda client_state: client_state.state.get("kafka") is False
        )
        assert (await console.get("/pools"))["kafka"]["answers"] is False
        assert (await console.get("/pools"))["pools"][0]["gpus_allocated"] == 4
        assert (await console.http.get("/readyz")).status_code == 503
        world.log.cluster.end_outage()
        world.story.submit("train-2", gpus=8)
        seq = world.write()
        await live.until("Kafka is available", lambda client_state: client_state.state["kafka"] is True)
        await live.until("the stream continues", at(seq))
        assert live.client_state.snapshots == 1


async def test_a_truncated_log_is_read_again_and_every_page_gets_a_new_snapshot(world: World) -> None:
    async with world.console() as console, page(console.http, "pool-a") as live:
        await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        kept = world.story.wires[:-3]
        world.log.cluster.truncate(topics.AUDIT.name, 0, len(kept))
        other = world.story.resumed(len(kept))
        other.submit("after-the-loss", gpus=1)
        other.submit("and-another", gpus=1)
        other.submit("and-a-third", gpus=1)
        world.log.append(other.wires[len(kept) :])
        await live.until("the page has a new snapshot", lambda client_state: "and-a-third" in client_state.snapshot["jobs"])
        assert live.client_state.snapshots == 2


async def test_a_pool_created_later_is_found_and_shown_by_itself(world: World) -> None:
    world.log.cluster.create_topics(2)
    async with world.console() as console:
        other = Story(pool="pool-b", partition=1)
        other.node("m1", gpus=2)
        for wire in other.wires:
            store(world, wire)
        await until(lambda: console.follows("pool-b"))
        found = (await console.get("/pools"))["pools"]
        assert [(each["pool"], each["gpus"]) for each in found] == [("pool-a", 8), ("pool-b", 2)]
        async with page(console.http, "pool-b") as live:
            await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
            assert list(live.client_state.snapshot["nodes"]) == ["m1"]


def store(world: World, wire: Wire) -> None:
    world.log.cluster.store(topics.AUDIT.name, 1, b"pool-b", wire.headers, wire.value)


async def test_the_pool_is_shown_as_it_was_after_any_record_and_at_any_time(world: World) -> None:
    story = world.story
    ran = world.write()
    story.ends("train-1", after=60 * SECOND)
    story.runs("train-2", gpus=2, project="blue", after=60 * SECOND)
    last = world.write()
    async with world.console() as console:
        before = await console.get("/pools/pool-a/snapshot", seq=ran)
        assert before["seq"] == ran
        assert list(before["jobs"]) == ["train-1"]
        assert (before["first_seq"], before["head_seq"]) == (0, last)
        now = await console.get("/pools/pool-a/snapshot", seq=last)
        assert list(now["jobs"]) == ["train-2"]
        async with page(console.http, "pool-a", show="nodes,jobs,projects,queue") as live:
            await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        for part in ("nodes", "jobs", "projects", "queue", "pool"):
            assert now[part] == live.client_state.snapshot[part], part
        then = await console.get("/pools/pool-a/snapshot", time=before["time"])
        assert then == before
        assert (await console.get("/pools/pool-a/snapshot", time="now"))["seq"] == last
        assert "ends at" in (await console.refused(404, "/pools/pool-a/snapshot", seq=last + 1))["detail"]
        assert "begins later" in (await console.refused(404, "/pools/pool-a/snapshot", time="2001-01-01T00:00:00Z"))["detail"]
        await console.refused(400, "/pools/pool-a/snapshot", time="yesterday")
        await console.refused(400, "/pools/pool-a/snapshot")


@pytest.mark.parametrize(("module", "what"), [(snapshots, "from_snapshot"), (state_at, "apply"), (snapshots, "snapshot_parts")])
async def test_pages_stay_live_while_a_past_state_is_computed(
    world: World, monkeypatch: pytest.MonkeyPatch, module: Any, what: str
) -> None:
    """The slow computation is blocked until a live page has received a record that was written meanwhile."""
    monkeypatch.setattr(snapshots, "MIN_GAP", 4)
    begun, go_on, really = threading.Event(), threading.Event(), getattr(module, what)

    def slowly(*arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return really(*arguments)

    for number in range(8):
        world.story.submit(f"waits-{number}", gpus=4, project="blue", after=SECOND)
    seq = world.write() - 1
    async with world.console() as console, page(console.http, "pool-a") as live:
        await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
        followed = console.service.pools.get("pool-a")
        if what == "snapshot_parts":
            followed.history.snapshots.forget()  # so that states are computed again
        monkeypatch.setattr(module, what, slowly)
        pending = asyncio.create_task(console.get("/pools/pool-a/snapshot", seq=seq))
        await asyncio.to_thread(begun.wait, 30)
        world.story.submit("meanwhile", gpus=4, project="blue")
        monkeypatch.setattr(followed.history.snapshots, "wants", lambda *_: False)
        now = world.write()
        await live.until("the page gets the record", at(now))
        assert not pending.done()
        go_on.set()
        assert (await pending)["seq"] == seq


async def test_a_missing_or_unavailable_archive_is_reported(world: World) -> None:
    async with world.console() as console:
        assert (await console.get("/pools"))["archive"] == {"configured": False, "answers": False, "behind": {}}
        assert "BAILIFF_API" in (await console.refused(404, "/archive/pools"))["detail"]
    async with world.console(api="http://127.0.0.1:9") as console:
        assert "does not answer" in (await console.refused(503, "/archive/pools"))["detail"]


@pytest.mark.parametrize(("token", "asked_with"), [("", None), ("sésame", "Bearer sésame")])
async def test_an_empty_token_is_none_as_compose_passes_it(
    world: World, monkeypatch: pytest.MonkeyPatch, token: str, asked_with: str | None
) -> None:
    requested: list[str | None] = []

    async def archive(request: Request) -> JSONResponse:
        header_value = request.headers.get("authorization")
        requested.append(header_value.encode("latin-1").decode() if header_value is not None else None)
        return JSONResponse({"items": []})

    monkeypatch.setenv("BAILIFF_API_TOKEN", token)
    async with served(Starlette(routes=[Route("/v1/pools", archive)])) as address, world.console(api=address) as console:
        assert await console.get("/archive/pools") == {"items": []}
    assert set(requested) == {asked_with}


async def test_without_a_built_page_it_says_how_to_build_one(world: World) -> None:
    async with world.console() as console:
        answer = await console.http.get("/pool-a/jobs/train-1")
        assert answer.status_code == 200
        assert "make web" in answer.text or "<script" in answer.text
        assert (await console.http.get("/api/nothing")).json()["status"] == 404
        assert (await console.http.get("/assets/none.js")).status_code == 404


@pytest.fixture
def preempted(world: World) -> World:
    """serve-1 requests four GPUs and preempts train-2, which is requeued."""
    story = world.story
    story.runs("train-2", gpus=4, project="blue", after=60 * SECOND)
    story.submit("serve-1", gpus=4, cls="inference", project="blue", after=60 * SECOND)
    story.propose()
    story.begin("train-2")
    story.ends("train-2", code=85)
    story.started("serve-1")
    world.write()
    return world


async def test_a_decision_is_returned_whole_with_its_jobs(preempted: World) -> None:
    records = preempted.story.records
    (seq,) = [record.seq for record in records if isinstance(record.data, PreemptionDecided)]
    async with preempted.console() as console:
        reply = await console.get(f"/pools/pool-a/decisions/{seq}")
        assert (reply["type"], reply["view"]["action"], reply["view"]["job"]) == (
            "bailiff.audit.PreemptionDecided.v1",
            "preempt",
            "serve-1",
        )
        (victim,) = reply["view"]["victims"]
        others = [each for each in reply["candidates"] if each["action"] == reply["view"]["action"]]
        assert {each["job"] for each in others if each["chosen"]} == {victim["job"]}
        assert reply["before"]["seq"] == seq - 1
        states = [reply[when]["jobs"][victim["job"]]["state"] for when in ("before", "after")]
        assert states == ["running", "evicting"]
        (node,) = reply["after"]["nodes"]
        assert {cell[0] for cell in reply["before"]["nodes"][node]["devices"]} == {"allocated"}
        assert {(cell[0], cell[2]) for cell in reply["after"]["nodes"][node]["devices"]} == {("releasing", "serve-1")}
        questions = [section["question"] for section in reply["sections"]]
        assert questions[0] == "Which jobs are preempted, by which job, and why these?"
        assert "What happened next?" in questions

        explained = await console.get(f"/pools/pool-a/explain/{victim['job']}", all="1")
        assert "Why was it evicted?" in [section["question"] for section in explained["sections"]]
        assert explained["candidates"]
        assert seq in [each for section in explained["sections"] for says in section["sentences"] for each in says["seqs"]]
        *explained_sections, searched_again = reply["sections"]
        assert (await console.get(f"/pools/pool-a/explain/{seq}"))["sections"] == explained_sections
        assert searched_again["question"] == "Does searching again give the same?"
        assert reply["reproduced"] is True
        on_node = await console.get(f"/pools/pool-a/explain/{node}@now")
        assert on_node["then"]["node"] == node

        details = await console.get(f"/pools/pool-a/jobs/{victim['job']}")
        assert details["summary"]["evictions"] == 1
        assert details["class_row"]["priority_class"] == "train"
        assert any("serve-1" in line for line in details["events"])
        projects = (await console.get("/pools/pool-a/snapshot", seq=records[-1].seq))["projects"]
        assert projects["blue"]["evictions_caused"] == 1
        assert sum(each["evictions_suffered"] for each in projects.values()) == 1

        assert "unknown" in (await console.refused(404, "/pools/pool-a/jobs/unknown"))["detail"]
        assert "unknown" in (await console.refused(404, "/pools/pool-a/explain/unknown"))["detail"]
        await console.refused(404, "/pools/pool-a/decisions/100000")
        await console.refused(404, "/pools/pool-a/explain/100000")
        await console.refused(400, "/pools/pool-a/explain/n1@yesterday")
        assert (await console.get("/pools/pool-a/decisions/0"))["candidates"] is None


async def test_job_output_is_streamed_line_by_line_without_duplicates(world: World) -> None:
    def prints(text: str, offset: int, *, job: str = "train-1", task: str = "0") -> None:
        headers = (("ce_job", job.encode()), ("ce_attempt", b"1"), ("ce_task", task.encode()), ("ce_node", b"n1"))
        where = (*headers, ("ce_offset", str(offset).encode()))
        world.log.cluster.store(topics.JOB_LOGS.name, 0, job.encode(), where, text.encode())

    async def lines(console: Console, many: int, **requested: Any) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        async with console.http.stream("GET", "/api/pools/pool-a/logs/train-1", params=requested) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    found += [(each["task"], each["text"]) for each in json.loads(line.removeprefix("data: "))]
                if len(found) >= many:
                    return found
        return found

    prints("one\ntwo\n", 0)
    prints("of another\n", 0, job="train-2")
    prints("\x1b[31mred\x1b[0m <script>alert(1)</script>\n", 0, task="1")
    prints("two\nthree\n", 4)  # a restarted agent sends part of it again
    async with world.console() as console:
        red = "\x1b[31mred\x1b[0m <script>alert(1)</script>"
        assert await lines(console, 4) == [(0, "one"), (0, "two"), (1, red), (0, "three")]
        assert await lines(console, 1, task=1) == [(1, red)]
        await until(lambda: not console.service.app.state.reading_logs)


async def test_gpu_utilization_is_sent_to_its_subscribers(world: World) -> None:
    world.log.cluster.add_partitions(TELEMETRY.name, 1)
    devices = [device.id for device in world.story.state.nodes[0].devices]

    def measures(node: str, **of_first: Any) -> None:
        body = NodeTelemetry(
            node=node, interval_ms=1000, devices=(DeviceTelemetry(device=devices[0], jobs=("train-1",), **of_first),)
        )
        headers, value = wrap(body, source="/agent/n1", id=uuid.uuid4().hex, pool="pool-a", time_us=1)
        world.log.cluster.store(TELEMETRY.name, 0, b"pool-a", headers, value)

    async with world.console() as console:
        async with (
            page(console.http, "pool-a", show="nodes,telemetry") as live,
            page(console.http, "pool-a", show="nodes") as other,
        ):
            await live.until("it has a snapshot", lambda client_state: client_state.snapshots == 1)
            measures("no-such-node", memory_used=1, memory_bytes=2)
            world.log.cluster.store(TELEMETRY.name, 0, b"pool-a", (("ce_type", NodeTelemetry.TYPE.encode()),), b"?")
            measures("n1", busy_percent=87, memory_used=5 << 30, memory_bytes=80 << 30)
            await live.until("the page gets the sample", lambda client_state: "n1" in client_state.telemetry)
            assert live.client_state.telemetry["n1"]["devices"] == [[87, 5 << 30, 80 << 30], *[[None, None, None]] * 3]
        async with page(console.http, "pool-a", show="nodes,telemetry") as late:
            await late.until("a page opened later gets it, too", lambda client_state: "n1" in client_state.telemetry)
        assert other.client_state.telemetry == {}


async def test_what_a_nodes_agent_cannot_remove_is_shown_harmlessly(world: World) -> None:
    async with world.console() as console:
        path = "/api/pools/pool-a/nodes/n1/leftovers"
        assert (await console.http.get(path)).json() == {"left_folders": None, "left_example": ""}, "it has sent nothing yet"
        example = "/state/unfinished/\x1b[31mtrain-1: Operation not permitted"
        body = NodeHeartbeat(
            node="n1", incarnation="i1", number=1, fence=FenceStatus(epoch=0, seq=0), left_folders=2, left_example=example
        )
        headers, value = wrap(body, source="/n1", id="h1", pool="pool-a", time_us=1)
        producer = await world.log.cluster.client("n1").producer()
        await (await producer.send(topics.NODE_REPORTS.name, value, key=b"n1", headers=headers))
        shown = (await console.http.get(path)).json()
        assert (shown["left_folders"], "\x1b" in shown["left_example"], "train-1: Operation" in shown["left_example"]) == (
            2,
            False,
            True,
        )
        assert (await console.http.get("/api/pools/pool-a/nodes/n9/leftovers")).status_code == 404
