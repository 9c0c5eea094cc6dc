"""One run: a pool, its services on the in-memory bus, requests, and faults, all derived from one seed.

cluster, machines          exist for the whole run
processes                  one for each replica of a service and one for each node agent; killed and started again
checker                    checks the invariants after each record, and at each start and stop of a task
"""

import asyncio
import gc
import json
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random

import structlog
from tests.kits.invariants import (
    LiveTask,
    chain_of,
    every_node_is_back,
    folds_agree,
    no_request_is_named,
    nothing_is_due,
    replay_is_identical,
)
from tests.kits.memory_bus import MemoryBus, MemoryCluster, Partition
from tests.kits.verified_once import verified_once

from bailiff_admission.service import AdmissionService
from bailiff_admission.settings import AdmissionSettings
from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap, unwrap_dead_letter
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_bus.port import BusUnavailable, Headers, Message, Producer, Span
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import DecisionFailed, InputRejected
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.request import RequestBody, RequestId
from bailiff_devstack.simulated_node import SimulatedRuntime
from bailiff_eviction_executor.executor import Executor
from bailiff_log.credentials import Credentials, read_credentials
from bailiff_log.reader import AuditReader
from bailiff_node_agent.agent_context import AgentContext
from bailiff_node_agent.command_trust import CommandTrust
from bailiff_node_agent.disk import Fences, Verdict, new_incarnation
from bailiff_node_agent.service import NodeAgentService
from bailiff_node_agent.settings import NodeAgentSettings, NodeDeclaration
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.main import Service
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import PoolService
from bailiff_service.settings import ServiceSettings
from bailiff_victim_selection.selector import proposal_batch, run_selector

from .adversary import Adversary, watched
from .engine_fault import engine_fails_on, sound_engine
from .faults import Event, NetworkFaults
from .keys import SERVICES, pool_keys
from .machines import WatchedMachine
from .plan import LENGTH, POOL, Plan, plan_of
from .processes import Process, VirtualLoop
from .run_checker import RunChecker
from .work import CPU, START, clean_up, client, offers_of, operator, revoke

REST_TIMEOUT_S = 300.0  # virtual seconds from the end of the last job until the pool must be at rest
REST_S = 2.0
HOURS = 2 * 3_600_000_000
MIN_RECORDS = 3
INPUTS = (topics.REQUESTS.name, topics.PROPOSALS.name, topics.EVICTION_PROGRESS.name, topics.NODE_REPORTS.name)


@dataclass
class Outcome:
    """The result of one run. `partition`: the raw audit partition; `messages`: how many each topic has."""

    plan: Plan
    violation: str | None
    checker: RunChecker
    partition: list[Message] = field(default_factory=list)
    messages: Mapping[str, int] = field(default_factory=dict)

    def bytes(self) -> bytes:
        """The whole audit partition, orphans included."""
        return repr([(m.offset, m.time, m.key, m.headers, m.value) for m in self.partition]).encode()

    def story(self, last: int | None = None) -> str:
        """Readable report: the violation, the pool, the requests, the faults, and the trace."""
        lines = [f"{at:9.3f} {line}" for at, line in self.checker.lines]
        shown = lines if last is None else lines[-last:]
        return "\n".join([f"seed {self.plan.seed}: {self.violation or 'no violation'}", str(self.plan), "trace:", *shown])


class WatchedCluster(MemoryCluster):
    """Passes every stored message to the checker at once."""

    checker: RunChecker
    in_mid_cycle: Callable[[], None] | None = None

    def store(self, topic: str, partition: int, key: bytes | None, headers: Headers, value: bytes) -> Message:
        message = super().store(topic, partition, key, headers, value)
        self.checker.stored(message)
        if topic == topics.AUDIT.name and self.checker.state.cycle_open and self.in_mid_cycle is not None:
            act, self.in_mid_cycle = self.in_mid_cycle, None
            act()
        return message

    def lose(self, messages: int) -> None:
        """Truncate the log; its first records are kept."""
        partition = self.partitions(topics.AUDIT.name)[0]
        self.truncate(topics.AUDIT.name, 0, max(partition.end - messages, min(partition.end, MIN_RECORDS)))
        reports = enumerate(self.partitions(topics.NODE_REPORTS.name))
        self.checker.cut(partition.messages, {f"{topics.NODE_REPORTS.name}/{at}": each.end for at, each in reports})


class Client(MemoryBus):
    """A client that fails while it is disconnected, as a real one does after its timeout."""

    def __init__(self, cluster: MemoryCluster, name: str, network: NetworkFaults) -> None:
        super().__init__(cluster, name)
        self._network = network

    async def spans(self, topic: str) -> Mapping[int, Span]:
        await self._reachable()
        return await super().spans(topic)

    async def producer(self) -> Producer:
        await self._reachable()
        return await super().producer()

    async def _reachable(self) -> None:
        if self.name in self._network.disconnected:
            await asyncio.sleep(1.0)
            raise BusUnavailable(f"{self.name} is disconnected")


class WatchedFences(Fences):
    """Calls `on_command` for each command that is carried out, with its job, attempt, tasks and position."""

    on_command: Callable[[str, int, Sequence[int], tuple[int, int]], None] = lambda *_: None

    def obey(
        self,
        job: str,
        attempt: int,
        tasks: Mapping[int, Sequence[str]],
        position: tuple[int, int],
        evidence: dict[str, object] | None = None,
    ) -> dict[int, Verdict]:
        verdicts = super().obey(job, attempt, tasks, position, evidence)
        new = [task for task, verdict in verdicts.items() if verdict == "new"]
        if new:
            self.on_command(job, attempt, new, position)
        return verdicts


class SimulatedAgentService(NodeAgentService):
    """The node agent on a simulated machine that outlives it."""

    machine: WatchedMachine
    random_bytes: Callable[[], bytes]

    def _context(self, node: NodeDeclaration, locks: ExitStack) -> AgentContext:
        storage, credentials = self.machine.storage, self._credentials(node)
        fences = WatchedFences(storage)
        fences.on_command = partial(self.machine.observer.on_command, self.machine.node.name)
        context = AgentContext(
            node=node,
            inventory=self.machine.inventory,
            runtimes={"simulated": SimulatedRuntime(self.machine)},
            storage=storage,
            credentials=credentials,
            trust=CommandTrust(storage, credentials.root_key) if credentials is not None else None,
            incarnation=new_incarnation(
                storage,
                machine_id=node.machine_id,
                boot_id=f"{node.name}-boot-{self.machine.boots}",
                incarnation=self.random_bytes().hex(),
            ),
            folder=Path("/simulated") / node.name,
            release_timeout_s=4.0,
            device_poll_s=2.0,
            snapshots=offers_of(self.machine.node.name),
            images=self.machine.images,
            cpu_features=CPU,
        )
        context.fences = fences
        return context


async def search_inline(state: PoolState) -> ProposalBatch:
    """The victim search, without a thread."""
    return proposal_batch(state)


class World:
    """The whole simulated system of one run."""

    def __init__(self, plan: Plan, loop: VirtualLoop, folder: Path) -> None:
        self.plan, self.loop, self.folder = plan, loop, folder
        self.keys = pool_keys() if plan.liar else None
        self.metrics = Metrics() if plan.liar else _metrics()
        self.random = Random(f"run/{plan.seed}")
        self.checker = RunChecker(POOL, loop.time)
        self.policy = plan.policy
        self.network = NetworkFaults(Random(f"weather/{plan.seed}"), plan.bad, plan.slow)
        self.cluster = WatchedCluster(self.broker_time, self.network, session_timeout=6.0, batch=1 + 2 * (plan.seed % 2))
        self.cluster.checker = self.checker
        for topic in topics.TOPICS.values():
            self.cluster.add_partitions(topic.name, plan.partitions[topic.name])
        self.machines = {node.name: WatchedMachine(node, self.checker) for node in plan.nodes}
        self.adversary = None
        if self.keys is not None:
            self.adversary = Adversary(plan.liar, plan.nodes[-1].name, self.cluster, self.keys)
            self.checker.adversary = self.adversary
        self.checker.living = self.living
        self.checker.may_fail = self._may_fail
        self.processes: dict[str, Process] = {}
        self.all_processes: list[Process] = []
        self.incarnations: dict[str, int] = {}
        self.wrong_clocks: set[str] = set()
        self.renewed: set[str] = set()  # processes with a new key, after the one before it was revoked
        self.skews = dict(plan.skews)
        (folder / "pools.yaml").write_text(json.dumps({"pools": [{"name": POOL, "partition": 0}]}), encoding="utf-8")
        (folder / "policy.yaml").write_text(self.policy.model_dump_json(), encoding="utf-8")

    # --- clocks

    def broker_time(self) -> int:
        """µs UTC."""
        return START + int(self.loop.time() * 1_000_000)

    def clock_and_ids(self, name: str, booted_at: float = -1000.0) -> ClockAndIds:
        """The clocks and random ids of one incarnation of a process."""
        self.incarnations[name] = self.incarnations.get(name, 0) + 1
        dice = Random(f"{self.plan.seed}/{name}/{self.incarnations[name]}")
        at = name.removeprefix("agent-")
        return ClockAndIds(
            wall=lambda: self.broker_time() + self.skews[at],
            boot=lambda: int((self.loop.time() - booted_at) * 1_000_000),
            random_bytes=lambda: dice.randbytes(16),
        )

    # --- processes

    def living(self) -> list[LiveTask]:
        """All running tasks of all machines that count."""
        return [task for machine in self.machines.values() if self.checker.counts(machine.node.name) for task in machine.living()]

    def start(self, name: str) -> None:
        """Start a new incarnation of this process."""
        process = self.processes[name] = Process(name)
        self.all_processes.append(process)
        if name.startswith("agent-"):
            machine = self.machines[name.removeprefix("agent-")]
            clock_and_ids = self.clock_and_ids(name, machine.booted_at - 1000.0)
            process.start(self._host(process, lambda bus: self._agent(machine, bus, clock_and_ids)))
            return
        clock_and_ids = self.clock_and_ids(name)
        make = {"admission": self._admission, "selection": self._selection, "executor": self._executor}
        process.start(self._host(process, lambda bus: make[name.partition("-")[0]](name, bus, clock_and_ids)))

    async def _host(self, process: Process, make: Callable[[MemoryBus], Service]) -> None:
        """Run the service as `bailiff_service.main` does: after an outage of Kafka create a new one."""
        while True:
            bus = Client(self.cluster, process.name, self.network)
            process.buses.append(bus)
            try:
                await make(bus).run(asyncio.Event())
            except BusUnavailable as error:
                self.checker.trace(f"{process.name}: {error}; trying again")
            except MustStop as error:
                revoked = error.code == ExitCode.CREDENTIALS and process.name in self.renewed
                if revoked:
                    return
                if error.code != ExitCode.CLOCK or process.name not in self.wrong_clocks:
                    self.checker.violated(f"{process.name} stopped: {error}")
                    return
                self.checker.trace(f"{process.name} stopped and is restarted: {error}")
            except Exception as error:  # noqa: BLE001 - any exception of a service is a finding
                *_, last = traceback.extract_tb(error.__traceback__)
                where = f"{last.filename}:{last.lineno}"
                self.checker.violated(f"{process.name} failed with {type(error).__name__}: {error} ({where})")
                return
            await asyncio.sleep(0.5)

    def _common(self, name: str) -> dict[str, object]:
        signed = {"credentials": self.keys.folder / self._credentials_of(name)} if self.keys is not None else {}
        return {"pools": self.folder / "pools.yaml", "state_dir": self.folder / name, "instance": name, **signed}

    def _credentials(self, name: str) -> Credentials | None:
        return read_credentials(self.keys.folder / self._credentials_of(name)) if self.keys is not None else None

    def _credentials_of(self, name: str) -> str:
        """The folder of this process's credentials; that of an agent has one for each node."""
        part = "nodes" if name.startswith("agent-") else name.partition("-")[0]
        return f"new/{part}" if name in self.renewed else part

    def _admission(self, name: str, bus: MemoryBus, clock_and_ids: ClockAndIds) -> Service:
        settings = AdmissionSettings(
            **self._common(name),  # type: ignore[arg-type]
            policy=self.folder / "policy.yaml",
            digest_every=self.plan.digest_every,
            max_cycle_inputs=self.plan.max_cycle_inputs,
        )
        return AdmissionService(settings, self.metrics, bus, clock_and_ids)

    def _selection(self, name: str, bus: MemoryBus, clock_and_ids: ClockAndIds) -> Service:
        settings, credentials = ServiceSettings(**self._common(name)), self._credentials(name)  # type: ignore[arg-type]
        return PoolService(
            "victim-selection",
            settings,
            self.metrics,
            bus,
            lambda projection: run_selector(projection, clock_and_ids, search_inline, credentials),
        )

    def _executor(self, name: str, bus: MemoryBus, clock_and_ids: ClockAndIds) -> Service:
        settings, credentials = ServiceSettings(**self._common(name)), self._credentials(name)  # type: ignore[arg-type]
        return PoolService(
            "eviction-executor",
            settings,
            self.metrics,
            bus,
            lambda projection: Executor(projection, clock_and_ids, self.metrics, credentials).run(),
        )

    def _agent(self, machine: WatchedMachine, bus: MemoryBus, clock_and_ids: ClockAndIds) -> Service:
        settings = NodeAgentSettings(
            **self._common(f"agent-{machine.node.name}"),  # type: ignore[arg-type]
            nodes=(machine.node,),
            heartbeat_s=2.0,
            ship_logs=False,
            ended_log_days=0,  # nothing of the simulation runs in threads
            ended_log_bytes=0,
        )
        service = SimulatedAgentService(settings, self.metrics, bus, clock_and_ids)
        service.machine, service.random_bytes = machine, clock_and_ids.random_bytes
        return service

    def kill(self, name: str) -> None:
        """As `kill -9`. Some of the messages that it had sent may still be stored, in order, a little later."""
        process = self.processes[name]
        for bus in process.buses:
            for producer in bus._producers:
                for batch in list(producer._pending)[: self.random.choice([0, 0, 1, 3, 100])]:
                    delay = self.random.uniform(0.001, 0.002)
                    for message in batch.messages:
                        self.loop.call_later(delay, self.cluster.store, batch.topic, batch.partition, *message)
        process.kill()

    # --- faults

    async def inject_faults(self) -> None:
        """Inject every fault of the schedule."""
        async with asyncio.TaskGroup() as group:
            for event in self.plan.events:
                group.create_task(self._inject(event))

    async def _inject(self, event: Event) -> None:
        await asyncio.sleep(event.at)
        self.checker.trace(f"*** {event.kind} {event.target} for {event.seconds} s")
        target, seconds = event.target, event.seconds
        match event.kind:
            case "kill":
                await self._kill(target, seconds)
            case "pause":
                await self._pause(target, seconds)
            case "kill-mid-cycle" | "pause-mid-cycle":
                await self._mid_cycle(event)
            case "host-crash":
                agent = f"agent-{target}"
                if self.processes[agent].state != "killed":
                    self.kill(agent)
                    self.machines[target].host_crash()
                    await asyncio.sleep(seconds)
                    self._restart(agent)
            case "disconnect":
                await self._disconnect({target}, seconds)
            case "outage":
                await self._disconnect(self._all_clients(), seconds)
            case "log-truncation":
                self.loop.call_later(seconds / 2, self.cluster.lose, event.messages)
                await self._disconnect(self._all_clients(), seconds)
            case "clock-back" | "clock-fast":
                step = HOURS if event.kind == "clock-fast" else -HOURS
                self.skews[target] += step
                self.wrong_clocks.add(target)
                await asyncio.sleep(seconds)
                self.skews[target] -= step
            case "inputs-deleted":
                await self._delete_inputs(seconds)
            case "task-fails":
                self.machines[target].fail_one(self.random)
            case "leak" | "hang" | "gpu-lost" | "xid":
                await self.machines[target].gpu_fails(event.kind, self.random, seconds)

    def _all_clients(self) -> set[str]:
        return {*self.processes, "client", "operator"}

    async def _disconnect(self, clients: set[str], seconds: float) -> None:
        self.network.disconnected |= clients
        await asyncio.sleep(seconds)
        self.network.disconnected -= clients

    async def _mid_cycle(self, event: Event) -> None:
        """Wait until a cycle is stored in part, then kill or pause all writers at once."""
        moment = asyncio.Event()
        self.cluster.in_mid_cycle = moment.set
        try:
            await asyncio.wait_for(moment.wait(), 20.0)
        except TimeoutError:
            self.cluster.in_mid_cycle = None
            return
        strike = self._kill if event.kind.startswith("kill") else self._pause
        writers = [name for name in self.plan.replicas if name.startswith("admission")]
        await asyncio.gather(*(strike(name, event.seconds) for name in writers))

    async def _delete_inputs(self, seconds: float) -> None:
        """Stop all writers for longer than the retention of the inputs."""
        async with asyncio.TaskGroup() as group:
            for name in self.plan.replicas:
                if name.startswith("admission"):
                    group.create_task(self._kill(name, seconds))
            await asyncio.sleep(seconds * 0.9)
            for topic in INPUTS:
                for number, partition in enumerate(self.cluster.partitions(topic)):
                    self.cluster.trim(topic, number, partition.end)

    async def _kill(self, name: str, seconds: float) -> None:
        if self.processes[name].state != "killed":
            self.kill(name)
            await asyncio.sleep(seconds)
            self._restart(name)

    async def _pause(self, name: str, seconds: float) -> None:
        process = self.processes[name]
        if process.state == "running":
            process.pause()
            await asyncio.sleep(seconds)
            self.checker.trace(f"*** {name} continues")
            process.resume()

    def _restart(self, name: str) -> None:
        self.checker.trace(f"*** {name} is restarted")
        self.start(name)

    # --- the run

    async def run(self) -> None:
        """Run until the pool is at rest at the end, or until the first violation."""
        ended = asyncio.Event()
        self.checker.on_violation = ended.set
        ends = (asyncio.ensure_future(self._all()), asyncio.ensure_future(ended.wait()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if ends[0].done():
                ends[0].result()
        finally:
            for each in ends:
                each.cancel()

    async def _all(self) -> None:
        for name in self.plan.replicas:
            self.start(name)
        for machine in self.machines:
            self.start(f"agent-{machine}")
        sending = asyncio.create_task(client(Client(self.cluster, "client", self.network), self.plan.posts))
        watching = asyncio.create_task(operator(Client(self.cluster, "operator", self.network), POOL, self.random))
        lying = asyncio.create_task(self._tell_lies())
        await self.inject_faults()
        await sending
        await lying
        await asyncio.sleep(max(0.0, LENGTH - self.loop.time()))
        self.network.stopped = True
        self.checker.trace("*** no more faults from here on")
        await self._revoke_stolen_key()
        names = [node.name for node in self.plan.nodes]
        await client(Client(self.cluster, "client", self.network), clean_up(POOL, self.loop.time() + 1.0, names))
        rested_since = self.loop.time()
        end, ended = self.loop.time() + REST_TIMEOUT_S, 0
        while self.loop.time() < end and self.checker.violation is None:
            await asyncio.sleep(0.5)
            if ended != (ended := self.checker.kinds["JobEnded"]):
                end = self.loop.time() + REST_TIMEOUT_S
            if not self._at_rest():
                rested_since = self.loop.time()
            elif self.loop.time() - rested_since > REST_S:
                break
        watching.cancel()
        if self.checker.violation is None:
            await self._last_checks()

    async def _tell_lies(self) -> None:
        for lie in self.plan.lies:
            await asyncio.sleep(max(0.0, lie.at - self.loop.time()))
            assert self.adversary is not None
            if self.checker.state.nodes:
                for line in self.adversary.tell(lie, self.checker.state, self.broker_time()):
                    self.checker.trace(line)

    async def _revoke_stolen_key(self) -> None:
        """What an operator does who has seen the traces: make the owner another key, revoke this one, and restart the owner."""
        if self.adversary is None or self.adversary.role not in ("node", "selection", "executor"):
            return
        role, node, keys = self.adversary.role, self.adversary.node, self.adversary.keys
        at_node = role == "node"
        owners = [f"agent-{node}"] if at_node else [name for name in self.plan.replicas if name.startswith(role)]
        stolen = keys.issue(f"nodes/{node}", "node", node) if at_node else keys.issue(role, SERVICES[role])
        keys.issue(f"new/nodes/{node}" if at_node else f"new/{role}", "node" if at_node else SERVICES[role], node)
        self.renewed.update(owners)
        self.checker.trace(f"*** the key of {', '.join(owners)} is revoked")
        await client(Client(self.cluster, "client", self.network), [revoke(POOL, stolen.certificate.key, keys.root)])
        while stolen.certificate.key not in self.checker.state.revoked_keys and self.checker.violation is None:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        for name in owners:
            self.kill(name)
            if at_node:
                self.machines[node].host_crash()
            self._restart(name)

    def _may_fail(self, fact: DecisionFailed | InputRejected) -> bool:
        """Whether the failed decision concerns a job with an injected engine fault."""
        undecidable = dict(self.plan.undecidable)
        if isinstance(fact, DecisionFailed):
            return fact.job in undecidable
        found = [message for message in self.cluster.messages(fact.topic, fact.partition) if message.offset == fact.offset]
        body = unwrap(found[0], accept=(RequestBody,)).body if found and fact.topic == topics.REQUESTS.name else None
        job = body.demand.job if isinstance(body, SubmitJob) else getattr(body, "job", None)
        return job in undecidable

    def _at_rest(self) -> bool:
        state = self.checker.state
        if (
            state.cycle_open
            or state.truncation_unreconciled
            or self.checker.lost is not None
            or self.living()
            or len(state.nodes) < len(self.machines)
        ):
            return False
        return not [*nothing_is_due(state), *every_node_is_back(state)]

    async def _last_checks(self) -> None:
        checker = self.checker
        for violation in (
            *nothing_is_due(checker.state),
            *every_node_is_back(checker.state),
            *checker.history.end(),
            *self._unanswered(),
        ):
            checker.violated(f"at the end: {violation}")
            return
        for task in self.living():
            checker.violated(f"at the end {task} still runs")
            return
        await self.check_log()

    async def check_log(self) -> None:
        """Whoever reads the log finds every record, the same state and decisions, and nothing that is not honest."""
        checker = self.checker
        partition = self.cluster.messages(topics.AUDIT.name, 0)
        records, orphans = chain_of(partition, POOL, checker.signatures)
        reader = AuditReader(MemoryBus(self.cluster, "auditor"), POOL, 0)
        read = 0
        end = len(partition)
        while reader.offset < end:
            read += len(await reader.read(0.1))
        if (read, reader.orphans) != (len(records), orphans) or orphans != checker.orphans:
            checker.violated(f"{len(records)} records and {orphans} orphans, the reader found {read} and {reader.orphans}")
        with sound_engine():
            for violation in (*replay_is_identical(records), *no_request_is_named(records), *folds_agree(records)):
                checker.violated(violation)
        if self.adversary is not None:
            for violation in self.adversary.violations(records, checker.orphan_offsets, self.metrics, checker.state.rules):
                checker.violated(violation)

    def _unanswered(self) -> list[str]:
        """Requests without a record in the log, and rejections without a dead letter."""
        pool, found = self.checker.state, []
        records, _ = chain_of(self.cluster.messages(topics.AUDIT.name, 0), POOL, self.checker.signatures)
        rejected = [record.data for record, _ in records if isinstance(record.data, InputRejected)]
        requests = [getattr(record.data, "request", None) for record, _ in records]
        accepted = {(request.source, request.id) for request in requests if isinstance(request, RequestId)}
        most = pool.rules.max_rejections_per_minute
        muted = any(data.count > 1 for data in rejected) or any(recent.count >= most for recent in pool.rejections.values())
        places = {(data.topic, data.partition, data.offset) for data in rejected}
        for partition in range(len(self.cluster.partitions(topics.REQUESTS.name))):
            for message in self.cluster.messages(topics.REQUESTS.name, partition):
                if (message.topic, message.partition, message.offset) in places or muted:
                    continue
                try:
                    envelope = unwrap(message, accept=(RequestBody,))
                except InvalidMessage as refusal:
                    found.append(f"{message.topic}/{message.partition}/{message.offset} ({refusal}) was not rejected")
                    continue
                if (envelope.source, envelope.id) not in accepted:
                    found.append(f"the request {envelope.id} was neither accepted nor rejected")
        letters = set()
        for partition in range(len(self.cluster.partitions(topics.DEAD_LETTERS.name))):
            for message in self.cluster.messages(topics.DEAD_LETTERS.name, partition):
                letter, _, _ = unwrap_dead_letter(message)
                letters.add((letter.topic, letter.partition, letter.offset))
        there = {(topic, number, partition.begin) for topic in INPUTS for number, partition in self._partitions(topic)}
        gone = {place for place in places if any(place[:2] == at[:2] and place[2] < at[2] for at in there)}
        found += [f"the rejected input {place} has no dead letter" for place in sorted(places - letters - gone)]
        return found

    def _partitions(self, topic: str) -> list[tuple[int, Partition]]:
        return list(enumerate(self.cluster.partitions(topic)))

    async def tear_down(self) -> None:
        """End every process, so that nothing remains for the next run."""
        for process in self.all_processes:
            process.state = "running"
            self.loop.make_ready(process.deferred)
            process.deferred = []
            for bus in process.buses:
                bus._running.set()
        for _ in range(30):
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if not others:
                return
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=1.0)


@cache
def _metrics() -> Metrics:
    """One set for all services; its values are not checked here."""
    return Metrics()


@contextmanager
def _restored_collector() -> Iterator[None]:
    """Restore the garbage collector. Services disable it while they read a log; a killed one does not undo that, and all
    processes of a run share one collector.
    """
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


@_restored_collector()
def run(what: int | Plan) -> Outcome:
    """Run this seed, or this plan."""
    plan = what if isinstance(what, Plan) else plan_of(what)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    loop = VirtualLoop()
    with tempfile.TemporaryDirectory(prefix="bailiff-sim-") as folder, engine_fails_on(dict(plan.undecidable)), verified_once():
        world = World(plan, loop, Path(folder))
        try:
            with watched(world.adversary):
                loop.run_until_complete(world.run())
        except Exception as error:  # noqa: BLE001 - a run that cannot continue is a finding, too
            world.checker.violated(f"the run ended with {type(error).__name__}: {error}")
        partition = world.cluster.messages(topics.AUDIT.name, 0)
        messages = {topic: sum(part.end - part.begin for _, part in world._partitions(topic)) for topic in topics.TOPICS}
        violation = world.checker.violation
        world.checker.violation = violation or "the run is over"
        loop.run_until_complete(world.tear_down())
        loop.close()
    return Outcome(plan, violation, world.checker, partition, messages)
