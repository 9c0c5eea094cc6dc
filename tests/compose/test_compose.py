"""`docker compose up` in earnest: a job from the host, services and broker restarted under it, the record proved at the end."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from bailiff.audit import chain_report
from bailiff.audit.replay import replay
from bailiff.client.client import Client
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import BusUnavailable
from bailiff_bus.topics import AUDIT
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.ports import free_ports
from bailiff_log.chain_verifier import Verification

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("apache/kafka:4.3.0", "python:3.12-slim-bookworm")
POOL = "pool-a"
PATIENCE_S = 240.0
PROMETHEUS = "prom/prometheus:latest"
SERVICES = ("admission", "victim-selection", "eviction-executor", "node-agent", "auditor", "api", "rollup", "console", "witness")
SCRAPED = {f"bailiff-{name}" for name in SERVICES}
WITH_PROMETHEUS = ("docker-compose.yml", "deploy/compose/prometheus.yml")
THREE_BROKERS = ("docker-compose.yml", "deploy/compose/three-brokers.yml")


@dataclass(frozen=True)
class Compose:
    """One compose project of its own, on ports of its own."""

    project: str
    ports: tuple[int, ...]
    files: tuple[str, ...] = ("docker-compose.yml",)

    @property
    def image(self) -> str:
        """The image that it builds."""
        return f"{self.project}:test"

    def __call__(self, *arguments: str, timeout: float = 1500, check: bool = True) -> str:
        """`docker compose` with these arguments; what it printed."""
        files = [word for file in self.files for word in ("-f", file)]
        names = (
            "BAILIFF_KAFKA_PORT",
            "BAILIFF_KAFKA_PORT_2",
            "BAILIFF_KAFKA_PORT_3",
            "BAILIFF_PROMETHEUS_PORT",
            "BAILIFF_API_PORT",
            "BAILIFF_CONSOLE_PORT",
        )
        ports = dict(zip(names, map(str, self.ports), strict=True))
        environment = {**os.environ, **ports, "BAILIFF_KAFKA_HOST": "127.0.0.1", "BAILIFF_IMAGE": self.image}
        command = ["docker", "compose", "-p", self.project, *files, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode:
            pytest.fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout

    def prometheus(self, page: str) -> dict[str, Any]:
        """What its Prometheus says about itself."""
        found: dict[str, Any] = asked(self.ports[3], f"/api/v1/{page}")["data"]
        return found

    def archive(self, page: str) -> dict[str, Any]:
        """What the HTTP API says."""
        token = self("exec", "-T", "api", "cat", "/var/lib/bailiff-tokens/api.token").strip()
        return asked(self.ports[4], f"/v1/{page}", {"authorization": f"Bearer {token}"})

    def page(self, path: str) -> dict[str, Any]:
        """What the console says to the page."""
        return asked(self.ports[5], f"/api/{path}")

    def left_behind(self) -> list[str]:
        """Everything of this project that the engine still has."""
        label = f"label=com.docker.compose.project={self.project}"
        asked = (
            ("ps", "-aq", "--filter", label),
            ("volume", "ls", "-q", "--filter", label),
            ("network", "ls", "-q", "--filter", label),
            ("images", "-q", self.image),
        )
        return [line for words in asked for line in docker(*words).stdout.split()]


def asked(port: int, path: str, headers: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """The JSON that is served there."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path, headers=headers)
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found


def docker(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module", autouse=True)
def _engine() -> None:
    """Skips where the compose file cannot be tried."""
    if shutil.which("docker") is None:
        pytest.skip("no Docker: there is no command named docker")
    try:
        answer = docker("info", "--format", "{{.ServerVersion}}", timeout=20)
    except subprocess.TimeoutExpired:
        pytest.skip("no Docker engine answers within 20 s")
    if answer.returncode:
        pytest.skip(f"no Docker engine answers: {answer.stderr.strip()}")
    if docker("compose", "version").returncode:
        pytest.skip("this Docker has no compose plugin")
    for image in IMAGES:
        if docker("image", "inspect", image).returncode and docker("pull", "-q", image, timeout=600).returncode:
            pytest.skip(f"the image {image} is neither here nor can it be pulled")


@pytest.fixture
def compose() -> Iterator[Callable[..., Compose]]:
    """Makes projects that end with the test, without a trace."""
    made: list[Compose] = []

    def make(*files: str) -> Compose:
        made.append(Compose(f"bailiff-test-{uuid.uuid4().hex[:8]}", tuple(free_ports(6)), files or ("docker-compose.yml",)))
        return made[-1]

    yield make
    for project in made:
        project("down", "-v", "--timeout", "30", check=False)
        docker("rmi", "-f", project.image)


class Watched:
    """The pool as its log tells it, from the host."""

    def __init__(self, port: int) -> None:
        self.client = Client(KafkaBus(f"127.0.0.1:{port}"), source="/test-compose")

    async def submit(self, job: str, seconds: float, *, gpus: int = 4) -> None:
        group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=1000, memory_bytes=1 << 30)
        demand = JobDemand(job=job, tasks=(group,), priority_class="train", grace=5_000_000)
        await self.client.submit(demand, JobSpec(command=("sleep", str(seconds))), pool=POOL)

    async def until(self, job: str, phase: str, *, attempt: int = 1) -> None:
        """Wait until the job is there in the log, in this attempt."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(BusUnavailable):  # one of several brokers is away, and its partitions move
                    found = (await self.client.projection(POOL)).state.jobs.get(job)
                    if found is not None and (found.phase, found.attempt) == (phase, attempt):
                        return
                await asyncio.sleep(0.3)


@asynccontextmanager
async def watching(port: int) -> AsyncIterator[Watched]:
    watched = Watched(port)
    async with watched.client:
        yield watched


async def proved(port: int) -> Verification:
    """The whole log once more, by the client's own walk: chain verified, every decision made again."""
    async with watching(port) as watched:
        client = watched.client
        pool = await client.pool(POOL)
        spans = {pool.partition: (await client.audit_spans())[pool.partition]}
        verified = await chain_report.verify(POOL, client.messages(AUDIT.name, spans))
        replayed = await replay(POOL, lambda: client.messages(AUDIT.name, spans))
    assert verified["ok"], verified["broken"]
    assert replayed["ok"], (replayed["difference"], replayed["error"])
    return verified


async def test_jobs_from_the_host_outlive_restarts_of_admission_and_broker(compose: Callable[..., Compose]) -> None:
    project = compose()
    port = project.ports[0]
    project("up", "-d", "--build", "--wait", "--wait-timeout", "600")

    async with watching(port) as watched:
        await watched.submit("first", 1)
        await watched.until("first", "succeeded")
        await watched.submit("across-admission", 8)
        await watched.until("across-admission", "running")
        await asyncio.to_thread(project, "stop", "admission")
        await watched.submit("asked-meanwhile", 1)  # no admission runs, and nothing is lost
        await asyncio.to_thread(project, "start", "admission")
        await watched.until("asked-meanwhile", "succeeded")
        await watched.until("across-admission", "succeeded")

        await watched.submit("across-broker", 15)
        await watched.until("across-broker", "running")
    await asyncio.to_thread(project, "restart", "kafka")
    await asyncio.to_thread(project, "up", "-d", "--wait", "--wait-timeout", "600", "kafka")
    async with watching(port) as watched:
        await watched.until("across-broker", "succeeded")
        await watched.submit("last", 1, gpus=8)
        await watched.until("last", "succeeded")

    verified = await proved(port)
    assert len(verified["epochs"]) >= 2
    async with asyncio.timeout(PATIENCE_S):
        while project.archive(f"pools/{POOL}/jobs/last").get("outcome") != "succeeded":  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.3)
    assert project("exec", "-T", "node-agent", "id", "-u").strip() == "10001"
    project("down", "-v", "--timeout", "30")
    docker("rmi", "-f", project.image)
    assert project.left_behind() == []


async def test_the_log_outlives_down_and_up(compose: Callable[..., Compose]) -> None:
    project = compose()
    port = project.ports[0]
    project("up", "-d", "--build", "--wait", "--wait-timeout", "600")
    async with watching(port) as watched:
        await watched.submit("before", 1)
        await watched.until("before", "succeeded")
        await watched.submit("cut-short", 600)
        await watched.until("cut-short", "running")
    project("down")  # the job ends with its container
    project("up", "-d", "--wait", "--wait-timeout", "600")
    async with watching(port) as watched:
        await watched.until("before", "succeeded")
        await watched.until("cut-short", "running", attempt=2)
    await proved(port)


async def test_three_brokers_continue_without_one(compose: Callable[..., Compose]) -> None:
    project = compose(*THREE_BROKERS)
    port = project.ports[0]
    project("up", "-d", "--build", "--wait", "--wait-timeout", "600")
    async with watching(port) as watched:
        settings = await watched.client.bus.topic_settings(AUDIT.name)
        assert (settings["brokers"], settings["replication"], settings["min.insync.replicas"]) == ("3", "3", "2")
        await watched.submit("lasting", 600, gpus=2)
        await watched.until("lasting", "running")
        await asyncio.to_thread(project, "restart", "admission", "kafka-3")
        await watched.submit("across-restarts", 1)
        await watched.until("across-restarts", "succeeded")
        await asyncio.to_thread(project, "up", "-d", "--wait", "--wait-timeout", "600", "kafka-3")
        await asyncio.to_thread(project, "kill", "kafka-2")
        await watched.submit("with-two", 1)
        await watched.until("with-two", "succeeded")
        await watched.until("lasting", "running")
    verified = await proved(port)
    assert len(verified["epochs"]) >= 2
    project("down", "-v", "--timeout", "30")
    docker("rmi", "-f", project.image)
    assert project.left_behind() == []


async def test_prometheus_scrapes_every_service_without_an_error(compose: Callable[..., Compose]) -> None:
    if docker("image", "inspect", PROMETHEUS).returncode and docker("pull", "-q", PROMETHEUS, timeout=600).returncode:
        pytest.skip(f"the image {PROMETHEUS} is neither here nor can it be pulled")
    project = compose(*WITH_PROMETHEUS)
    project("up", "-d", "--build", "--wait", "--wait-timeout", "600")
    async with asyncio.timeout(PATIENCE_S):
        while True:
            targets = project.prometheus("targets")["activeTargets"]
            if {target["labels"]["job"] for target in targets if target["health"] == "up"} == SCRAPED:
                break
            await asyncio.sleep(1)
    groups = project.prometheus("rules")["groups"]
    assert sum(len(group["rules"]) for group in groups) > 20
    assert [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")] == []


def test_every_compose_file_is_whole_and_publishes_to_this_machine_only(compose: Callable[..., Compose]) -> None:
    for files in (("docker-compose.yml",), THREE_BROKERS, WITH_PROMETHEUS):
        shown = compose(*files)("config")
        assert shown.count("published:") == shown.count("host_ip: 127.0.0.1") > 0
