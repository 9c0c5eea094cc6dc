"""Accounts whose jobs evict others and never run, and an agent that is killed while it saves a gang whose tasks are connected.

On real Kafka, services and processes, as `make up` sets them up and as `make up SECURE=1` does: what neither can do, and what an
operator is told of it.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.kits.criu import locked_connections, needs_criu, needs_nft, paused_criu
from tests.kits.saved_programs import EXCHANGES, PRELUDE
from tests.kits.system import GIB, PATIENCE_S, POLICY, System, Watch

from bailiff.client.client import Client
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_core.records.request import RequestBody
from bailiff_devstack.secure_kafka import SecureKafka
from bailiff_log.keys import key_id, make_private_key

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

POOL, VICTIM = "pool-a", "steady"
KEY_HOLDERS = ("mallory", "eve", "bob")


class Place:
    """A machine of eight GPUs; of three users, their keys. CRIU stops where it has saved a task unless `gate` is there."""

    def __init__(self, folder: Path, *, secure: bool) -> None:
        self.keys = {name: make_private_key(folder / f"{name}.key") for name in KEY_HOLDERS}
        data = POLICY.model_dump(mode="json")
        data["restarts"]["max_backoff"] = "10m"  # for so long at least a victim is spared: longer than the story
        data["identity"] |= {"keys": {key_id(key): name for name, key in self.keys.items()}}
        self.folder, self.gate = folder, folder / "gate"
        self.gate.touch()
        self.system = System(
            folder,
            kafka=SecureKafka(folder / "kafka", progress=print) if secure else None,
            pools={POOL: 1},
            policy=Policy.model_validate(data, strict=False),
            env={"BAILIFF_CRIU": str(paused_criu(folder)), "BAILIFF_RUN_AS": "agent"},
        )


@pytest.fixture(scope="module", params=["plain", "secure"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp(request.param), secure=request.param == "secure")
    with made.system:
        yield made


# --- evictions in vain


class Accounts:
    """Who sends requests: holders of keys by theirs, everybody else under a claimed name."""

    def __init__(self, place: Place, bus: KafkaBus, watch: Watch) -> None:
        self._watch, self._place = watch, place
        self._clients = {name: Client(bus, source=f"{name}-laptop", private_key=key) for name, key in place.keys.items()}
        self._clients[""] = Client(bus, source="somebody")
        self._numbers = dict.fromkeys((*KEY_HOLDERS, "dora", "dan"), 0)

    async def close(self) -> None:
        for client in self._clients.values():
            for projection in client._projections.values():
                await projection.close()

    async def submit(self, name: str, command: str = "exit 1") -> str:
        """An urgent job of this account, on the whole machine; by default it fails at once. Returns its name."""
        self._numbers[name] += 1
        job = f"{name}-{self._numbers[name]}"
        task = TaskGroup(gpu_milli=8000, cpu_milli=1000, memory_bytes=GIB)
        demand = JobDemand(job=job, priority_class="build", tasks=(task,), max_failures=0)
        await self._ask(name, SubmitJob(demand=demand, spec=JobSpec(command=command)))
        return job

    async def cancel(self, name: str, job: str) -> None:
        await self._ask(name, CancelJob(job=job))

    async def evicts_in_vain(self, name: str) -> None:
        """Its job evicts the victim, and fails; the victim runs again."""
        before = self._watch.job(VICTIM).attempt
        await self._watch.until_ended(await self.submit(name), "failed")
        await self._watch.until("the victim runs again", lambda _: self._watch.job(VICTIM).attempt > before)
        await self._watch.until_running(VICTIM)

    async def spares(self, name: str, because_of: str) -> None:
        """Its job waits, whatever its name, and the operator is told why. It is cancelled, and another one waits as well."""
        for _ in range(2):
            job = await self.submit(name)
            await self._watch.until("it waits", lambda state, job=job: job in state.jobs and state.jobs[job].pending_recorded)
            said = " ".join((await asyncio.to_thread(self._place.system.command, POOL, "explain", job)).split())
            assert f"It spares {VICTIM} until " in said
            assert f"it was evicted in vain for jobs of {because_of}" in said
            assert self._watch.running(VICTIM)
            await self.cancel(name, job)
            await self._watch.until_ended(job, "cancelled")

    async def _ask(self, name: str, body: RequestBody) -> None:
        has_key = name in KEY_HOLDERS
        client = self._clients[name if has_key else ""]
        outcome = await client.outcome_of(await client.request(POOL, body, actor="" if has_key else name), PATIENCE_S)
        assert outcome is not None
        assert outcome.accepted, outcome


@asynccontextmanager
async def accounts(place: Place, watch: Watch) -> AsyncIterator[Accounts]:
    async with AsyncExitStack() as closing:
        bus = KafkaBus(place.system.stack.kafka.settings("operator"))
        closing.push_async_callback(bus.close)
        found = Accounts(place, bus, watch)
        closing.push_async_callback(found.close)
        yield found


async def test_accounts_whose_jobs_evict_and_never_run_evict_a_job_once_each(place: Place) -> None:
    """Two with keys, which work together and cancel and submit again, and two claimed names, which count as one."""
    async with place.system.watch(POOL) as watch, accounts(place, watch) as users:
        await watch.submit(VICTIM, gpus=8, grace_s=2)
        await watch.until_running(VICTIM)
        for name in ("mallory", "eve"):
            await users.evicts_in_vain(name)
            await users.spares(name, because_of=name)
        await users.evicts_in_vain("dora")
        for name in ("dora", "dan", "mallory"):
            await users.spares(name, because_of=name if name in KEY_HOLDERS else "users whose names are not verified")
        decided = [each for each in watch.facts(PreemptionDecided) if VICTIM in {victim.job for victim in each.victims}]
        assert [each.preemptor.job for each in decided] == ["mallory-1", "eve-1", "dora-1"]
        urgent = await users.submit("bob", "sleep 600")  # who has evicted nobody in vain has the machine at once
        await watch.until_running(urgent)
        await users.cancel("bob", urgent)
        await watch.until_ended(urgent, "cancelled")
        await watch.verify()


# --- locked connections


@needs_criu
@needs_nft
async def test_an_agent_that_is_killed_while_it_saves_a_gang_leaves_no_connection_locked(place: Place, tmp_path: Path) -> None:
    system, before = place.system, locked_connections()
    work, script = tmp_path / "work", tmp_path / "exchanges.py"
    work.mkdir()
    script.write_text(PRELUDE + EXCHANGES)
    async with system.watch(POOL) as watch:
        await watch.until("the machine can save", lambda state: all(node.snapshots for node in state.nodes.values()), 120)
        run = f"cd {work} && exec {sys.executable} -I -S {script}"
        await watch.submit("gang", run, gpus=4, tasks=2, checkpoint="snapshot", grace_s=60)
        await watch.until_running("gang")
        logs = system.folder / "state" / "node-agent" / POOL / "pool-a-0" / "logs"
        await watch.until("they are connected", lambda _: all("ready" in text_of(logs / f"gang-1-{rank}.log") for rank in (0, 1)))
        place.gate.unlink()
        await watch.submit("urgent", watch.until_signalled(), gpus=8, kind="build")
        await watch.until("both ends are locked", lambda _: len(locked_connections() - before) == 2)
        system.kill("node-agent")
        place.gate.touch()
        system.start_service("node-agent")
        await watch.until_running("urgent")
        said = " ".join((await asyncio.to_thread(system.command, POOL, "explain", "gang")).split())
        for task in (0, 1):
            assert re.search(rf"Task {task} was notified .*?: stopped for its snapshot .*? and released its resources", said)
        (work / "port").unlink()  # of the connection that was saved: whoever starts anew makes another one
        (work / "go").touch()
        watch.let_finish("urgent")
        await watch.until_ended("gang")
        await watch.until("nothing is locked", lambda _: locked_connections() == before)
        await watch.verify()


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
