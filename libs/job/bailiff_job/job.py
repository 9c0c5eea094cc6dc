"""The job as its script sees it."""

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

from .agreement import Agreement, Verdict
from .board import AGREED, CONFIRMED, NONE, NOTICE, RATE_MILLI, SOFT_DEADLINE, STEP, clear, open_board, quiet_board
from .clock import boottime_ns, monotonic
from .line import Line
from .manifest import NAME as MANIFEST
from .notice import Notice, read_notice
from .place import Place, place_from_environment
from .saving import Saving
from .store import Checkpoint, CheckpointProblem, Store
from .workers import Workers

YIELDED = 85
NEVER = sys.maxsize
RATE_EVERY_S = 1.0
SAYS_PROGRESS_EVERY_S = 10.0
READS_NOTICE_EVERY_S = 0.5
LOOKS_EVERY_S = 0.001
ASKS_FOR_LATER_AFTER_S = 1.0  # several round trips through the nodes
WORKERS_PATIENCE_S = 600.0
log = logging.getLogger("bailiff_job")

Save = Callable[[Path], Any]
"""Writes into the folder that it is given. It may return a callable that writes the rest later, from what was copied."""


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
    """This process as a rank of its job. Outside Bailiff nothing is asked of it, and it keeps checkpoints only in `directory`.

    every_steps, every_s: the job's own interval; none by default. keep: checkpoints that stay; None for all.
    Ranks come from the environment; `local_rank` and `local_world_size` are needed where something else than torchrun starts
    several processes in one task. Raises `ValueError` for what cannot be.
    """
    place = place_from_environment(
        directory, rank=rank, world_size=world_size, local_rank=local_rank, local_world_size=local_world_size
    )
    return Job(place, every_steps=every_steps, every_s=every_s, keep=keep)


class Job:
    """One rank of a job. Steps are whole numbers that only rise; the one told is always the last that is done.

    Of one process one thread may use it; a `Saving` may be written and committed in another one.
    """

    def __init__(
        self, place: Place, *, every_steps: int | None = None, every_s: float | None = None, keep: int | None = 2
    ) -> None:
        _check_interval(place, every_steps, every_s)
        self.place = place
        self._every_steps, self._every_s = every_steps, every_s
        self._store: Store | None = None
        if place.checkpoints:
            self._store = Store(
                place.checkpoints, job=place.job, attempt=place.attempt, rank=place.rank, world_size=place.world_size,
                restart=place.restart, keep=keep,
            )  # fmt: skip
        self._leads = place.worker == 0
        self._line = Line(place.socket if self._leads else "", place.rank)
        board = open_board(place.control) if place.control else None
        self._reads_notice = place.control is not None and board is None
        self._board = board if board is not None else quiet_board()
        self._out = self._board if self._leads else quiet_board()
        self._workers: Workers | None = None
        self._slots, self._slot = quiet_board(), STEP
        if place.control and place.workers > 1:
            self._workers = Workers(self._board, place.control / f"workers-{place.restart}", place.worker, place.workers)
            self._slots, self._slot = self._workers.words, self._workers.done_at
        self._agreement: Agreement = self._workers or Agreement(self._board)
        self._step = self._saved = self._tried = self._unagreed = self._for_notice = NONE
        self._notice_known = 0
        self._termed = self._leaving = False
        self._catches: Callable[[int, Any], None] | None = None
        self._in_flight: list[Saving] = []
        self._due_step = NEVER if every_steps is None else 0
        self._due_time = self._wake_at = float("inf")
        self._interval_begins(-1)
        self._next_progress = self._next_word = 0.0
        self._rated = (NONE, 0.0)
        if place.job:
            self._begin()

    def _begin(self) -> None:
        self._out[STEP] = self._out[CONFIRMED] = NONE
        self._line.hello()
        if self._store:
            try:
                self._store.begin()
            except OSError as problem:
                log.warning("checkpoints cannot be kept in %s: %s", self.place.checkpoints, problem)
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            process = os.getpid()
            self._catches = lambda number, _: self._on_term(number, process)
            signal.signal(signal.SIGTERM, self._catches)

    # --- what every step asks

    def should_checkpoint(self, step: int) -> bool:
        """Whether to save now, having done this step: the job's own interval, or a notice and all ranks stand where agreed.

        Costs well below a microsecond where there is nothing to do. While a notice is out it may wait for the other ranks.
        """
        self._step = self._out[STEP] = step
        self._slots[self._slot] = step + 1
        if (
            self._board[NOTICE]
            or step >= self._due_step
            or self._termed
            or self._notice_known
            or (self._wake_at < NEVER and monotonic() >= self._wake_at)
        ):
            return self._look(step)
        return False

    def progress(self, step: int, total: int | None = None) -> None:
        """Tell how far the job is, having done this step of so many. Said to the node every 10 s, seen by it at once."""
        self._step = self._out[STEP] = step
        self._slots[self._slot] = step + 1
        now = monotonic()
        if now < self._next_progress and step + 1 != total:
            return
        self._next_progress = now + RATE_EVERY_S
        before, then = self._rated
        if before < step and then and now > then:
            self._out[RATE_MILLI] = round((step - before) * 1000 / (now - then))
        self._rated = (step, now)
        if now >= self._next_word or step + 1 == total:
            self._next_word = now + SAYS_PROGRESS_EVERY_S
            self._line.say("progress", urgent=False, step=step, total=total)

    @property
    def preempted(self) -> bool:
        """Whether to leave now: a notice is out, and what it asks for is saved, or can no longer be. Then call `exit()`."""
        if self._leaving:
            return True
        if self._workers:
            if self._for_notice != self._step or self._step < 0:
                return False
            self._for_notice = NONE
            self._leaving = self._workers.leaves(self._step, self._may_leave)
            return self._leaving
        return self._may_leave()

    def _may_leave(self) -> bool:
        if not self._notice_out():
            return False
        self._hear(self._step)
        if self._overdue() and self._tried == self._step:
            return True
        return self._saved == self._step and 0 <= self._agreed() <= self._saved

    @property
    def notice(self) -> Notice | None:
        """The notice that is out, for whoever wants to know why and until when. Reads a file: not for the innermost loop."""
        return read_notice(self.place.control) if self.place.control else None

    def exit(self) -> NoReturn:
        """Wait for what is being saved, say that this rank yields, and leave with 85."""
        self._settle(raising=False)
        self._line.say("yielding")
        if self._workers and not self._workers.all_yield(self._patience_s()):
            log.warning("the other processes of this task do not leave; this one does")
        self._line.close()
        if self._catches and signal.getsignal(signal.SIGTERM) is self._catches and _in_main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Python gives up handlers while it ends; TERM often comes just then
        sys.exit(YIELDED)

    # --- checkpoints

    def restore(self, load: Callable[[Path], object]) -> int:
        """Give `load` the folder of the newest verified checkpoint, if there is any. Returns the step to go on with, or 0.

        In a gang every rank must call it: all get the same step, each the part that it saved (rank 0's where it saved no file).
        """
        if self._store is None:
            return 0
        checkpoint, passed_over = self._store.newest()
        self._store.tidy(checkpoint)
        if checkpoint is not None:
            load(checkpoint.folder)
            self._step = self._saved = self._out[STEP] = checkpoint.step
            self._slots[self._slot] = checkpoint.step + 1
        start = self._step + 1 if checkpoint else 0
        self._interval_begins(start - 1)
        attempt = checkpoint.manifest.attempt if checkpoint else None
        self._line.say("resumed", step=start, from_attempt=attempt, passed_over=passed_over)
        return start

    def checkpoint(self, step: int, save: Save, *, wait: bool = True) -> Checkpoint | None:
        """Save what is true after this step: `save` writes into the empty folder that it is given.

        With wait=False hashing and syncing happen in a thread, and so does what `save` returns, if that is a callable; it
        must not look at what training goes on to change. Does nothing where there is no checkpoint directory.
        Raises what `save` raises, `OSError` (the disk is full), `Superseded`; the checkpoint before is untouched.
        """
        if self._store is None:
            self._begins_saving(step)
            return None
        saving = self.saving(step)
        try:
            rest = save(saving.folder)
            rest = rest if callable(rest) else None
            if wait and rest is not None:
                rest()
        except BaseException:
            saving.abandon()
            raise
        if wait:
            return saving.commit()
        thread = threading.Thread(target=saving.finish, args=(rest,), name=f"bailiff-job-step-{step}")
        self._line.say("saving_in_flight", step=step)
        thread.start()
        return None

    def saving(self, step: int) -> Saving:
        """Begin a checkpoint of this step that the caller writes and commits by itself, also later and in another thread.

        Waits for the one before. Raises what that one failed with, `CheckpointProblem`, `OSError`.
        """
        if self._store is None:
            raise CheckpointProblem("there is no checkpoint directory: give one to attach()")
        self._settle(raising=True)
        self._line.say("checkpoint_started", step=step)
        self._tried = step
        agreed = self.place.alone or step != self._unagreed
        store, began = self._store, monotonic()

        def commit(saving: Saving) -> Checkpoint:
            checkpoint = store.commit(saving.folder, step, agreed=agreed, began=began)
            self._tell_committed(checkpoint)
            return checkpoint

        saving = Saving(step, store.draft(step), commit, self._abandoned)
        self._begins_saving(step)
        self._in_flight.append(saving)
        return saving

    def _begins_saving(self, step: int) -> None:
        self._step = self._saved = self._tried = self._out[STEP] = step
        self._slots[self._slot] = step + 1
        self._interval_begins(step)

    def _abandoned(self, saving: Saving) -> None:
        if self._saved == saving.step:
            self._saved = NONE
        if self._store:
            self._store.forget(saving.folder)

    def _settle(self, *, raising: bool) -> None:
        """Until nothing is in flight."""
        while self._in_flight:
            saving = self._in_flight[0]
            if not saving.wait(None if raising else self._patience_s()):
                log.error("the checkpoint of step %d was not committed in time", saving.step)
            self._in_flight.pop(0)
            if saving.problem is not None:
                if raising:
                    raise saving.problem
                log.error("the checkpoint of step %d failed: %r", saving.step, saving.problem)

    def _tell_committed(self, checkpoint: Checkpoint) -> None:
        """To the node, when it is safe: where several processes share the task, once all of them have committed."""
        parts = [checkpoint.folder]
        if self._workers:
            if not self._workers.committed(checkpoint.step, self._patience_s()):
                log.warning("not all processes of this task have committed step %d: the node is not told so", checkpoint.step)
                return
            if not self._leads:
                return
            first = self.place.rank
            parts = [checkpoint.folder.with_suffix(f".rank-{first + worker:04}") for worker in range(self.place.workers)]
        manifest = checkpoint.manifest
        self._line.say(
            "checkpoint_committed", step=manifest.step, bytes=sum(_size(part) for part in parts),
            microseconds=manifest.microseconds, sha256=_sha256_of_manifests(parts), agreed=manifest.agreed,
        )  # fmt: skip

    def _interval_begins(self, step: int) -> None:
        if self._every_steps is not None:
            self._due_step = (step + 1 + self._every_steps) // self._every_steps * self._every_steps - 1
        if self._every_s is not None:
            self._due_time = monotonic() + self._every_s
        self._wake_at = min(self._due_time, monotonic() + READS_NOTICE_EVERY_S) if self._reads_notice else self._due_time

    # --- the notice

    def _look(self, step: int) -> bool:
        asks_at: float | None = None
        while self._notice_out():
            self._hear(step)
            if self._saved == step:
                return False
            verdict = self._agreement.look(step, overdue=self._overdue())
            if verdict is Verdict.GO_ON:
                break
            if verdict is not Verdict.HOLD:
                self._for_notice = step
                self._unagreed = step if verdict is Verdict.SAVE_UNAGREED else NONE
                return True
            if asks_at is None:
                asks_at = monotonic() + ASKS_FOR_LATER_AFTER_S
            elif monotonic() >= asks_at:
                asks_at = math.inf
                self._agreement.ask_for_later(step)
            time.sleep(LOOKS_EVERY_S)
        else:
            self._notice_known = 0
        return self._saved != step and (step >= self._due_step or monotonic() >= self._due_time)

    def _notice_out(self) -> bool:
        if self._reads_notice and monotonic() >= self._wake_at:
            self._read_notice()
        return bool(self._board[NOTICE]) or self._termed

    def _read_notice(self) -> None:
        """The board in this process alone, kept by the notice file: where the node has no board for the job."""
        notice = self.notice
        if notice is None:
            clear(self._board)
            self._board[STEP] = self._step
        else:
            self._board[SOFT_DEADLINE] = notice.soft_deadline_ns
            self._board[AGREED] = 0 if self.place.alone else NONE
            self._board[NOTICE] = 1
        self._wake_at = min(self._due_time, monotonic() + READS_NOTICE_EVERY_S)

    def _hear(self, step: int) -> None:
        """Acknowledge a notice the first time that it is seen, with what is being saved at that moment."""
        notice = int(self._board[SOFT_DEADLINE]) or 1
        if notice == self._notice_known:
            return
        self._notice_known = notice
        self._agreement.begin(notice)
        if self._board[NOTICE]:  # TERM alone is no notice that the node knows of
            self._line.say("acknowledged", step=step)
        for saving in self._in_flight:
            if not saving.done:
                self._line.say("saving_in_flight", step=saving.step)

    def _agreed(self) -> int:
        return 0 if self._termed and self.place.alone else self._agreement.agreed()

    def _overdue(self) -> bool:
        soft = self._board[SOFT_DEADLINE]
        return self._termed or (soft > 0 and boottime_ns() >= soft)

    def _patience_s(self) -> float:
        """How long to wait for the other processes of the task: to the hard deadline, where a notice is out."""
        notice = self.notice
        if notice is None or not notice.hard_deadline_ns:
            return WORKERS_PATIENCE_S
        return max(0.0, (notice.hard_deadline_ns - boottime_ns()) / 1e9)

    def _on_term(self, number: int, process: int) -> None:
        """TERM comes when the notice was not obeyed in time, or as the only notice there is: save at the next step and leave.

        Who has done no step yet, or is a child that inherited this, has nothing to save.
        """
        if os.getpid() != process or self._step < 0:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._termed = True


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _check_interval(place: Place, every_steps: int | None, every_s: float | None) -> None:
    if every_steps is not None and every_steps < 1:
        raise ValueError(f"every_steps={every_steps}: say 1 or more, or None for no interval")
    if every_s is not None and every_s <= 0:
        raise ValueError(f"every_s={every_s}: say more than 0 seconds, or None for no interval")
    if every_s is not None and place.world_size > 1:
        raise ValueError("every_s: the same second is another step on every rank of a gang; use every_steps")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) - (folder / MANIFEST).stat().st_size


def _sha256_of_manifests(parts: list[Path]) -> str:
    """Of the manifests, in the order of ranks: they hold the digest of every file."""
    return hashlib.sha256(b"".join((part / MANIFEST).read_bytes() for part in parts)).hexdigest()
