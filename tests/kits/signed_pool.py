"""A pool with a root key on the in-memory bus, in virtual time: the real services, each with its own credentials.

async with SignedPool(tmp_path) as pool:
    await pool.until("n1 has joined", lambda state: "n1" in state.node_numbers)
"""

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.kits.memory_bus import MemoryCluster
from tests.kits.verified_once import verified_once
from tests.unit.bus.virtual_time import run

from bailiff_admission.service import AdmissionService
from bailiff_admission.settings import AdmissionSettings
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.messages.commands import CommandBody
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import Headers, Message
from bailiff_core.model.certificate import Role
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MessageBody
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.facts import InputRejected
from bailiff_core.records.job_requests import SubmitJob
from bailiff_devstack.simulated_node import MemoryImages, SimulatedInventory, SimulatedMachine, SimulatedRuntime
from bailiff_eviction_executor.executor import Executor
from bailiff_log.credentials import Credentials, make_credentials, read_credentials
from bailiff_log.keys import new_private_key
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.order_evidence import subject_of
from bailiff_log.projection import Projection
from bailiff_log.signatures import salted, sign
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.command_trust import CommandTrust
from bailiff_node_agent.disk import MemoryStorage, new_incarnation
from bailiff_node_agent.service import NodeAgentService
from bailiff_node_agent.settings import NodeAgentSettings, NodeDeclaration
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import PoolService
from bailiff_service.settings import ServiceSettings
from bailiff_victim_selection.selector import proposal_batch, run_selector

POOL = "pool-a"
START, DAY = 1_800_000_000_000_000, 86_400_000_000
SECRET = "a-value-for-the-job-alone"
PATIENCE_S = 120.0


class Machine:
    """A machine that outlives its agents: its disk, its GPUs, and what runs on it."""

    def __init__(self, node: str) -> None:
        self.storage, self.machine, self.images = MemoryStorage(), SimulatedMachine(), MemoryImages()
        self.inventory = SimulatedInventory("4xH100-80GB", node, self.machine.identify)
        self.machine.attach_devices(self.inventory)


class MachineAgent(NodeAgentService):
    """The node agent of such a machine."""

    machine: Machine

    def _context(self, node: NodeDeclaration, locks: ExitStack) -> AgentContext:
        del locks
        credentials, storage = self._credentials(node), self.machine.storage
        assert credentials is not None
        return AgentContext(
            node=node,
            inventory=self.machine.inventory,
            runtimes={"simulated": SimulatedRuntime(self.machine.machine)},
            storage=storage,
            incarnation=new_incarnation(storage, machine_id=f"machine-of-{node.name}"),
            folder=Path("/simulated") / node.name,
            credentials=credentials,
            trust=CommandTrust(storage, credentials.root_key),
            device_poll_s=2.0,
            images=self.machine.images,
        )


class SignedPool:
    """folder: of the credentials. Admission, selection, the executor and the agent of n1 run inside the context."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, new_private_key()
        self.cluster = MemoryCluster(self.now)
        self.cluster.create_topics(pools=1)
        (folder / "pools.yaml").write_text(json.dumps({"pools": [{"name": POOL, "partition": 0}]}), encoding="utf-8")
        self.machines: dict[str, Machine] = {}
        self.agents: dict[str, MachineAgent] = {}
        self._works: dict[str, asyncio.Future[Any]] = {}
        self._numbers = Random(1)
        self._decoded = functools.cache(_decoded)  # who waits for a record looks through the log again and again
        self.follow()

    def now(self) -> int:
        """µs UTC."""
        return START + int(asyncio.get_running_loop().time() * 1_000_000)

    def certify(self, folder: str, role: Role, name: str = "", *, root: bytes = b"", **terms: Any) -> Credentials:
        """Credentials in this folder, valid for a year unless `terms` say otherwise."""
        terms = {"not_before": START - DAY, "expires": START + 365 * DAY, **terms}
        return make_credentials(self.folder / folder, root or self.root, role=role, name=name or folder, **terms)

    async def __aenter__(self) -> Self:
        for role in ("admission", "victim-selection", "eviction-executor"):
            self.certify(role, role)
        self.certify("nodes/n1", "node", "n1")
        self.start_admission()
        self.start_pool_service("victim-selection", self._select)
        self.start_pool_service("eviction-executor", self._execute)
        self.start_agent("n1")
        await self.until("n1 has joined", lambda state: "n1" in state.node_numbers)
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._works):
            await self.stop(name)

    # --- services

    def clock_and_ids(self, behind: Callable[[], int] = lambda: 0) -> ClockAndIds:
        """Virtual clocks, repeatable ids. behind: how far this machine's wall clock is wrong, µs."""
        return ClockAndIds(wall=lambda: self.now() - behind(), boot=self.now, random_bytes=lambda: self._numbers.randbytes(16))

    def start_admission(self, folder: str = "admission", name: str = "admission", **settings: Any) -> None:
        """A replica with the credentials in this folder."""
        values = self._common(name, folder) | settings
        bus = self.cluster.client(name)
        self._start(name, AdmissionService(AdmissionSettings(**values), Metrics(), bus, self.clock_and_ids()))

    def start_pool_service(self, name: str, work: Callable[[Projection], Any]) -> None:
        """Victim selection or the executor."""
        settings = ServiceSettings(**self._common(name, name))
        self._start(name, PoolService(name, settings, Metrics(), self.cluster.client(name), work))

    async def _select(self, projection: Projection) -> None:
        async def search(state: PoolState) -> Any:
            return proposal_batch(state)

        await run_selector(projection, self.clock_and_ids(), search, self.credentials("victim-selection"))

    async def _execute(self, projection: Projection) -> None:
        await Executor(projection, self.clock_and_ids(), Metrics(), self.credentials("eviction-executor")).run()

    def start_agent(
        self,
        node: str,
        credentials: str = "nodes",
        token: str | None = None,
        machine: str = "",
        behind: Callable[[], int] = lambda: 0,
    ) -> None:
        """The agent of this node. machine: another machine than that of this name. behind: as for `clock_and_ids`."""
        name = f"agent-{machine or node}"
        found = self.machines.setdefault(machine or node, Machine(node))
        settings = NodeAgentSettings(
            **self._common(name, credentials),
            nodes=(NodeDeclaration(name=node, pool=POOL, gpus="4xH100-80GB"),),
            ship_logs=False,
            telemetry_s=0,
            enrolment_token=token,
        )
        agent = self.agents[name] = MachineAgent(settings, Metrics(), self.cluster.client(name), self.clock_and_ids(behind))
        agent.machine = found
        self._start(name, agent)

    def _common(self, name: str, credentials: str) -> dict[str, Any]:
        folders = {"state_dir": self.folder / "state" / name, "credentials": self.folder / credentials}
        return {"pools": self.folder / "pools.yaml", "instance": name, **folders}

    def credentials(self, folder: str) -> Credentials:
        """What lies in this folder."""
        return read_credentials(self.folder / folder)

    def _start(self, name: str, service: Any) -> None:
        self._works[name] = asyncio.ensure_future(service.run(asyncio.Event()))

    async def stop(self, name: str) -> None:
        """End this service at once."""
        work = self._works.pop(name)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    async def error_of(self, name: str) -> BaseException:
        """The exception that ends this service."""
        work = self._works.pop(name)
        (error,) = await asyncio.gather(asyncio.wait_for(work, PATIENCE_S), return_exceptions=True)
        assert isinstance(error, BaseException)
        return error

    # --- messages

    def send(self, topic: str, headers: Headers, value: bytes, key: str = POOL) -> None:
        """Store a message of anybody."""
        self.cluster.store(topic, 0, key.encode(), headers, value)

    def request(self, body: MessageBody, key: bytes | None = None, actor: str = "") -> str:
        """A request, signed with this private key if there is one; its id."""
        about: dict[str, Any] = {"source": "/tests", "id": self._numbers.randbytes(8).hex(), "pool": POOL, "time_us": self.now()}
        keyid, sig = "", ""
        if key is not None:
            body = salted(key, body, source=about["source"], id=about["id"])
            keyid, sig = sign(key, body, **about, actor=actor)
        headers, value = wrap(body, **about, actor=actor, keyid=keyid, sig=sig)
        self.send(topics.REQUESTS.name, headers, value)
        return str(about["id"])

    def submit(self, job: str, *, gpus: int = 4, kind: str = "train", key: bytes | None = None, **env: str) -> None:
        """A simulated job of one task, with a secret in its environment. It runs until it gets an eviction notice."""
        demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=gpus * 1000),), priority_class=kind)
        values = {"BAILIFF_SIM_ON_NOTICE": "exit", "SECRET": SECRET, **env}
        self.request(SubmitJob(demand=demand, spec=JobSpec(command="true", env=values, runtime="simulated")), key)

    def signed(
        self, credentials: Credentials | None, body: MessageBody, *, pool: str = POOL, subject: str | None = None
    ) -> tuple[Headers, bytes]:
        """A message with this signature. subject: by default the right one."""
        if subject is None:
            subject = subject_of(body, pool) if isinstance(body, CommandBody) else ""
        message_id = self._numbers.randbytes(8).hex()
        return wrap_signed(credentials, body, source="/somebody", id=message_id, pool=pool, time_us=self.now(), subject=subject)

    def messages(self, topic: str) -> list[Message]:
        """All messages of a topic."""
        return [each for number in range(len(self.cluster.partitions(topic))) for each in self.cluster.messages(topic, number)]

    # --- what came of it

    def follow(self) -> None:
        """Read the log from its first record again."""
        self._projection = Projection(self.cluster.client("reader"), POOL, 0, Metrics())

    @property
    def state(self) -> PoolState:
        """The state as of the last `until`."""
        return self._projection.state

    async def until(self, what: str, condition: Callable[[PoolState], object], within_s: float = PATIENCE_S) -> None:
        """Follow the log until the condition holds."""
        end = asyncio.get_running_loop().time() + within_s
        while True:
            await self._projection.advance(0.1)
            if condition(self.state):
                return
            for name, work in self._works.items():
                assert not work.done(), f"{name} ended: {work.exception()!r}"
            assert asyncio.get_running_loop().time() < end, f"{what}: not within {within_s} s"

    async def until_running(self, job: str) -> None:
        """Wait until the job runs."""
        await self.until(f"{job} runs", lambda state: job in state.jobs and state.jobs[job].phase == "running")

    async def until_rejected(self, code: str) -> InputRejected:
        """The first rejection with this code."""
        found: list[InputRejected] = []

        def rejected(_: PoolState) -> bool:
            found.extend(fact for fact in self.facts(InputRejected) if fact.code == code)
            return bool(found)

        await self.until(f"an input is rejected as {code}", rejected)
        return found[0]

    async def until_alarm(self, code: str, mentions: str = "") -> str:
        """The text of the newest alarm with this code and these words."""
        found: list[str] = []

        def raised(_: PoolState) -> bool:
            bodies = [unwrap(message).body for message in self.messages(topics.ALARMS.name)]
            found.extend(body.text for body in bodies if isinstance(body, Alarm) and body.code == code and mentions in body.text)
            return bool(found)

        await self.until(f"there is an alarm {code} {mentions}", raised)
        return found[-1]

    def facts(self, kind: type[Any]) -> list[Any]:
        """All facts and decisions of this type in the log."""
        return [record.data for record in self.records() if isinstance(record.data, kind)]

    def records(self) -> list[Record]:
        """The whole log."""
        return [self._decoded(each) for each in self.messages(topics.AUDIT.name)]


def _decoded(message: Message) -> Record:
    return decode(Wire(message.headers, message.value))


def in_signed_pool(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The story of a pool, `pool`, as a test: in a pool of its own, in virtual time."""

    @functools.wraps(story)
    def test(tmp_path: Path, **arguments: Any) -> None:
        async def steps() -> None:
            async with SignedPool(tmp_path) as pool:
                await story(pool=pool, **arguments)

        with verified_once():
            run(steps())

    asked = inspect.signature(story)
    given = [each.replace(name="tmp_path") if each.name == "pool" else each for each in asked.parameters.values()]
    test.__signature__ = asked.replace(parameters=given)  # type: ignore[attr-defined] - which fixtures pytest brings
    return test
