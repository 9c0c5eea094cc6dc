"""Secrets that a whole system was given, and everything that it wrote: state, logs, topics, metrics, spans, crash reports.

Each secret may be where it is kept and where it is needed, and nowhere else. The services log as much as they can.
"""

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.kits.console import sign_in
from tests.kits.otlp import Collector, collecting
from tests.kits.system import PATIENCE_S

from bailiff.client.client import Client
from bailiff.client.settings import key_text
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.port import Message
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.stack import API, AUDITOR, CONSOLE, ROLLUP, SERVICES, Plan, Stack
from bailiff_node_agent.runtime.process import why_not_isolated

pytestmark = pytest.mark.kafka

POOL = "pool-a"
OF_REQUESTS = (topics.REQUESTS.name,)
PRIVATE_KEYS = ("key", "encryption.key", "specs.key", "root.key")
CRASHED = (*SERVICES, AUDITOR, ROLLUP, CONSOLE)
CRASH = """
import signal
from pathlib import Path
def crash(*_):
    secret = Path({file!r}).read_text()
    from bailiff_core.model.job_spec import JobSpec
    JobSpec.model_validate({{"command": "true", "env": {{"PLAIN": secret}}, "runtime": [secret]}})
signal.signal(signal.SIGUSR2, crash)
"""
"""Raises an error about a job's spec in the middle of whatever a service does."""
SERVERS_OWN = ("kafka", "postgres")  # the topics are read as messages; the database has no secret of ours


def made() -> str:
    return f"planted-{secrets.token_hex(16)}"


@dataclass
class Planted:
    """Secrets by name, and the files and topics that may contain them."""

    folder: Path
    node_secret: str = field(default_factory=made)
    job_variable: str = field(default_factory=made)
    console_secret: str = field(default_factory=made)
    signing_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def __post_init__(self) -> None:
        (self.folder / "node-secrets").mkdir(parents=True)
        (self.folder / "node-secrets" / "registry").write_text(f"{self.node_secret}\n")
        python, variable = self.folder / "python", self.folder / "variable"
        python.mkdir()
        variable.write_text(self.job_variable)
        (python / "sitecustomize.py").write_text(CRASH.format(file=str(variable)))
        key = self.folder / "request.key"
        key.touch(mode=0o600)
        key.write_text(key_text(self.signing_key))

    @property
    def env(self) -> Mapping[str, str]:
        return {
            "BAILIFF_SECRETS_DIR": str(self.folder / "node-secrets"),
            "BAILIFF_CONSOLE_SECRET": self.console_secret,
            "BAILIFF_KEY": str(self.folder / "request.key"),
            "BAILIFF_LOG_LEVEL": "debug",
            "BAILIFF_SEAL_SECONDS": "1",
            "PYTHONPATH": str(self.folder / "python"),
            "PYTHONFAULTHANDLER": "1",
        }

    def values(self, stack: Stack) -> Mapping[str, tuple[str, tuple[str, ...]]]:
        """Each secret with the files, below the stack's folder, and the topics where it belongs."""
        state = stack.folder / "state"
        keys = [file for name in PRIVATE_KEYS for file in (stack.folder / "credentials").rglob(name)]
        console_token, api_token = "state/console.token", "state/api.token"
        return {
            "a secret of the node": (self.node_secret, ()),
            "a variable of the job": (self.job_variable, OF_REQUESTS),
            "the console's secret": (self.console_secret, ()),
            "the key that signs requests": (key_text(self.signing_key).strip(), ()),
            "the console's token": ((stack.folder / console_token).read_text().strip(), (console_token,)),
            "the token of the HTTP API": ((stack.folder / api_token).read_text().strip(), (api_token,)),
            "the database's password": (urlsplit(stack.postgres.dsn).password or "-", ()),
            **{f"the key {file}": (file.read_text().strip(), (str(file.relative_to(stack.folder)),)) for file in keys},
            "the key that seals": ((state / "auditor/seal.key").read_text().strip(), ("state/auditor/seal.key",)),
        }


@pytest.fixture
async def planted(tmp_path: Path) -> Planted:
    return await asyncio.to_thread(Planted, tmp_path / "given")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
async def stack(planted: Planted, collector: Collector, tmp_path: Path) -> AsyncIterator[Stack]:
    env = {**planted.env, "BAILIFF_OTLP_ENDPOINT": collector.address}
    stack = Stack(tmp_path / "stack", Plan(archive=True, api=True, rollup=True, console=True, env=env), progress=print)
    try:
        await asyncio.to_thread(stack.start)
        await asyncio.to_thread(stack.processes.wait_ready, timeout_s=PATIENCE_S)
        yield stack
    finally:
        await asyncio.to_thread(stack.close)


@pytest.mark.timeout(600)
async def test_no_secret_is_where_it_does_not_belong(
    stack: Stack, planted: Planted, collector: Collector, tmp_path: Path
) -> None:
    values = await asyncio.to_thread(planted.values, stack)
    output = tmp_path / "output"
    await use(stack, planted, output)
    async with asyncio.timeout(PATIENCE_S):
        while not collector.bodies:  # noqa: ASYNC110 - another process sends them
            await asyncio.sleep(0.1)
    written = [*await collected(stack), *(("a span", body) for body in collector.bodies)]
    # The job had its secret: the search would have found what leaks.
    assert await asyncio.to_thread(output.read_text) == f"{planted.node_secret} {planted.job_variable}\n"
    assert any(planted.job_variable.encode() in content for place, content in written if place in OF_REQUESTS)
    found = [
        f"{name}: {place}"
        for name, (value, allowed) in values.items()
        for place, content in written
        if value.encode() in content and place not in allowed
    ]
    assert found == []
    await asyncio.to_thread(private_files, stack)


ATTACK = """
import json, os, sys, urllib.request
from urllib.error import HTTPError
console, api, state, agent, result = sys.argv[1:]
def status(url):
    try:
        return urllib.request.urlopen(url).status
    except HTTPError as refused:
        return refused.code
def readable(path):
    try:
        return bool(open(path, "rb").read())
    except OSError:
        return False
found = {path: status(console + path) for path in ("/api/me", "/api/pools", "/auth/sign-in", "/auth/sign-in?token=guess")}
found["archive"] = status(api + "/v1/pools")
kept = ("console.token", "api.token", "auditor/seal.key", "../archive", "../services/node-agent.log", "../postgres/password")
found["read"] = [name for name in kept if readable(f"{state}/{name}")] + [readable(f"/proc/{agent}/environ")]
with open(result + ".new", "w") as file:
    json.dump(found, file)
os.rename(result + ".new", result)
"""


@pytest.mark.timeout(300)
@pytest.mark.skipif(why_not_isolated() is not None, reason=f"this machine permits no isolation: {why_not_isolated()}")
async def test_a_job_gets_nothing_from_console_api_and_agent(stack: Stack, tmp_path: Path) -> None:
    result = tmp_path / "result"
    agent = stack.processes.pid("node-agent")
    command = (sys.executable, "-c", ATTACK, stack.console, stack.api, str(stack.folder / "state"), str(agent), str(result))
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test") as client:
        demand = JobDemand(job="curious", tasks=(TaskGroup(gpu_milli=1000),), max_failures=0)
        await client.submit(demand, JobSpec(command=command), pool=POOL)
        async with asyncio.timeout(PATIENCE_S):
            while not (state := (await client.projection(POOL)).state).ended:  # noqa: ASYNC110 - over Kafka
                await asyncio.sleep(0.1)
        assert state.jobs["curious"].phase == "succeeded"
    refused = {"/api/me": 401, "/api/pools": 401, "/auth/sign-in": 401, "/auth/sign-in?token=guess": 403, "archive": 401}
    assert json.loads(await asyncio.to_thread(result.read_text)) == refused | {"read": [False]}


async def use(stack: Stack, planted: Planted, output: Path) -> None:
    """A job with secrets, sign-ins, wrong tokens, malformed input, crashes."""
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/test", actor="ada") as client:
        command = f'echo "$TOKEN $PLAIN" > {output}.new && mv {output}.new {output}; exit 3'
        spec = JobSpec(command=command, env={"PLAIN": planted.job_variable}, secrets={"TOKEN": "registry"})
        demand = JobDemand(job="train", tasks=(TaskGroup(gpu_milli=1000),), max_failures=1)
        sent = await client.submit(demand, spec, pool=POOL)
        assert await client.outcome_of(sent, PATIENCE_S) is not None
        async with asyncio.timeout(PATIENCE_S):
            while not (state := (await client.projection(POOL)).state).ended:  # noqa: ASYNC110 - over Kafka
                await asyncio.sleep(0.1)
        assert state.jobs["train"].phase == "failed"
        for name, kind, command, phase in (("low", "train", "sleep 600", "running"), ("high", "inference", "true", "succeeded")):
            demand = JobDemand(job=name, tasks=(TaskGroup(gpu_milli=8000),), priority_class=kind, grace=1_000_000)
            await client.submit(demand, JobSpec(command=command, env={"PLAIN": planted.job_variable}), pool=POOL)
            async with asyncio.timeout(PATIENCE_S):  # a preemption is a trace
                while (job := (await client.projection(POOL)).state.jobs.get(name)) is None or job.phase != phase:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
    async with httpx.AsyncClient(base_url=stack.console, timeout=PATIENCE_S) as console:
        token = stack.console_link.partition("=")[2]
        assert (await console.get("/auth/sign-in", params={"token": f"{token}x"})).status_code == 403
        headers = await sign_in(console, token)
        assert (await console.get("/api/pools")).status_code == 200
        assert (await console.post("/api/pools/pool-a/requests", content="{", headers=headers)).status_code >= 400
    async with httpx.AsyncClient(base_url=stack.api, timeout=PATIENCE_S) as api:
        for authorization in (f"Bearer {stack.api_token}", f"Bearer {stack.api_token}x"):
            await api.get("/v1/pools", headers={"authorization": authorization})
            await api.get("/v1/pools/x/jobs?limit=%00", headers={"authorization": authorization})
    bus = KafkaBus(stack.kafka.bootstrap)
    producer = await bus.producer()
    await (await producer.send(topics.REQUESTS.name, b"{", key=b"pool-a", headers=(("ce_pool", b"pool-a"),)))
    await producer.close(1.0)
    await bus.close()
    await crash(stack)
    await asyncio.to_thread(stack.postgres.close)
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient() as http:
        while (await http.get(f"{stack.address(API)}/readyz")).status_code == 200:  # noqa: ASYNC110 - over HTTP
            await asyncio.sleep(0.1)


async def crash(stack: Stack) -> None:
    """Every service gets an error about a job's spec, until its report is in its log. Then one is aborted."""
    for name in CRASHED:
        log = stack.processes.log(name)
        async with asyncio.timeout(PATIENCE_S):
            while b"for JobSpec" not in await asyncio.to_thread(log.read_bytes):
                if name in stack.processes.running():
                    os.kill(stack.processes.pid(name), signal.SIGUSR2)
                await asyncio.sleep(0.5)
    for name in (*CRASHED, API):
        await asyncio.to_thread(stack.processes.kill9, name)
        stack.start_service(name)
    await asyncio.to_thread(stack.processes.wait_ready, timeout_s=PATIENCE_S)
    os.kill(stack.processes.pid("node-agent"), signal.SIGABRT)
    log = stack.processes.log("node-agent")
    async with asyncio.timeout(PATIENCE_S):
        while b"Fatal Python error: Aborted" not in await asyncio.to_thread(log.read_bytes):  # noqa: ASYNC110 - of a process
            await asyncio.sleep(0.1)
    await asyncio.to_thread(stack.processes.kill9, "node-agent")
    stack.start_service("node-agent")
    await asyncio.to_thread(stack.processes.wait_ready, timeout_s=PATIENCE_S)


async def collected(stack: Stack) -> list[tuple[str, bytes]]:
    """All that was written: each file, each message, and the metrics and readiness of each service."""
    found = await asyncio.to_thread(lambda: list(files(stack.folder)))
    bus = KafkaBus(stack.kafka.bootstrap)
    for topic in topics.TOPICS:
        spans = await bus.spans(topic)
        reader = await bus.reader([(topic, number, span.begin) for number, span in spans.items()])
        while any(reader.position(topic, number) < span.end for number, span in spans.items()):
            found += [(topic, all_of(message)) for message in await reader.read(wait=0.2)]
        await reader.close()
    await bus.close()
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
        for name in (*SERVICES, AUDITOR, ROLLUP, API, CONSOLE):
            for path in ("/metrics", "/readyz"):
                found.append((f"{name}{path}", (await http.get(f"{stack.address(name)}{path}")).content))
    return found


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        place = path.relative_to(folder)
        if place.parts[0] not in SERVERS_OWN and path.is_file():
            yield str(place), path.read_bytes()


def all_of(message: Message) -> bytes:
    headers = json.dumps([[name, value.decode("latin-1")] for name, value in message.headers]).encode()
    return (message.key or b"") + headers + (message.value or b"")


def private_files(stack: Stack) -> None:
    """Tokens and keys are for their user only."""
    for name in ("console.token", "api.token", "auditor/seal.key"):
        assert (stack.folder / "state" / name).stat().st_mode & 0o077 == 0, name
