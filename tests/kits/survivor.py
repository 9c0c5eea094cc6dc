"""A training job for the scenarios of `tests/kits/survival.py`: small, deterministic, and with faults on request.

Usage: survivor.py BEHAVIOUR STEPS. The behaviour applies to the first attempt only; later ones just train. The first one
pauses after step `PAUSE_AFTER` until its notice arrives. It writes notes to the folder `SURVIVOR_MARKS`:

* `JOB.steps`: a line for each step that it has done, with its attempt and rank;
* `JOB.RANK.lock` and `DEVICE.lock`: locked by each of its processes as long as one lives, escaped children included;
* `twice`: a line for each process that started twice, or while another one was running. It must not exist;
* `JOB.RANK.paused`: it is paused;  `JOB.go`, from the story: it may continue;  `JOB.result`: the digest of its final weights.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import random
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from bailiff_job import attach
from bailiff_job.job import Job

PAUSE_AFTER, EVERY = 23, 10
POLL_S, SLOW_STEP_S = 0.01, 0.01
LARGE = 1 << 20
FAILS = 7

marks = Path(os.environ.get("SURVIVOR_MARKS", "."))
name = os.environ.get("BAILIFF_JOB_ID", "alone")
attempt, world = (int(os.environ.get(each, "1")) for each in ("BAILIFF_ATTEMPT", "WORLD_SIZE"))
rank = int(os.environ.get("RANK", "0"))


class Training:
    """Some weights, and the random number generator that changes them."""

    def __init__(self) -> None:
        self.rng, self.weights = random.Random(7), [0.0] * 8

    def step(self) -> None:
        """Train on one batch."""
        self.weights = [0.9 * weight + self.rng.gauss(0.0, 1.0) for weight in self.weights]

    def save(self, folder: Path) -> None:
        """Everything that the next step depends on."""
        (folder / "state.json").write_text(json.dumps([self.weights, self.rng.getstate()]))

    def load(self, folder: Path) -> None:
        """Load the saved state."""
        self.weights, (version, numbers, rest) = json.loads((folder / "state.json").read_text())
        self.rng.setstate((version, tuple(numbers), rest))

    def digest(self) -> str:
        """SHA-256 of the weights."""
        return hashlib.sha256(struct.pack("8d", *self.weights)).hexdigest()


class Trains:
    """A script as in the guide. It saves a checkpoint on an eviction notice, and yields."""

    def __init__(self, total: int) -> None:
        self.total, self.training = total, Training()

    def run(self) -> None:
        job = attach()
        for step in range(job.restore(self.training.load), self.total):
            self.training.step()
            note_step(step)
            job.progress(step, self.total)
            if attempt == 1 and step == PAUSE_AFTER:
                (marks / f"{name}.{rank}.paused").touch()
                self.on_pause(job)
            self.check_notice(job, step)
            while self.is_paused(job, step):
                time.sleep(POLL_S)
                self.check_notice(job, step)

    def is_paused(self, job: Job, step: int) -> bool:
        """Whether to stay paused. A gang continues slowly, up to the step that its ranks agree on."""
        if attempt > 1 or step < PAUSE_AFTER or name == "alone":
            return False
        if step > PAUSE_AFTER:
            time.sleep(SLOW_STEP_S)
            return False
        return world == 1 or job.notice is None

    def check_notice(self, job: Job, step: int) -> None:
        if job.should_checkpoint(step):
            self.on_acknowledged()
            job.checkpoint(step, self.save_on_notice)
            self.on_committed()
        elif (step + 1) % EVERY == 0 and step < PAUSE_AFTER:
            job.checkpoint(step, self.training.save)
        if job.preempted:
            self.exit_on_notice(job)

    # --- hooks that behaviours override

    def on_pause(self, job: Job) -> None:
        """Called when it pauses."""

    def on_acknowledged(self) -> None:
        """Called after the acknowledgement, before it saves."""

    def save_on_notice(self, folder: Path) -> None:
        self.training.save(folder)

    def on_committed(self) -> None:
        """Called after it has saved, before it yields."""

    def exit_on_notice(self, job: Job) -> NoReturn:
        job.exit()


# --- behaviours that wait at one stage until the story continues


class WaitsBeforeAcknowledging(Trains):
    def on_pause(self, job: Job) -> None:
        wait_for(lambda: job.notice is not None)
        wait_for_go()


class WaitsBeforeSaving(Trains):
    def on_acknowledged(self) -> None:
        wait_for_go()


class WaitsWhileSaving(Trains):
    def save_on_notice(self, folder: Path) -> None:
        wait_for_go()
        self.training.save(folder)


class WaitsBeforeYielding(Trains):
    def on_committed(self) -> None:
        wait_for_go()


class WaitsAfterYielding(Trains):
    def exit_on_notice(self, job: Job) -> NoReturn:
        try:
            job.exit()
        finally:
            wait_for_go()


# --- behaviours that violate the contract


class NeverAcknowledges(Trains):
    """Its next step never ends."""

    def on_pause(self, job: Job) -> None:
        hang()


class AcknowledgesAndHangs(Trains):
    def on_acknowledged(self) -> None:
        hang()


class AcknowledgesAndFails(Trains):
    def on_acknowledged(self) -> None:
        sys.exit(FAILS)


class AcknowledgesAndFinishes(Trains):
    def on_acknowledged(self) -> None:
        sys.exit(0)


class SavesForTooLong(Trains):
    def save_on_notice(self, folder: Path) -> None:
        self.training.save(folder)
        hang()


class ForksAway(Trains):
    """A daemon in its own session outlives the job, and ignores TERM."""

    def on_pause(self, job: Job) -> None:
        if os.fork():
            os.wait()
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (marks / f"{name}.daemon").write_text(str(os.getpid()))
        hang()


class FillsTheDisk(Trains):
    """Its checkpoint is larger than the disk; the error ends it."""

    def save_on_notice(self, folder: Path) -> None:
        self.training.save(folder)
        (folder / "large").write_bytes(bytes(LARGE))


class FillsTheDiskAndContinues(FillsTheDisk):
    """It catches the error, and tries again at the next step."""

    def check_notice(self, job: Job, step: int) -> None:
        with contextlib.suppress(OSError):
            super().check_notice(job, step)
        if job.preempted:
            self.exit_on_notice(job)


class LimitedFileSize(FillsTheDisk):
    """The same with a limit on the file size."""

    def on_pause(self, job: Job) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE // 4, LARGE // 4))


# --- scripts without the job library


class PlainScript(Trains):
    """It saves its state in its own file. TERM ends it."""

    def run(self) -> None:
        folder = Path(os.environ["BAILIFF_CHECKPOINT_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        self.notified = False
        first = 0
        if (folder / "state.json").exists():
            self.training.load(folder)
            first = int((folder / "step").read_text())
        for step in range(first, self.total):
            self.training.step()
            note_step(step)
            if (step + 1) % EVERY == 0:
                self.save_state(folder, step)
            if attempt == 1 and step == PAUSE_AFTER:
                self.before_pause()
                (marks / f"{name}.{rank}.paused").touch()
                wait_for(lambda: self.notified)
                self.on_notice(folder, step)

    def save_state(self, folder: Path, step: int) -> None:
        self.training.save(folder)
        (folder / "step").write_text(str(step + 1))

    def before_pause(self) -> None:
        """Called before it pauses."""

    def on_notice(self, folder: Path, step: int) -> None:
        """Called after TERM, if that does not end it."""


class CatchesTerm(PlainScript):
    """It saves on TERM, and exits with 143, as shells do."""

    def before_pause(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "notified", True))

    def on_notice(self, folder: Path, step: int) -> None:
        self.save_state(folder, step)
        sys.exit(128 + signal.SIGTERM)


class CatchesTermAndHangs(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        hang()


class CatchesTermAndFails(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        sys.exit(FAILS)


class CatchesTermAndFinishes(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        sys.exit(0)


class CatchesTermAndYields(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        self.save_state(folder, step)
        sys.exit(85)


class Urgent(Trains):
    """The urgent job that needs the GPUs. It ends on request."""

    def run(self) -> None:
        wait_for_go()


# --- notes and waits


def note_step(step: int) -> None:
    with (marks / f"{name}.steps").open("a") as file:
        file.write(f"{attempt} {rank} {step}\n")


def begin_once() -> None:
    """Fail if this attempt of this rank started before."""
    try:
        os.close(os.open(marks / f"{name}.{rank}.attempt-{attempt}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        report_duplicate(f"{name}, rank {rank}, starts attempt {attempt} again")


def lock(what: str) -> None:
    """Lock it while this process or a child of it runs."""
    handle = os.open(marks / f"{what}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 200, 0).decode()
        report_duplicate(f"{name}, attempt {attempt}, starts on {what}, while {holder} still runs")
    os.truncate(handle, 0)
    os.pwrite(handle, f"{name}, attempt {attempt}, process {os.getpid()}".encode(), 0)


def report_duplicate(why: str) -> NoReturn:
    with (marks / "twice").open("a") as file:
        file.write(f"{why}\n")
    sys.exit(1)


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(POLL_S)


def wait_for_go() -> None:
    wait_for((marks / f"{name}.go").exists)


def hang() -> NoReturn:
    while True:
        signal.pause()


BEHAVIOURS = {each.__name__: each for each in [*globals().values()] if isinstance(each, type) and issubclass(each, Trains)}


def main() -> None:
    behaviour, total = BEHAVIOURS[sys.argv[1]], int(sys.argv[2])
    if attempt > 1 and behaviour is not Urgent:
        behaviour = PlainScript if issubclass(behaviour, PlainScript) else Trains
    begin_once()
    for what in (f"{name}.{rank}", *filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))):
        lock(what)
    one = behaviour(total)
    one.run()
    if rank == 0:
        (marks / f"{name}.result").write_text(one.training.digest())


if __name__ == "__main__":
    main()
