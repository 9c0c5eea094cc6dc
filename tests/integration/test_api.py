"""The query API on a real PostgreSQL, with the archive of a real auditor."""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx
import pytest
from jsonschema import Draft202012Validator
from tests.bench.synthetic import plain_log
from tests.kits.api import Api, Event
from tests.kits.archive import Auditor, Log, query
from tests.kits.http import PATIENCE_S, TOKEN
from tests.kits.log_builder import MINUTE, SECOND, Story, policy

from bailiff.audit.log_files import message_line
from bailiff_auditor import state_follower
from bailiff_auditor.alarms import Alarms
from bailiff_auditor.api.app import application
from bailiff_auditor.api.archive import Archive
from bailiff_auditor.api.jobs import SORTED_BY
from bailiff_auditor.database import connect
from bailiff_auditor.gpu_allocations import GpuAllocationWriter, LogReplaced
from bailiff_auditor.quota_usage import follow_usage
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Wire, decode
from bailiff_core.records.subjects import jobs_of
from bailiff_devstack.postgres import EmbeddedPostgres
from bailiff_log.message_json import message_to_json
from bailiff_log.reader import Entry
from bailiff_service.clock_and_ids import SYSTEM
from bailiff_service.metrics import Metrics
from bailiff_service.settings import PoolDeclaration


def played() -> Story:
    """serve-1 preempts one of two training jobs and ends; the victim resumes. wide-1 stays pending."""
    story = Story(pool="pool-a")
    story.node("n1", gpus=2)
    for name in ("train-1", "train-2"):
        story.submit(name, gpus=1, cls="train", project="research", user="u-7", after=SECOND)
        story.started(name)
    story.submit("wide-1", gpus=4, cls="train", user="ünï 🦀", after=SECOND)
    story.submit("serve-1", gpus=1, cls="inference", project="shop", after=MINUTE)
    story.propose()
    victim = story.expect("PreemptionDecided").victims[0].job
    story.begin(victim, after=SECOND)
    story.staged(victim, "noticed")
    story.staged(victim, "checkpoint_committed")
    story.yields(victim, after=3 * SECOND)
    story.started("serve-1")
    story.ends("serve-1", after=MINUTE)
    story.started(victim)
    story.quarantined("n1", 1)
    return story


@dataclass
class World:
    """A log, its archive and the query API."""

    story: Story
    log: Log
    api: Api
    auditor: Auditor

    async def archived(self) -> None:
        """Wait until the whole log is archived, and GPU allocations are stored."""

        async def all_of_it() -> bool:
            answer = await self.api.http.get(f"/v1/pools/{self.log.pool}")
            return answer.status_code == 200 and answer.json()["allocations_seq"] == len(self.story.wires) - 1

        await self.auditor.until("all is archived and sampled", all_of_it)


@contextlib.asynccontextmanager
async def world(database: str, folder: Path, story: Story, **settings: object) -> AsyncIterator[World]:
    log = Log()
    log.append(story.wires)
    async with (
        Auditor(log, database, folder, usage_seconds=1, seal_records=10).running() as auditor,
        Api(database, state_dir=folder, **settings).running() as api,
    ):
        found = World(story, log, api, auditor)
        await found.archived()
        yield found


def seq_of(story: Story, kind: str, nth: int = 0) -> int:
    return [record.seq for record in story.records if record.data is not None and kind == record.data.NAME][nth]


def recorded(story: Story, kind: str, nth: int = 0) -> Any:
    return story.records[seq_of(story, kind, nth)].data


# --- queries


async def test_the_archived_run_can_be_queried(database: str, tmp_path: Path) -> None:
    story = played()
    decided = recorded(story, "PreemptionDecided")
    victim, other = decided.victims[0].job, ({"train-1", "train-2"} - {decided.victims[0].job}).pop()
    preempted = seq_of(story, "PreemptionDecided")
    async with world(database, tmp_path, story) as it:
        api = it.api
        described = (await api.get("/openapi.json"))["components"]["schemas"]
        schemas = {name: {**schema, "additionalProperties": False} for name, schema in described.items()}

        async def get(path: str, model: str, **parameters: object) -> dict:
            found = await api.get(f"/pools/pool-a{path}", **parameters)
            schema = {"$ref": f"#/components/schemas/{model}", "components": {"schemas": schemas}}
            Draft202012Validator(schema).validate(found)
            return found

        # The eviction: victim, preemptor, cause, and outcome.
        (eviction,) = (await get("/evictions", "EvictionPage"))["items"]
        assert (eviction["job"], eviction["for_job"], eviction["cause"]) == (victim, "serve-1", "preemption")
        assert (eviction["decided_seq"], eviction["project"], eviction["user"]) == (preempted, "research", "u-7")
        assert "to accommodate serve-1" in eviction["reason"]
        assert eviction["stages"].keys() >= {"started", "noticed", "checkpoint_committed", "exited", "released", "resumed"}
        assert eviction["until_resumed_s"] > eviction["until_released_s"] > 0
        assert eviction["explanation"]["proven"]
        for filters in ({"reason": "drain"}, {"node": "n9"}, {"job": other}, {"user": "u-8"}, {"action": "reclaim"}):
            assert (await get("/evictions", "EvictionPage", **filters))["items"] == []
        for filters in ({"reason": ["drain", "preemption"]}, {"node": "n1"}, {"project": "research"}, {"for_job": "serve-1"}):
            assert len((await get("/evictions", "EvictionPage", **filters))["items"]) == 1

        # Jobs: the list, one in full, and why one is pending.
        jobs = (await get("/jobs", "JobPage", order="asc"))["items"]
        assert [job["job"] for job in jobs] == ["train-1", "train-2", "wide-1", "serve-1"]
        assert [job["job"] for job in (await get("/jobs", "JobPage", state=["succeeded", "failed"]))["items"]] == ["serve-1"]
        assert [job["job"] for job in (await get("/jobs", "JobPage", user="ünï 🦀"))["items"]] == ["wide-1"]
        later = datetime.fromisoformat(jobs[1]["submitted_at"]) + timedelta(microseconds=1)
        assert len((await get("/jobs", "JobPage", **{"from": later.isoformat()}))["items"]) == 2
        assert len((await get("/jobs", "JobPage", to=later.isoformat(), node="n1"))["items"]) == 2
        by_name = await get("/jobs", "JobPage", sort="job", order="asc", contains="train")
        assert [job["job"] for job in by_name["items"]] == ["train-1", "train-2"]
        assert [job["job"] for job in (await get("/jobs", "JobPage", sort="gpus", limit=1))["items"]] == ["wide-1"]
        ended_first = await get("/jobs", "JobPage", sort="ended", order="asc", limit=1)
        assert ended_first["items"][0]["job"] == "serve-1"
        rest = await get("/jobs", "JobPage", sort="ended", order="asc", cursor=ended_first["next"])
        assert [job["job"] for job in rest["items"]] == ["train-1", "train-2", "wide-1"]
        whole = await get(f"/jobs/{victim}", "JobHistory")
        assert [attempt["attempt"] for attempt in whole["attempts"]] == [1, 2]
        assert whole["attempts"][0]["outcome"] == "preempted"
        assert whole["evictions"] == [eviction]
        (waiting,) = (await get("/queue", "QueuePage"))["items"]
        assert waiting["job"] == "wide-1"
        assert waiting["pending_reason"] == recorded(story, "JobPending").reason
        assert (await get("/jobs/wide-1", "JobHistory"))["pending_reason"] == waiting["pending_reason"]
        assert len((await get("/attempts", "AttemptPage", action="preempt"))["items"]) == 1

        # The records themselves, decisions, timelines.
        records = [record async for record in _all(api, "/pools/pool-a/records", order="asc", limit=7)]
        assert [record["seq"] for record in records] == list(range(len(story.wires)))
        assert [record["type"] for record in records] == [record.type.split(".")[2] for record in story.records]
        whole = await get(f"/records/{preempted}", "RecordDetails")
        assert (whole["type"], whole["data"]["preemptor"]["job"]) == ("PreemptionDecided", "serve-1")
        assert dict(whole["headers"])["ce_seq"] == str(preempted)
        assert (await get(f"/decisions/{preempted}", "RecordDetails")) == whole
        await api.refused(404, "/pools/pool-a/decisions/0")
        proposed = seq_of(story, "ProposalReceived")
        verified = await get(f"/records/{preempted}/verification", "Verification")
        assert (verified["identity"], verified["next_seq"], verified["broken"]) == (records[0]["hash"], len(story.wires), "")
        assert verified["proposals"] == {"reproduced": 1, "not_reproduced": 0, "not_searched": 0}
        assert (verified["proposal"]["seq"], verified["proposal"]["result"]) == (proposed, "reproduced")
        assert verified["seal"] is None or verified["seal"]["data"]["size"] > preempted
        earlier = await get(f"/records/{proposed - 1}/verification", "Verification")
        assert (earlier["proposals"]["reproduced"], earlier["proposal"]) == (0, None)
        await api.refused(404, f"/pools/pool-a/records/{len(story.wires)}/verification")
        mine = (await get("/decisions", "RecordPage", job=victim, type="PreemptionDecided"))["items"]
        assert [decision["seq"] for decision in mine] == [preempted]
        found = (await get("/decisions", "RecordPage", action="preempt"))["items"]
        assert [each["type"] for each in found] == ["PreemptionDecided", "PreemptionRequested"]
        (found,) = (await get("/decisions", "RecordPage", reason="preemption", node="n1"))["items"]
        assert found["type"] == "JobRequeued"
        timeline = (await get(f"/jobs/{victim}/timeline", "RecordPage", order="asc"))["items"]
        assert [record["seq"] for record in timeline] == [record.seq for record in story.records if victim in jobs_of(record)]
        on_node = {record["type"] for record in (await get("/nodes/n1/timeline", "RecordPage"))["items"]}
        assert on_node >= {"NodeJoined", "DeviceQuarantined", "JobPlaced", "TaskReleased", "PreemptionDecided"}
        shop = (await get("/projects/shop/timeline", "RecordPage"))["items"]
        assert {record["job"] for record in shop} == {"serve-1"}

        # Pools, nodes, projects, use, seals.
        pool = await get("", "PoolItem")
        assert (pool["ok"], pool["next_seq"]) == (True, len(story.wires))
        assert pool["sealed"] >= 10
        assert (await api.get("/pools"))["items"][0]["pool"] == "pool-a"
        assert len((await get("/gpus", "GpuMap"))["nodes"][0]["devices"]) == 2
        (node,) = (await get("/nodes", "NodePage"))["items"]
        assert (node["node"], node["gpus"], node["state"]) == ("n1", 2, "ready")
        projects = {each["project"]: each for each in (await get("/projects", "ProjectPage"))["items"]}
        assert projects["research"]["jobs"] == {"running": 2}
        assert projects[""]["usage"]["used"]["gpus"] == 2
        use = (await get("/usage", "UsagePage", project=""))["items"]
        assert {each["used"]["gpus"] for each in use} >= {1.0, 2.0}
        over_time = await get("/quota-series", "QuotaSeries", points=3, to=records[-1]["time"])
        whole = {each["project"]: each for each in over_time["projects"]}[""]
        assert 1 <= len(over_time["times"]) == len(whole["gpus"]) <= 3
        assert whole["borrowed"] == [None] * len(whole["gpus"])
        figures = await get("/overview", "Overview", points=2, **{"from": jobs[0]["submitted_at"]})
        assert (figures["pool"]["submitted"], figures["pool"]["started"], figures["pool"]["preempted"]) == (4, 3, 1)
        assert figures["pool"]["lost_gpu_hours"] > 0
        assert figures["pool"]["waited_p95_s"] >= figures["pool"]["waited_mean_s"] > 0
        by_project = {each["project"]: each for each in figures["projects"]}
        assert (by_project["research"]["preempted"], by_project["shop"]["ended"], by_project[""]["started"]) == (1, 1, 0)
        assert max(point["gpus"] for point in figures["points"]) <= max(point["capacity"] for point in figures["points"]) == 2
        assert max(point["waiting"] for point in figures["points"]) >= 4
        assert (await get("/overview", "Overview", to=jobs[0]["submitted_at"]))["projects"] == []
        # No mean counts the time before the pool had its first GPU.
        whole = await get("/overview", "Overview", points=1, **{"from": "2020-01-01T00:00:00Z"})
        begun = (await get("/accounting", "Accounting"))["known_from"]
        assert (whole["from"], whole["points"][0]["capacity"]) == (begun, 2.0)
        kinds = [seal["kind"] for seal in (await get("/seals", "SealPage", order="asc"))["items"]]
        assert kinds[:2] == ["SealingKey", "LogSealed"]
        key, seal = (await get("/seals", "SealPage", order="asc", limit=2))["items"]
        first = await get("/records/0/verification", "Verification")
        assert (first["keys"], first["seal"]) == ([key], seal)

        # The raw bytes, as in Kafka.
        raw = await get("/log", "RawLog", limit=2000)
        assert raw["messages"] == [
            message_to_json(each.offset, each.time, each.headers, each.value) for each in it.log.messages()
        ]
        assert message_line(it.log.messages()[3]).startswith('{"offset":3,')


@pytest.mark.long
async def test_lists_of_a_hundred_thousand_ended_jobs_are_read_from_an_index(database: str, tmp_path: Path) -> None:
    async with world(database, tmp_path, played()) as it:
        await query(
            database,
            """INSERT INTO jobs (pool, job, submitted_seq, submitted_at, project, priority_class, tasks, gpu_milli, state,
                ended_seq, ended_at, outcome)
                SELECT p.id, 'old-' || n, 1000000 + n, now(), 'p' || n % 7, 'train', 1, n % 9 * 1000, 'succeeded',
                2000000 + n, now(), 'succeeded' FROM pools p, generate_series(1, 100000) n""",
        )
        await query(database, "ANALYZE jobs")
        for sort in ("submitted", "ended", "gpus", "job"):
            page = await it.api.get("/pools/pool-a/jobs", sort=sort, limit=100)
            following = await it.api.get("/pools/pool-a/jobs", sort=sort, limit=100, cursor=page["next"])
            names = [each["job"] for each in (*page["items"], *following["items"])]
            assert len(names) == len(set(names)) == 200
            columns = ", ".join(f"{sql} DESC" for sql in SORTED_BY[sort].values())
            plan = await query(database, f"EXPLAIN SELECT job FROM jobs j WHERE pool = 1 ORDER BY {columns} LIMIT 100")
            assert not any("Sort" in row["QUERY PLAN"] for row in plan), (sort, plan)
        found = await it.api.get("/pools/pool-a/jobs", contains="old-99999", state="succeeded")
        assert [each["job"] for each in found["items"]] == ["old-99999"]


async def test_borrowed_quota_is_reported_per_project_over_time(database: str, tmp_path: Path) -> None:
    """red has a quota of one GPU and uses three, while nothing else happens for ten minutes; then its jobs end."""
    quotas = [{"name": "blue", "quota": {"gpus": 3}}, {"name": "red", "quota": {"gpus": 1}}]
    story = Story(policy(projects=quotas), pool="pool-a")
    story.node("n1", gpus=4)
    story.runs("red-1", gpus=1, project="red", after=MINUTE)
    story.runs("red-2", gpus=2, project="red", after=2 * MINUTE)
    story.ends("red-2", after=10 * MINUTE)
    story.ends("red-1", after=MINUTE)
    async with world(database, tmp_path, story) as it:
        use = [each async for each in _all(it.api, "/pools/pool-a/usage", project="red", order="asc")]
        end = {"to": use[-1]["time"]}
        answer_body = await it.api.get("/pools/pool-a/quota-series", points=500, **end)
        red, *others = answer_body["projects"]
        assert [each["project"] for each in answer_body["projects"]] == ["red", "", "*", "blue"], "who borrowed most is first"
        assert (red["max_borrowed"], red["max_gpus"]) == (2.0, 3.0)
        borrowed_s = 0.0
        for each, later in pairwise(use):
            borrowed_s += (each["borrowed"]["gpus"] or 0) * (moment(later["time"]) - moment(each["time"])).total_seconds()
        assert red["borrowed_gpu_hours"] == pytest.approx(borrowed_s / 3600, abs=0.01), "the ten minutes without records count"
        assert red["borrowed_gpu_hours"] > 0.33
        assert {each["borrowed_gpu_hours"] for each in others} == {0.0}
        assert max(value or 0 for value in red["fair_share"]) > 0

        coarse = await it.api.get("/pools/pool-a/quota-series", points=4, project="red", **end)
        assert len(coarse["times"]) == 4
        assert [each["project"] for each in coarse["projects"]] == ["red"]
        assert coarse["projects"][0]["borrowed_gpu_hours"] == red["borrowed_gpu_hours"]
        silent = moment(next(each["time"] for each in use if each["borrowed"]["gpus"] == 2)) + timedelta(minutes=3)
        between = {"from": silent.isoformat(), "to": (silent + timedelta(minutes=1)).isoformat()}
        carried = (await it.api.get("/pools/pool-a/quota-series", **between))["projects"][0]
        assert set(carried["borrowed"]) == {2.0}, "a minute without a record has what was before it"
        assert carried["borrowed_gpu_hours"] == pytest.approx(2 / 60, abs=1e-6)
        assert carried["borrowed_part"] == 1
        for nowhere in ({"from": "2200-01-01T00:00:00Z"}, {"to": "0001-01-01T00:00:00Z"}):
            nothing = await it.api.get("/pools/pool-a/quota-series", **nowhere)
            assert (nothing["times"], nothing["projects"], nothing["from"]) == ([], [], None)
        await it.api.refused(400, "/pools/pool-a/quota-series", points=501)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def _all(api: Api, path: str, **parameters: object) -> AsyncIterator[dict]:
    for item in await api.all(path, **parameters):
        yield item


async def test_gpu_allocations_at_any_time(database: str, tmp_path: Path) -> None:
    """After every record the response equals the state folded up to that record."""
    story = played()
    after: list[dict[int, list[tuple[str, str]]]] = []
    pool_of = PoolState()
    for record in story.records:
        apply(pool_of, record)
        after.append({0: [], 1: []} if pool_of.nodes else {})
        for job in pool_of.jobs.values():
            for task in job.tasks:
                if task.state != "released":
                    kind = "reserved" if task.state == "reserved" else "allocated"
                    after[-1][task.devices.bit_length() - 1].append((job.id, kind))
    async with world(database, tmp_path, story) as it:
        for seq, expected in enumerate(after):
            (node,) = (await it.api.get("/pools/pool-a/gpus", seq=seq))["nodes"] or [{"devices": []}]
            found = {gpu["gpu"]: [(each["job"], each["kind"]) for each in gpu["holders"]] for gpu in node["devices"]}
            assert {gpu: sorted(who) for gpu, who in found.items()} == {gpu: sorted(who) for gpu, who in expected.items()}, seq
        decided = story.records[seq_of(story, "PreemptionDecided")]
        at = datetime.fromtimestamp(decided.time / 1_000_000, UTC)
        choice = recorded(story, "PreemptionDecided").victims[0].job
        places = [await it.api.get(f"/pools/pool-a/nodes/n1/gpus/{gpu}", at=at.isoformat()) for gpu in (0, 1)]
        (then,) = [place for place in places if len(place["holders"]) == 2]
        assert [(each["job"], each["kind"]) for each in then["holders"]] == [(choice, "allocated"), ("serve-1", "reserved")]
        now = [await it.api.get(f"/pools/pool-a/nodes/n1/gpus/{gpu}") for gpu in (0, 1)]
        assert [place["state"] for place in now] == ["ok", "quarantined"]
        assert [place["state"] for place in places] == ["ok", "ok"]
        spans = await it.api.all("/pools/pool-a/allocations", node="n1", gpu=then["gpu"], order="asc", limit=2)
        assert [(span["job"], span["kind"]) for span in spans] == [
            (choice, "allocated"),
            ("serve-1", "reserved"),
            ("serve-1", "allocated"),
            (choice, "allocated"),
        ]
        await it.api.refused(400, "/pools/pool-a/gpus", seq=len(story.records))
        await it.api.refused(404, "/pools/pool-a/nodes/n1/gpus/7")


# --- pages


async def test_pages_neither_repeat_nor_skip_while_records_arrive(database: str, tmp_path: Path) -> None:
    story = played()
    half = len(story.wires) // 2
    log = Log()
    log.append(story.wires[:half])
    async with Auditor(log, database, tmp_path).running() as auditor, Api(database, state_dir=tmp_path).running() as api:
        await auditor.until("half is archived", lambda: auditor.value("bailiff_archive_head_seq") == half - 1)
        seen: dict[str, list[int]] = {"asc": [], "desc": []}
        cursors: dict[str, dict[str, str]] = {"asc": {}, "desc": {}}
        for number in range(half, len(story.wires)):
            log.append(story.wires[number : number + 1])
            await auditor.until("one more is archived", lambda at=number: auditor.value("bailiff_archive_head_seq") == at)
            for order, cursor in cursors.items():
                if cursor is None:
                    continue
                page = await api.get("/pools/pool-a/records", order=order, limit=3, **cursor)
                seen[order] += [record["seq"] for record in page["items"]]
                cursors[order] = {"cursor": page["next"]} if page["next"] else None
        for order, cursor in cursors.items():
            if cursor is not None:
                seen[order] += [each["seq"] for each in await api.all("/pools/pool-a/records", order=order, limit=3, **cursor)]
    assert seen["asc"] == list(range(len(seen["asc"])))
    assert len(seen["asc"]) >= half
    assert seen["desc"] == list(range(half, -1, -1))  # from the end of the log at the first page


async def test_an_unchanged_response_is_not_sent_again(database: str, tmp_path: Path) -> None:
    async with world(database, tmp_path, played()) as it:
        first = await it.api.http.get("/v1/pools/pool-a/jobs")
        again = await it.api.http.get("/v1/pools/pool-a/jobs", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        it.story.submit("later")
        it.log.append(it.story.wires[len(it.log.messages()) :])
        await it.archived()
        changed = await it.api.http.get("/v1/pools/pool-a/jobs", headers={"if-none-match": first.headers["etag"]})
        assert changed.status_code == 200
        assert changed.json()["items"][0]["job"] == "later"


# --- the stream


async def test_the_stream_continues_from_the_past_into_the_present_and_after_a_reconnect(database: str, tmp_path: Path) -> None:
    story = played()
    async with world(database, tmp_path, story, api_heartbeat_s=0.2) as it:
        begun, last = len(story.wires), ""
        seen: list[int] = []
        async with it.api.stream("/pools/pool-a/events", **{"from": "start"}) as events:
            async for event in events:
                last = event.id
                if event.type:
                    seen.append(event.data["seq"])
                    assert event.id == f"pool-a:{event.data['seq']}:{event.data['hash'][:8]}"
                if len(seen) == begun // 2:
                    break
        async with it.api.stream("/pools/pool-a/events", last=last) as events:
            async for event in events:
                if event.type:
                    seen.append(event.data["seq"])
                if seen[-1] == begun - 1 and len(it.log.messages()) == begun:  # end of the log: append more
                    story.submit("later")
                    it.log.append(story.wires[begun:])
                if seen[-1] == len(story.wires) - 1 and len(story.wires) > begun:
                    break
        assert seen == list(range(len(story.wires)))

        # Only the requested types; the position also covers skipped records.
        selected: list[Event] = []
        async with it.api.stream("/events", type=["JobEnded", "JobPending"], project="research", after="pool-a:3") as events:
            async for event in events:
                selected += [event] if event.type else []
                if not event.type and event.id.startswith(f"pool-a:{len(story.wires) - 1}:"):
                    break
        assert [(event.type, event.data["job"]) for event in selected] == [
            ("JobPending", recorded(story, "PreemptionDecided").victims[0].job)
        ]
        answer_body = await it.api.refused(400, "/events", after="pool-a:9999")
        assert answer_body["errors"][0]["allowed"] == f"an archived record; the last one of pool-a is {len(story.wires) - 1}"
        await it.api.refused(400, "/events", after="pool-b:1")
        await it.api.refused(404, "/events", pool="pool-b")


async def test_the_bytes_of_the_log_are_served_from_any_offset_with_orphans(database: str, tmp_path: Path) -> None:
    wires, log = played().wires, Log()
    log.append([*wires[:5], wires[3], *wires[5:9], wires[3], wires[7], *wires[9:]])  # producer retries
    lines = [message_to_json(each.offset, each.time, each.headers, each.value) for each in log.messages()]
    async with Auditor(log, database, tmp_path).running() as auditor, Api(database, state_dir=tmp_path).running() as api:
        await auditor.until("it is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
        for begin in range(len(lines)):
            answer_body = await api.get("/pools/pool-a/log", from_offset=begin, limit=3)
            assert answer_body["messages"] == lines[begin : begin + 3]
            assert answer_body["next_offset"] == min(begin + 3, len(lines))


async def test_a_stream_ends_when_its_records_become_a_fork(database: str, tmp_path: Path) -> None:
    """Otherwise its reader would miss the replacing records."""
    story = played()
    async with world(database, tmp_path, story, api_heartbeat_s=0.2) as it:
        last = len(story.wires) - 1
        async with it.api.stream("/pools/pool-a/events", **{"from": "start"}) as events:
            async for event in events:
                if event.type and event.data["seq"] == last:
                    await query(database, "UPDATE pools SET next_seq = 5")
        answer_body = await it.api.refused(400, "/pools/pool-a/events", after=f"pool-a:{last}")
        assert answer_body["errors"][0]["allowed"] == "an archived record; the last one of pool-a is 4"


async def test_a_client_that_missed_a_fork_cannot_resume_behind_the_replacing_records(database: str, tmp_path: Path) -> None:
    story = played()
    async with world(database, tmp_path, story, api_heartbeat_s=0.2) as it:
        seen, last = "", len(story.wires) - 1
        async with it.api.stream("/pools/pool-a/events", **{"from": "start"}, type="JobEnded") as events:
            async for event in events:
                if event.id.startswith(f"pool-a:{last}:"):  # skip the others
                    seen = event.id
                    await query(database, "UPDATE records SET hash = sha256(hash) WHERE seq = $1", last)  # so the stream ends
        answer_body = await it.api.refused(400, "/events", after=seen)
        assert "that record of pool-a was moved to a fork" in answer_body["errors"][0]["allowed"]
        await it.api.refused(400, "/events", after=f"{seen}0")
        async with it.api.stream("/events", after=f"pool-a:{last}") as events:  # without a hash the position is not verified
            assert (await anext(events)).id.startswith(f"pool-a:{last}:")


async def test_a_client_that_missed_pruned_records_gets_an_error(database: str, tmp_path: Path) -> None:
    async with world(database, tmp_path, played()) as it:
        known = await it.api.http.get("/v1/pools/pool-a/records")
        await query(database, "DELETE FROM records WHERE seq < 5")
        await query(database, "UPDATE pools SET first_seq = 5")
        answer_body = await it.api.refused(400, "/events", after="pool-a:3")
        assert answer_body["errors"][0]["allowed"] == "an archived record; the first one of pool-a is 5"
        for params in ({"after": "pool-a:4"}, {"from": "start"}, {"from": "2"}):
            async with it.api.stream("/events", **params) as events:
                assert ((await anext(events)).id, (await anext(events)).data["seq"]) == ("pool-a:4", 5)
        again = await it.api.http.get("/v1/pools/pool-a/records", headers={"if-none-match": known.headers["etag"]})
        assert again.status_code == 200


async def test_a_new_pool_is_in_the_stream_from_its_first_record(database: str, tmp_path: Path) -> None:
    """Also for a client that was disconnected when the pool was created."""
    other, log = Story(pool="pool-b"), Log("pool-b")
    other.node("n1", gpus=2)
    log.append(other.wires)
    places = [("pool-b", seq) for seq in range(len(other.wires))]

    async def first(events: AsyncIterator[Event]) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        async for event in events:
            found += [event.place] if event.type else []
            if len(found) == len(places):
                break
        return found

    async with world(database, tmp_path, played(), api_heartbeat_s=0.2) as it:
        async with it.api.stream("/events", **{"from": "now"}) as events:
            seen = (await anext(events)).id
            async with Auditor(log, database, tmp_path / "b").running():
                assert await first(events) == places
        async with it.api.stream("/events", last=seen, **{"from": "now"}) as events:
            assert await first(events) == places


async def test_an_idle_reader_costs_little_and_the_number_of_streams_is_limited(database: str, tmp_path: Path) -> None:
    log, wires = Log(), list(plain_log(6_000))
    log.append(wires)
    async with (
        Auditor(log, database, tmp_path).running() as auditor,
        Api(database, state_dir=tmp_path, api_streams=2).running() as api,
    ):
        await auditor.until("all is archived", lambda: auditor.value("bailiff_archive_head_seq") == len(wires) - 1)
        host, port = api.service.address.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(
            b"GET /v1/events?from=start HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
        )
        async with api.stream("/events", **{"from": "start"}) as events:
            count = 0
            async for event in events:
                count += bool(event.type)
                if count == len(wires):
                    break
            refused = await api.http.get("/v1/events")
            assert refused.status_code == 503
            assert "2 streams" in refused.json()["detail"]
        streams = api.service.streams
        await auditor.until("the other stream has ended", lambda: len(streams.running) == 1)
        assert streams.running[0].sent < len(wires) / 2  # backpressure: it waits for its reader
        writer.close()
        await auditor.until("the limit is not reached any more", lambda: not streams.running)


# --- rejected requests


async def test_the_api_is_read_only_and_requires_the_token(database: str, tmp_path: Path) -> None:
    async with world_with_token(database, tmp_path) as api:
        known = {"authorization": f"Bearer {SESAME}".encode()}
        for action in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            answer = await api.http.request(action, "/v1/pools", headers=known)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        for headers in ({"authorization": ""}, {"authorization": "Bearer x"}, {"authorization": f"Basic {TOKEN}"}, {}):
            assert (await api.http.get("/v1/pools", headers=headers)).status_code == 401
        head = await api.http.head("/v1/pools", headers=known)
        assert (head.status_code, head.content) == (200, b"")
        assert (await api.http.head("/v1/events", headers=known)).status_code == 200
        assert (await api.http.get("/v1/pools", headers=known)).status_code == 200
    archive = Archive(database, 2, 5.0)
    await archive.open()
    async with archive.reading() as connection:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("DELETE FROM pools")
    await archive.close()


@contextlib.asynccontextmanager
async def world_with_token(database: str, folder: Path) -> AsyncIterator[Api]:
    log = Log()
    log.append(played().wires)
    async with Auditor(log, database, folder).running(), Api(database, state_dir=folder, api_token=SESAME).running() as api:
        yield api


async def test_an_error_names_the_parameter_and_the_allowed_values(database: str, tmp_path: Path) -> None:
    async with world(database, tmp_path, played()) as it:
        cases = {
            "limit": ("0", "greater than or equal to 1"),
            "cursor": ("x", "`next` of the previous page"),
            "state": ("tired", "'pending'"),
            "from": ("yesterday", "2026-11-22T08:15:00Z"),
            "projct": ("a", "priority_class, project"),
        }
        for parameter, (found, allowed) in cases.items():
            (error,) = (await it.api.refused(400, "/pools/pool-a/jobs", **{parameter: found}))["errors"]
            assert error["location"] == parameter
            assert error["found"] == found
            assert allowed in error["allowed"]
            assert "Value error" not in error["allowed"]
        page = await it.api.get("/pools/pool-a/jobs", limit=1)
        other = await it.api.refused(400, "/pools/pool-a/jobs", limit=1, cursor=page["next"], project="research")
        assert "otherwise the same parameters" in other["detail"]
        assert "archived pools: pool-a" in (await it.api.refused(404, "/pools/pool-x/jobs"))["detail"]
        assert "no job 'x'" in (await it.api.refused(404, "/pools/pool-a/jobs/x"))["detail"]


SESAME = "sésame, ouvre-toi, et laisse-moi entrer"
HOSTILE = (
    *("", " ", "'", "' OR 1=1 --", '"; DROP TABLE records; --', "\\", "%", "%00", "\x00", "\ud7ff", "𝕏" * 50, "a" * 5_000, "0"),
    *("-1", "1e400", "9223372036854775807", "9223372036854775808", "NaN", "null", "[]", "{}", "../../etc/passwd", "${x}"),
    *("\r\nx: y", "١٢", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "WyJ4Il0", "pool-a:1"),
    *("pool-a:-2", ":", ","),
)


async def test_no_parameter_value_causes_a_server_error(database: str, tmp_path: Path) -> None:
    """Send each hostile value in each parameter of the description, alone; then random combinations."""
    dice = random.Random(7)
    async with world(database, tmp_path, played()) as it:
        paths = (await it.api.get("/openapi.json"))["paths"]
        for path, operations in paths.items():
            known = {"pool": "pool-a", "job": "train-1", "node": "n1", "gpu": "0", "seq": "3", "project": "research"}
            parameters = operations["get"].get("parameters", [])
            places = {each["name"]: each["in"] for each in parameters}
            trials = [{name: value} for name in places for value in HOSTILE]
            trials = dice.sample(trials, min(len(trials), 8)) + [
                {name: dice.choice(HOSTILE) for name in places if dice.random() < 0.4} for _ in range(3)
            ]
            for trial in trials:

                def given(place: str, trial: dict[str, str] = trial, places: dict[str, str] = places) -> dict[str, str]:
                    return {name: value for name, value in trial.items() if places[name] == place}

                where = path.format(**{name: quote(value, safe="") for name, value in {**known, **given("path")}.items()})
                headers = {name: re.sub(r"[\r\n\0]", "", value).strip().encode() for name, value in given("header").items()}
                params = {"wait": "0", **given("query")} if "wait" in places else given("query")
                ask = it.api.http.head if path.endswith("/events") else it.api.http.get
                answer = await ask(where, params=params, headers=headers)
                assert answer.status_code in (200, 400, 404), (answer.status_code, where, params, answer.text)
                if answer.status_code != 200 and not path.endswith("/events"):
                    assert answer.headers["content-type"] == "application/problem+json"
        assert len(await query(database, "SELECT seq FROM records")) == len(it.story.wires)


async def test_a_postgresql_outage_is_reported_and_recovered_from(private_postgres: EmbeddedPostgres, tmp_path: Path) -> None:
    async with world(private_postgres.dsn, tmp_path, played()) as it:
        private_postgres.kill9()
        answer = await it.api.http.get("/v1/pools/pool-a/jobs")
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        await it.auditor.until("it is not ready", lambda: it.api.service.readiness()["archive"])
        private_postgres.start()
        await it.auditor.until("it is ready again", lambda: it.api.service.readiness()["archive"] is None)
        assert (await it.api.http.get("/v1/pools/pool-a/jobs")).status_code == 200


async def test_a_refused_postgresql_login_is_reported() -> None:
    """As after a password change."""

    class Locked(Archive):
        @contextlib.asynccontextmanager
        async def reading(self) -> AsyncIterator[asyncpg.Connection]:
            raise asyncpg.InvalidPasswordError("password authentication failed")
            yield

    app = application(Locked("postgresql://", 2, 1.0), None, Metrics(), TOKEN)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://127.0.0.1"
    ) as http:
        answer = await http.get("/v1/pools", headers={"authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert "password authentication failed" not in answer.text


# --- GPU allocations, continued after a restart


async def held(database: str) -> list[dict[str, Any]]:
    rows = await query(database, "SELECT * FROM gpu_allocations ORDER BY from_seq, job, task, kind")
    return rows + await query(database, "SELECT * FROM gpu_states ORDER BY from_seq, node, gpu")


def rows_after(wires: list[Wire]) -> int:
    writer, state = GpuAllocationWriter(1, -1), PoolState()
    for wire in wires:
        apply(state, record := decode(wire))
        writer.at(state, Entry(record, wire, record.seq, 0, ""))
    return len(writer.allocations.allocations.begun) + len(writer.allocations.states.begun)


async def test_gpu_allocations_continue_where_they_stopped_and_restart_on_another_log(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_follower, "MAX_WAIT_S", 0.1)  # nobody answers the selection at the end of this log
    whole = played().wires

    async def follow(wires: list[Wire], folder: str, stop: int | None = None) -> list[dict[str, Any]]:
        log = Log()
        log.append(wires[:stop])
        async with Auditor(log, database, tmp_path / folder, usage_seconds=1).running() as auditor:

            async def noted() -> bool:
                if auditor.value("bailiff_archive_head_seq") != len(wires[:stop]) - 1:
                    return False
                rows = await query(database, "SELECT allocations_seq FROM followed")
                return [row["allocations_seq"] for row in rows] == [len(wires[:stop]) - 1]

            await auditor.until("allocations are stored", noted)
        return await held(database)

    await follow(whole, "one", 14)
    assert await follow(whole, "one") == (rows := await follow(whole, "two"))
    assert len(rows) == rows_after(whole)

    # The log is truncated and continues on another branch: rows of the lost part are removed, whichever process detects it.
    other = played().resumed(14)
    other.restart(after=SECOND)
    for number in range(len(whole)):
        other.submit(f"another-{number}", gpus=1)
    log = Log()
    log.append(other.wires)
    connection = await connect(database, 10.0)
    pool_a = PoolDeclaration(name="pool-a", partition=0)
    bus, metrics = log.cluster.client("x"), Metrics()
    alarms = Alarms(bus, metrics, SYSTEM, set())
    work = lambda: follow_usage(bus, pool_a, 1, connection, SECOND, tmp_path / "two", alarms, metrics)  # noqa: E731
    with pytest.raises(LogReplaced):
        await work()
    assert await held(database) == []
    following = asyncio.create_task(work())
    async with asyncio.timeout(PATIENCE_S):
        while (await query(database, "SELECT allocations_seq FROM followed"))[0]["allocations_seq"] != len(other.wires) - 1:
            await asyncio.sleep(0.02)
            assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await connection.close()
    rows = await held(database)
    assert len(rows) == rows_after(other.wires)
    assert "serve-1" not in {row.get("job") for row in rows}
