"""The whole system on a Kafka with TLS, users and access lists: every service has the rights that it needs, and no other.

Kafka logs every decision of its access lists. Nothing may be refused during the story, and every right in the table must be
used, or stand in `UNUSED` with the reason.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from tests.kits.console import page, sign_in
from tests.kits.http import PATIENCE_S, get
from tests.kits.system import System, Watch

from bailiff_bus import topics
from bailiff_bus.grants import PRINCIPALS, Grant, Operation
from bailiff_bus.kafka import KafkaBus
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.facts import WriterStarted
from bailiff_devstack.secure_kafka import SecureKafka
from bailiff_devstack.stack import API, AUDITOR, CONSOLE, ROLLUP, WITNESS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

POOL, WHOLE = "pool-a", "whole"
DECISION = re.compile(
    r"Principal = User:bailiff-(\S+) is (Allowed|Denied) operation = (\w+) from host = \S+ on resource = (\w+):LITERAL:(\S+) "
)
TYPES = {"Topic": "topic", "Group": "group", "Cluster": "cluster"}
UNUSED = {
    "kubernetes-bridge": {"Read on topic bailiff.audit", "Write on topic bailiff.requests"},  # it needs a Kubernetes
    "admission": {"Write on topic bailiff.alarms"},  # nothing goes wrong
    "victim-selection": {"Write on topic bailiff.alarms"},
    "eviction-executor": {"Write on topic bailiff.alarms"},
    "auditor": {"Write on topic bailiff.alarms"},
    # no alarm is raised; the console reads the other when somebody asks for the command of a job on its page
    "console": {"Read on topic bailiff.alarms", "Read on topic bailiff.job-spec-copies"},
    "operator": {
        # used by `bailiff describe --spec`, here by the client
        "Read on topic bailiff.job-spec-copies",
        # read with any Kafka client
        "Read on topic bailiff.alarms",
        # used by `bailiff audit erase`
        "Write on topic bailiff.job-specs",
        "Read on topic bailiff.job-specs",
        # used when a pool is added: tests/integration/test_kafka_access.py
        "Alter on topic bailiff.audit",
        "Alter on topic bailiff.rollup-state",
    },
}
"""Rights that the story does not need, with the reason."""


@pytest.fixture(params=[pytest.param("scram", marks=pytest.mark.long), "tls"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    """One machine with eight GPUs and all services, all of them with passwords or all with certificates."""
    kafka = SecureKafka(tmp_path / "kafka", authentication=request.param, log_allowed=True, progress=print)
    with System(tmp_path, kafka=kafka, pools={POOL: 1}, env={"BAILIFF_SEAL_SECONDS": "5"}) as made:
        made.stack.postgres.start()
        for name in (AUDITOR, API, ROLLUP, WITNESS):
            made.stack.start_service(name)
        made.stack.start_service(CONSOLE, env={"BAILIFF_API": made.stack.api})
        made.wait_ready()
        yield made


async def test_everything_works_with_the_rights_of_the_table_and_none_is_left_over(system: System, tmp_path: Path) -> None:
    async with system.watch(POOL) as watch, console(system) as (http, token):
        await preempted_and_resumed(system, watch)
        await admission_fails_over(system, watch)
        await rollup_restarts(system)
        await archived_and_served(system, watch)
        await shown_and_requested_in_the_console(watch, http, token)
        commands_of_each_role(system, tmp_path)
        await watch.verify(orphans=True)
        assert decisions(system)[1] == set()
        system.command(POOL, "logs", WHOLE)
        system.command(POOL, "doctor")
        probed = system.command(POOL, "doctor", "--probe")  # it asks about rights that the operator lacks
        assert "no other" in " ".join(probed.split()), probed
    allowed, _ = decisions(system)
    for role, principal in PRINCIPALS.items():
        granted = set(map(str, principal.grants()))
        used = granted & {str(grant) for user, grant in allowed if user == role}
        assert granted - used - UNUSED.get(role, set()) == set(), role


async def preempted_and_resumed(system: System, watch: Watch) -> None:
    """A job on all GPUs is preempted by an urgent one and resumes; an unreadable request becomes a dead letter."""
    await watch.submit(WHOLE, watch.training(before="echo hello;"), gpus=8)
    await watch.until_running(WHOLE)
    await watch.submit("urgent", "true", gpus=4, kind="inference")
    await watch.until_ended("urgent")
    await watch.until_running(WHOLE)
    (decided,) = watch.facts(PreemptionDecided)
    assert [victim.job for victim in decided.victims] == [WHOLE]
    await watch.publish_raw(topics.REQUESTS.name, b"not a request")

    async def kept() -> bool:
        return bool(await watch.everything(topics.DEAD_LETTERS.name))

    await watch.until_true("the unreadable request is a dead letter", kept)


async def admission_fails_over(system: System, watch: Watch) -> None:
    """Another replica of admission takes the pool over from a killed one, and decides."""
    system.stack.start_service("admission", replica="-b")
    await asyncio.to_thread(system.wait_ready)
    system.kill("admission")
    await watch.until("the other replica writes", lambda _: len(watch.facts(WriterStarted)) == 2)
    await watch.submit("after", "true", gpus=4, kind="inference")
    await watch.until_ended("after")
    await watch.until_running(WHOLE)


async def rollup_restarts(system: System) -> None:
    """The roll-up is killed and recovers its aggregates from its changelog."""
    assert await system.metric(ROLLUP, "bailiff_rollup_preemptions_total", pool=POOL) >= 0
    bus = KafkaBus(system.stack.kafka.settings("operator"))
    try:
        reader = await bus.reader([(topics.ROLLUPS.name, 0, 0)])
        async with asyncio.timeout(PATIENCE_S * 2):
            while not await reader.read():
                pass
    finally:
        await bus.close()
    system.kill_and_restart(ROLLUP)
    await asyncio.to_thread(system.stack.processes.wait_ready, ROLLUP, timeout_s=PATIENCE_S)


async def archived_and_served(system: System, watch: Watch) -> None:
    """The archive reaches the head of the log, sealed, and the API serves it. The auditor restarts from its seals."""
    seq = watch.state.seq
    headers = {"Authorization": f"Bearer {system.stack.api_token}"}
    async with (
        httpx.AsyncClient(base_url=system.stack.api, headers=headers, timeout=PATIENCE_S) as http,
        asyncio.timeout(PATIENCE_S),
    ):
        while (await http.get(f"/v1/pools/{POOL}/records/{seq}")).status_code != 200:  # noqa: ASYNC110 - HTTP has no event
            await asyncio.sleep(0.2)

    async def sealed() -> bool:
        return bool(await watch.everything(topics.SEALS.name))

    await watch.until_true("the log is sealed", sealed)

    async def cosigned() -> bool:
        return bool(await watch.everything(topics.COSIGNATURES.name))

    await watch.until_true("the witness has cosigned it", cosigned)
    system.kill_and_restart(AUDITOR)

    async def continued() -> bool:
        return ("auditor", Grant("topic", topics.SEALS.name, Operation.READ)) in decisions(system)[0]

    await watch.until_true("the auditor has read its seals again", continued)


@asynccontextmanager
async def console(system: System) -> AsyncIterator[tuple[httpx.AsyncClient, dict[str, str]]]:
    """The console's operator, signed in, and the headers for requests."""
    async with httpx.AsyncClient(base_url=system.stack.console, timeout=PATIENCE_S) as http:
        yield http, await sign_in(http, system.stack.console_token)


async def shown_and_requested_in_the_console(watch: Watch, http: httpx.AsyncClient, token: dict[str, str]) -> None:
    """The page shows the running job and telemetry; its output and what was rejected are read; the operator pauses it there."""
    async with page(http, POOL, "nodes,jobs,telemetry") as live:
        await live.until("the job runs", lambda state: state.snapshot.get("jobs", {}).get(WHOLE, {}).get("state") == "running")
        await live.until("telemetry is shown", lambda state: bool(state.telemetry))
    async with http.stream("GET", f"/api/pools/{POOL}/logs/{WHOLE}") as answer, asyncio.timeout(PATIENCE_S):
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if "hello" in line:
                break
    assert (await get(http, f"/api/archive/pools/{POOL}"))["pool"] == POOL
    assert (await get(http, f"/api/pools/{POOL}/rejections"))["alarms"] is True
    assert (await get(http, f"/api/pools/{POOL}/nodes/{watch.state.nodes[0].name}/leftovers"))["left_folders"] == 0
    reply = await http.post(f"/api/pools/{POOL}/requests", json={"kind": "pause", "job": WHOLE}, headers=token)
    assert reply.status_code == 200, reply.text
    await watch.until("it is paused", lambda state: state.jobs[WHOLE].phase == "paused")


def commands_of_each_role(system: System, folder: Path) -> None:
    """Client and notifier use the command with their own users."""
    assert "train-2" in system.command(POOL, "submit", "--name", "train-2", "--gpus", "1", "--", "true", role="client")
    assert WHOLE in system.command(POOL, "list", role="client")
    assert "hello" in system.command(POOL, "logs", WHOLE, role="client")
    assert "true" in system.command(POOL, "describe", "train-2", "--spec", role="client")
    system.command(POOL, "audit", "verify", role="client")
    hooks = folder / "notify.yaml"
    hook = {"name": "all", "command": ["true"]}
    hooks.write_text(yaml.safe_dump({"positions": str(folder / "notify.json"), "hooks": [hook]}))
    system.command(POOL, "notify", str(hooks), "--once", role="notifier")


def decisions(system: System) -> tuple[set[tuple[str, Grant]], set[tuple[str, Grant]]]:
    """What Kafka allowed and refused, by role."""
    found: dict[str, set[tuple[str, Grant]]] = {"Allowed": set(), "Denied": set()}
    assert isinstance(system.stack.kafka, SecureKafka)
    for role, outcome, operation, resource, name in DECISION.findall(system.stack.kafka.access_log.read_text()):
        if role in PRINCIPALS and resource in TYPES:
            grant = Grant(TYPES[resource], name, Operation[operation])  # type: ignore[arg-type]
            found[outcome].add((role, grant))
    return found["Allowed"], found["Denied"]
