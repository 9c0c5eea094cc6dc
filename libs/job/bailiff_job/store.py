"""Checkpoints on disk: `DIRECTORY/attempt-NNNN/step-NNNNNNNN[.rank-NNNN]/`, each committed atomically.

A checkpoint is written under a temporary name, made durable, and renamed. An attempt begins by recording the checkpoints of older
attempts that it inherits; what an older attempt commits later is ignored.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .clock import monotonic
from .manifest import HASHERS, NAME, DamagedCheckpoint, File, Manifest, digest, names_in, read_manifest, verify
from .rank_env import RankEnv

INHERITED = "inherited.json"
GANG_TIMEOUT_S = 1800.0
WARN_AFTER_S = 10.0
FIRST_POLL_S, POLL_S = 0.005, 0.1
log = logging.getLogger("bailiff_job")
_drafts = itertools.count()


class CheckpointError(Exception):
    """A checkpoint could not be written or found. The message has the solution."""


class Superseded(CheckpointError):
    """A newer attempt of this job has started: checkpoints of this one would never be read, so it must exit."""


@dataclass(frozen=True)
class Checkpoint:
    """A committed checkpoint: the folder of this rank's part, and its manifest."""

    folder: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        """The last step that was done when it was saved."""
        return self.manifest.step


class Store:
    """The checkpoints of one job, for one rank of one attempt.

    Attributes:
        keep: Number of restorable checkpoints that are retained; None: all.
    """

    def __init__(self, directory: Path, env: RankEnv, keep: int | None = 2) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"keep={keep}: must be at least 1, or None to keep all checkpoints")
        self._directory, self._keep, self._job, self._attempt = directory, keep, env.job, env.attempt
        self._rank, self._world_size, self._restart = env.rank, env.world_size, env.restart
        self._own = directory / f"attempt-{env.attempt:04}"
        self._damaged: set[Path] = set()

    # --- start of an attempt

    def start_attempt(self) -> None:
        """Record the start of this attempt: checkpoints that older attempts commit from now on are ignored.

        Raises:
            OSError: It cannot be written.
        """
        if not self._own.exists():
            draft = self._directory / f".tmp-{self._own.name}-{os.getpid()}-{next(_drafts)}"
            draft.mkdir(parents=True)
            found = [str(folder.relative_to(self._directory)) for folder in self._committed() if folder.parent != self._own]
            _write_durably(draft / INHERITED, json.dumps({"v": 1, "checkpoints": sorted(found)}).encode())
            _sync(draft)
            try:
                draft.rename(self._own)
            except OSError:
                shutil.rmtree(draft, ignore_errors=True)
                if not self._own.exists():
                    raise
            _sync(self._directory)

    def _newer_attempt(self) -> int | None:
        return max((attempt for attempt in self._attempts() if attempt > self._attempt), default=None)

    def _attempts(self) -> list[int]:
        numbers = (_number(folder.name) for folder in self._directory.glob("attempt-*"))
        return sorted(number for number in numbers if number is not None)

    def _committed(self) -> Iterator[Path]:
        for attempt in self._attempts():
            if attempt <= self._attempt:
                yield from (self._directory / f"attempt-{attempt:04}").glob("step-*")

    def _valid(self) -> dict[tuple[int, int], dict[int, Path]]:
        """Checkpoints that were committed before the next attempt started, by (attempt, step) and rank."""
        groups: dict[tuple[int, int], dict[int, Path]] = defaultdict(dict)
        inherited = {attempt: self._inherited(attempt) for attempt in self._attempts() if attempt <= self._attempt}
        for folder in self._committed():
            attempt, step = _number(folder.parent.name), _number(folder.name)
            if attempt is None or step is None:
                continue
            later = min((other for other in inherited if other > attempt), default=None)
            if later is None or str(folder.relative_to(self._directory)) in inherited[later]:
                groups[attempt, step][_rank_of(folder.name)] = folder
            else:
                log.info("%s was written after attempt %d had started: ignored", folder, later)
        return groups

    def _inherited(self, attempt: int) -> frozenset[str]:
        try:
            data = json.loads((self._directory / f"attempt-{attempt:04}" / INHERITED).read_bytes())
            return frozenset(data["checkpoints"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            log.warning(
                "the checkpoints that attempt %d inherited cannot be read (%s): all older ones are ignored", attempt, problem
            )
            return frozenset()

    def _is_own(self, rank: int) -> bool:
        """Whether this rank manages that rank's files. Earlier attempts may have had another number of ranks."""
        return rank % self._world_size == self._rank

    # --- saving

    def draft(self, step: int) -> Path:
        """An empty folder to save into.

        Raises:
            Superseded: A newer attempt of the job has started.
            OSError: It cannot be made.
        """
        self._refuse_if_superseded()
        folder = self._own / f".tmp-{self._name(step)}-{os.getpid()}-{next(_drafts)}"
        folder.mkdir(parents=True)
        return folder

    def commit(self, draft: Path, step: int, *, agreed: bool, began: float) -> Checkpoint:
        """Make the draft durable, then rename it.

        Args:
            agreed: Whether all ranks of the gang agreed to checkpoint this step.
            began: When saving began, monotonic seconds.

        Raises:
            Superseded: A newer attempt of the job has started.
            OSError: It cannot be written.
            ValueError: It holds a file of the manifest's name, or something else than files and folders.
        """
        names = names_in(draft)
        if NAME in names:
            raise ValueError(f"{NAME} is reserved for Bailiff in a checkpoint: save under another name")
        with ThreadPoolExecutor(1 + HASHERS, thread_name_prefix="bailiff-job-commit") as executor:
            synced = executor.submit(_sync_all, draft, names)  # the disk writes while this process hashes
            digests = executor.map(digest, [draft / name for name in names])
            files = tuple(File(name, (draft / name).stat().st_size, hashed) for name, hashed in zip(names, digests))
            synced.result()
        manifest = Manifest(
            self._job,
            self._attempt,
            self._rank,
            self._world_size,
            step,
            agreed,
            files,
            max(1, round((monotonic() - began) * 1_000_000)),
        )
        _write_durably(draft / NAME, manifest.to_bytes())
        _sync(draft)
        self._refuse_if_superseded()
        folder = self._own / self._name(step)
        if folder.exists():
            _remove(folder)
        draft.rename(folder)
        _sync(self._own)
        self._prune()
        return Checkpoint(folder, manifest)

    def discard(self, draft: Path) -> None:
        """Remove the draft."""
        shutil.rmtree(draft, ignore_errors=True)

    def _name(self, step: int) -> str:
        return f"step-{step:08}" + (f".rank-{self._rank:04}" if self._world_size > 1 else "")

    def _refuse_if_superseded(self) -> None:
        newer = self._newer_attempt()
        if newer is not None:
            raise Superseded(
                f"attempt {newer} of job {self._job} has started, and this is attempt {self._attempt}: its checkpoints would"
                " never be read. Stop it."
            )

    def _prune(self) -> None:
        """Remove checkpoints older than the newest `keep` that all ranks could restore."""
        if self._keep is None:
            return
        groups = self._valid()
        usable = [at for at in sorted(groups, reverse=True) if self._is_usable(groups[at])]
        if len(usable) < self._keep:
            return
        oldest_kept = usable[self._keep - 1]
        for at in sorted(groups):
            for rank, folder in groups[at].items():
                if at < oldest_kept and self._is_own(rank):
                    _remove(folder)

    def _is_usable(self, ranks: dict[int, Path]) -> bool:
        if self._damaged.intersection(ranks.values()):
            return False
        try:
            manifest = read_manifest(ranks[min(ranks)])
        except DamagedCheckpoint:
            return False
        return manifest.agreed and set(range(manifest.world_size)) <= ranks.keys()

    # --- restoring

    def latest(self) -> tuple[Checkpoint | None, int]:
        """The newest checkpoint that is verified on every rank, this rank's part of it; and how many damaged ones were newer.

        In a gang every rank must call it: each verifies its own part and waits for the results of the others.

        Raises:
            CheckpointError: Another rank did not verify its part in time.
        """
        self.start_attempt()
        groups, damaged = self._valid(), 0
        for at in sorted(groups, reverse=True):
            ranks = groups[at]
            try:
                manifests = {rank: self._manifest(ranks[rank], at, rank) for rank in sorted(ranks)}
                complete = {rank for manifest in manifests.values() for rank in range(manifest.world_size)} == manifests.keys()
                if not complete or not all(manifest.agreed for manifest in manifests.values()):
                    log.info("step %d of attempt %d: skipped, not saved by all ranks at an agreed step", at[1], at[0])
                    continue
                problem = self._verified_by_all(at, {rank: (ranks[rank], manifests[rank]) for rank in manifests})
            except DamagedCheckpoint as found:
                problem = str(found)
            if problem is None:
                own = self._rank if self._rank in ranks and manifests[self._rank].files else 0
                return Checkpoint(ranks[own], manifests[own]), damaged
            damaged += 1
            self._damaged.update(ranks.values())
            log.warning("checkpoint of step %d, attempt %d, is damaged and is skipped: %s", at[1], at[0], problem)
        return None, damaged

    def _manifest(self, folder: Path, at: tuple[int, int], rank: int) -> Manifest:
        manifest = read_manifest(folder)
        if (manifest.attempt, manifest.step, manifest.rank) != (*at, rank):
            raise DamagedCheckpoint(
                f"the manifest in {folder.name} is of step {manifest.step}, attempt {manifest.attempt}, rank {manifest.rank}"
            )
        return manifest

    def _verified_by_all(self, at: tuple[int, int], parts: dict[int, tuple[Path, Manifest]]) -> str | None:
        """Why the checkpoint is damaged, or None. The ranks of a gang exchange their results through files."""
        problem = None
        try:
            for rank, (folder, manifest) in parts.items():
                if self._is_own(rank):
                    verify(folder, manifest)
        except DamagedCheckpoint as found:
            problem = str(found)
        if self._world_size == 1:
            return problem
        results = self._own / f".restore-{self._restart}"
        results.mkdir(exist_ok=True)
        prefix = f"{at[0]:04}-{at[1]:08}.rank-"
        (results / f"{prefix}{self._rank:04}.{'ok' if problem is None else 'damaged'}").touch()
        results_by_rank = self._wait_for_ranks(results, prefix)
        others = sorted(rank for rank, result in results_by_rank.items() if result != "ok")
        return problem or (f"of rank {others[0]}" if others else None)

    def _wait_for_ranks(self, results: Path, prefix: str) -> dict[int, str]:
        began, warned, pause = monotonic(), False, FIRST_POLL_S
        while True:
            results_by_rank = {
                _rank_of(result.name): result.suffix[1:] for result in results.iterdir() if result.name.startswith(prefix)
            }
            missing = sorted(set(range(self._world_size)) - results_by_rank.keys())
            if not missing:
                return results_by_rank
            waited = monotonic() - began
            if waited > GANG_TIMEOUT_S:
                raise CheckpointError(
                    f"rank {missing[0]} did not verify its part of the checkpoint within {GANG_TIMEOUT_S:.0f} s."
                    " Every rank of a gang must call restore(), and all must see the same checkpoint directory."
                )
            if waited > WARN_AFTER_S and not warned:
                warned = True
                log.warning("waiting for rank %s to verify its part of the checkpoint", ", ".join(map(str, missing)))
            time.sleep(pause)
            pause = min(2 * pause, POLL_S)

    def clean_up(self, restored: Checkpoint | None) -> None:
        """Remove unfinished drafts, and checkpoints of this attempt beyond the restored step.

        These steps will be repeated, and their new checkpoints must not mix with the old ones.
        """
        step = restored.step if restored and restored.manifest.attempt == self._attempt else -1
        for folder in self._own.glob("step-*"):
            if self._is_own(_rank_of(folder.name)) and (_number(folder.name) or 0) > step:
                _remove(folder)
        for leftover in self._directory.glob("attempt-*/.tmp-*"):
            attempt = _number(leftover.parent.name)
            if attempt is not None and attempt <= self._attempt and self._is_own(_rank_of(leftover.name)):
                shutil.rmtree(leftover, ignore_errors=True)


def _number(name: str) -> int | None:
    found = re.fullmatch(r"(?:attempt|step)-(\d{1,18})(?:\.rank-\d+)?", name)
    return int(found[1]) if found else None


def _rank_of(name: str) -> int:
    found = re.search(r"\.rank-(\d+)", name)
    return int(found[1]) if found else 0


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_all(folder: Path, names: list[str]) -> None:
    """Sync the files, then their folders, deepest first."""
    for name in names:
        _sync(folder / name)
    folders = {parent for name in names for parent in Path(name).parents}
    for inner in sorted(folders, key=lambda path: (-len(path.parts), str(path))):
        _sync(folder / inner)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(folder: Path) -> None:
    """Hide it with one rename, then remove it. What cannot be removed stays hidden."""
    hidden = folder.with_name(f".tmp-gone-{folder.name}-{os.getpid()}-{next(_drafts)}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)
