"""Simulated victim selection, eviction executor and node agents: which reports they send, and when."""

from collections.abc import Iterator
from typing import Any

from bailiff_core.engine import LOGIC
from bailiff_core.model.evictions import ActiveEviction, active_evictions, evictions_of
from bailiff_core.model.grace import term_after
from bailiff_core.model.snapshots import driver_of, restored_by, saved_by, work_lost
from bailiff_core.model.state import Job, PoolState, Task
from bailiff_core.records import facts
from bailiff_core.victims.batch import compute_proposals

from .job_progress import JobProgress
from .simulated_log import PROGRESS, PROPOSALS, REPORTS, REQUESTS, InputFact
from .timeline import Timeline
from .workload import TimedReport

NO_HASH = "0" * 64
FAILED, YIELDED, KILLED, TERMINATED = 1, 85, 137, 143
SAVED = 0  # how an evicted task leaves that its node has saved: the dump ends it by KILL
KILL = 9
FASTEST = 1 << 62  # bytes in a second, of a driver that has not measured it
SECOND = 1_000_000
ALIVE = ("starting", "running")


class Agents:
    """Derives reports from the state after each decision cycle, as the services do; keeps only what it has scheduled."""

    def __init__(self, state: PoolState, progress_by_job: dict[str, JobProgress], time: Timeline) -> None:
        self._state, self._progress_by_job, self._time = state, progress_by_job, time
        self._starting: dict[tuple[str, int, int], None] = {}
        self._notified: dict[tuple[str, int, int], None] = {}
        self._saving: dict[tuple[str, int], None] = {}
        self._requested = self._proposed = 0

    def due_reports(self) -> Iterator[InputFact]:
        """Yields the reports that are due without delay and schedules the others. Yields nothing when no report is due."""
        state = self._state
        if state.selection is not None and state.selection.requests:
            number = state.selection.number
            delay = self._time.delays.of("selection", "", number)
            if self._requested != number:
                self._requested = number
                if delay:
                    self._time.schedule(self._time.now + delay, self._propose, number)
                else:
                    seq = state.seq
                    yield from self._checkpoints()
                    if state.seq != seq:
                        return  # the proposal follows in the next cycle
            if not delay and self._proposed != number:
                yield from self._propose(number)
        if state.starting:
            for name in list(state.starting):
                yield from self._start(state.jobs[name])
        for name in list(state.saving):
            yield from self._save(state.jobs[name])
        if state.evicting:
            for entry in list(active_evictions(state)):
                yield from self._evict(entry)

    # --- selection

    def _propose(self, number: int) -> Iterator[InputFact]:
        selection = self._state.selection
        if selection is None or selection.number != number:
            return
        self._proposed = number
        at = self._state.seq
        proposals = compute_proposals(self._state)
        yield facts.ProposalReceived(selection=number, computed_at=at, logic=LOGIC, proposals=proposals), PROPOSALS

    def _checkpoints(self) -> Iterator[InputFact]:
        """Yields checkpoints that were not reported yet. They matter only to victim selection, so they are reported before it."""
        state, now = self._state, self._time.now
        for job in list(state.active_jobs()):
            work = self._progress_by_job[job.id]
            found = work.new_checkpoint(now) if job.phase == "running" else None
            if found is not None:
                saved = _checkpoint(found[0])
                at = self._task_fields(job, job.tasks[0])
                yield facts.TaskProgressed(**at, step=saved.step, checkpoint=saved, checkpoint_age=found[1]), REPORTS

    # --- starts and ends

    def _start(self, job: Job) -> Iterator[InputFact]:
        for task in job.tasks:
            key = (job.id, job.attempt, task.index)
            if task.state == "starting" and task.eviction is None and key not in self._starting:
                self._starting[key] = None
                yield from self._time.run_after(self._time.delays.of("start", job.id, job.attempt), self._started, *key)

    def _started(self, name: str, attempt: int, index: int) -> Iterator[InputFact]:
        del self._starting[name, attempt, index]
        job = self._state.jobs.get(name)
        task = job.task(index) if job is not None and job.attempt == attempt else None
        if job is None or task is None or task.state != "starting" or job.eviction is not None or task.eviction is not None:
            return
        if self._state.nodes[task.node].state != "ready":
            return
        if (attempt, index) in self._progress_by_job[name].outcome.refused:
            yield facts.TaskStartRefused(**self._task_fields(job, task), reason="refused in the recorded log"), REPORTS
        else:
            yield from self._continued(job, task)

    def _continued(self, job: Job, task: Task) -> Iterator[InputFact]:
        """The task runs: from its snapshot, or from its own last checkpoint."""
        at, found, lost = self._task_fields(job, task), restored_by(job, task), 0
        if job.snapshot is not None and task.not_restored:
            lost = work_lost(job)
            self._progress_by_job[job.id].lose_snapshot()
        yield facts.TaskStarted(**at, not_restored=task.not_restored, lost_gpu_ms=lost), REPORTS
        if found is not None:
            attempt, saved = found
            yield facts.TaskRestored(**at, from_attempt=attempt, driver=saved.driver, bytes=saved.bytes), REPORTS

    def schedule_reports(self, job: Job, work: JobProgress) -> None:
        """Schedules the outcome's reports for the attempt that starts to run now."""
        for report in work.outcome.reports:
            if report.attempt == job.attempt:
                self._time.schedule(self._time.now + report.after, self._report, job.id, report)

    def _report(self, name: str, report: TimedReport) -> Iterator[InputFact]:
        job = self._state.jobs.get(name)
        task = job.task(report.fact.task) if job is not None and job.attempt == report.attempt else None
        if job is None or task is None or task.state != "running":
            return
        devices = self._state.nodes[task.node].devices
        about: dict[str, Any] = self._task_fields(job, task)
        if isinstance(report.fact, facts.ShareExceeded):
            about["device"] = next(device.id for device in devices if task.devices >> device.number & 1)
        yield report.fact.model_copy(update=about), REPORTS

    def schedule_end(self, job: Job, work: JobProgress) -> None:
        """Schedules the job's end or next failure, as far as it is known now."""
        moment = work.ends_at()
        if moment is not None and moment < 1 << 61:
            self._time.schedule(moment, self._end, job.id, work.version)

    def _end(self, name: str, version: int) -> Iterator[InputFact]:
        job, work = self._state.jobs.get(name), self._progress_by_job[name]
        if job is None or work.version != version or job.phase not in ("running", "evicting"):
            return
        if work.fails_now(self._time.now):
            yield from self._exit(job, [task for task in job.tasks if task.state in ALIVE][:1], FAILED)
            return
        work.finish(self._time.now)
        if work.outcome.end == "cancelled":
            request = facts.RequestId(source="owner", id=f"cancel-{name}", digest=NO_HASH)
            yield facts.JobCancelled(request=request, job=name), REQUESTS
            return
        code = 0 if work.outcome.end == "succeeded" else FAILED
        yield from self._exit(job, [task for task in job.tasks if task.state in ALIVE], code)

    def _exit(self, job: Job, members: list[Task], code: int) -> Iterator[InputFact]:
        alive = [task.index for task in members if task.state in ALIVE]
        for task in [task for task in members if task.state in ALIVE]:
            yield facts.TaskExited(**self._task_fields(job, task), exit_code=code), REPORTS
        delay = self._time.delays.of("release", job.id, job.attempt)
        yield from self._time.run_after(delay, self._release, job.id, job.attempt, alive)

    def _release(self, name: str, attempt: int, indices: list[int]) -> Iterator[InputFact]:
        job = self._state.jobs.get(name)
        for index in indices:
            task = job.task(index) if job is not None and job.attempt == attempt else None
            if job is not None and task is not None and task.state == "exited":
                yield facts.TaskReleased(**self._task_fields(job, task)), REPORTS

    # --- snapshots while a job runs

    def _save(self, job: Job) -> Iterator[InputFact]:
        order = job.id, job.saving_seq or 0
        if order in self._saving:
            return
        self._saving[order] = None
        work = self._progress_by_job[job.id].done_by(self._time.now)
        takes = self._saving_takes(job, job.tasks)
        self._time.schedule(self._time.now + takes, self._saved, *order, work, takes)
        for task in job.tasks:
            yield facts.SnapshotStageReached(**self._saved_stage(job, task, "frozen", 0)), REPORTS

    def _saved(self, name: str, order: int, work: int, took: int) -> Iterator[InputFact]:
        job = self._state.jobs.get(name)
        if job is None or job.saving_seq != order:
            return
        alive = [task for task in job.tasks if task.state in ALIVE and task.saving is not None]
        if len(alive) == len(job.tasks):
            self._progress_by_job[name].note_snapshot(work)
        for task in alive:
            yield facts.SnapshotStageReached(**self._saved_stage(job, task, "stored", took)), REPORTS

    # --- evictions

    def _evict(self, entry: ActiveEviction) -> Iterator[InputFact]:
        job, eviction = entry.job, entry.eviction
        key = (job.id, job.attempt, eviction.decided_seq)
        if eviction.cancel_seq is not None:
            self._notified.pop(key, None)
            for task in [task for task in entry.tasks if task.state in ALIVE and not task.eviction_cancelled]:
                yield facts.TaskEvictionCancelled(**self._task_fields(job, task)), REPORTS
        elif eviction.started_seq is None:
            if eviction.cause != "preemption" or eviction.preemption in self._state.preemptions:
                yield facts.EvictionStarted(job=job.id, attempt=job.attempt, decided_by=eviction.decided_seq), PROGRESS
        elif key not in self._notified:
            self._notified[key] = None
            yield from self._notice(entry)

    def _notice(self, entry: ActiveEviction) -> Iterator[InputFact]:
        """Delivers the eviction notice. A job that handles it saves and exits; others get TERM, late ones KILL."""
        job, work, grace = entry.job, self._progress_by_job[entry.job.id], entry.eviction.grace
        members = [task for task in entry.tasks if task.state in ALIVE and self._state.nodes[task.node].state == "ready"]
        save_time = work.outcome.save_time
        saved_by_node = self._saved_by_node(entry, members)
        handles = save_time is not None and work.running > 0 and not job.cancelled and saved_by(self._state, entry) != "none"
        handles = handles and saved_by_node is None
        if not entry.part and not work.finished:
            work.stall(self._time.now)
        for task in members:
            notice: dict[str, Any] = {**self._task_fields(job, task), "stage": "noticed"}
            if handles:
                notice |= {"attached": True, "term_after": term_after(self._state, job, grace), "kill_after": grace}
            yield facts.EvictionStageReached(**notice), REPORTS
            if not handles and saved_by_node is None:
                yield facts.EvictionStageReached(**self._task_fields(job, task), stage="term_sent"), REPORTS
        slow = self._time.delays.of("exit", job.id, job.attempt)
        exits_after = min(save_time if handles and save_time is not None else slow, grace)
        code = TERMINATED if not handles or save_time is None else YIELDED if save_time <= grace else KILLED
        if saved_by_node is not None:
            exits_after, code = saved_by_node, SAVED
        indices = [task.index for task in members]
        self._time.schedule(
            self._time.now + exits_after, self._exit_evicted, job.id, entry.eviction.decided_seq, indices, code, exits_after
        )

    def _saved_by_node(self, entry: ActiveEviction, members: list[Task]) -> int | None:
        """How long its nodes take to save the tasks, µs; None: they do not, or not within the grace."""
        mode = saved_by(self._state, entry)
        by_itself = mode == "auto" and self._progress_by_job[entry.job.id].outcome.save_time is not None
        if len(members) < len(entry.tasks) or mode not in ("snapshot", "auto") or by_itself or entry.job.phase == "starting":
            return None
        takes = self._saving_takes(entry.job, members)
        return takes if takes <= entry.eviction.grace else None

    def _saving_takes(self, job: Job, members: list[Task]) -> int:
        """How long its nodes take to save these tasks, µs."""
        takes = 0
        for number in {task.node: None for task in members}:
            driver = driver_of(self._state.nodes[number])
            size = sum(job.group(task.index).memory_bytes for task in members if task.node == number)
            takes = max(takes, size * SECOND // ((driver.bytes_per_s if driver is not None else 0) or FASTEST))
        return takes

    def _exit_evicted(self, name: str, decided: int, indices: list[int], code: int, after: int) -> Iterator[InputFact]:
        job, work = self._state.jobs.get(name), self._progress_by_job[name]
        if job is None:
            return
        entry = next((each for each in evictions_of(job) if each.eviction.decided_seq == decided), None)
        if entry is None or entry.eviction.cancel_seq is not None:
            return
        members = [task for task in entry.tasks if task.index in indices and task.state in ALIVE]
        if not members:
            return
        if code == YIELDED and not entry.part:
            work.save()
            at = self._task_fields(job, members[0])
            saved = _checkpoint(work.safe, after)
            yield facts.EvictionStageReached(**at, stage="checkpoint_committed", elapsed=after, checkpoint=saved), REPORTS
        if code == SAVED:
            work.save_snapshot()
            for stage in ("frozen", "dumped", "stored"):
                for task in members:
                    yield facts.EvictionStageReached(**self._saved_stage(job, task, stage, after)), REPORTS
        for task in members if code == KILLED else ():
            yield facts.EvictionStageReached(**self._task_fields(job, task), stage="kill_sent", elapsed=after), REPORTS
        yield from self._exit(job, members, -KILL if code == SAVED else code)

    def _saved_stage(self, job: Job, task: Task, stage: str, after: int) -> dict[str, Any]:
        driver = driver_of(self._state.nodes[task.node])
        about = {**self._task_fields(job, task), "elapsed": after, "driver": driver.driver if driver is not None else None}
        size = {} if stage == "frozen" else {"bytes": job.group(task.index).memory_bytes}
        digest = {"sha256": NO_HASH} if stage == "stored" else {}
        return {**about, "stage": stage, **size, **digest}

    def _task_fields(self, job: Job, task: Task) -> dict[str, Any]:
        return {"job": job.id, "attempt": job.attempt, "task": task.index, "node": self._state.nodes[task.node].name}


def _checkpoint(work: int, took: int = 0) -> facts.Checkpoint:
    """Returns a checkpoint whose step is `work` in seconds. took: duration of the save, µs."""
    return facts.Checkpoint(step=work // SECOND, bytes=0, duration=took, sha256=NO_HASH)
