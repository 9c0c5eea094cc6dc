"""A complete system for process tests: a real Kafka, the real services as processes, jobs that are real processes.

`System` owns the processes. `Watch` is one test's client of one pool: it publishes requests, follows the audit log, waits
for records, and at the end verifies and replays the whole log. Nothing here sleeps to wait for an effect.
"""

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests.kits.job_processes import cgroups_left, end_jobs

from bailiff_bus import topics
from bailiff_bus.envelope import pool_of, unwrap
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import Headers, Message, Producer, Receipt
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MessageBody
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, PriorityClass
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.records.job_requests import CancelJob, ScaleJob, SubmitJob
from bailiff_core.records.payload import Payload
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_core.replay import Replay
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.kafka_cluster import KafkaCluster
from bailiff_devstack.managed import Managed
from bailiff_devstack.ports import free_port
from bailiff_devstack.processes import tail
from bailiff_devstack.stack import AUDITOR, SERVICES, WITNESS, Plan, Stack
from bailiff_log.credentials import read_credentials
from bailiff_log.message_signatures import wrap_signed
from bailiff_log.projection import Projection
from bailiff_log.reader import AuditReader, Entry, Orphan
from bailiff_service.metrics import Metrics

PATIENCE_S = float(os.environ.get("BAILIFF_TEST_PATIENCE_S", "60"))  # increase it on a busy machine
POLL_S = 0.05
GIB = 1 << 30
JOB_LIVES_S = 3600  # s; longer than all tests in one pool
ALL_SERVICES = (*SERVICES, "node-agent-2")

Some = TypeVar("Some", bound=Payload)

POLICY = DEFAULT_POLICY.model_copy(
    update={
        # One test sends hundreds of invalid inputs, and each must be recorded.
        "max_rejections_per_minute": 1_000_000,
        "priority_classes": (
            *DEFAULT_POLICY.priority_classes,
            PriorityClass(name="patient", value=90, preemptible=True, preemption_policy="Never"),
        ),
    }
)


class System(Managed):
    """Kafka, the four services and their agents, under one folder.

    By default pool-a has one machine with eight GPUs, and pool-b two with four each, the second of which has its own agent
    process `node-agent-2`. pools: instead, the number of machines with eight GPUs by pool. machine: other settings of their
    nodes, by pool. audited: with the archive, an auditor, and a witness.
    """

    watch_kind: "type[Watch]"

    def __init__(
        self,
        folder: Path,
        *,
        kafka: EmbeddedKafka | KafkaCluster | None = None,
        env: Mapping[str, str] | None = None,
        policy: Policy = POLICY,
        pools: Mapping[str, int] | None = None,
        machine: Mapping[str, Mapping[str, Any]] | None = None,
        audited: bool = False,
    ) -> None:
        self.folder, self._policy = folder, policy
        self.machines = dict(pools or {"pool-a": 1, "pool-b": 2})
        self.services = (*(SERVICES if pools else ALL_SERVICES), *((AUDITOR, WITNESS) if audited else ()))
        self.broken = False
        self.marks = folder / "marks"
        nodes = [
            {"name": f"{name}-{number}", "pool": name, "gpus": "8xH100-80GB", **(machine or {}).get(name, {})}
            for name, count in (pools or {}).items()
            for number in range(count)
        ]
        plan = Plan(
            pools=tuple(self.machines),
            nodes=nodes
            or (
                {"name": "node-1", "pool": "pool-a", "gpus": "8xH100-80GB"},
                {"name": "node-2", "pool": "pool-b", "gpus": "4xH100-80GB"},
            ),
            policy=folder / "policy.yaml",
            archive=audited,
            witness=audited,
            env={"BAILIFF_KAFKA__SESSION_TIMEOUT_MS": "2000", **(env or {})},
        )
        self._rivals: dict[str, int] = {}
        self.stack = Stack(folder, plan, progress=print, kafka=kafka)

    def start(self) -> None:
        """Start everything, and wait until every service is ready."""
        self.start_kafka()
        self.start_services()
        self.wait_ready()

    def start_kafka(self) -> None:
        """Start Kafka, create its topics, and write the files that the services read."""
        self.marks.mkdir(parents=True)
        (self.folder / "policy.yaml").write_text(yaml.safe_dump(self._policy.model_dump(mode="json")))
        self.stack.start_kafka()
        if self.stack.plan.archive:
            self.stack.postgres.start()

    def start_services(self) -> None:
        """Start all services. Does not wait until they are ready."""
        for service in self.services:
            self.start_service(service)

    def wait_ready(self) -> None:
        """Wait until every service is ready."""
        self.stack.processes.wait_ready(timeout_s=PATIENCE_S)

    def start_service(self, name: str) -> None:
        """Start or restart this service. Does not wait until it is ready."""
        if name == "node-agent-2":
            nodes = [{"name": "node-3", "pool": "pool-b", "gpus": "4xH100-80GB"}]
            self.stack.start_service("node-agent", replica="-2", env={"BAILIFF_NODES": json.dumps(nodes)})
        else:
            self.stack.start_service(name)

    def start_rival(self, name: str, program: str, *, key_of: str = "") -> None:
        """Start another admission from this Python program, with its own name, state folder and port.

        key_of: the process whose credentials it uses; else it has its own.
        """
        self._rivals[name] = free_port()
        settings = self.stack.environment(name, self._rivals[name]) | self.stack.plan.env
        settings["BAILIFF_STATE_DIR"] = str(self.folder / "rival")
        self.stack.certify(name, settings)
        if key_of:
            settings["BAILIFF_CREDENTIALS"] = str(self.folder / "credentials" / key_of)
        url = f"http://127.0.0.1:{self._rivals[name]}/readyz"
        self.stack.processes.start(name, [sys.executable, "-c", program], env=settings, ready_url=url)

    def kill(self, *services: str) -> None:
        """SIGKILL, as in a crash. Jobs continue."""
        for name in services:
            self.stack.processes.kill9(name)

    def kill_and_restart(self, *services: str) -> None:
        """Kill all of them, then restart each."""
        self.kill(*services)
        for name in services:
            self.start_service(name)

    def signal(self, service: str, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP."""
        os.kill(self.stack.processes.pid(service), number)

    def log_of(self, service: str) -> str:
        """The service's log so far."""
        return self.stack.processes.log(service).read_text(errors="replace")

    async def get(self, service: str, path: str) -> tuple[int, str]:
        """Status and text of the service's HTTP response."""
        port = self._rivals.get(service) or int(self.stack.address(service).rpartition(":")[2])
        return await asyncio.to_thread(http_get, port, path)

    async def metric(self, service: str, name: str, **labels: str) -> float:
        """The value of a metric at the service's /metrics; 0 without a sample."""
        _, text = await self.get(service, "/metrics")
        values = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in values))

    def command(self, pool: str, *arguments: str, role: str = "operator") -> str:
        """The output of `bailiff` with these arguments for this pool, as a Kafka user of this role; it must succeed."""
        env = {**self.stack.kafka_environment(role), "BAILIFF_POOL": pool, "BAILIFF_CACHE": str(self.folder / "cache")}
        done = subprocess.run(
            [sys.executable, "-m", "bailiff", *arguments],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"bailiff {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextlib.asynccontextmanager
    async def watch(self, pool: str) -> AsyncIterator["Watch"]:
        """A client of this pool. At the end all jobs of the pool are cancelled.

        After a failed test the system counts as broken: the next test gets a new one.
        """
        bus = KafkaBus(self.stack.kafka.settings("operator"))
        try:
            watch = self.watch_kind(self, bus, pool, await bus.producer())
            await watch.open()
            yield watch
            await watch.clear()
        except BaseException:
            self.broken = True
            raise
        finally:
            await bus.close()

    def close(self) -> None:
        """The end of `with`."""
        self.stop()

    def stop(self) -> None:
        """End everything that this system started, jobs included."""
        try:
            self.stack.close()
        finally:
            end_jobs(self.folder / "state")
        assert not cgroups_left(self.folder / "state")


@dataclass
class Watch:
    """One test's client of one pool. entries: all valid records read so far, from the first one."""

    system: System
    bus: KafkaBus
    pool: str
    producer: Producer
    entries: list[Entry] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=itertools.count)
    _began: int = 0
    _kept: set[str] = field(default_factory=set)

    async def open(self) -> None:
        """Read the log to its end."""
        partition = self.system.stack.plan.pools.index(self.pool)
        self.projection = Projection(self.bus, self.pool, partition, Metrics(), observe=self.entries.append)
        await self.projection.open()
        await self.projection.catch_up()
        self._began = len(self.entries)
        nodes = self.system.machines[self.pool]
        await self.until("the nodes have joined", lambda state: len(state.nodes) == nodes)

    # --- requests

    async def submit(
        self,
        job: str,
        run: str = "",
        *,
        gpus: int = 1,
        cpus: int = 1,
        tasks: int = 1,
        kind: str = "train",
        grace_s: float = 20,
        request_id: str = "",
        partition: int | None = None,
        **rest: Any,
    ) -> Receipt:
        """Submit a job of `tasks` tasks with these GPUs and CPUs each. run: a shell line; by default it runs until stopped."""
        demand = {
            "job": job,
            "priority_class": kind,
            "grace": int(grace_s * 1_000_000),
            "tasks": (TaskGroup(count=tasks, gpu_milli=gpus * 1000, cpu_milli=cpus * 1000, memory_bytes=GIB),),
            **{name: value for name, value in rest.items() if name != "env"},
        }
        spec = JobSpec(command=run or self.training(), env=rest.get("env", {}))
        return await self.request(SubmitJob(demand=JobDemand.model_validate(demand), spec=spec), request_id, partition=partition)

    async def apply(self, policy: Policy) -> None:
        """Put this policy in force, and wait until it is."""
        before = self.state.policy_revision
        await self.request(ApplyPolicy(policy=policy))
        await self.until("the policy is in force", lambda state: state.policy_revision > before)

    async def scale(self, job: str, tasks: int) -> None:
        """Request another number of the job's tasks."""
        await self.request(ScaleJob(job=job, tasks=tasks))

    async def cancel(self, job: str) -> None:
        """Cancel this job."""
        await self.request(CancelJob(job=job))

    async def request(self, body: MessageBody, request_id: str = "", *, partition: int | None = None) -> Receipt:
        """Publish a request, by default with a unique id."""
        return await self.publish(topics.REQUESTS.name, body, request_id, partition=partition)

    async def publish(
        self, topic: str, body: MessageBody, message_id: str = "", *, partition: int | None = None, signed_by: str = ""
    ) -> Receipt:
        """Publish any message for this pool. signed_by: the process whose credentials sign it."""
        fresh = f"{os.getpid()}-{time.monotonic_ns()}-{next(self._ids)}"
        now = time.time_ns() // 1000
        credentials = read_credentials(self.system.folder / "credentials" / signed_by) if signed_by else None
        headers, value = wrap_signed(credentials, body, source="/tests", id=message_id or fresh, pool=self.pool, time_us=now)
        return await self.publish_raw(topic, value, headers, partition=partition)

    async def publish_raw(self, topic: str, value: bytes, headers: Headers = (), *, partition: int | None = None) -> Receipt:
        """Publish any bytes."""
        sent = await self.producer.send(topic, value, key=self.pool.encode(), headers=headers, partition=partition)
        return await sent

    def training(self, *, before: str = "", after: str = "") -> str:
        """A shell line for a job that writes down each start of an attempt and then runs until it is stopped."""
        return f'{before} echo "$BAILIFF_ATTEMPT $RANK" >> {self.system.marks}/$BAILIFF_JOB_ID; {after} exec sleep {JOB_LIVES_S}'

    def until_signalled(self) -> str:
        """A shell line for a job that writes down each start of an attempt, and succeeds after `let_finish`."""
        wait = f"for i in $(seq {JOB_LIVES_S * 20}); do [ -e {self.system.marks}/$BAILIFF_JOB_ID.go ] && exit 0; sleep 0.05; done"
        return f'echo "$BAILIFF_ATTEMPT $RANK" >> {self.system.marks}/$BAILIFF_JOB_ID; {wait}; exit 1'

    def let_finish(self, job: str) -> None:
        """Let a job that runs `until_signalled` end."""
        (self.system.marks / f"{job}.go").touch()

    def starts(self, job: str) -> Counter[tuple[int, int]]:
        """How often each (attempt, rank) of the job was started, by the job's own notes."""
        path = self.system.marks / job
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter((int(attempt), int(rank)) for attempt, rank in (line.split() for line in lines))

    # --- the log

    @property
    def state(self) -> PoolState:
        """The pool's state after the records read so far."""
        return self.projection.state

    def job(self, name: str) -> Job:
        """A job in that state."""
        return self.state.jobs[name]

    def running(self, *names: str) -> bool:
        """Whether all of these run."""
        return all(name in self.state.jobs and self.state.jobs[name].phase == "running" for name in names)

    def facts(self, kind: type[Some], **values: object) -> list[Some]:
        """All records of this kind with these values."""
        found = (entry.record.data for entry in self.entries)
        return [data for data in found if isinstance(data, kind) and has(data, values)]

    async def until(self, what: str, condition: Callable[[PoolState], bool], within_s: float = PATIENCE_S) -> None:
        """Read the log until the condition holds on the state. Fails with a full report."""
        deadline = time.monotonic() + within_s
        while not condition(self.state):
            if time.monotonic() > deadline:
                raise AssertionError(f"timed out after {within_s:g} s: {what}\n{self.report()}")
            await self.projection.advance(POLL_S)

    async def record(self, kind: type[Some], *, within_s: float = PATIENCE_S, **values: object) -> Some:
        """The first record of this kind with these values since this watch began; waits for it."""
        at = self._began

        def found(_: PoolState) -> bool:
            nonlocal at
            while at < len(self.entries):
                record = self.entries[at].record
                if isinstance(record.data, kind) and has(record.data, values):
                    return True
                at += 1
            return False

        await self.until(f"there is a {kind.__name__} with {values}", found, within_s)
        data = self.entries[at].record.data
        assert isinstance(data, kind)
        return data

    async def until_running(self, *names: str) -> None:
        """Wait until all of these run."""
        await self.until(f"{', '.join(names)} run", lambda _: self.running(*names))

    def gpus_of(self, project: str) -> int:
        """Number of GPUs on which jobs of the project run."""
        jobs = [job for job in self.state.jobs.values() if job.project == project]
        return sum(
            job.group(task.index).gpu_milli // 1000
            for job in jobs
            for task in job.tasks
            if task.state == "running" and task.eviction is None and job.eviction is None
        )

    async def until_gpus(self, **projects: int) -> None:
        """Wait until jobs of these projects run on exactly these numbers of GPUs."""
        values = " and ".join(f"{name} has {gpus}" for name, gpus in projects.items())
        await self.until(f"{values} GPUs", lambda _: all(self.gpus_of(name) == gpus for name, gpus in projects.items()))

    async def until_ended(self, name: str, phase: str = "succeeded") -> None:
        """Wait until the job has ended; it must be in this phase."""
        await self.until(f"{name} has ended", lambda state: name in state.jobs and state.jobs[name].phase in ENDED)
        assert self.job(name).phase == phase, self.report()

    async def until_alarm(self, code: str, mentions: str = "", within_s: float = PATIENCE_S) -> str:
        """The text of an alarm of this pool with this code; waits for it."""
        found: list[str] = []

        async def raised() -> bool:
            for message in await self.everything(topics.ALARMS.name):
                body = unwrap(message, accept=(Alarm,)).body
                if isinstance(body, Alarm) and body.code == code and pool_of(message) == self.pool and mentions in body.text:
                    found.append(body.text)
            return bool(found)

        await self.until_true(f"there is an alarm {code}", raised, within_s)
        return found[-1]

    async def noted(self, job: str, attempt: int, tasks: int = 1) -> None:
        """Wait until all tasks of this attempt have written down their start."""
        done = [(attempt, rank) for rank in range(tasks)]
        await self.until(f"{job} has noted attempt {attempt}", lambda _: all(self.starts(job)[at] for at in done))

    def assert_started_once(self, *jobs: str) -> None:
        """Check that each attempt of these jobs ran at most once, and is in the log."""
        for name in jobs:
            starts = self.starts(name)
            assert set(starts.values()) <= {1}, f"{name} was started twice: {starts}\n{self.report()}"
            latest = self.job(name).attempt
            assert all(attempt <= latest for attempt, _ in starts), f"{name}: {starts}, the log has {latest} attempts"

    async def raw(self) -> list[Message]:
        """Every raw message of the pool's partition of the audit topic."""
        return await self.everything(topics.AUDIT.name, [self.projection.partition])

    async def everything(self, topic: str, partitions: Sequence[int] | None = None) -> list[Message]:
        """Every raw message of a topic."""
        spans = await self.bus.spans(topic)
        chosen = {partition: span for partition, span in spans.items() if partitions is None or partition in partitions}
        reader = await self.bus.reader([(topic, partition, span.begin) for partition, span in chosen.items()])
        try:
            found: list[Message] = []
            while any(reader.position(topic, partition) < span.end for partition, span in chosen.items()):
                found += await reader.read()
            return found
        finally:
            await reader.close()

    async def verify(self, *, orphans: bool = False, other_engines: bool = False) -> Replay:
        """Read the whole partition again, verify the chain, and replay every cycle byte for byte.

        orphans: whether messages that do not continue the chain are expected. other_engines: whether cycles of another release
        are expected; they are only folded.
        """
        reader, replay = AuditReader(self.bus, self.pool, self.projection.partition), Replay()
        try:
            end = await reader.end()
            while reader.offset < end:
                for found in await reader.read_all():
                    if isinstance(found, Orphan):
                        assert orphans, f"unexpected orphan: {found}"
                    else:
                        replay.feed(found.record, found.wire)
        finally:
            await reader.close()
        assert replay.difference is None, replay.difference
        assert replay.state.seq >= self.state.seq
        assert other_engines or replay.skipped_cycles == 0
        assert replay.cycles > replay.skipped_cycles
        return replay

    def keep(self, *jobs: str) -> None:
        """Keep these jobs for the next test, which uses them."""
        self._kept.update(jobs)

    async def clear(self) -> None:
        """Cancel the remaining jobs and wait until they have ended."""

        def left(state: PoolState) -> list[str]:
            return [name for name, job in state.jobs.items() if job.phase not in ENDED and name not in self._kept]

        for name in left(self.state):
            await self.cancel(name)
        await self.until("all jobs have ended", lambda state: not left(state))

    async def until_true(self, what: str, condition: Callable[[], Awaitable[bool]], within_s: float = PATIENCE_S) -> None:
        """Read the log until a condition outside of it holds."""
        deadline = time.monotonic() + within_s
        while not await condition():
            assert time.monotonic() < deadline, f"timed out after {within_s:g} s: {what}\n{self.report()}"
            await self.projection.advance(POLL_S)

    def report(self) -> str:
        """Report for a failed test: jobs, the newest records, the ends of the services' logs."""
        jobs = [f"  {job.id}: {job.phase}, attempt {job.attempt}" for job in self.state.jobs.values() if job.phase not in ENDED]
        records = [
            f"  #{entry.record.seq} {entry.record.type.split('.')[2]} {entry.wire.value.decode()[:200]}"
            for entry in self.entries[-25:]
        ]
        processes = self.system.stack.processes
        running = processes.running()
        logs = [f"--- {name}\n{tail(processes.log(name))}" for name in running]
        return "\n".join(["jobs:", *jobs, "log:", *records, f"running: {running}", *map(str, processes.deaths()), *logs])


System.watch_kind = Watch


def has(data: object, values: Mapping[str, object]) -> bool:
    """Whether the record's data has these values."""
    return all(getattr(data, name) == value for name, value in values.items())


def http_get(port: int, path: str) -> tuple[int, str]:
    """One GET on this machine, without a proxy."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


# --- fixtures


@dataclass
class Systems:
    """One system for many tests, started at the first call; after a failed test, and after `stop`, a new one."""

    make: Callable[[], System]
    current: System | None = None

    def __call__(self) -> System:
        if self.current is not None and self.current.broken:
            self.stop()
        if self.current is None:
            self.current = self.make()
            self.current.start()
        return self.current

    def stop(self) -> None:
        """Stop the system."""
        if self.current is not None:
            current, self.current = self.current, None
            current.stop()


@contextlib.contextmanager
def systems(
    factory: pytest.TempPathFactory, name: str, kind: Callable[..., System] = System, **made_with: Any
) -> Iterator[Systems]:
    """One system for many tests, made with these arguments."""
    get = Systems(lambda: kind(factory.mktemp(name), **made_with))
    try:
        yield get
    finally:
        get.stop()


@pytest.fixture(scope="session")
def _calm_systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    with systems(tmp_path_factory, "calm") as get:
        yield get


@pytest.fixture
def system(_calm_systems: Callable[[], System]) -> System:
    """A running system for tests that stop no process."""
    return _calm_systems()


@pytest.fixture(scope="session")
def _battered_systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    with systems(tmp_path_factory, "battered") as get:
        yield get


@pytest.fixture
def battered(_battered_systems: Callable[[], System]) -> System:
    """A running system for tests that kill and restart its processes."""
    return _battered_systems()
