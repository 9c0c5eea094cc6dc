"""A training job for the scenarios of `tests/survival.py`: small, deterministic, and misbehaving on request.

Usage: survivor.py BEHAVIOUR STEPS. It behaves in its first attempt only; all later ones just train. In the first one it
pauses after step `STANDS_AFTER` until its notice arrives. It writes notes to the folder `SURVIVOR_MARKS`:

* `JOB.steps`: a line for each step that it has done, with its attempt and rank;
* `JOB.RANK.lock` and `DEVICE.lock`: locked by each of its processes as long as one lives, children that got away included;
* `twice`: a line for whoever begins where somebody still is, or has been before. It must never be there;
* `JOB.RANK.stands`: it stands;  `JOB.go`, from the story: it may go on;  `JOB.result`: the digest of its weights, at the end.
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

STANDS_AFTER, EVERY = 23, 10
LOOKS_EVERY_S, SLOW_STEP_S = 0.01, 0.01
LARGE = 1 << 20
FAILS = 7

marks = Path(os.environ.get("SURVIVOR_MARKS", "."))
name = os.environ.get("BAILIFF_JOB_ID", "alone")
attempt, world = (int(os.environ.get(each, "1")) for each in ("BAILIFF_ATTEMPT", "WORLD_SIZE"))
rank = int(os.environ.get("RANK", "0"))


class Training:
    """Some weights and the chance that changes them."""

    def __init__(self) -> None:
        self.chance, self.weights = random.Random(7), [0.0] * 8

    def step(self) -> None:
        """One batch."""
        self.weights = [0.9 * weight + self.chance.gauss(0.0, 1.0) for weight in self.weights]

    def save(self, folder: Path) -> None:
        """Everything that the next step depends on."""
        (folder / "state.json").write_text(json.dumps([self.weights, self.chance.getstate()]))

    def load(self, folder: Path) -> None:
        """As it was saved."""
        self.weights, (version, numbers, rest) = json.loads((folder / "state.json").read_text())
        self.chance.setstate((version, tuple(numbers), rest))

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
            if attempt == 1 and step == STANDS_AFTER:
                (marks / f"{name}.{rank}.stands").touch()
                self.stands(job)
            self.looks(job, step)
            while self.waits(job, step):
                time.sleep(LOOKS_EVERY_S)
                self.looks(job, step)

    def waits(self, job: Job, step: int) -> bool:
        """Whether it still stands. A gang has to go on, to the step that its ranks agree on."""
        if attempt > 1 or step < STANDS_AFTER or name == "alone":
            return False
        if step > STANDS_AFTER:
            time.sleep(SLOW_STEP_S)
            return False
        return world == 1 or job.notice is None

    def looks(self, job: Job, step: int) -> None:
        if job.should_checkpoint(step):
            self.acknowledged()
            job.checkpoint(step, self.saves_on_notice)
            self.committed()
        elif (step + 1) % EVERY == 0 and step < STANDS_AFTER:
            job.checkpoint(step, self.training.save)
        if job.preempted:
            self.leaves(job)

    # --- where behaviours differ, under a notice

    def stands(self, job: Job) -> None:
        """It has come to where it stands."""

    def acknowledged(self) -> None:
        """It has acknowledged, and has not begun to save."""

    def saves_on_notice(self, folder: Path) -> None:
        self.training.save(folder)

    def committed(self) -> None:
        """It has saved, and has not begun to leave."""

    def leaves(self, job: Job) -> NoReturn:
        job.exit()


# --- those that wait for the story at one stage


class WaitsBeforeAcknowledging(Trains):
    def stands(self, job: Job) -> None:
        wait_for(lambda: job.notice is not None)
        wait_for_notice()


class WaitsBeforeSaving(Trains):
    def acknowledged(self) -> None:
        wait_for_notice()


class WaitsWhileSaving(Trains):
    def saves_on_notice(self, folder: Path) -> None:
        wait_for_notice()
        self.training.save(folder)


class WaitsBeforeLeaving(Trains):
    def committed(self) -> None:
        wait_for_notice()


class WaitsAfterYielding(Trains):
    def leaves(self, job: Job) -> NoReturn:
        try:
            job.exit()
        finally:
            wait_for_notice()


# --- those that do not do as they should


class NeverAcknowledges(Trains):
    """Its next step never ends."""

    def stands(self, job: Job) -> None:
        forever()


class AcknowledgesAndHangs(Trains):
    def acknowledged(self) -> None:
        forever()


class AcknowledgesAndFails(Trains):
    def acknowledged(self) -> None:
        sys.exit(FAILS)


class AcknowledgesAndFinishes(Trains):
    def acknowledged(self) -> None:
        sys.exit(0)


class SavesForTooLong(Trains):
    def saves_on_notice(self, folder: Path) -> None:
        self.training.save(folder)
        forever()


class ForksAway(Trains):
    """A daemon of its own session stays behind, and is deaf to TERM."""

    def stands(self, job: Job) -> None:
        if os.fork():
            os.wait()
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (marks / f"{name}.daemon").write_text(str(os.getpid()))
        forever()


class FillsTheDisk(Trains):
    """What it saves is larger than the disk, and that is the end of it."""

    def saves_on_notice(self, folder: Path) -> None:
        self.training.save(folder)
        (folder / "large").write_bytes(bytes(LARGE))


class FillsTheDiskAndGoesOn(FillsTheDisk):
    """It bears with it, and tries again in the next step."""

    def looks(self, job: Job, step: int) -> None:
        with contextlib.suppress(OSError):
            super().looks(job, step)
        if job.preempted:
            self.leaves(job)


class MayWriteNoLargeFiles(FillsTheDisk):
    """The same where the limit is that of a file."""

    def stands(self, job: Job) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE // 4, LARGE // 4))


# --- those that know nothing of Bailiff


class KnowsNothing(Trains):
    """It keeps its state in a file of its own. TERM ends it."""

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
                self.keep(folder, step)
            if attempt == 1 and step == STANDS_AFTER:
                self.prepares()
                (marks / f"{name}.{rank}.stands").touch()
                wait_for(lambda: self.notified)
                self.on_notice(folder, step)

    def keep(self, folder: Path, step: int) -> None:
        self.training.save(folder)
        (folder / "step").write_text(str(step + 1))

    def prepares(self) -> None:
        """Before it stands."""

    def on_notice(self, folder: Path, step: int) -> None:
        """What it does about TERM, where that does not end it."""


class CatchesTerm(KnowsNothing):
    """It saves and leaves as shells do."""

    def prepares(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "told", True))

    def on_notice(self, folder: Path, step: int) -> None:
        self.keep(folder, step)
        sys.exit(128 + signal.SIGTERM)


class CatchesTermAndStays(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        forever()


class CatchesTermAndFails(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        sys.exit(FAILS)


class CatchesTermAndFinishes(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        sys.exit(0)


class CatchesTermAndYields(CatchesTerm):
    def on_notice(self, folder: Path, step: int) -> None:
        self.keep(folder, step)
        sys.exit(85)


class Urgent(Trains):
    """The urgent job that needs the GPUs. It ends on request."""

    def run(self) -> None:
        wait_for_notice()


# --- what it notes, and what it waits for


def note_step(step: int) -> None:
    with (marks / f"{name}.steps").open("a") as file:
        file.write(f"{attempt} {rank} {step}\n")


def begin_once() -> None:
    """Each attempt of each rank begins once."""
    try:
        os.close(os.open(marks / f"{name}.{rank}.attempt-{attempt}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        refuse(f"{name}, rank {rank}, begins attempt {attempt} again")


def take(what: str) -> None:
    """Lock it for as long as this process or a child of it lives."""
    handle = os.open(marks / f"{what}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 200, 0).decode()
        refuse(f"{name}, attempt {attempt}, begins on {what}, and {holder} is still there")
    os.truncate(handle, 0)
    os.pwrite(handle, f"{name}, attempt {attempt}, process {os.getpid()}".encode(), 0)


def refuse(why: str) -> NoReturn:
    with (marks / "twice").open("a") as file:
        file.write(f"{why}\n")
    sys.exit(1)


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(LOOKS_EVERY_S)


def wait_for_notice() -> None:
    wait_for((marks / f"{name}.go").exists)


def forever() -> NoReturn:
    while True:
        signal.pause()


BEHAVIOURS = {each.__name__: each for each in [*globals().values()] if isinstance(each, type) and issubclass(each, Trains)}


def main() -> None:
    behaviour, total = BEHAVIOURS[sys.argv[1]], int(sys.argv[2])
    if attempt > 1 and behaviour is not Urgent:
        behaviour = KnowsNothing if issubclass(behaviour, KnowsNothing) else Trains
    begin_once()
    for what in (f"{name}.{rank}", *filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))):
        take(what)
    one = behaviour(total)
    one.run()
    if rank == 0:
        (marks / f"{name}.result").write_text(one.training.digest())


if __name__ == "__main__":
    main()
