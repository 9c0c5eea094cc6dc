"""`Job`: one rank of a job, as its training script uses it."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, NoReturn

from .checkpoint_write import CheckpointWrite
from .clock import boottime_ns, monotonic
from .control_socket import ControlSocket
from .manifest import NAME as MANIFEST
from .notice import Notice, read_notice
from .rank_env import RankEnv, read_rank_env
from .shared_steps import AGREED, CONFIRMED, NONE, NOTICE, PACE, SOFT_DEADLINE, STEP, clear, detached_steps, open_steps
from .step_barrier import StepBarrier, Verdict
from .store import Checkpoint, CheckpointError, Store
from .workers import Workers

YIELDED = 85
NEVER = sys.maxsize
PACE_EVERY_S = 1.0
PROGRESS_EVERY_S = 10.0
NOTICE_POLL_S = 0.5
POLL_S = 0.001
LATER_STEP_AFTER_S = 1.0  # several round trips through the nodes
WORKERS_TIMEOUT_S = 600.0
log = logging.getLogger("bailiff_job")

Save = Callable[[Path], Any]
"""Writes into the given folder. It may return a callable that writes the rest later, from copies."""


def attach(
    directory: str | os.PathLike[str] | None = None,
    *,
    every_steps: int | None = None,
    every_s: float | None = None,
    keep: int | None = 2,
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    local_world_size: int | None = None,
) -> Job:
    """This process as a rank of its job. Outside Bailiff it is never preempted, and keeps checkpoints only in `directory`.

    Args:
        every_steps: The job's own checkpoint interval in steps; None: only when Bailiff asks.
        every_s: The same in seconds.
        keep: Number of checkpoints that are retained; None: all.
        rank: Default: from the environment, as the other ranks.
        local_rank: Needed if another launcher than torchrun starts several processes in one task.
        local_world_size: Likewise.

    Raises:
        ValueError: An argument is invalid.
    """
    env = read_rank_env(directory, rank=rank, world_size=world_size, local_rank=local_rank, local_world_size=local_world_size)
    return Job(env, every_steps=every_steps, every_s=every_s, keep=keep)


class Job:
    """One rank of a job. Steps are whole numbers that only rise; `step` is always the last one that is done.

    Not thread-safe, but a `CheckpointWrite` may be written and committed in another thread.
    """

    def __init__(
        self, env: RankEnv, *, every_steps: int | None = None, every_s: float | None = None, keep: int | None = 2
    ) -> None:
        _check_interval(env, every_steps, every_s)
        self.rank_env = env
        self._every_steps, self._every_s = every_steps, every_s
        self._store: Store | None = None
        if env.checkpoints:
            self._store = Store(env.checkpoints, env, keep)
        self._is_leader = env.worker == 0
        self._socket = ControlSocket(env.socket if self._is_leader else "", env.rank)
        shared_steps = open_steps(env.control) if env.control else None
        self._reads_notice = env.control is not None and shared_steps is None
        self._steps = shared_steps if shared_steps is not None else detached_steps()
        self._published = self._steps if self._is_leader else detached_steps()
        self._workers: Workers | None = None
        self._slots, self._slot = detached_steps(), STEP
        if env.control and env.workers > 1:
            self._workers = Workers(self._steps, env.control / f"workers-{env.restart}", env.worker, env.workers)
            self._slots, self._slot = self._workers.words, self._workers.done_at
        self._barrier: StepBarrier = self._workers or StepBarrier(self._steps)
        self._step = self._saved_step = self._begun_step = self._unagreed_step = self._notice_step = NONE
        self._acknowledged_notice = 0
        self._terminated = self._exiting = False
        self._term_handler: Callable[[int, Any], None] | None = None
        self._writes: list[CheckpointWrite] = []
        self._due_step = NEVER if every_steps is None else 0
        self._due_time = self._wake_at = float("inf")
        self._restart_interval(-1)
        self._next_progress = self._next_message = 0.0
        self._pace_from = (NONE, 0.0)
        if env.job:
            self._begin()

    def _begin(self) -> None:
        self._published[STEP] = self._published[CONFIRMED] = NONE
        self._socket.hello()
        if self._store:
            try:
                self._store.start_attempt()
            except OSError as problem:
                log.warning("checkpoints cannot be written to %s: %s", self.rank_env.checkpoints, problem)
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            process = os.getpid()
            self._term_handler = lambda number, _: self._on_term(number, process)
            signal.signal(signal.SIGTERM, self._term_handler)

    # --- every step

    def should_checkpoint(self, step: int) -> bool:
        """Whether to checkpoint now, after this step.

        Takes well below a microsecond if there is nothing to do. After a notice it may wait for the other ranks.

        Args:
            step: The last step that is done; the first is 0.

        Returns:
            True if the job's own interval is over, or a preemption requires a checkpoint at this step.
        """
        self._step = self._published[STEP] = step
        self._slots[self._slot] = step + 1
        if (
            self._steps[NOTICE]
            or step >= self._due_step
            or self._terminated
            or self._acknowledged_notice
            or (self._wake_at < NEVER and monotonic() >= self._wake_at)
        ):
            return self._check(step)
        return False

    def progress(self, step: int, total: int | None = None) -> None:
        """Publish the last completed step. The node sees it at once; a message is sent at most every 10 s.

        Args:
            step: The last step that is done.
            total: The total number of steps, if it is known.
        """
        self._step = self._published[STEP] = step
        self._slots[self._slot] = step + 1
        now = monotonic()
        if now < self._next_progress and step + 1 != total:
            return
        self._next_progress = now + PACE_EVERY_S
        before, then = self._pace_from
        if before < step and then and now > then:
            self._published[PACE] = round((step - before) * 1000 / (now - then))
        self._pace_from = (step, now)
        if now >= self._next_message or step + 1 == total:
            self._next_message = now + PROGRESS_EVERY_S
            self._socket.send("progress", urgent=False, step=step, total=total)

    @property
    def preempted(self) -> bool:
        """Whether to call `exit()` now: the job is preempted, and its checkpoint is saved or can no longer be saved."""
        if self._exiting:
            return True
        if self._workers:
            if self._notice_step != self._step or self._step < 0:
                return False
            self._notice_step = NONE
            self._exiting = self._workers.exit_together(self._step, self._may_exit)
            return self._exiting
        return self._may_exit()

    def _may_exit(self) -> bool:
        if not self._has_notice():
            return False
        self._acknowledge(self._step)
        if self._overdue() and self._begun_step == self._step:
            return True
        return self._saved_step == self._step and 0 <= self._agreed() <= self._saved_step

    @property
    def notice(self) -> Notice | None:
        """The present notice, with its reason and deadlines. Reads a file: not for the innermost loop."""
        return read_notice(self.rank_env.control) if self.rank_env.control else None

    def exit(self) -> NoReturn:
        """Wait for checkpoints that are being written, report `yielding` to the node, and exit with 85."""
        self._wait_for_writes(raising=False)
        self._socket.send("yielding")
        if self._workers and not self._workers.wait_all_yielding(self._workers_timeout_s()):
            log.warning("the other processes of this task do not exit; this one does")
        self._socket.close()
        if self._term_handler and signal.getsignal(signal.SIGTERM) is self._term_handler and _in_main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Python removes handlers while it exits, and TERM often arrives then
        sys.exit(YIELDED)

    def done(self) -> None:
        """Report that the job is at its end: exit code 0 then means that it has finished, also after an eviction notice.

        Not needed after the last step of `progress(step, total)`.
        """
        self._socket.send("done")

    # --- checkpoints

    def restore(self, load: Callable[[Path], object]) -> int:
        """Load the newest verified checkpoint.

        In a gang every rank must call it: all get the same step, each with its own part (rank 0's if it saved no file).

        Args:
            load: Called with the checkpoint's folder, if there is one.

        Returns:
            The step to continue with; 0 without a checkpoint.

        Raises:
            CheckpointError: Another rank of the gang did not verify its part in time.
        """
        if self._store is None:
            return 0
        checkpoint, skipped_checkpoints = self._store.latest()
        self._store.clean_up(checkpoint)
        if checkpoint is not None:
            load(checkpoint.folder)
            self._step = self._saved_step = self._published[STEP] = checkpoint.step
            self._slots[self._slot] = checkpoint.step + 1
        start = self._step + 1 if checkpoint else 0
        self._restart_interval(start - 1)
        attempt = checkpoint.manifest.attempt if checkpoint else None
        self._socket.send("resumed", step=start, from_attempt=attempt, skipped_checkpoints=skipped_checkpoints)
        return start

    def checkpoint(self, step: int, save: Save, *, wait: bool = True) -> Checkpoint | None:
        """Save the state after this step. Does nothing without a checkpoint directory.

        It raises what `save` raises, too; the previous checkpoint is untouched then.

        Args:
            save: Writes into the given empty folder.
            wait: If False, hashing and syncing happen in a thread, and so does what `save` returns, if that is a callable; it
                must not read state that training changes meanwhile.

        Returns:
            The checkpoint; None if it is not waited for.

        Raises:
            OSError: The disk is full, say.
            Superseded: A newer attempt of the job has started.
        """
        if self._store is None:
            self._begin_write(step)
            return None
        write = self.begin_checkpoint(step)
        try:
            rest = save(write.folder)
            rest = rest if callable(rest) else None
            if wait and rest is not None:
                rest()
        except BaseException:
            write.abandon()
            raise
        if wait:
            return write.commit()
        thread = threading.Thread(target=write.finish, args=(rest,), name=f"bailiff-job-step-{step}")
        self._socket.send("saving_in_flight", step=step)
        thread.start()
        return None

    def begin_checkpoint(self, step: int) -> CheckpointWrite:
        """Begin a checkpoint of this step that the caller writes and commits itself, also later and in another thread.

        Waits for the previous one, and raises its error.

        Raises:
            CheckpointError: There is no checkpoint directory, or a newer attempt of the job has started.
            OSError: The folder cannot be made.
        """
        if self._store is None:
            raise CheckpointError("there is no checkpoint directory: give one to attach()")
        self._wait_for_writes(raising=True)
        self._socket.send("checkpoint_started", step=step)
        self._begun_step = step
        agreed = self.rank_env.is_only_rank or step != self._unagreed_step
        store, began = self._store, monotonic()

        def commit(write: CheckpointWrite) -> Checkpoint:
            checkpoint = store.commit(write.folder, step, agreed=agreed, began=began)
            self._report_committed(checkpoint)
            return checkpoint

        write = CheckpointWrite(step, store.draft(step), commit, self._abandoned)
        self._begin_write(step)
        self._writes.append(write)
        return write

    def _begin_write(self, step: int) -> None:
        self._step = self._saved_step = self._begun_step = self._published[STEP] = step
        self._slots[self._slot] = step + 1
        self._restart_interval(step)

    def _abandoned(self, write: CheckpointWrite) -> None:
        if self._saved_step == write.step:
            self._saved_step = NONE
        if self._store:
            self._store.discard(write.folder)

    def _wait_for_writes(self, *, raising: bool) -> None:
        """Wait for checkpoints that are being written. raising: raise their errors instead of logging them."""
        while self._writes:
            write = self._writes[0]
            if not write.wait(None if raising else self._workers_timeout_s()):
                log.error("the checkpoint of step %d was not committed in time", write.step)
            self._writes.pop(0)
            if write.problem is not None:
                if raising:
                    raise write.problem
                log.error("the checkpoint of step %d failed: %r", write.step, write.problem)

    def _report_committed(self, checkpoint: Checkpoint) -> None:
        """Report the checkpoint to the node, once all processes of the task have committed."""
        parts = [checkpoint.folder]
        if self._workers:
            if not self._workers.committed(checkpoint.step, self._workers_timeout_s()):
                log.warning(
                    "not all processes of this task have committed step %d: it is not reported to the node", checkpoint.step
                )
                return
            if not self._is_leader:
                return
            first = self.rank_env.rank
            parts = [checkpoint.folder.with_suffix(f".rank-{first + worker:04}") for worker in range(self.rank_env.workers)]
        manifest = checkpoint.manifest
        self._socket.send(
            "checkpoint_committed",
            step=manifest.step,
            bytes=sum(_size(part) for part in parts),
            microseconds=manifest.microseconds,
            sha256=_sha256_of_manifests(parts),
            agreed=manifest.agreed,
        )

    def _restart_interval(self, step: int) -> None:
        if self._every_steps is not None:
            self._due_step = (step + 1 + self._every_steps) // self._every_steps * self._every_steps - 1
        if self._every_s is not None:
            self._due_time = monotonic() + self._every_s
        self._wake_at = min(self._due_time, monotonic() + NOTICE_POLL_S) if self._reads_notice else self._due_time

    # --- the notice

    def _check(self, step: int) -> bool:
        request_at: float | None = None
        while self._has_notice():
            self._acknowledge(step)
            if self._saved_step == step:
                return False
            verdict = self._barrier.decide(step, overdue=self._overdue())
            if verdict is Verdict.CONTINUE:
                break
            if verdict is not Verdict.WAIT:
                self._notice_step = step
                self._unagreed_step = step if verdict is Verdict.CHECKPOINT_UNAGREED else NONE
                return True
            if request_at is None:
                request_at = monotonic() + LATER_STEP_AFTER_S
            elif monotonic() >= request_at:
                request_at = math.inf
                self._barrier.request_later_step(step)
            time.sleep(POLL_S)
        else:
            self._acknowledged_notice = 0
        return self._saved_step != step and (step >= self._due_step or monotonic() >= self._due_time)

    def _has_notice(self) -> bool:
        if self._reads_notice and monotonic() >= self._wake_at:
            self._read_notice()
        return bool(self._steps[NOTICE]) or self._terminated

    def _read_notice(self) -> None:
        """Update this process's own `steps` from the notice file, where the node provides none."""
        notice = self.notice
        if notice is None:
            clear(self._steps)
            self._steps[STEP] = self._step
        else:
            self._steps[SOFT_DEADLINE] = notice.soft_deadline_ns
            self._steps[AGREED] = 0 if self.rank_env.is_only_rank else NONE
            self._steps[NOTICE] = 1
        self._wake_at = min(self._due_time, monotonic() + NOTICE_POLL_S)

    def _acknowledge(self, step: int) -> None:
        """Acknowledge a notice when it is first seen, and report the checkpoints that are being written then."""
        notice = int(self._steps[SOFT_DEADLINE]) or 1
        if notice == self._acknowledged_notice:
            return
        self._acknowledged_notice = notice
        self._barrier.begin(notice)
        if self._steps[NOTICE]:  # TERM alone is not a notice of the node
            self._socket.send("acknowledged", step=step)
        for write in self._writes:
            if not write.done:
                self._socket.send("saving_in_flight", step=write.step)

    def _agreed(self) -> int:
        return 0 if self._terminated and self.rank_env.is_only_rank else self._barrier.agreed()

    def _overdue(self) -> bool:
        soft = self._steps[SOFT_DEADLINE]
        return self._terminated or (soft > 0 and boottime_ns() >= soft)

    def _workers_timeout_s(self) -> float:
        """Seconds to wait for the other processes of the task: until the hard deadline, if there is a notice."""
        notice = self.notice
        if notice is None or not notice.hard_deadline_ns:
            return WORKERS_TIMEOUT_S
        return max(0.0, (notice.hard_deadline_ns - boottime_ns()) / 1e9)

    def _on_term(self, number: int, process: int) -> None:
        """TERM after the soft deadline, or as the only notice: checkpoint after the next step, then exit.

        A process that has done no step, or a child that inherited the handler, has nothing to save and ends at once.
        """
        if os.getpid() != process or self._step < 0:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._terminated = True


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _check_interval(env: RankEnv, every_steps: int | None, every_s: float | None) -> None:
    if every_steps is not None and every_steps < 1:
        raise ValueError(f"every_steps={every_steps} must be at least 1, or None for no interval")
    if every_s is not None and every_s <= 0:
        raise ValueError(f"every_s={every_s} must be more than 0 seconds, or None for no interval")
    if every_s is not None and env.world_size > 1:
        raise ValueError("every_s: ranks of a gang reach the same second at different steps; use every_steps")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) - (folder / MANIFEST).stat().st_size


def _sha256_of_manifests(parts: list[Path]) -> str:
    """SHA-256 of the manifests, in order of ranks; they contain the digest of every file."""
    return hashlib.sha256(b"".join((part / MANIFEST).read_bytes() for part in parts)).hexdigest()
