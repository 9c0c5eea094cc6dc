"""Scenarios of a preempted training job under a fault: only the work that the job contract allows is lost.

An `Expected` states what a scenario may lose. The result is checked against four independent sources: the log (stages,
outcome, GPU allocations over time), the invariants over all of its records, the simulated devices' memory, and the job's own
notes (its steps, and whether two attempts ever overlapped).

Where each fault is tested:

| row | tests/process/ |
|---|---|
| the agent is killed at each stage of an eviction | test_survives_agent.py; jobs without the library: test_kill_nine.py |
| the agent is never restarted, is stopped, or is started twice | test_lost_agent.py |
| a supervisor or one rank is killed | test_survives_processes.py |
| host loss | test_survives_host.py; jobs without checkpoints: test_lost_agent.py |
| Kafka is unavailable during the grace | test_survives_kafka.py; for up to 180 s, jobs without the library: test_no_kafka.py |
| a GPU that stays dirty | test_survives_dirty_gpus.py |
| the disk is full; the newest checkpoint is damaged | test_survives_disk.py; the library alone: test_job_script.py |
| never acknowledges, hangs, forks away, catches TERM, exits 0, saves for too long | test_survives_behaviours.py |
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.kits import survivor
from tests.kits.invariants import CYCLE_RULES, STATE_RULES, History, check
from tests.kits.job_processes import is_supervisor, process_of, processes_of
from tests.kits.system import PATIENCE_S, System, Watch, systems

from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records.decisions import JobEnded, JobRequeued, JobStarting
from bailiff_core.records.facts import EvictionStage, EvictionStageReached, TaskExited, TaskReleased, TaskResumed, TaskStarted
from bailiff_core.records.payload import Payload
from bailiff_core.replay import Replay
from bailiff_devstack.identity import wait_until
from bailiff_log.reader import Entry

ROOT = Path(__file__).parents[2]
POOL, FIRST, GPUS = "survival", "survival-0", 2
MACHINE = {"gpus": f"{GPUS}xH100-80GB"}
STEPS, STEPS_OF_A_GANG = 60, 3000
LAST = survivor.PAUSE_AFTER
BEFORE = (LAST + 1) // survivor.EVERY * survivor.EVERY
"""The step after its last checkpoint at its own interval."""
ENOUGH_S, SHORT_S = 60.0, 2.5
NOTICED: tuple[EvictionStage, ...] = ("noticed",)
SAVED: tuple[EvictionStage, ...] = ("noticed", "acknowledged", "checkpoint_started", "checkpoint_committed", "yielding")
LATE: tuple[EvictionStage, ...] = ("term_sent", "kill_sent")

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Expected:
    """Expected records of the victim's first attempt, and where the next one continues.

    stages: of each task, in order; None where tasks differ. optional: stages that may be missing. stuck_in: its stage when it
    got TERM or KILL. codes: exit codes, by task. resumes_at: set if it repeats steps. reports_resume: whether it reports where
    it resumes, as jobs that use the library do.
    """

    outcome: str
    stages: tuple[EvictionStage, ...] | None = SAVED
    optional: tuple[EvictionStage, ...] = ()
    stuck_in: EvictionStage | None = None
    codes: tuple[int, ...] = (85,)
    reason: str = ""
    resumes_at: int | None = None
    skipped_checkpoints: int = 0
    reports_resume: bool = True


SAVES_AND_YIELDS = Expected("preempted")


@dataclass
class LogChecker:
    """Checks one system's log: all invariants after every record, and every decision cycle replayed."""

    state: PoolState = field(default_factory=PoolState)
    history: History = field(default_factory=History)
    replay: Replay = field(default_factory=Replay)

    def check_new(self, entries: list[Entry]) -> None:
        """Check the new records."""
        for entry in entries[self.state.seq + 1 :]:
            violations = [*self.history.before(self.state, entry.record)]
            apply(self.state, entry.record)
            self.replay.feed(entry.record, entry.wire)
            violations += self.history.after(self.state)
            assert not violations, violations
            check(STATE_RULES, self.state)
            if not self.state.cycle_open:
                check(CYCLE_RULES, self.state)
        assert self.replay.difference is None, self.replay.difference
        assert not [*self.history.end()]


@dataclass
class Story:
    """One victim and the urgent job that preempts it. checker: of the system's log."""

    watch: Watch
    checker: LogChecker
    tasks: int = 1
    victim: str = ""
    urgent: str = ""

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.victim, self.urgent = f"victim-{number}", f"urgent-{number}"

    @property
    def system(self) -> System:
        return self.watch.system

    @property
    def steps(self) -> int:
        return STEPS if self.tasks == 1 else STEPS_OF_A_GANG

    # --- actions

    async def start_victim(self, behaviour: str = "Trains", *, grace_s: float = ENOUGH_S, **rest: Any) -> None:
        """Start the victim; returns when it has done some steps and is paused."""
        gpus = rest.pop("gpus", GPUS) // self.tasks
        run = command(behaviour, self.steps)
        await self.watch.submit(
            self.victim, run, gpus=gpus, tasks=self.tasks, grace_s=grace_s, env=self._env(), max_failures=1, **rest
        )
        await self.watch.until_running(self.victim)
        paused = [self.mark(f"{rank}.paused") for rank in range(self.tasks)]
        await self.watch.until("the victim is paused", lambda _: all(mark.exists() for mark in paused))

    async def submit_urgent(self, gpus: int = GPUS) -> None:
        """Submit the urgent job that needs the victim's GPUs."""
        await self.watch.submit(self.urgent, command("Urgent", 0), gpus=gpus, kind="inference", env=self._env())

    async def wait_for_stage(self, stage: EvictionStage) -> EvictionStageReached:
        """Wait until the victim's eviction reaches this stage."""
        return await self.watch.record(EvictionStageReached, job=self.victim, stage=stage)

    def continue_victim(self) -> None:
        """Let a victim that waits at a stage continue."""
        self.mark("go").touch()

    async def wait_processes_gone(self) -> None:
        """Wait until no process of any job is left on the machines. Uses /proc only, so it works without Kafka."""
        gone = await asyncio.to_thread(wait_until, lambda: not processes_of(self.system.folder / "state"), PATIENCE_S)
        assert gone, processes_of(self.system.folder / "state")

    def supervisors(self) -> list[int]:
        return [pid for pid in processes_of(self.system.folder / "state") if is_supervisor(pid)]

    def process(self, rank: int = 0) -> int:
        """The pid of the victim's rank."""
        _, attempt, process = self.mark(f"{rank}.lock").read_text().split(", ")
        task = f"{self.victim}-{attempt.split()[1]}-{rank}"
        return process_of(self.system.folder / "state", task, int(process.split()[1]))

    def mark(self, what: str) -> Path:
        return self.system.marks / f"{self.victim}.{what}"

    @property
    def checkpoints(self) -> Path:
        return self.system.folder / "checkpoints" / self.victim

    async def wait_preempted(self) -> None:
        """Wait until the victim is requeued, and the urgent job runs."""
        await self.watch.record(JobRequeued, job=self.victim)
        await self.watch.until_running(self.urgent)

    # --- checks

    async def check_urgent_and_victim(self, expected: Expected = SAVES_AND_YIELDS) -> None:
        """Check that the urgent job ran on the GPUs, and that the victim resumed and finished as expected."""
        await self.watch.until_running(self.urgent)
        (self.system.marks / f"{self.urgent}.go").touch()
        await self.watch.until_ended(self.urgent)
        if expected.codes:
            self.check_gpus_free_before_start()
        await self.check_victim(expected)

    async def check_victim(self, expected: Expected) -> None:
        """Check that the victim resumed and finished as expected."""
        await self.watch.until_ended(self.victim)
        self.check_records(expected)
        if expected.outcome != "finished":
            self.check_lost_steps(expected)
        self.check_no_overlap()
        self.checker.check_new(self.watch.entries)

    def check_records(self, expected: Expected) -> None:
        """Check the recorded stages, the stage in which it was stuck, and the outcome."""
        for task in range(self.tasks):
            staged = [
                stage for stage in self.facts(EvictionStageReached, attempt=1, task=task) if stage.stage not in expected.optional
            ]
            if expected.stages is None:
                continue
            assert tuple(stage.stage for stage in staged) == expected.stages, self.watch.report()
            stuck = [stage.stuck_in for stage in staged if stage.stage in LATE]
            assert stuck[-1:] == [expected.stuck_in][: len(stuck)], staged
        exits = sorted(self.facts(TaskExited, attempt=1), key=lambda fact: fact.task)
        assert tuple(fact.exit_code for fact in exits) == expected.codes, self.watch.report()
        assert not expected.reason or any(expected.reason in fact.reason for fact in exits), exits
        outcomes = [fact.outcome for fact in self.facts(JobRequeued)]
        assert outcomes == ([] if expected.outcome == "finished" else [expected.outcome]), self.watch.report()
        assert self.watch.job(self.victim).failures == (expected.outcome == "failed")
        assert len(self.facts(JobEnded)) == 1

    def check_gpus_free_before_start(self) -> None:
        """Check that the urgent job's start was ordered only after the victim's GPUs were seen free."""
        released = self.facts(TaskReleased, attempt=1)
        assert len(released) == self.tasks
        for reading in itertools.chain.from_iterable(fact.after for fact in released):
            assert (reading.memory_used, reading.processes) == (0, 0)
        assert max(self.when(TaskReleased, self.victim)) < min(self.when(JobStarting, self.urgent))
        assert len(self.when(TaskStarted, self.urgent)) == 1

    def check_lost_steps(self, expected: Expected) -> None:
        """Check the repeated steps, by its own notes and by the records, and the final weights bit for bit."""
        resumed = {fact.task: fact for fact in self.facts(TaskResumed, attempt=2)}
        assert len(resumed) == (self.tasks if expected.reports_resume else 0), self.watch.report()
        furthest = max(step for rank in range(self.tasks) for attempt, step in self.done(rank) if attempt == 1)
        for rank in range(self.tasks):
            first, second = ([step for attempt, step in self.done(rank) if attempt == number] for number in (1, 2))
            begins = first[-1] + 1 if expected.resumes_at is None else expected.resumes_at
            assert (first, second) == ([*range(first[-1] + 1)], [*range(begins, self.steps)])
            assert self.tasks > 1 or first[-1] == LAST
            if expected.reports_resume:
                resume, again = resumed[rank], furthest + 1 - begins
                assert (resume.step, resume.from_attempt, resume.skipped_checkpoints) == (begins, 1, expected.skipped_checkpoints)
                all_exits_seen = len(expected.codes) == self.tasks
                assert resume.steps_lost == again if all_exits_seen else resume.steps_lost <= again
        assert self.mark("result").read_text() == uninterrupted(self.steps)

    def check_no_overlap(self) -> None:
        """Check that no rank started twice in an attempt, and that no two processes shared a GPU or a rank at any time."""
        twice = self.system.marks / "twice"
        assert not twice.exists(), twice.read_text()

    def done(self, rank: int = 0) -> list[tuple[int, int]]:
        """(attempt, step) of the rank, in the order of execution."""
        lines = [tuple(map(int, line.split())) for line in self.mark("steps").read_text().splitlines()]
        return [(attempt, step) for attempt, of_rank, step in lines if of_rank == rank]

    def facts(self, kind: type[Any], **values: object) -> list[Any]:
        """Records of this kind about the victim."""
        return self.watch.facts(kind, job=self.victim, **values)

    def when(self, kind: type[Payload], job: str) -> list[int]:
        """The seqs of such records about the job."""
        return self.seqs(kind, lambda data: data.job == job)

    def seqs(self, kind: type[Payload], condition: Callable[[Any], bool] = lambda _: True) -> list[int]:
        """The seqs of such records."""
        records = [entry.record for entry in self.watch.entries]
        return [record.seq for record in records if isinstance(record.data, kind) and condition(record.data)]

    def _env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT / "libs/job"), "SURVIVOR_MARKS": str(self.system.marks)}


def command(behaviour: str, steps: int) -> str:
    """The victim's command. Runs Python without `site`, whose import takes longer than all steps."""
    return f"exec {sys.executable} -S {survivor.__file__} {behaviour} {steps}"


@functools.cache
def uninterrupted(steps: int) -> str:
    """The final weights of an uninterrupted run outside Bailiff."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("BAILIFF")}
    with tempfile.TemporaryDirectory() as folder:
        env |= {"PYTHONPATH": str(ROOT / "libs/job"), "SURVIVOR_MARKS": folder}
        subprocess.run([sys.executable, "-S", survivor.__file__, "Trains", str(steps)], env=env, check=True)
        return (Path(folder) / "alone.result").read_text()


def kill(*pids: int) -> None:
    """Kill those of these processes that still run."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- systems


class Stage(System):
    """A system with one machine in one pool, whose jobs save checkpoints to a folder that all machines share."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.checker = LogChecker()
        (folder / "checkpoints").mkdir(parents=True)
        for node in self.stack.plan.nodes:
            self.shares_checkpoints(str(node["name"]))

    def machine(self, node: str) -> Path:
        """The agent's state folder of that machine."""
        return self.folder / "state" / "node-agent" / POOL / node

    def shares_checkpoints(self, node: str) -> None:
        """Link the node's checkpoint folder to the shared one."""
        self.machine(node).mkdir(parents=True)
        (self.machine(node) / "checkpoints").symlink_to(self.folder / "checkpoints")

    def leak(self, bytes_of_memory: int) -> None:
        """Keep this much memory of each GPU in use, without a process."""
        faults = {str(device): {"leak_bytes": bytes_of_memory} for device in range(GPUS)} if bytes_of_memory else {}
        new = self.folder / "faults.json"
        new.write_text(json.dumps(faults))
        new.replace(self.machine(FIRST) / "faults.json")


@pytest.fixture(scope="session")
def _stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    with systems(tmp_path_factory, "survival", Stage, pools={POOL: 1}, machine={POOL: MACHINE}) as get:
        yield get


@pytest.fixture
def stage(_stages: Callable[[], System]) -> Stage:
    """A machine with two GPUs, for stories that run one after the other."""
    found = _stages()
    assert isinstance(found, Stage)
    return found


@contextlib.asynccontextmanager
async def story(stage: Stage, tasks: int = 1) -> AsyncIterator[Story]:
    """A new story on this system."""
    async with stage.watch(POOL) as pool:
        yield Story(pool, stage.checker, tasks)


def utc_us() -> int:
    return time.time_ns() // 1000
