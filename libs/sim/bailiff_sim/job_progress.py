"""Progress of a simulated job: work done, work checkpointed, and the expected end."""

from bailiff_core.model.demand import TaskGroup

from .workload import Outcome

FOREVER = Outcome(run_time=1 << 62)


class JobProgress:
    """One job's work, in µs of undisturbed work with all of its `size` tasks. Times are µs UTC.

    Attributes:
        done: As of `since`.
        safe: The part of it in a checkpoint or a snapshot.
        own: The part of it in a checkpoint.
        running: Number of tasks that work now; 0: stalled.
        version: Changes whenever a scheduled end becomes invalid.
        allocated: Thousandths of GPUs.
    """

    __slots__ = (
        "_gpus",
        "allocated",
        "attempt",
        "base",
        "done",
        "failed",
        "finished",
        "lost",
        "outcome",
        "overhead",
        "own",
        "reported",
        "running",
        "safe",
        "since",
        "size",
        "starts",
        "version",
    )

    def __init__(self, outcome: Outcome, gpus: list[int]) -> None:
        """gpus: thousandths of a GPU per task."""
        self.outcome, self.size, self._gpus = outcome, len(gpus), gpus
        self.done = self.safe = self.own = self.base = self.since = self.running = self.version = 0
        self.failed = self.attempt = self.starts = self.allocated = self.lost = self.overhead = self.reported = 0
        self.finished = False

    def gpus_of(self, index: int) -> int:
        """Thousandths of a GPU of one task. Tasks that a job grew by have the size of its last one."""
        return self._gpus[index] if index < self.size else self._gpus[-1]

    def begin(self, now: int, attempt: int, members: int) -> None:
        """Starts an attempt once all of it runs: work continues from the last checkpoint, after the restart cost."""
        restart = self.outcome.restart_cost if self.starts else 0
        self.overhead += restart
        self.starts += 1
        self.attempt, self.running = attempt, members
        self.done = self.base = self.reported = self.safe
        self.since = now + restart
        self.version += 1

    def resize(self, now: int, members: int) -> None:
        """Sets the number of tasks that work from now on."""
        self._accumulate(now)
        self.running = members
        self.version += 1

    def stall(self, now: int) -> None:
        """Stops the work; the job's own checkpoints count as safe."""
        self.overhead -= max(0, self.since - now) if self.running else 0  # a restart that had not completed
        self._accumulate(now)
        found = self._last_checkpoint()
        if found > self.safe:
            self.safe = self.own = found
        self.running = 0
        self.version += 1

    def finish(self, now: int) -> None:
        """Marks all work as done and stops."""
        self.stall(now)
        self.done = self.safe = self.outcome.run_time
        self.finished = True

    def save(self) -> None:
        """Marks all work done so far as checkpointed."""
        self.safe = self.own = self.done

    def save_snapshot(self) -> None:
        """Marks all work done so far as in a snapshot."""
        self.safe = self.done

    def note_snapshot(self, work: int) -> None:
        """Marks so much work as in a snapshot that was taken while the job ran, µs."""
        self.safe = max(self.safe, work)

    def lose_snapshot(self) -> None:
        """Counts the work that only the snapshot had as lost."""
        self.lost += self.safe - self.own
        self.safe = self.own

    def drop(self) -> None:
        """Counts work since the last checkpoint as lost."""
        self.lost += self.done - self.safe
        self.done = self.safe

    def attempt_over(self, now: int) -> None:
        """Ends an attempt that another one follows: back to the last checkpoint; after a failure at the end, the one before."""
        if self.finished:
            every = self.outcome.checkpoint_every
            self.safe = self.own = max(0, self.outcome.run_time - 1) // every * every if every else 0
            self.finished = False
        else:
            self.stall(now)
        self.drop()

    def ended(self, now: int, *, in_vain: bool) -> None:
        """Ends the job. in_vain: the policy ended it, so all of its work is lost."""
        if not self.finished:
            self.stall(now)
            self.finished = True
            if in_vain:
                self.safe = 0
                self.drop()

    def done_by(self, now: int) -> int:
        """Work done by now, µs."""
        self._accumulate(now)
        return self.done

    def ends_at(self) -> int | None:
        """Expected end or next failure, µs UTC; None while stalled."""
        if not self.running:
            return None
        left = max(0, min(self.outcome.run_time, self._fails_at()) - self.done)
        return self.since + -(-left * self.size // self.running)

    def fails_now(self, now: int) -> bool:
        """Whether a failure is due before the end; if so, counts it as taken."""
        done = self.done_by(now)
        fails = done >= self._fails_at() and done < self.outcome.run_time
        self.failed += fails
        return fails

    def _fails_at(self) -> int:
        fails = self.outcome.fails
        return fails[self.failed] - self.lost if self.failed < len(fails) else self.outcome.run_time

    def new_checkpoint(self, now: int) -> tuple[int, int] | None:
        """Returns the newest unreported checkpoint as (work in it, age), both µs, and marks it as reported; else None."""
        if not self.running or self.outcome.checkpoint_every is None:
            return None
        before = self.done, self.since
        self._accumulate(now)
        found = self._last_checkpoint()
        if found <= self.reported:
            return None
        work, since = before
        ago = now - (since + -(-(found - work) * self.size // self.running)) if found > work else now - since
        self.reported = found
        return found, max(0, ago)

    def _accumulate(self, now: int) -> None:
        if now > self.since:
            if self.running:
                self.done = min(self.outcome.run_time, self.done + (now - self.since) * self.running // self.size)
            self.since = now

    def _last_checkpoint(self) -> int:
        every = self.outcome.checkpoint_every
        return self.safe if not every else max(self.safe, self.base + (self.done - self.base) // every * every)


def gpu_milli_of(group: TaskGroup) -> int:
    """Thousandths of GPUs of one task. A request for bytes of a device counts as half a GPU."""
    if group.gpu_share_milli is not None:
        return group.gpu_share_milli * (group.gpu_devices or 1)
    return 500 * (group.gpu_devices or 1) if group.gpu_share_bytes is not None else group.gpu_milli
