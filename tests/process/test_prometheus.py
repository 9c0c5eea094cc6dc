"""A real Prometheus with a complete system, and the scrape settings, rules and dashboards of deploy/.

Names and syntax of the queries are checked in tests/unit; here their results are compared with the events of the test.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from tests.kits.log_builder import policy
from tests.kits.otlp import Collector, collecting
from tests.kits.system import PATIENCE_S, System, Watch, http_get

from bailiff_core.records.facts import NodeRefused
from bailiff_devstack.ports import free_port
from bailiff_devstack.stack import API, AUDITOR, CONSOLE, ROLLUP, SERVICES, WITNESS
from bailiff_service import tracing

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

DEPLOY = Path(__file__).parents[2] / "deploy"
POOL = "pool-a"
EVERY_S = 1
RULES = policy(
    priority_classes=[
        {"name": "inference", "value": 125, "preemptible": False, "start_slo": {"p95": "10m", "p99": "20m"}},
        {"name": "train", "value": 50, "preemptible": True, "global_default": True},
    ],
    projects=[{"name": "lab", "quota": {"gpus": 4}}, {"name": "vision", "quota": {"gpus": 4}}],
    preemption={"actions": ["allocate", "consolidate", "reclaim", "preempt"]},
)
NOTHING_TO_SHOW = {
    "Alarms in 15 minutes",
    "Inputs rejected in 15 minutes",
    "Outdated commands that agents rejected",
    "Orphans",
    "GPU utilization by project",  # simulated GPUs report no utilization
}

Series = dict[tuple[str, ...], float]
"""The newest value of each series, by the values of its labels."""


@dataclass
class Prometheus:
    """The Prometheus process of the test."""

    port: int
    panels: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
            for panel in json.loads(path.read_text())["panels"]:
                for target in panel.get("targets", ()):
                    self.panels.setdefault(panel["title"], []).append(target)

    async def get(self, path: str, **params: object) -> Any:
        """The data of a response of its HTTP API."""
        _, text = await asyncio.to_thread(http_get, self.port, f"/api/v1/{path}?{urlencode(params)}")
        answer = json.loads(text)
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    async def ask(self, query: str) -> Series:
        """The last value of each series of a query, with Grafana's variables replaced."""
        filled = query.replace("$pool", POOL).replace("$__rate_interval", f"{10 * EVERY_S}s")
        now = time.time()
        found = await self.get("query_range", query=filled, start=now - 30, end=now, step=EVERY_S)
        return {
            tuple(value for _, value in sorted(series["metric"].items())): float(series["values"][-1][1])
            for series in found["result"]
            if float(series["values"][-1][0]) > now - 2 * EVERY_S
        }

    async def panel(self, title: str, target: int = 0) -> Series:
        """The values of the dashboard panel with this title."""
        return await self.ask(self.panels[title][target]["expr"])

    async def alerts(self) -> dict[str, str]:
        """Pending and firing alerts, with their state."""
        return {alert["labels"]["alertname"]: alert["state"] for alert in (await self.get("alerts"))["alerts"]}


@dataclass
class Watched:
    """A system of one pool with all services, observed by Prometheus."""

    system: System
    prometheus: Prometheus
    collector: Collector


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """The system with its Prometheus, which has scraped every service."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("Prometheus is not installed (Debian and Ubuntu: the package prometheus)")
    with collecting() as collector:
        monkeypatch.setenv("BAILIFF_OTLP_ENDPOINT", collector.address)
        system = System(tmp_path, pools={POOL: 1}, policy=RULES, env={"BAILIFF_TELEMETRY_S": str(EVERY_S)})
        stack = system.stack
        try:
            system.start_kafka()
            system.start_services()
            stack.postgres.start()
            for name in (AUDITOR, API, ROLLUP, CONSOLE, WITNESS):
                stack.start_service(name)
            system.wait_ready()
            port = free_port()
            stack.processes.start(
                "prometheus",
                [
                    binary,
                    f"--config.file={configured(system)}",
                    f"--storage.tsdb.path={tmp_path / 'series'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                ready_url=f"http://127.0.0.1:{port}/-/ready",
            )
            stack.processes.wait_ready("prometheus", timeout_s=PATIENCE_S)
            yield Watched(system, Prometheus(port), collector)
        finally:
            system.stop()


def configured(system: System) -> Path:
    """The settings of deploy/, with this system's addresses and short intervals."""
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": f"{EVERY_S}s", "evaluation_interval": f"{EVERY_S}s"}
    settings["rule_files"] = [str(DEPLOY / "prometheus" / name) for name in settings["rule_files"]]
    for entry in settings["scrape_configs"]:
        del entry["dns_sd_configs"]
        address = system.stack.address(entry["job_name"].removeprefix("bailiff-"))
        entry["static_configs"] = [{"targets": [address.removeprefix("http://")]}]
    path = system.folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(settings))
    return path


def holding_out(watch: Watch) -> str:
    """A shell line for a job whose first attempt ignores TERM and exits only after `let_finish`."""
    go_file = f"{watch.system.marks}/$BAILIFF_JOB_ID.go"
    return f'[ "$BAILIFF_ATTEMPT" = 1 ] || exec sleep 3600; trap : TERM; while [ ! -e {go_file} ]; do sleep 0.05; done; exit 1'


async def urgent(watch: Watch, name: str, project: str) -> str:
    """Submit an urgent job with the command; returns its victim."""
    watch.system.command(
        POOL,
        "submit",
        "--name",
        name,
        "--gpus",
        "4",
        "--class",
        "inference",
        "--project",
        project,
        "--",
        "sh",
        "-c",
        watch.until_signalled(),
    )

    def leaving() -> list[str]:
        return [job.id for job in watch.state.jobs.values() if job.eviction is not None and job.tasks[0].term_sent]

    await watch.until(f"the victim of {name} got TERM", lambda _: bool(leaving()))
    (victim,) = leaving()
    return victim


@pytest.mark.long
async def test_dashboards_alerts_and_traces_show_what_happened(watched: Watched) -> None:
    system, prometheus = watched.system, watched.prometheus
    async with system.watch(POOL) as watch:

        async def shows(title: str, expected: Series, target: int = 0) -> None:
            async def shown() -> bool:
                found = await prometheus.panel(title, target)
                return found.keys() == expected.keys() and all(round(found[key], 1) == value for key, value in expected.items())

            await watch.until_true(f"{title!r} shows {expected}", shown)

        async def scraped() -> bool:
            targets = (await prometheus.get("targets"))["activeTargets"]
            names = {target["labels"]["job"] for target in targets if target["health"] == "up"}
            return names == {f"bailiff-{name}" for name in (*SERVICES, AUDITOR, API, ROLLUP, CONSOLE, WITNESS)}

        await watch.until_true("every service is scraped", scraped)
        await shows("Preempted in the last hour", {(): 0})
        await shows("Thrash index, last day", {(): 0})

        # The project lab borrows unused quota. Then other projects reclaim it, and each victim uses its grace.
        for name in ("train-1", "train-2"):
            await watch.submit(name, holding_out(watch), gpus=4, project="lab", grace_s=300)
        await watch.until_running("train-1", "train-2")
        await shows("Allocation", {(POOL,): 1})
        reclaimed = await urgent(watch, "serve-1", "vision")
        await shows("Open evictions", {(): 1})

        async def counted_at_term_sent() -> bool:
            stages = await prometheus.panel("Open evictions, by stage")
            return sum(stages.values()) == stages["term-sent",] == 1

        await watch.until_true("the open eviction is counted at the stage that it reached", counted_at_term_sent)
        watch.let_finish(reclaimed)
        await watch.until_running("serve-1")
        preempted = await urgent(watch, "serve-2", "lab")
        watch.let_finish(preempted)
        await watch.until_running("serve-2")

        # The system is idle: panels show the present state and every eviction of the hour, also the first of its kind.
        await shows("GPUs in use", {(): 8})
        await shows("Allocation", {(POOL,): 1})
        await shows("Pending jobs", {(): 2})
        await shows("Pending jobs, by class", {("inference",): 0, ("train",): 2})
        await shows("GPUs by project", {(POOL, "lab"): 4, (POOL, "vision"): 4, (POOL, "*"): 0})
        await shows("Open evictions", {(): 0})
        await shows("Lag of the roll-up", {(): 0})

        async def both_preemptions_counted() -> bool:
            return round((await prometheus.panel("Preempted in the last hour")).get((), 0)) == 2

        await watch.until_true("both preemptions are counted", both_preemptions_counted)
        evictions = await prometheus.panel("Evictions per hour, by reason")
        assert {reason: round(count) for reason, count in evictions.items()} == {
            ("reclaim", "quota"): 1,
            ("preempt", "priority"): 1,
        }
        panel_title = "Time from submission to start: p50, p95, p99 and the start SLO"
        assert set(await prometheus.panel(panel_title, 2)) == {("inference",), ("train",)}
        assert await prometheus.panel(panel_title, 3) == {("95", "inference"): 600, ("99", "inference"): 1200}
        assert await prometheus.panel("Late starts") == {("95", "inference"): 0, ("99", "inference"): 0}
        await every_panel_answers(prometheus)

        for name in ("serve-1", "serve-2"):
            watch.let_finish(name)
        await watch.until_running(reclaimed, preempted)
        await one_trace_from_request_to_restart(watched, watch, "serve-1", reclaimed)
        await rules_are_evaluated_and_one_fires(watched, watch)


async def every_panel_answers(prometheus: Prometheus) -> None:
    silent = set()
    for title, targets in prometheus.panels.items():
        if not any([await prometheus.ask(target["expr"]) for target in targets]):
            silent.add(title)
    assert silent <= NOTHING_TO_SHOW, silent - NOTHING_TO_SHOW


async def one_trace_from_request_to_restart(watched: Watched, watch: Watch, job: str, victim: str) -> None:
    trace = tracing.trace_of(POOL, job)

    async def is_back() -> bool:
        return f"resume {victim}" in watched.collector.of(trace)

    await watch.until_true("the victim's restart is traced", is_back)
    spans = watched.collector.of(trace)
    ids = {span.id for span in spans.values()}
    assert [name for name, span in spans.items() if span.parent not in ids] == [f"request {job}"]
    assert {span.service for span in spans.values()} == {
        "bailiff-client",
        "bailiff-admission",
        "bailiff-victim-selection",
        "bailiff-eviction-executor",
        "bailiff-node-agent",
    }
    assert watched.collector.disagreements == []


async def rules_are_evaluated_and_one_fires(watched: Watched, watch: Watch) -> None:
    system, prometheus = watched.system, watched.prometheus
    rules = [rule for group in (await prometheus.get("rules"))["groups"] for rule in group["rules"]]
    assert {(rule["name"], rule["health"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"} == set()
    assert "firing" not in (await prometheus.alerts()).values()
    twin = {"name": f"{POOL}-0", "pool": POOL, "gpus": "8xH100-80GB", "machine_id": "another-machine"}
    keys = str(system.folder / "credentials" / "node-agent")  # a copied disk has the key of the machine, too
    env = {"BAILIFF_NODES": json.dumps([twin]), "BAILIFF_STATE_DIR": str(system.folder / "twin"), "BAILIFF_CREDENTIALS": keys}
    system.stack.start_service("node-agent", replica="-twin", env=env)
    await watch.record(NodeRefused)

    async def fires() -> bool:
        return (await prometheus.alerts()).get("BailiffNodeRefused") == "firing"

    await watch.until_true("the alert fires", fires)
