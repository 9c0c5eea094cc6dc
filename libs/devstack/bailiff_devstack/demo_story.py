"""What happens in `make demo`: requests as anybody could publish them, one `kill -9`, and waits for what the log then holds."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bailiff.client import Client
from bailiff_bus.messages import DrainNode, JobSpec
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import Record, decisions
from bailiff_node_agent.runtime import TaskKey, wall
from bailiff_node_agent.runtime.supervisor.processes import descendants, read_process, scan, send

from . import demo_train
from .demo_screen import Screen
from .stack import Stack

DOMAIN = "pool-a"
FIRST, SECOND = "node-1", "node-2"
URGENT = "serve-1"
TRAIN_STEPS = 1500
SERVE_SECONDS = 3
WATCHED_STEPS = 10  # so many are seen before the next thing happens
PATIENCE_S = 120.0
LOOK_S = 0.05
HOW_NUMPY_COMPUTES = {name: value for name, value in os.environ.items() if name.startswith(("OPENBLAS_", "OMP_", "MKL_", "NPY_"))}
"""What this process was told of it: jobs that are told otherwise round otherwise, and are not given this by themselves."""


class StoryStuck(Exception):
    """The story did not go on in time."""


class Story:
    """Submits, kills, and watches the audit log until what should happen has happened.

    names: the training jobs. hero: the one of them that is told of in the end. killed_at: when it was killed, µs UTC.
    """

    def __init__(self, client: Client, stack: Stack, screen: Screen, gpus: str) -> None:
        self._client, self._stack, self._screen, self._gpus = client, stack, screen, gpus
        self._nodes = stack.folder / "state" / "node-agent" / DOMAIN
        self._saved, self._hurry = stack.folder / "checkpoints", stack.folder / "hurry"
        self.pool = Pool()
        self.records: list[Record] = []
        self.names: list[str] = []
        self.hero = ""
        self.killed_at = 0
        self._changed = asyncio.Event()
        screen.steps = self.step

    async def follow(self) -> None:
        """Read the log for as long as the story lasts."""
        while not await self._client.domains():  # noqa: ASYNC110 - the log's first record comes from another process
            await asyncio.sleep(LOOK_S)
        async for entry in self._client.follow(DOMAIN, pool=self.pool):
            self.records.append(entry.record)
            self._screen.event(entry.record, self.pool)
            self._changed.set()

    async def play(self) -> None:
        """From an empty node to the last training job's end."""
        await self._filled()
        await self._preempted()
        await self._drained()
        await self._killed()
        self._screen.act("Three times is enough: the rest of the training as fast as it goes")
        self._hurry.touch()
        await self._until("everybody has finished", lambda pool: all(pool.jobs[name].phase == "succeeded" for name in self.names))
        self._screen.act("All training is finished")

    async def _filled(self) -> None:
        self._screen.act("A node joins")
        await self._until("the node joins", lambda pool: bool(pool.nodes))
        gpus = len(self.pool.nodes[0].devices)
        self._screen.act(f"Training fills all {gpus} GPUs")
        self.names = [f"train-{number}" for number in range(1, gpus + 1)]
        for name in self.names:
            train = (sys.executable, "-u", demo_train.__file__, str(TRAIN_STEPS), str(demo_train.STEP_SECONDS), str(self._hurry))
            # Checkpoints where both nodes find them: on a cluster a shared file system.
            await self._submit(name, 1, "train", ("env", f"BAILIFF_CHECKPOINT_DIR={self._saved / name}", *train))
        await self._until_all_train(WATCHED_STEPS)

    async def _preempted(self) -> None:
        """By an urgent job."""
        screen, asked = self._screen, max(1, len(self.names) // 2)
        screen.act(f"1. {URGENT} is published: {asked} GPUs, class inference. None is free")
        await self._submit(URGENT, asked, "inference", ("sleep", str(SERVE_SECONDS)))
        await self._until("a decision", lambda pool: URGENT in pool.jobs and pool.jobs[URGENT].phase != "pending")
        decided = next(record.data for record in self.records if isinstance(record.data, decisions.PreemptionDecided))
        self.hero = decided.victims[0].job
        screen.act(f"1. Decided: {asked} of {len(self.names)} leave; their GPUs are kept for {URGENT}")
        await self._until(f"{URGENT} runs", lambda pool: pool.jobs[URGENT].phase in ("running", "succeeded"))
        screen.act(f"1. {URGENT} runs; the others wait at their old place in the queue")
        await self._until(f"{URGENT} ends", lambda pool: pool.jobs[URGENT].phase == "succeeded")
        screen.act(f"1. {URGENT} is done; those who left come back by themselves")
        await self._until("those who left are back", lambda pool: all(self._at_work(pool.jobs[name]) for name in self.names))

    async def _drained(self) -> None:
        """By an operator who wants the machine."""
        self._screen.act("2. A second node joins, with room for all")
        gpus = f"{len(self.names)}xH100-80GB" if self._gpus == "nvml" else self._gpus
        second = {"name": SECOND, "domain": DOMAIN, "gpus": gpus}
        self._stack.start_service("node-agent", replica="-2", env={"BAILIFF_NODES": json.dumps([second])})
        await self._until("the second node joins", lambda pool: len(pool.nodes) == 2)
        await self._until_all_train(WATCHED_STEPS)
        self._screen.act(f"2. {FIRST} is drained: everyone on it saves, leaves, and goes on elsewhere")
        await self._client.request(DOMAIN, DrainNode(node=FIRST, mode="quick", reason="new driver"))
        moved = {name: self.pool.jobs[name].attempt + 1 for name in self.names}
        await self._until("all have moved", lambda pool: all(pool.jobs[name].attempt >= moved[name] for name in self.names))
        await self._until_all_train(WATCHED_STEPS)

    async def _killed(self) -> None:
        """Outright, as by a crash: nobody is told, nothing is saved."""
        self._screen.act(f"3. {self.hero} goes on, past its last checkpoint …")
        await self._look_until(
            f"{self.hero} is past its checkpoint", lambda: (self.step(self.hero) or 0) >= self._newest_saved() + WATCHED_STEPS
        )
        attempt = self.pool.jobs[self.hero].attempt
        self._screen.act(f"3. … and is killed outright: kill -9 to its whole process tree on {SECOND}")
        self.killed_at = time.time_ns() // 1000
        self._kill(self.hero)
        await self._until("it is back", lambda pool: pool.jobs[self.hero].attempt > attempt)
        await self._until_all_train(WATCHED_STEPS)

    async def _submit(self, job: str, gpus: int, class_name: str, command: tuple[str, ...]) -> None:
        """Publish a request, as anybody could."""
        group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=1000, memory_bytes=1 << 30)
        demand = JobDemand(
            job=job, tasks=(group,), priority_class=class_name, grace=20_000_000, max_failures=3, restart_backoff=500_000
        )
        await self._client.submit(demand, JobSpec(command=command, env=HOW_NUMPY_COMPUTES), domain=DOMAIN)

    # --- waiting

    async def _until(self, what: str, condition: Callable[[Pool], bool]) -> None:
        """Until the state is so. Raises `StoryStuck`."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition(self.pool):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise StoryStuck(f"waited {PATIENCE_S:.0f} s for this: {what}") from None

    async def _look_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Until the jobs themselves say so, in shared memory. Raises `StoryStuck`."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():  # noqa: ASYNC110 - a training script tells nobody of each of its steps
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise StoryStuck(f"waited {PATIENCE_S:.0f} s for this: {what}") from None

    async def _until_all_train(self, steps: int) -> None:
        """All training runs, and each has done so many steps since it was not running."""
        await self._until("all training runs", lambda pool: all(self._at_work(pool.jobs.get(name)) for name in self.names))
        await self._look_until("all have begun", lambda: all(self.step(name) is not None for name in self.names))
        began = {name: self.step(name) or 0 for name in self.names}
        await self._look_until(
            "all have trained a while", lambda: all((self.step(name) or 0) >= began[name] + steps for name in self.names)
        )

    def _at_work(self, job: Job | None) -> bool:
        return job is not None and job.phase == "running"

    # --- looking at jobs, and ending one

    def step(self, name: str) -> int | None:
        """The last step that the job says it has done, of its present attempt."""
        control = self._control(name)
        return wall.read_steps(control).published if control is not None and control.exists() else None

    def _control(self, name: str) -> Path | None:
        job = self.pool.jobs.get(name)
        if job is None or not job.tasks:
            return None
        return self._nodes / self.pool.nodes[job.tasks[0].node].name / "tasks" / str(TaskKey(name, job.attempt, "0"))

    def _newest_saved(self) -> int:
        return max((int(folder.name[5:13]) for folder in (self._saved / self.hero).glob("attempt-*/step-*")), default=0)

    def _kill(self, name: str) -> None:
        """Its supervisor and all that this one looks after."""
        control = self._control(name)
        assert control is not None
        pid = json.loads((control / "running.json").read_text())["supervisor_pid"]
        above = read_process(pid)
        for process in [*([above] if above else []), *descendants({pid}, scan())]:
            send(process, signal.SIGKILL)

    def printed(self, name: str) -> str:
        """The digest that the job printed at its end; nothing where it printed none."""
        attempt = self.pool.jobs[name].attempt
        for log in self._nodes.glob(f"*/logs/{TaskKey(name, attempt, '0')}.log"):
            for line in log.read_text(errors="replace").splitlines():
                if line.startswith("done: weights "):
                    return line.rpartition(" ")[2]
        return ""
