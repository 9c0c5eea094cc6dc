"""One recorded story: every surface shows the same figures of a job, a node, a project and a decision."""

import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rich.console import Console
from tests.kits.api import Api
from tests.kits.archive import Auditor, Log
from tests.kits.log_builder import MINUTE, SECOND, Story, policy
from tests.kits.mig import joins

from bailiff.aio import convert
from bailiff.client.live_plan import predict
from bailiff.render.serializers.jobs import job_rows
from bailiff.render.serializers.nodes import node_rows
from bailiff.render.serializers.projects import below
from bailiff.render.serializers.projects import rows as project_rows
from bailiff.render.serializers.times import moment
from bailiff.results import Victim
from bailiff.tables.job_columns import jobs_text
from bailiff.tables.nodes import nodes_table
from bailiff_console.live.rows import live_job, live_node, live_project
from bailiff_console.live.view_cache import ViewCache
from bailiff_core.fold import apply
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.proposal import Explanation
from bailiff_core.model.state import PoolState
from bailiff_core.plan.report_builder import node_lines
from bailiff_core.records import decode
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.views import DecisionView, ProjectView, decision_view

GPUS, RAN_MS = 2.5, 10 * 60_000
URGENT = JobDemand(job="urgent", tasks=(TaskGroup(gpu_milli=4000),), priority_class="inference", project="red")
SHARED = ("job", "project", "priority_class", "tasks", "gpus", "work_lost_gpu_ms", "restart_gpu_ms")
WORK, RESTART = 2.5 * RAN_MS, 2.5 * 60_000


@pytest.fixture
def story() -> Story:
    return _preempted(_running())


def _running() -> Story:
    """train-1 has run for ten minutes on two and a half of four GPUs; a second node has MIG devices."""
    story = Story(pool="pool-a", rules=policy(projects=[{"name": "red", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=4)
    joins(story, "n2", "1xH100-80GB:3g.40gb,1xH100-80GB:1g.10gb")
    story.submit("train-1", TaskGroup(count=5, gpu_share_milli=500), cls="train", project="red")
    story.started("train-1", after=2 * SECOND)
    story.time += 10 * MINUTE
    return story


def _preempted(story: Story) -> Story:
    """urgent preempts train-1, which waits again."""
    story.submit("urgent", gpus=4, cls="inference", project="red", after=0)
    story.propose(after=0)
    story.yields("train-1", after=0)
    story.started("urgent", after=0)
    story.submit("later", gpus=1, cls="train", after=MINUTE)
    return story


def _span(story: Story) -> dict[str, str | None]:
    """The time of the story: the default ends now, once the archive has measured the end of the log."""
    return {"from": moment(decode(story.wires[0]).time), "to": moment(story.time + SECOND)}


@contextlib.asynccontextmanager
async def archived(database: str, folder: Path, story: Story) -> AsyncIterator[Api]:
    """The HTTP API, once the story is in the archive and sampled."""
    log = Log()
    log.append(story.wires)
    async with (
        Auditor(log, database, folder, usage_seconds=1).running() as auditor,
        Api(database, state_dir=folder).running() as api,
    ):

        async def is_archived() -> bool:
            answer = await api.http.get("/v1/pools/pool-a")
            return answer.status_code == 200 and answer.json()["allocations_seq"] == len(story.wires) - 1

        await auditor.until("all is archived and sampled", is_archived)
        yield api


async def test_all_surfaces_agree(story: Story, database: str, tmp_path: Path) -> None:
    before = _running()
    foreseen, sentences = predict(before.state, URGENT, before.time)
    state, cache, decided = PoolState(), ViewCache(), list[DecisionView]()
    for record in map(decode, story.wires):
        apply(state, record)
        cache.take(record, state)
        if isinstance(record.data, PreemptionDecided):
            decided.append(decision_view(state, record.data))
    (decision,) = decided
    (victim,) = decision.victims
    rows = {row["job"]: row for row in job_rows(state, state.now)}
    node, mig = node_rows(state)
    shown = Console(file=io.StringIO(), width=200)
    shown.print(nodes_table([node]))
    table = {
        line.split("\t")[1]: line.split("\t") for line in jobs_text(list(rows.values()), ("ahead", "job", "gpus")).splitlines()
    }
    client, machine = convert.job_status(rows["train-1"], "pool-a", ()), convert.node(node)
    red = next(row for row in project_rows(state) if row["project"] == "red")
    live_red = live_project(red, below(state.rules, "red"), cache)
    live = live_job(state, state.jobs["train-1"], cache)
    async with archived(database, tmp_path, story) as api:
        whole = await api.get("/pools/pool-a/jobs/train-1")
        archived_node, archived_mig = (await api.get("/pools/pool-a/nodes"))["items"]
        (eviction,) = (await api.get("/pools/pool-a/evictions"))["items"]
        accounting = (await api.get("/pools/pool-a/accounting", **_span(story)))["totals"]
        usage = (await api.get("/pools/pool-a/usage", project="red", limit=1))["items"][0]
        overview = (await api.get("/pools/pool-a/overview"))["pool"]

    # GPUs of a job, of its eviction, and of a node
    assert {rows["train-1"]["gpus"], client.gpus, live["gpus"], whole["gpus"], victim["gpus"], eviction["gpus"]} == {GPUS}
    assert table["train-1"][2] == "2.5"
    assert {node["gpus"], machine.gpus, live_node(node)["gpus"], archived_node["gpus"]} == {4}
    assert len(machine.devices) == len(live_node(node)["devices"]) == 4
    assert "4 × " in shown.file.getvalue()  # type: ignore[attr-defined]
    assert {name: node[name] for name in ("state", "gpu_models", "cpu_milli", "memory_bytes", "machine_id")} == {
        name: archived_node[name] for name in ("state", "gpu_models", "cpu_milli", "memory_bytes", "machine_id")
    }  # type: ignore[literal-required]
    planned_node, planned_mig = node_lines(state)
    for name in ("gpus", "gpus_free", "gpus_releasing", "gpus_reserved"):
        assert (getattr(planned_node, name), getattr(planned_mig, name)) == (node[name], mig[name])  # type: ignore[literal-required]
    assert {mig["gpus"], convert.node(mig).gpus, live_node(mig)["gpus"], archived_mig["gpus"]} == {0.571}
    # a decision and its victim: foreseen, decided, and in the archive
    planned = foreseen["decision"]
    assert planned["victims"] == [victim]
    assert convert.plan(foreseen, sentences).victims == (Victim(**{**victim, "to": ()}),)
    assert (planned["action"], planned["job"]) == (decision.action, decision.job) == (eviction["action"], eviction["for_job"])
    assert planned["explanation"] == decision.explanation.model_dump(mode="json")
    assert Explanation.model_validate_json(json.dumps(eviction["explanation"])) == decision.explanation
    assert {name: victim[name] for name in SHARED} == {name: eviction[name] for name in SHARED}  # type: ignore[literal-required]
    # use and quota of a project
    assert [red[name]["gpus"] for name in ("used", "quota", "borrowed")] == [4, 4, 0]  # type: ignore[literal-required]
    for name in ProjectView.__annotations__:
        assert red[name] == live_red[name] == usage[name], name  # type: ignore[literal-required]
    of_red = convert.project(red)
    for name in ("used", "quota", "limit", "fair_share", "past_use", "borrowed"):
        amounts = red[name]  # type: ignore[literal-required]
        found = getattr(of_red, name)
        cpus = None if amounts["cpu_milli"] is None else amounts["cpu_milli"] / 1000
        assert (found.gpus, found.cpus, found.memory_bytes) == (amounts["gpus"], cpus, amounts["memory_bytes"])
    # work lost, restart cost and preemptions
    assert (victim["work_lost_gpu_ms"], victim["restart_gpu_ms"]) == (WORK, RESTART)
    (attempt,) = (each for each in whole["attempts"] if each["outcome"] == "preempted")
    for found in (eviction, attempt):
        assert (found["work_lost_gpu_ms"], found["restart_gpu_ms"]) == (WORK, RESTART)
    assert (accounting["lost"], accounting["restart"]) == pytest.approx((WORK / 3_600_000, RESTART / 3_600_000), abs=1e-6)
    assert (overview["lost_gpu_hours"], overview["restart_gpu_hours"]) == (WORK / 3_600_000, RESTART / 3_600_000)
    assert accounting["preemptions"] == overview["preempted"] == rows["train-1"]["evictions"] == live["evictions"] == 1
    assert live_red["evictions_suffered"] == live_red["evictions_caused"] == 1
    assert live_red["gpu_hours_lost"] == WORK / 3_600_000
    # why it is pending, in all of them
    assert whole["pending_reason"] == live["pending_reason"]


async def test_work_lost_to_preemption_is_one_figure_whatever_else_ended_attempts(database: str, tmp_path: Path) -> None:
    story = Story(pool="pool-a", rules=policy(projects=[{"name": "red", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=4)
    for name, ends in (("train-1", "requeue"), ("train-2", "end")):
        story.runs(name, gpus=2, cls="train", project="red", on_eviction=ends)
    story.time += 10 * MINUTE
    story.submit("urgent", gpus=4, cls="inference", project="red", after=0)
    story.propose(after=0)
    for name in ("train-1", "train-2"):
        story.yields(name, after=0)
    story.started("urgent", after=0)
    story.ends("urgent", after=MINUTE)
    story.started("train-1", after=SECOND)
    story.time += 10 * MINUTE
    story.evict("train-1", after=0)
    story.yields("train-1", after=0)
    state, cache = PoolState(), ViewCache()
    for record in map(decode, story.wires):
        apply(state, record)
        cache.take(record, state)
    projects = {row["project"]: live_project(row, below(state.rules, row["project"]), cache) for row in project_rows(state)}
    async with archived(database, tmp_path, story) as api:
        accounting = (await api.get("/pools/pool-a/accounting", by="project", **_span(story)))["rows"]
        overview = await api.get("/pools/pool-a/overview", **_span(story))
    (red,) = (row for row in accounting if row["project"] == "red")
    (row,) = overview["projects"]
    lost = {
        red["lost"],
        overview["pool"]["lost_gpu_hours"],
        row["lost_gpu_hours"],
        *(each["gpu_hours_lost"] for each in projects.values()),
    }
    assert max(lost) == pytest.approx(min(lost), abs=1e-6)
    assert min(lost) == pytest.approx(2 * 2 * 10 / 60, rel=0.01)
    assert {red["preemptions"], row["preempted"], *(each["evictions_suffered"] for each in projects.values())} == {2}
    assert red["lost_other"] == pytest.approx(row["lost_other_gpu_hours"], abs=1e-6)
    assert red["lost_other"] == pytest.approx(2 * 10 / 60, rel=0.01), "the requested eviction is not a preemption"
