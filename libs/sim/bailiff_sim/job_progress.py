"""Progress of a simulated job: work done, work checkpointed, and the expected end."""

from bailiff_core.model.demand import TaskGroup

from .workload import Outcome

FOREVER = Outcome(run_time=1 << 62)


class JobProgress:
    """One job's work, in µs of undisturbed work with all of its `size` tasks. Times are µs UTC.

    done: as of `since`; safe: of that in a checkpoint. running: how many members work now; 0: it stands still. version
    tells a scheduled end that is no longer true.
    """

    __slots__ = (
        "_gpus", "attempt", "base", "done", "failed", "finished", "held", "lost", "outcome", "overhead", "reported", "running",
        "safe", "since", "size", "starts", "version",
    )  # fmt: skip

    def __init__(self, outcome: Outcome, gpus: list[int]) -> None:
        """gpus: thousandths of GPUs of each member."""
        self.outcome, self.size, self._gpus = outcome, len(gpus), gpus
        self.done = self.safe = self.base = self.since = self.running = self.version = 0
        self.failed = self.attempt = self.starts = self.held = self.lost = self.overhead = self.reported = 0
        self.finished = False

    def gpus_of(self, index: int) -> int:
        """Thousandths of GPUs of one member; of one that a job that grew asks for beyond them, as of the last."""
        return self._gpus[index] if index < self.size else self._gpus[-1]

    def begin(self, now: int, attempt: int, members: int) -> None:
        """All of a new attempt runs: it goes on from what is safe, once it has restarted."""
        restart = self.outcome.restart_cost if self.starts else 0
        self.overhead += restart
        self.starts += 1
        self.attempt, self.running = attempt, members
        self.done = self.base = self.reported = self.safe
        self.since = now + restart
        self.version += 1

    def resize(self, now: int, members: int) -> None:
        """So many members work from now on."""
        self._accumulate(now)
        self.running = members
        self.version += 1

    def stall(self, now: int) -> None:
        """It works no more; what its own checkpoints hold is safe."""
        self.overhead -= max(0, self.since - now) if self.running else 0  # of a restart that was not over
        self._accumulate(now)
        self.safe = max(self.safe, self._last_checkpoint())
        self.running = 0
        self.version += 1

    def finish(self, now: int) -> None:
        """All is done; it works no more."""
        self.stall(now)
        self.done = self.safe = self.outcome.run_time
        self.finished = True

    def save(self) -> None:
        """All that was done is in a checkpoint."""
        self.safe = self.done

    def drop(self) -> None:
        """What is not safe is lost."""
        self.lost += self.done - self.safe
        self.done = self.safe

    def attempt_over(self, now: int) -> None:
        """It has to run again: from its last checkpoint, or, where it failed after all of its work, from the last one before."""
        if self.finished:
            every = self.outcome.checkpoint_every
            self.safe = max(0, self.outcome.run_time - 1) // every * every if every else 0
            self.finished = False
        else:
            self.stall(now)
        self.drop()

    def ended(self, now: int, *, in_vain: bool) -> None:
        """It is over for good. in_vain: it was ended by rules of the pool, so all of its work is lost."""
        if not self.finished:
            self.stall(now)
            self.finished = True
            if in_vain:
                self.safe = 0
                self.drop()

    def done_by(self, now: int) -> int:
        """How much of its work is done."""
        self._accumulate(now)
        return self.done

    def ends_at(self) -> int | None:
        """When it has done all, or fails on the way, if nothing else happens."""
        if not self.running:
            return None
        left = max(0, min(self.outcome.run_time, self._fails_at()) - self.done)
        return self.since + -(-left * self.size // self.running)

    def fails_now(self, now: int) -> bool:
        """Whether it has come to a moment at which it fails, and has more to do; that moment is over then."""
        done = self.done_by(now)
        fails = done >= self._fails_at() and done < self.outcome.run_time
        self.failed += fails
        return fails

    def _fails_at(self) -> int:
        fails = self.outcome.fails
        return fails[self.failed] - self.lost if self.failed < len(fails) else self.outcome.run_time

    def new_checkpoint(self, now: int) -> tuple[int, int] | None:
        """Its own newest checkpoint that nobody was told of: the work in it, and how long ago it was made."""
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
    """Thousandths of GPUs of one task; what is asked for in bytes of a device counts as half of it."""
    if group.gpu_share_milli is not None:
        return group.gpu_share_milli * (group.gpu_devices or 1)
    return 500 * (group.gpu_devices or 1) if group.gpu_share_bytes is not None else group.gpu_milli
