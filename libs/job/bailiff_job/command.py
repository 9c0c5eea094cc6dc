"""`bailiff-job`: the job contract for programs that are not Python. Each call is a new process.

State between calls is in `command.json` in the control directory.
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

from .clock import boottime_ns, monotonic
from .control_socket import ControlSocket
from .manifest import digest, names_in
from .notice import read_notice
from .rank_env import RankEnv, read_rank_env
from .shared_steps import AGREED, NONE, NOTICE, SOFT_DEADLINE, STEP, open_steps
from .step_barrier import StepBarrier, Verdict
from .store import CheckpointError, Store

YES, NO, ERROR, YIELDED = 0, 1, 2, 85
STATE_FILE = "command.json"
POLL_S = 0.005


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 for done or yes, 1 for no, 2 for an error, 85 for `yielding`."""
    logging.basicConfig(format="bailiff-job: %(message)s", level=logging.WARNING)
    try:
        options = _parser().parse_args(arguments)
    finally:
        _flush_help()
    try:
        return int(options.run(_Job(read_rank_env(os.environ.get("BAILIFF_CHECKPOINT_DIR"))), options))
    except (OSError, ValueError, CheckpointError) as problem:
        print(f"bailiff-job: {problem}", file=sys.stderr)
        return ERROR


def _flush_help() -> None:
    """Nobody may read it, as in `bailiff-job --help | true`: Python's last flush would say so."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bailiff-job", description="The job contract of Bailiff, for shell programs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about)
        added.set_defaults(run=run)
        return added

    about = "exit 0: save a checkpoint now, after this step; exit 1: continue"
    should = command("should-checkpoint", _should_checkpoint, about)
    should.add_argument("--every", type=_step, metavar="N", help="also exit 0 at every Nth step")
    progress = command("progress", _progress, "report the job's progress")
    ack = command("ack", _ack, "acknowledge the notice; should-checkpoint does so by itself")
    checkpoint_parser = command(
        "checkpoint", _checkpoint, "copy files or folders into a durable checkpoint of this step, and report it to the node"
    )
    committed = command("committed", _committed, "report to the node that the program itself has saved this step durably")
    for each in (should, progress, ack, checkpoint_parser, committed):
        each.add_argument("step", type=_step, help="the last step that is done; the first is 0")
    progress.add_argument("total", nargs="?", type=_step, help="total number of steps")
    checkpoint_parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    committed.add_argument("path", type=Path, help="what was saved: a file or a folder")
    command("latest", _latest, "print the folder of the newest verified checkpoint; exit 1 if there is none")
    restore = command("restore", _restore, "copy the newest verified checkpoint into a folder; print the step to continue with")
    restore.add_argument("into", type=Path, metavar="FOLDER")
    command(
        "preempted", _preempted, "exit 0: the job is preempted and its last step is saved, so it should exit; exit 1: continue"
    )
    command("notice", _notice, "print the eviction notice as JSON; exit 1 if there is none")
    command("done", _done, "report that the job is at its end: exit code 0 then counts as its end, also after an eviction notice")
    command("yielding", _yielding, "report that the program exits now; exit 85, with which the program should exit, too")
    return parser


def _step(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a step: it must be a whole number from 0")
    return int(text)


class _Job:
    """The job in one call: its environment, its shared steps, and the state that earlier calls stored."""

    def __init__(self, env: RankEnv) -> None:
        self.rank_env = env
        self.steps = open_steps(env.control) if env.control else None
        self.socket = ControlSocket(env.socket, env.rank)
        self.state: dict[str, int] = {}
        if env.control:
            with contextlib.suppress(FileNotFoundError, ValueError):
                self.state = json.loads((env.control / STATE_FILE).read_bytes())

    def update_state(self, **fields: int) -> None:
        self.state.update(fields)
        if self.rank_env.control:
            draft = self.rank_env.control / f".{STATE_FILE}-{os.getpid()}"
            draft.write_text(json.dumps(self.state))
            draft.replace(self.rank_env.control / STATE_FILE)

    def store(self) -> Store | None:
        """None without a checkpoint directory, as outside Bailiff."""
        env = self.rank_env
        return Store(env.checkpoints, env) if env.checkpoints is not None else None

    def publish(self, step: int) -> None:
        if self.steps is not None:
            self.steps[STEP] = step

    def notice(self) -> int:
        """Number that identifies the present notice; 0 without one."""
        if self.steps is not None:
            return (int(self.steps[SOFT_DEADLINE]) or 1) if self.steps[NOTICE] else 0
        notice = read_notice(self.rank_env.control) if self.rank_env.control else None
        return (notice.soft_deadline_ns or 1) if notice else 0

    def acknowledge(self, step: int, notice: int) -> None:
        if self.state.get("notice") != notice:
            if self.steps is not None:
                StepBarrier(self.steps).begin(notice)
            self.socket.send("acknowledged", step=step)
            self.update_state(notice=notice, confirmed=NONE)

    def must_save(self, step: int, notice: int) -> bool:
        """Whether to checkpoint after this step. May wait for other ranks; a step confirmed by an earlier call binds."""
        overdue = boottime_ns() >= notice > 1
        if self.steps is None:
            return overdue or self.rank_env.is_only_rank
        barrier = StepBarrier(self.steps, self.state.get("confirmed", NONE))
        while (verdict := barrier.decide(step, overdue=overdue)) is Verdict.WAIT and self.notice() == notice:
            time.sleep(POLL_S)
            overdue = boottime_ns() >= notice > 1
        if barrier.confirmed != self.state.get("confirmed"):
            self.update_state(confirmed=barrier.confirmed)
        return verdict in (Verdict.CHECKPOINT, Verdict.CHECKPOINT_UNAGREED)


def _should_checkpoint(job: _Job, options: argparse.Namespace) -> int:
    job.publish(options.step)
    notice = job.notice()
    if notice:
        job.acknowledge(options.step, notice)
        if job.must_save(options.step, notice) and job.state.get("saved") != options.step:
            return YES
    return YES if options.every and (options.step + 1) % options.every == 0 else NO


def _preempted(job: _Job, _: argparse.Namespace) -> int:
    notice, saved = job.notice(), job.state.get("saved", -1)
    done = int(job.steps[STEP]) if job.steps is not None else saved
    if not notice or saved < 0 or saved != done:
        return NO
    job.acknowledge(saved, notice)
    agreed = int(job.steps[AGREED]) if job.steps is not None else 0 if job.rank_env.is_only_rank else NONE
    return YES if 0 <= agreed <= saved or boottime_ns() >= notice > 1 else NO


def _progress(job: _Job, options: argparse.Namespace) -> int:
    job.publish(options.step)
    job.socket.send("progress", step=options.step, total=options.total)
    return YES


def _ack(job: _Job, options: argparse.Namespace) -> int:
    notice = job.notice()
    if notice:
        job.acknowledge(options.step, notice)
    return YES if notice else NO


def _checkpoint(job: _Job, options: argparse.Namespace) -> int:
    store, began = job.store(), monotonic()
    for path in options.paths:
        if not path.exists():
            raise ValueError(f"{path} does not exist")
    if store is None:
        return YES
    store.start_attempt()
    job.socket.send("checkpoint_started", step=options.step)
    draft = store.draft(options.step)
    try:
        for path in options.paths:
            if path.is_dir():
                shutil.copytree(path, draft / path.resolve().name, symlinks=True)
            else:
                shutil.copy2(path, draft)
        checkpoint = store.commit(draft, options.step, agreed=_is_agreed(job), began=began)
    except BaseException:
        store.discard(draft)
        raise
    manifest = checkpoint.manifest
    job.socket.send(
        "checkpoint_committed",
        step=options.step,
        bytes=manifest.size,
        microseconds=manifest.microseconds,
        sha256=digest(checkpoint.folder / "manifest.json"),
        agreed=manifest.agreed,
    )
    job.publish(options.step)
    job.update_state(saved=options.step)
    print(checkpoint.folder)
    return YES


def _is_agreed(job: _Job) -> bool:
    return job.rank_env.is_only_rank or not job.notice() or (job.steps is not None and job.steps[AGREED] >= 0)


def _committed(job: _Job, options: argparse.Namespace) -> int:
    path, began = options.path, monotonic()
    files = [path / name for name in names_in(path)] if path.is_dir() else [path]
    digests = [digest(file) for file in files]
    combined = digests[0] if len(digests) == 1 else _digest_of(digests)
    job.socket.send(
        "checkpoint_committed",
        step=options.step,
        bytes=sum(file.stat().st_size for file in files),
        microseconds=max(1, round((monotonic() - began) * 1_000_000)),
        sha256=combined,
        agreed=_is_agreed(job),
    )
    job.publish(options.step)
    job.update_state(saved=options.step)
    return YES


def _digest_of(digests: list[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _latest(job: _Job, _: argparse.Namespace) -> int:
    store = job.store()
    checkpoint = store.latest()[0] if store else None
    if checkpoint is None:
        return NO
    print(checkpoint.folder)
    return YES


def _restore(job: _Job, options: argparse.Namespace) -> int:
    store = job.store()
    if store is None:
        print(0)
        return YES
    checkpoint, skipped_checkpoints = store.latest()
    store.clean_up(checkpoint)
    start, attempt = 0, None
    if checkpoint is not None:
        start, attempt = checkpoint.step + 1, checkpoint.manifest.attempt
        for file in checkpoint.manifest.files:
            target = options.into / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkpoint.folder / file.name, target)
        job.publish(checkpoint.step)
        job.update_state(saved=checkpoint.step)
    job.socket.send("resumed", step=start, from_attempt=attempt, skipped_checkpoints=skipped_checkpoints)
    print(start)
    return YES


def _notice(job: _Job, _: argparse.Namespace) -> int:
    notice = read_notice(job.rank_env.control) if job.rank_env.control else None
    if notice is None:
        return NO
    print(json.dumps(vars(notice)))
    return YES


def _done(job: _Job, _options: argparse.Namespace) -> int:
    job.socket.send("done")
    return YES


def _yielding(job: _Job, _: argparse.Namespace) -> int:
    job.socket.send("yielding")
    return YIELDED
