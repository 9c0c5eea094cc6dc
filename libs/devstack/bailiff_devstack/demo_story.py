"""The acts of `make demo`: requests as any client can send them, one `kill -9`, and waits for the resulting records."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bailiff.client.client import Client
from bailiff_core.humanize import count_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import Record, decisions
from bailiff_core.records.node_requests import DrainNode, UndrainNode
from bailiff_node_agent.runtime import TaskKey, control_dir
from bailiff_node_agent.runtime.supervisor.processes import descendants, read_process, scan, send
from bailiff_node_agent.snapshots import find_criu

from . import demo_plain, demo_train
from .demo_jobs import DemoJobs, jobs_for
from .demo_screen import Screen
from .stack import Stack

POOL = "pool-a"
FIRST, SECOND = "node-1", "node-2"
URGENT, LATER = "serve-1", ("serve-2", "serve-3")
PLAIN = "plain-1"
PLAIN_ROUNDS = 2000
CRIU = os.environ.get("BAILIFF_CRIU", "criu")
TRAIN_STEPS = 1500
SERVE_SECONDS = 3
HOW_TO = "docs/how-to/keep-work-without-code.md"
DONE = "done: "
MIN_STEPS = 10  # steps that each job does before the next act
TIMEOUT_S = 120.0
POLL_S = 0.05
NUMPY_ENVIRONMENT = {name: value for name, value in os.environ.items() if name.startswith(("OPENBLAS_", "OMP_", "MKL_", "NPY_"))}
"""Variables that change how NumPy rounds. Jobs do not inherit the environment, so these are passed to them."""


class DemoTimeout(Exception):
    """The demo did not continue in time."""


class Story:
    """Submits jobs, drains a node, kills a job, and waits after each act for the records that it leads to.

    names: the training jobs. tracked_job: the first victim; its records are shown at the end. killed_at: time of its KILL, µs.
    saves: whether the nodes have saved the plain program.
    """

    def __init__(self, client: Client, stack: Stack, screen: Screen, gpus: str) -> None:
        self._client, self._stack, self._screen, self._gpus = client, stack, screen, gpus
        self._nodes = stack.folder / "state" / "node-agent" / POOL
        self._checkpoints, self._full_speed_file = shared_checkpoints(stack.folder), stack.folder / "hurry"
        self.state = PoolState()
        self.records: list[Record] = []
        self.names: list[str] = []
        self._jobs = DemoJobs((), 0, 0)
        self.tracked_job = ""
        self.killed_at = 0
        self.saves = False
        self._changed = asyncio.Event()
        screen.steps = self.step

    async def follow(self) -> None:
        """Read the log until cancelled."""
        while not await self._client.pools():  # noqa: ASYNC110 - the log's first record comes from another process
            await asyncio.sleep(POLL_S)
        async for entry in self._client.follow(POOL, state=self.state):
            self.records.append(entry.record)
            self._screen.event(entry.record, self.state)
            if entry.record.cycle_end:  # a node that joins and its quarantined GPUs are one cycle
                self._changed.set()

    async def play(self) -> None:
        """Run all acts, from an empty node to the end of the last training job."""
        await self._fill()
        await self._preempt()
        await self._drain()
        await self._crash()
        self._screen.act("Interrupted three times: the rest of the training runs at full speed")
        self._full_speed_file.touch()
        await self._until(
            "all training jobs have finished", lambda state: all(state.jobs[name].phase == "succeeded" for name in self.names)
        )
        self._screen.act("All training jobs have finished" if len(self.names) > 1 else "The training job has finished")
        await self._save()

    async def _fill(self) -> None:
        self._screen.act("A node joins")
        await self._until("the node joins", lambda state: bool(state.nodes))
        self._jobs = jobs_for(self.state.nodes[0])
        gpus, count = self._jobs.total_gpus, len(self._jobs.gpus)
        self._screen.act(f"{count_text(count, 'training job')} {'fills' if count == 1 else 'fill'} {count_text(gpus, 'GPU')}")
        self.names = [f"train-{number}" for number in range(1, count + 1)]
        for name, its_gpus in zip(self.names, self._jobs.gpus, strict=True):
            train = (
                sys.executable,
                "-u",
                demo_train.__file__,
                str(TRAIN_STEPS),
                str(demo_train.STEP_SECONDS),
                str(self._full_speed_file),
            )
            await self._submit(name, its_gpus, "train", train)
        await self._until_all_train(MIN_STEPS)

    async def _preempt(self) -> None:
        """An urgent job preempts training jobs."""
        screen, gpus = self._screen, max(1, self._jobs.total_gpus // 2)
        screen.act(f"1. {URGENT} is submitted: {count_text(gpus, 'GPU')}, class inference. None is free")
        await self._submit(URGENT, gpus, "inference", ("sleep", str(SERVE_SECONDS)))
        await self._until("a decision", lambda state: URGENT in state.jobs and state.jobs[URGENT].phase != "pending")
        decided = next(record.data for record in self.records if isinstance(record.data, decisions.PreemptionDecided))
        self.tracked_job = decided.victims[0].job
        one = len(decided.victims) == 1
        victims, whose = _of(len(decided.victims), len(self.names)), "its" if one else "their"
        screen.act(f"1. Decided: {victims} preempted; {whose} {'GPU is' if gpus == 1 else 'GPUs are'} reserved for {URGENT}")
        await self._until(f"{URGENT} runs", lambda state: state.jobs[URGENT].phase in ("running", "succeeded"))
        screen.act(f"1. {URGENT} runs; {_preempted(one)} pending, at {whose} old position in the queue")
        await self._until(f"{URGENT} ends", lambda state: state.jobs[URGENT].phase == "succeeded")
        screen.act(f"1. {URGENT} has finished; {_preempted(one)} restarted")
        await self._until("all jobs run again", lambda state: all(self._is_running(state.jobs[name]) for name in self.names))

    async def _drain(self) -> None:
        """The node of the training jobs is drained."""
        self._screen.act("2. A second node joins, with as many GPUs")
        gpus = f"{self._jobs.total_gpus}xH100-80GB" if self._gpus == "nvml" else self._gpus
        second = {"name": SECOND, "pool": POOL, "gpus": gpus}
        self._stack.start_service("node-agent", replica="-2", env={"BAILIFF_NODES": json.dumps([second])})
        await self._until("the second node joins", lambda state: len(state.nodes) == 2)
        await self._until_all_train(MIN_STEPS)
        moves = (
            "job saves a checkpoint, exits, and continues"
            if len(self.names) == 1
            else "jobs save a checkpoint, exit, and continue"
        )
        self._screen.act(f"2. {FIRST} is drained: its {moves} on {SECOND}")
        await self._client.request(POOL, DrainNode(node=FIRST, mode="quick", reason="new driver"))
        moved = {name: self.state.jobs[name].attempt + 1 for name in self.names}
        await self._until("all have moved", lambda state: all(state.jobs[name].attempt >= moved[name] for name in self.names))
        await self._until_all_train(MIN_STEPS)

    async def _crash(self) -> None:
        """The tracked job is killed as in a crash: without notice or checkpoint."""
        self._screen.act(f"3. {self.tracked_job} trains beyond its last checkpoint …")
        await self._poll_until(
            f"{self.tracked_job} is past its checkpoint",
            lambda: (self.step(self.tracked_job) or 0) >= self._newest_checkpoint() + MIN_STEPS,
        )
        attempt = self.state.jobs[self.tracked_job].attempt
        self._screen.act(f"3. … and is killed: kill -9 to its whole process tree on {SECOND}")
        self.killed_at = time.time_ns() // 1000
        self._kill(self.tracked_job)
        await self._until(f"{self.tracked_job} runs again", lambda state: state.jobs[self.tracked_job].attempt > attempt)
        await self._until_all_train(MIN_STEPS)

    async def _save(self) -> None:
        """A program that saves nothing is preempted twice, moves to the other node each time, and goes on where it was."""
        why_not = await self._why_not_saved()
        if why_not:
            self._screen.act(
                f"4. Left out, a program that its node saves: {why_not}. Install CRIU 4 ({HOW_TO}), and run this as root"
            )
            return
        gpus, log = self._jobs.total_gpus, partial(self._printed, PLAIN)
        hurry = self._stack.folder / "plain-hurry"
        self._screen.act(f"4. {PLAIN} starts: a program that knows nothing of Bailiff and saves nothing")
        plain = (sys.executable, "-u", demo_plain.__file__, str(PLAIN_ROUNDS), str(hurry))
        await self._submit(PLAIN, gpus, "train", plain, checkpoint="snapshot")
        for urgent in LATER:
            seen = len(log())
            await self._poll_until(f"{PLAIN} has come further", lambda seen=seen: len(log()) > seen)  # type: ignore[misc]
            attempt = self.state.jobs[PLAIN].attempt
            self._screen.act(f"4. {urgent} is submitted: {PLAIN} is stopped, saved by its node, and ended")
            await self._submit(urgent, gpus, "inference", ("sh", "-c", f"until [ -e {self._gate(urgent)} ]; do sleep 0.1; done"))
            await self._until(f"{urgent} runs", lambda state, urgent=urgent: self._is_running(state.jobs.get(urgent)))  # type: ignore[misc]
            self._screen.act(f"4. {PLAIN} continues on the other node, from its memory as it was")
            if urgent == LATER[0]:
                await self._client.request(POOL, UndrainNode(node=FIRST))
            else:
                self._gate(LATER[0]).touch()
            await self._until(
                f"{PLAIN} runs again",
                lambda state, attempt=attempt: self._is_running(job := state.jobs[PLAIN]) and job.attempt > attempt,  # type: ignore[misc]
            )
        hurry.touch()
        self._gate(LATER[1]).touch()
        await self._until(f"{PLAIN} has finished", lambda state: state.jobs[PLAIN].phase == "succeeded")
        self._screen.act(f"4. {PLAIN} has finished")
        self.saves = True

    async def _why_not_saved(self) -> str:
        """Why the nodes cannot save a program; empty: they can."""
        criu = find_criu(CRIU)
        if criu is None or criu.why_not:
            return criu.why_not if criu is not None else "CRIU is not installed"
        await self._until("the nodes have tried CRIU", lambda state: all(node.snapshots for node in state.nodes.values()))
        return next((offer.why_not for node in self.state.nodes.values() for offer in node.snapshots if offer.why_not), "")

    def _gate(self, job: str) -> Path:
        """The job ends once this file is there."""
        return self._stack.folder / f"{job}-may-end"

    async def _submit(self, job: str, gpus: int, class_name: str, command: tuple[str, ...], **more: Any) -> None:
        """Submit a job through the client library. more: fields of its demand."""
        group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=self._jobs.cpu_milli, memory_bytes=self._jobs.memory_bytes)
        demand = JobDemand(
            job=job, tasks=(group,), priority_class=class_name, grace=20_000_000, max_failures=3, restart_backoff=500_000, **more
        )
        await self._client.submit(demand, JobSpec(command=command, env=NUMPY_ENVIRONMENT), pool=POOL)

    # --- waiting

    async def _until(self, what: str, condition: Callable[[PoolState], bool]) -> None:
        """Wait until the condition on the pool's state holds. Raises `DemoTimeout`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition(self.state):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise DemoTimeout(f"waited {TIMEOUT_S:.0f} s for this: {what}") from None

    async def _poll_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Poll until the condition on the jobs' shared memory holds. Raises `DemoTimeout`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not condition():  # noqa: ASYNC110 - a step in shared memory raises no event
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise DemoTimeout(f"waited {TIMEOUT_S:.0f} s for this: {what}") from None

    async def _until_all_train(self, steps: int) -> None:
        """Wait until all training jobs run and each has done this number of further steps."""
        await self._until("all training runs", lambda state: all(self._is_running(state.jobs.get(name)) for name in self.names))
        await self._poll_until("all have begun", lambda: all(self.step(name) is not None for name in self.names))
        began = {name: self.step(name) or 0 for name in self.names}
        await self._poll_until(
            "all have trained a while", lambda: all((self.step(name) or 0) >= began[name] + steps for name in self.names)
        )

    def _is_running(self, job: Job | None) -> bool:
        return job is not None and job.phase == "running"

    # --- progress of jobs, and the kill

    def step(self, name: str) -> int | None:
        """The last step that the job has published in its present attempt; None if unknown."""
        control = self._task_folder(name, "control") or self._task_folder(name, "tasks")
        return control_dir.read_steps(control).published if control is not None else None

    def _task_folder(self, name: str, kind: str) -> Path | None:
        """The folder of the job's task below the agent's folder of this kind: `control` where jobs are isolated, else `tasks`."""
        job = self.state.jobs.get(name)
        if job is None or not job.tasks:
            return None
        folder = self._nodes / self.state.nodes[job.tasks[0].node].name / kind / str(TaskKey(name, job.attempt, "0"))
        return folder if folder.exists() else None

    def _newest_checkpoint(self) -> int:
        return max(
            (int(folder.name[5:13]) for folder in self._checkpoints.glob(f"*/{self.tracked_job}/attempt-*/step-*")), default=0
        )

    def _kill(self, name: str) -> None:
        """KILL to the job's supervisor and all its descendants."""
        task = self._task_folder(name, "tasks")
        assert task is not None
        pid = json.loads((task / "running.json").read_text())["supervisor_pid"]
        supervisor = read_process(pid)
        for process in [*([supervisor] if supervisor else []), *descendants({pid}, scan())]:
            send(process, signal.SIGKILL)

    def result(self, name: str) -> str:
        """What the job printed at its end, after `done: `; empty if it printed nothing of the kind."""
        return next((line.removeprefix(DONE).rpartition(" ")[2] for line in self._printed(name) if line.startswith(DONE)), "")

    def _printed(self, name: str) -> list[str]:
        """The lines of all attempts of the job."""
        logs = sorted(self._nodes.glob(f"*/logs/{name}-*-0.log"), key=lambda log: int(log.stem.split("-")[-2]))
        return [line for log in logs for line in log.read_text(errors="replace").splitlines()]


def shared_checkpoints(folder: Path) -> Path:
    """The folder for checkpoints that both nodes can read; on a cluster, of a shared file system."""
    return folder / "checkpoints"


def _of(some: int, all_of_them: int) -> str:
    """`4 of 8 jobs are`, `the only job is`."""
    if all_of_them == 1:
        return "the only job is"
    return f"{some} of {all_of_them} jobs {'is' if some == 1 else 'are'}"


def _preempted(one: bool) -> str:
    return "the preempted job is" if one else "the preempted jobs are"
