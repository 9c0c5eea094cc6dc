"""Random `kill -9` of every service on a real Kafka, under load. Targets and times come from a seed.

Two pools, two replicas of each central service, two agent processes; jobs are real processes, which note each of their
starts. After the last kill every process is restarted; then the pools must come to rest.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.kits.invariants import (
    CYCLE_RULES,
    STATE_RULES,
    History,
    LiveTask,
    check,
    every_node_is_back,
    no_device_runs_too_much,
    no_job_runs_twice,
    nothing_is_due,
)
from tests.kits.job_processes import processes_of
from tests.kits.system import POLL_S, System, Watch

from bailiff_core.fold import apply
from bailiff_core.fold.log import request_key
from bailiff_core.model.message import MessageBody
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobEnded, JobPlaced, PreemptionDecided
from bailiff_core.records.facts import DecisionFailed, InputRejected, TaskExited, WriterStarted
from bailiff_core.records.job_requests import CancelJob

CENTRAL = ("admission", "victim-selection", "eviction-executor")
PROCESSES = (*CENTRAL, *(f"{name}-b" for name in CENTRAL), "node-agent", "node-agent-2")
MAX_PENDING = 10
REST_S = 600.0
READY_S = 300.0
SYNC_EVERY = 10
CHECK_S = 0.2


@dataclass(frozen=True)
class Kill:
    """After `gap` seconds this process is killed; it is started again `down` seconds later."""

    gap: float
    process: str
    down: float


def kill_schedule(random: Random, kills: int) -> list[Kill]:
    """Every process once, then any of them, in any order."""
    targets = [*PROCESSES, *(random.choice(PROCESSES) for _ in range(kills - len(PROCESSES)))][:kills]
    random.shuffle(targets)
    return [Kill(random.choice([0.0, 0.05, 0.3, 1.0, 2.5]), name, random.choice([0.0, 0.0, 0.5, 2.0, 4.0])) for name in targets]


@dataclass
class Summary:
    """Counts of one run, for its summary."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    jobs: int = 0
    placements: int = 0
    preemptions: int = 0
    records: int = 0
    orphans: int = 0
    writers: int = 0
    checks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        by_name = ", ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        return (
            f"seed {self.seed}: {self.kills.total()} kills in {self.seconds:.0f} s ({by_name})\n"
            f"{self.requests} requests acknowledged, {self.jobs} jobs, {self.placements} placements, "
            f"{self.preemptions} preemptions, {self.writers} writers, {self.records} records, {self.orphans} orphans, "
            f"{self.checks} checks of running processes: 0 requests lost, 0 double allocations, chain whole, replay identical"
        )


@dataclass
class Load:
    """Requests to one pool, and which of them Kafka has acknowledged."""

    watch: Watch
    random: Random
    acknowledged: list[str] = field(default_factory=list)  # ids of acknowledged requests
    jobs: dict[str, bool] = field(default_factory=dict)  # each job, and whether it is to be cancelled

    async def submit_or_request(self, body: MessageBody | None = None) -> None:
        """Submit a new job, or send this request."""
        name = f"{self.watch.pool}-{len(self.acknowledged)}"
        if body is not None:
            await self.watch.request(body, name)
        else:
            tasks = self.random.choice([1, 1, 1, 2])
            lives = self.random.choice([0, 0.5, 2, 5])
            run = f'echo "$BAILIFF_ATTEMPT $RANK" >> {self.watch.system.marks}/$BAILIFF_JOB_ID; exec sleep {lives}'
            await self.watch.submit(
                name,
                run,
                request_id=name,
                tasks=tasks,
                gpus=self.random.choice([1, 1, 2, 4]) if tasks == 1 else self.random.choice([1, 2]),
                kind=self.random.choice(["train", "train", "inference"]),
                grace_s=self.random.choice([0, 1, 20]),
            )
            self.jobs[name] = False
        self.acknowledged.append(name)

    async def run(self, until: Callable[[], bool]) -> None:
        """Submit jobs, with a limit of pending ones, and sometimes cancel one."""
        loop, due = asyncio.get_running_loop(), 0.0
        while not until():
            await self.watch.projection.advance(POLL_S)
            if loop.time() < due or len(self.watch.state.queue) >= MAX_PENDING:
                continue
            due = loop.time() + self.random.uniform(0.05, 1.0)
            await self.submit_or_request()
            if self.random.randrange(10) == 0:
                job = self.random.choice(list(self.jobs))
                self.jobs[job] = True
                await self.submit_or_request(CancelJob(job=job))


class ChaosRun:
    """One run on one system."""

    def __init__(self, folder: Path, seed: int, kills: int, report: Callable[[str], None] = print) -> None:
        self.summary = Summary(seed)
        self._random, self._report = Random(f"chaos/{seed}"), report
        self._schedule = kill_schedule(self._random, kills)
        self._system = System(folder)
        self._down: dict[str, asyncio.Task[None]] = {}
        self._over = False

    async def run(self) -> Summary:
        """Run to the end, when everything is at rest. Raises `AssertionError` for a violation."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._start)
            async with AsyncExitStack() as stack:
                loads = [
                    Load(await stack.enter_async_context(self._system.watch(pool)), Random(f"{self.summary.seed}/{pool}"))
                    for pool in self._system.machines
                ]
                async with asyncio.TaskGroup() as group:
                    for load in loads:
                        group.create_task(load.run(lambda: self._over))
                    group.create_task(self._check_processes())
                    await self._kill_all()
                    self._over = True
                for load in loads:
                    await self._check_at_rest(load)
                self._check_nothing_runs()
        finally:
            await asyncio.to_thread(self._system.stop)
        self.summary.seconds = time.monotonic() - began
        return self.summary

    def _start(self) -> None:
        self._system.start_kafka()
        for name in PROCESSES:
            self._start_one(name)
        self._system.stack.processes.wait_ready(timeout_s=READY_S)

    def _start_one(self, name: str) -> None:
        if name.endswith("-b"):
            self._system.stack.start_service(name.removesuffix("-b"), replica="-b")
        else:
            self._system.start_service(name)

    # --- kills

    async def _kill_all(self) -> None:
        for number, kill in enumerate(self._schedule, 1):
            await asyncio.sleep(kill.gap)
            if kill.process in self._down:
                await self._down[kill.process]
            self._check_no_crash()
            self._system.kill(kill.process)
            self.summary.kills[kill.process] += 1
            self._down[kill.process] = asyncio.create_task(self._back(kill))
            if number % SYNC_EVERY == 0 or number == len(self._schedule):
                await asyncio.gather(*self._down.values())
                await asyncio.to_thread(self._system.stack.processes.wait_ready, timeout_s=READY_S)
                self._report(f"{number} of {len(self._schedule)} kills")

    async def _back(self, kill: Kill) -> None:
        await asyncio.sleep(kill.down)
        self._start_one(kill.process)
        del self._down[kill.process]

    def _check_no_crash(self) -> None:
        dead = [death for death in self._system.stack.processes.deaths() if death.name not in self._down]
        assert not dead, "\n".join(["a process ended without being killed:", *map(str, dead)])

    # --- running processes

    async def _check_processes(self) -> None:
        while not self._over:
            first = await asyncio.to_thread(self._living)
            both = first & await asyncio.to_thread(self._living)  # processes in both scans ran at the same time
            for violation in (*no_device_runs_too_much(list(both)), *no_job_runs_twice(list(both))):
                raise AssertionError(violation)
            self.summary.checks += 1
            await asyncio.sleep(CHECK_S)

    def _living(self) -> set[LiveTask]:
        return set(_living_tasks(self._system.folder))

    def _check_nothing_runs(self) -> None:
        assert not (left := self._living()), f"all jobs have ended, and these processes still run: {left}"

    # --- the end

    async def _check_at_rest(self, load: Load) -> None:
        watch = load.watch

        def at_rest(state: PoolState) -> bool:
            seen = all(request_key("/tests", name) in state.requests or name in rejected() for name in load.acknowledged)
            return seen and not state.cycle_open and not [*nothing_is_due(state), *every_node_is_back(state)] and not state.queue

        def rejected() -> set[str]:
            return {fact.id or "" for fact in watch.facts(InputRejected)}

        await watch.until("every request is on record and everything has come to rest", at_rest, REST_S)
        self._check_no_crash()
        assert not watch.facts(DecisionFailed), watch.report()
        refused = [
            fact for fact in watch.facts(InputRejected) if not (fact.code == "already-ended" and fact.id in load.acknowledged)
        ]
        assert not refused, refused
        ends = {name: watch.job(name).phase for name in load.jobs}
        unexpected = {
            name: end for name, end in ends.items() if end != "succeeded" and not (end == "cancelled" and load.jobs[name])
        }
        how = [data for name in unexpected for kind in (TaskExited, JobEnded) for data in watch.facts(kind, job=name)]
        assert not unexpected, f"jobs that should have succeeded: {unexpected}, {how}"
        watch.assert_started_once(*load.jobs)
        await asyncio.to_thread(_check_records, watch)
        replay = await watch.verify(orphans=True)
        summary = self.summary
        summary.requests += len(load.acknowledged)
        summary.jobs += len(load.jobs)
        summary.records += replay.state.seq + 1
        summary.orphans += len(await watch.raw()) - replay.state.seq - 1
        summary.writers += len(watch.facts(WriterStarted))
        summary.placements += len(watch.facts(JobPlaced))
        summary.preemptions += len(watch.facts(PreemptionDecided))


def _check_records(watch: Watch) -> None:
    """Fold every record again, and check all invariants after each."""
    state, history = PoolState(), History()
    for entry in watch.entries:
        _none(history.before(state, entry.record), entry.record.seq)
        apply(state, entry.record)
        check(STATE_RULES, state)
        _none(history.after(state), entry.record.seq)
        if not state.cycle_open:
            check(CYCLE_RULES, state)
    _none(history.end(), state.seq)


def _none(violations: Iterator[str], seq: int) -> None:
    for violation in violations:
        raise AssertionError(f"#{seq}: {violation}")


def _living_tasks(folder: Path) -> Iterator[LiveTask]:
    for pid in processes_of(folder):
        with contextlib.suppress(OSError):
            pairs = [item.partition(b"=") for item in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
            env = {name.decode(): value.decode(errors="replace") for name, _, value in pairs}
            if "BAILIFF_JOB_ID" in env:
                devices: Sequence[str] = [device for device in env["CUDA_VISIBLE_DEVICES"].split(",") if device]
                yield LiveTask("", env["BAILIFF_JOB_ID"], int(env["BAILIFF_ATTEMPT"]), int(env["RANK"]), tuple(devices))
