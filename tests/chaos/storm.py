"""Random `kill -9` of every service on a real Kafka, under load. Whom it strikes, and when, comes from a seed.

Two pools, two replicas of each central service, two agent processes; jobs are real processes, which note each of their
starts. The storm is over when every kill was made and every process is back; then everything has to come to rest.
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

from tests.invariants import (
    CYCLE_RULES,
    STATE_RULES,
    History,
    Living,
    check,
    every_node_is_back,
    no_device_runs_too_much,
    no_job_runs_twice,
    nothing_is_due,
)
from tests.job_processes import processes_of
from tests.system import POLL_S, System, Watch

from bailiff_bus.messages import CancelJob, MessageBody
from bailiff_core.fold import apply
from bailiff_core.fold.log import request_key
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobEnded, JobPlaced, PreemptionDecided
from bailiff_core.records.facts import DecisionFailed, InputRejected, TaskExited, WriterStarted

CENTRAL = ("admission", "victim-selection", "eviction-executor")
PROCESSES = (*CENTRAL, *(f"{name}-b" for name in CENTRAL), "node-agent", "node-agent-2")
MOST_WAITING = 10
REST_S = 600.0
READY_S = 300.0
CALM_EVERY = 10
LOOK_S = 0.2


@dataclass(frozen=True)
class Strike:
    """After `gap` seconds this process is killed; it is started again `down` seconds later."""

    gap: float
    process: str
    down: float


def strikes(random: Random, kills: int) -> list[Strike]:
    """Every process once, then any of them, in any order."""
    targets = [*PROCESSES, *(random.choice(PROCESSES) for _ in range(kills - len(PROCESSES)))][:kills]
    random.shuffle(targets)
    return [Strike(random.choice([0.0, 0.05, 0.3, 1.0, 2.5]), name, random.choice([0.0, 0.0, 0.5, 2.0, 4.0])) for name in targets]


@dataclass
class Summary:
    """What came of it, for people."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    jobs: int = 0
    placements: int = 0
    preemptions: int = 0
    records: int = 0
    orphans: int = 0
    writers: int = 0
    looks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        by_name = ", ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        return (
            f"seed {self.seed}: {self.kills.total()} kills in {self.seconds:.0f} s ({by_name})\n"
            f"{self.requests} requests acknowledged, {self.jobs} jobs, {self.placements} placements, "
            f"{self.preemptions} preemptions, {self.writers} writers, {self.records} records, {self.orphans} orphans, "
            f"{self.looks} looks at what lives: 0 requests lost, 0 double allocations, chain whole, replay identical"
        )


@dataclass
class Work:
    """What people asked one pool for, and whether Kafka has it."""

    watch: Watch
    random: Random
    asked: list[str] = field(default_factory=list)  # ids of acknowledged requests
    jobs: dict[str, bool] = field(default_factory=dict)  # each job, and whether it is to be cancelled

    async def ask(self, body: MessageBody | None = None) -> None:
        """A new job, or this."""
        name = f"{self.watch.pool}-{len(self.asked)}"
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
        self.asked.append(name)

    async def go_on(self, until: Callable[[], bool]) -> None:
        """Ask for jobs, never too many at a time, and sometimes for the end of one."""
        loop, due = asyncio.get_running_loop(), 0.0
        while not until():
            await self.watch.projection.advance(POLL_S)
            if loop.time() < due or len(self.watch.state.queue) >= MOST_WAITING:
                continue
            due = loop.time() + self.random.uniform(0.05, 1.0)
            await self.ask()
            if self.random.randrange(10) == 0:
                job = self.random.choice(list(self.jobs))
                self.jobs[job] = True
                await self.ask(CancelJob(job=job))


class Storm:
    """One run on one system."""

    def __init__(self, folder: Path, seed: int, kills: int, say: Callable[[str], None] = print) -> None:
        self.summary = Summary(seed)
        self._random, self._say = Random(f"chaos/{seed}"), say
        self._strikes = strikes(self._random, kills)
        self._system = System(folder)
        self._down: dict[str, asyncio.Task[None]] = {}
        self._over = False

    async def run(self) -> Summary:
        """From the first start to the rest at the end. Raises `AssertionError` with what is wrong."""
        began = time.monotonic()
        try:
            await asyncio.to_thread(self._start)
            async with AsyncExitStack() as stack:
                works = [
                    Work(await stack.enter_async_context(self._system.watch(pool)), Random(f"{self.summary.seed}/{pool}"))
                    for pool in self._system.machines
                ]
                async with asyncio.TaskGroup() as group:
                    for work in works:
                        group.create_task(work.go_on(lambda: self._over))
                    group.create_task(self._look())
                    await self._strike()
                    self._over = True
                for work in works:
                    await self._comes_to_rest(work)
                self._nothing_lives()
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

    # --- the storm

    async def _strike(self) -> None:
        for number, strike in enumerate(self._strikes, 1):
            await asyncio.sleep(strike.gap)
            if strike.process in self._down:
                await self._down[strike.process]
            self._died_by_themselves()
            self._system.kill(strike.process)
            self.summary.kills[strike.process] += 1
            self._down[strike.process] = asyncio.create_task(self._back(strike))
            if number % CALM_EVERY == 0 or number == len(self._strikes):
                await asyncio.gather(*self._down.values())
                await asyncio.to_thread(self._system.stack.processes.wait_ready, timeout_s=READY_S)
                self._say(f"{number} of {len(self._strikes)} kills")

    async def _back(self, strike: Strike) -> None:
        await asyncio.sleep(strike.down)
        self._start_one(strike.process)
        del self._down[strike.process]

    def _died_by_themselves(self) -> None:
        dead = [death for death in self._system.stack.processes.deaths() if death.name not in self._down]
        assert not dead, "\n".join(["a process ended without being killed:", *map(str, dead)])

    # --- what really lives

    async def _look(self) -> None:
        while not self._over:
            first = await asyncio.to_thread(self._living)
            both = first & await asyncio.to_thread(self._living)  # what both looks saw has lived at one time
            for violation in (*no_device_runs_too_much(list(both)), *no_job_runs_twice(list(both))):
                raise AssertionError(violation)
            self.summary.looks += 1
            await asyncio.sleep(LOOK_S)

    def _living(self) -> set[Living]:
        return set(_living_tasks(self._system.folder))

    def _nothing_lives(self) -> None:
        assert not (left := self._living()), f"everything has ended, and these live: {left}"

    # --- the end

    async def _comes_to_rest(self, work: Work) -> None:
        watch = work.watch

        def at_rest(state: PoolState) -> bool:
            seen = all(request_key("/tests", name) in state.requests or name in rejected() for name in work.asked)
            return seen and not state.cycle_open and not [*nothing_is_due(state), *every_node_is_back(state)] and not state.queue

        def rejected() -> set[str]:
            return {fact.id or "" for fact in watch.facts(InputRejected)}

        await watch.until("every request is on record and everything has come to rest", at_rest, REST_S)
        self._died_by_themselves()
        assert not watch.facts(DecisionFailed), watch.report()
        refused = [fact for fact in watch.facts(InputRejected) if not (fact.code == "already-ended" and fact.id in work.asked)]
        assert not refused, refused
        ends = {name: watch.job(name).phase for name in work.jobs}
        odd = {name: end for name, end in ends.items() if end != "succeeded" and not (end == "cancelled" and work.jobs[name])}
        how = [data for name in odd for kind in (TaskExited, JobEnded) for data in watch.facts(kind, job=name)]
        assert not odd, f"jobs that should have ended well: {odd}, {how}"
        watch.assert_started_once(*work.jobs)
        await asyncio.to_thread(_judge, watch)
        replay = await watch.verify(orphans=True)
        summary = self.summary
        summary.requests += len(work.asked)
        summary.jobs += len(work.jobs)
        summary.records += replay.state.seq + 1
        summary.orphans += len(await watch.raw()) - replay.state.seq - 1
        summary.writers += len(watch.facts(WriterStarted))
        summary.placements += len(watch.facts(JobPlaced))
        summary.preemptions += len(watch.facts(PreemptionDecided))


def _judge(watch: Watch) -> None:
    """Every record once more, with all invariants after each."""
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


def _living_tasks(folder: Path) -> Iterator[Living]:
    for pid in processes_of(folder):
        with contextlib.suppress(OSError):
            pairs = [item.partition(b"=") for item in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
            env = {name.decode(): value.decode(errors="replace") for name, _, value in pairs}
            if "BAILIFF_JOB_ID" in env:
                devices: Sequence[str] = [device for device in env["CUDA_VISIBLE_DEVICES"].split(",") if device]
                yield Living("", env["BAILIFF_JOB_ID"], int(env["BAILIFF_ATTEMPT"]), int(env["RANK"]), tuple(devices))
