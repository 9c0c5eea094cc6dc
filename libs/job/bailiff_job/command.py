"""`bailiff-job`: the job contract for programs that are not Python. Each call is a process of its own.

What one call must remember for the next is `command.json` in the control directory.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from .agreement import Agreement, Verdict
from .board import AGREED, NONE, NOTICE, SOFT_DEADLINE, STEP, open_board
from .clock import boottime_ns, monotonic
from .line import Line
from .manifest import digest, names_in
from .notice import read_notice
from .place import Place, place_from_environment
from .store import CheckpointProblem, Store

YES, NO, WRONG, YIELDED = 0, 1, 2, 85
MEMORY = "command.json"
LOOKS_EVERY_S = 0.005


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 for done or yes, 1 for no, 2 for what cannot be, 85 for `yielding`."""
    logging.basicConfig(format="bailiff-job: %(message)s", level=logging.WARNING)
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(_Caller(place_from_environment(os.environ.get("BAILIFF_CHECKPOINT_DIR"))), options))
    except (OSError, ValueError, CheckpointProblem) as problem:
        print(f"bailiff-job: {problem}", file=sys.stderr)
        return WRONG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bailiff-job", description="The job contract of Bailiff, for shell programs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about)
        added.set_defaults(run=run)
        return added

    about = "exit 0: save now, having done this step; exit 1: go on"
    asks = command("should-checkpoint", _should_checkpoint, about)
    asks.add_argument("--every", type=_step, metavar="N", help="yes at every Nth step, too")
    tells = command("progress", _progress, "tell how far the job is")
    said = command("ack", _ack, "acknowledge the notice; should-checkpoint does so by itself")
    saves = command("checkpoint", _checkpoint, "copy files or folders into a checkpoint of this step, durably, and tell the node")
    keeps = command("committed", _committed, "tell the node that the program itself has saved this step durably")
    for each in (asks, tells, said, saves, keeps):
        each.add_argument("step", type=_step, help="the last step that is done; the first is 0")
    tells.add_argument("total", nargs="?", type=_step, help="how many steps there are")
    saves.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    keeps.add_argument("path", type=Path, help="what was saved: a file or a folder")
    command("latest", _latest, "print the folder of the newest verified checkpoint; exit 1 where there is none")
    back = command("restore", _restore, "copy the newest verified checkpoint into a folder; print the step to go on with")
    back.add_argument("into", type=Path, metavar="FOLDER")
    command("preempted", _preempted, "exit 0: a notice is out and the last step is saved, so leave; exit 1: go on")
    command("notice", _notice, "print the notice that is out, as JSON; exit 1 where there is none")
    command("yielding", _yielding, "say that the program leaves now; exit 85, which the program should leave with, too")
    return parser


def _step(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no step: say a whole number from 0")
    return int(text)


class _Caller:
    """The job between two calls."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.board = open_board(place.control) if place.control else None
        self.line = Line(place.socket, place.rank)
        self.memory: dict[str, int] = {}
        if place.control:
            with contextlib.suppress(FileNotFoundError, ValueError):
                self.memory = json.loads((place.control / MEMORY).read_bytes())

    def remember(self, **facts: int) -> None:
        self.memory.update(facts)
        if self.place.control:
            draft = self.place.control / f".{MEMORY}-{os.getpid()}"
            draft.write_text(json.dumps(self.memory))
            draft.replace(self.place.control / MEMORY)

    def store(self) -> Store | None:
        """None where there is no checkpoint directory: outside Bailiff nothing is kept."""
        place = self.place
        if place.checkpoints is None:
            return None
        return Store(place.checkpoints, job=place.job, attempt=place.attempt, rank=place.rank, world_size=place.world_size)

    def publish(self, step: int) -> None:
        if self.board is not None:
            self.board[STEP] = step

    def notice(self) -> int:
        """What names the notice that is out, or 0."""
        if self.board is not None:
            return (int(self.board[SOFT_DEADLINE]) or 1) if self.board[NOTICE] else 0
        notice = read_notice(self.place.control) if self.place.control else None
        return (notice.soft_deadline_ns or 1) if notice else 0

    def acknowledge(self, step: int, notice: int) -> None:
        if self.memory.get("notice") != notice:
            if self.board is not None:
                Agreement(self.board).begin(notice)
            self.line.say("acknowledged", step=step)
            self.remember(notice=notice, promised=NONE)

    def must_save(self, step: int, notice: int) -> bool:
        """In a gang this may wait for the others' answer, and keeps to what an earlier call promised."""
        overdue = boottime_ns() >= notice > 1
        if self.board is None:
            return overdue or self.place.alone
        agreement = Agreement(self.board, self.memory.get("promised", NONE))
        while (verdict := agreement.look(step, overdue=overdue)) is Verdict.HOLD and self.notice() == notice:
            time.sleep(LOOKS_EVERY_S)
            overdue = boottime_ns() >= notice > 1
        if agreement.promised != self.memory.get("promised"):
            self.remember(promised=agreement.promised)
        return verdict in (Verdict.SAVE, Verdict.SAVE_UNAGREED)


def _should_checkpoint(job: _Caller, options: argparse.Namespace) -> int:
    job.publish(options.step)
    notice = job.notice()
    if notice:
        job.acknowledge(options.step, notice)
        if job.must_save(options.step, notice) and job.memory.get("saved") != options.step:
            return YES
    return YES if options.every and (options.step + 1) % options.every == 0 else NO


def _preempted(job: _Caller, _: argparse.Namespace) -> int:
    notice, saved = job.notice(), job.memory.get("saved", -1)
    done = int(job.board[STEP]) if job.board is not None else saved
    if not notice or saved < 0 or saved != done:
        return NO
    job.acknowledge(saved, notice)
    agreed = int(job.board[AGREED]) if job.board is not None else 0 if job.place.alone else NONE
    return YES if 0 <= agreed <= saved or boottime_ns() >= notice > 1 else NO


def _progress(job: _Caller, options: argparse.Namespace) -> int:
    job.publish(options.step)
    job.line.say("progress", step=options.step, total=options.total)
    return YES


def _ack(job: _Caller, options: argparse.Namespace) -> int:
    notice = job.notice()
    if notice:
        job.acknowledge(options.step, notice)
    return YES if notice else NO


def _checkpoint(job: _Caller, options: argparse.Namespace) -> int:
    store, began = job.store(), monotonic()
    for path in options.paths:
        if not path.exists():
            raise ValueError(f"there is no {path}")
    if store is None:
        return YES
    store.begin()
    job.line.say("checkpoint_started", step=options.step)
    draft = store.draft(options.step)
    try:
        for path in options.paths:
            if path.is_dir():
                shutil.copytree(path, draft / path.resolve().name, symlinks=True)
            else:
                shutil.copy2(path, draft)
        checkpoint = store.commit(draft, options.step, agreed=_is_agreed(job), began=began)
    except BaseException:
        store.forget(draft)
        raise
    manifest = checkpoint.manifest
    job.line.say(
        "checkpoint_committed", step=options.step, bytes=manifest.size, microseconds=manifest.microseconds,
        sha256=digest(checkpoint.folder / "manifest.json"), agreed=manifest.agreed,
    )  # fmt: skip
    job.publish(options.step)
    job.remember(saved=options.step)
    print(checkpoint.folder)
    return YES


def _is_agreed(job: _Caller) -> bool:
    return job.place.alone or not job.notice() or (job.board is not None and job.board[AGREED] >= 0)


def _committed(job: _Caller, options: argparse.Namespace) -> int:
    path, began = options.path, monotonic()
    files = [path / name for name in names_in(path)] if path.is_dir() else [path]
    digests = [digest(file) for file in files]
    whole = digests[0] if len(digests) == 1 else _digest_of(digests)
    job.line.say(
        "checkpoint_committed", step=options.step, bytes=sum(file.stat().st_size for file in files),
        microseconds=max(1, round((monotonic() - began) * 1_000_000)), sha256=whole, agreed=_is_agreed(job),
    )  # fmt: skip
    job.publish(options.step)
    job.remember(saved=options.step)
    return YES


def _digest_of(digests: list[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _latest(job: _Caller, _: argparse.Namespace) -> int:
    store = job.store()
    checkpoint = store.newest()[0] if store else None
    if checkpoint is None:
        return NO
    print(checkpoint.folder)
    return YES


def _restore(job: _Caller, options: argparse.Namespace) -> int:
    store = job.store()
    if store is None:
        print(0)
        return YES
    checkpoint, passed_over = store.newest()
    store.tidy(checkpoint)
    start, attempt = 0, None
    if checkpoint is not None:
        start, attempt = checkpoint.step + 1, checkpoint.manifest.attempt
        for file in checkpoint.manifest.files:
            target = options.into / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkpoint.folder / file.name, target)
        job.publish(checkpoint.step)
        job.remember(saved=checkpoint.step)
    job.line.say("resumed", step=start, from_attempt=attempt, passed_over=passed_over)
    print(start)
    return YES


def _notice(job: _Caller, _: argparse.Namespace) -> int:
    notice = read_notice(job.place.control) if job.place.control else None
    if notice is None:
        return NO
    print(json.dumps(vars(notice)))
    return YES


def _yielding(job: _Caller, _: argparse.Namespace) -> int:
    job.line.say("yielding")
    return YIELDED
