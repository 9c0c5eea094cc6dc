"""Checkpoints on disk: `DIRECTORY/attempt-NNNN/step-NNNNNNNN[.rank-NNNN]/`, each whole or not there.

A checkpoint is written under a name that nobody looks for, made durable, and renamed. An attempt begins by writing down
which checkpoints of older attempts it found: what an older one commits after that is nobody's past.
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
from .manifest import HASHERS, NAME, Damaged, File, Manifest, digest, names_in, read_manifest, verify

FOUND = "found.json"
GANG_PATIENCE_S = 1800.0
SAYS_WHOM_AFTER_S = 10.0
FIRST_LOOK_S, LOOKS_EVERY_S = 0.005, 0.1
log = logging.getLogger("bailiff_job")
_drafts = itertools.count()


class CheckpointProblem(Exception):
    """A checkpoint could not be made or found. The message says what to do."""


class Superseded(CheckpointProblem):
    """A newer attempt of this job has started: what this one saves would never be read, so it must end."""


@dataclass(frozen=True)
class Checkpoint:
    """One that was committed: where this rank's part of it lies, and what is in it."""

    folder: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        """The last step that was done when it was saved."""
        return self.manifest.step


class Store:
    """The checkpoints of one job as one rank of one attempt sees them.

    restart: which one this is of the processes that one attempt started one after the other, as torchrun does.
    keep: how many checkpoints that could be restored stay; None for all.
    """

    def __init__(
        self, directory: Path, *, job: str, attempt: int, rank: int = 0, world_size: int = 1, restart: str = "0",
        keep: int | None = 2,
    ) -> None:  # fmt: skip
        if keep is not None and keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept; None keeps all")
        self._directory, self._job, self._attempt = directory, job, attempt
        self._rank, self._world_size, self._restart, self._keep = rank, world_size, restart, keep
        self._own = directory / f"attempt-{attempt:04}"
        self._passed_over: set[Path] = set()

    # --- an attempt begins

    def begin(self) -> None:
        """This attempt has started: from now on nothing that older ones commit counts. Raises `OSError`."""
        if not self._own.exists():
            draft = self._directory / f".tmp-{self._own.name}-{os.getpid()}-{next(_drafts)}"
            draft.mkdir(parents=True)
            found = [str(folder.relative_to(self._directory)) for folder in self._committed() if folder.parent != self._own]
            _write_durably(draft / FOUND, json.dumps({"v": 1, "found": sorted(found)}).encode())
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

    def _counted(self) -> dict[tuple[int, int], dict[int, Path]]:
        """What was committed in its time, by (attempt, step) and rank."""
        groups: dict[tuple[int, int], dict[int, Path]] = defaultdict(dict)
        found_by = {attempt: self._found_by(attempt) for attempt in self._attempts() if attempt <= self._attempt}
        for folder in self._committed():
            attempt, step = _number(folder.parent.name), _number(folder.name)
            if attempt is None or step is None:
                continue
            later = min((other for other in found_by if other > attempt), default=None)
            if later is None or str(folder.relative_to(self._directory)) in found_by[later]:
                groups[attempt, step][_rank_of(folder.name)] = folder
            else:
                log.info("%s was written after attempt %d had started: ignored", folder, later)
        return groups

    def _found_by(self, attempt: int) -> frozenset[str]:
        try:
            data = json.loads((self._directory / f"attempt-{attempt:04}" / FOUND).read_bytes())
            return frozenset(data["found"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            log.warning("what attempt %d found when it started cannot be read (%s): nothing older counts", attempt, problem)
            return frozenset()

    def _is_mine(self, rank: int) -> bool:
        """Whether this rank looks after that one's files. The job may have had another number of ranks before."""
        return rank % self._world_size == self._rank

    # --- saving

    def draft(self, step: int) -> Path:
        """An empty folder to save into. Raises `Superseded`, `OSError`."""
        self._refuse_if_superseded()
        folder = self._own / f".tmp-{self._name(step)}-{os.getpid()}-{next(_drafts)}"
        folder.mkdir(parents=True)
        return folder

    def commit(self, draft: Path, step: int, *, agreed: bool, began: float) -> Checkpoint:
        """Make durable what lies in the draft, then give it its name. Raises `Superseded`, `OSError`, `ValueError`.

        began: when saving began, monotonic seconds.
        """
        names = names_in(draft)
        if NAME in names:
            raise ValueError(f"{NAME} is the name of Bailiff's own file in a checkpoint: save under another name")
        with ThreadPoolExecutor(1 + HASHERS, thread_name_prefix="bailiff-job-commit") as others:
            synced = others.submit(_sync_all, draft, names)  # the disk works while we hash
            digests = others.map(digest, [draft / name for name in names])
            files = tuple(File(name, (draft / name).stat().st_size, hashed) for name, hashed in zip(names, digests))
            synced.result()
        manifest = Manifest(
            self._job, self._attempt, self._rank, self._world_size, step, agreed, files,
            max(1, round((monotonic() - began) * 1_000_000)),
        )  # fmt: skip
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

    def forget(self, draft: Path) -> None:
        """What was saved there is not wanted."""
        shutil.rmtree(draft, ignore_errors=True)

    def _name(self, step: int) -> str:
        return f"step-{step:08}" + (f".rank-{self._rank:04}" if self._world_size > 1 else "")

    def _refuse_if_superseded(self) -> None:
        newer = self._newer_attempt()
        if newer is not None:
            raise Superseded(
                f"attempt {newer} of job {self._job} has started, and this is attempt {self._attempt}: what it saves would"
                " never be read. End it."
            )

    def _prune(self) -> None:
        """Remove what is older than the newest so many that all ranks could go on from."""
        if self._keep is None:
            return
        groups = self._counted()
        usable = [at for at in sorted(groups, reverse=True) if self._is_usable(groups[at])]
        if len(usable) < self._keep:
            return
        oldest_kept = usable[self._keep - 1]
        for at in sorted(groups):
            for rank, folder in groups[at].items():
                if at < oldest_kept and self._is_mine(rank):
                    _remove(folder)

    def _is_usable(self, ranks: dict[int, Path]) -> bool:
        if self._passed_over.intersection(ranks.values()):
            return False
        try:
            manifest = read_manifest(ranks[min(ranks)])
        except Damaged:
            return False
        return manifest.agreed and set(range(manifest.world_size)) <= ranks.keys()

    # --- restoring

    def newest(self) -> tuple[Checkpoint | None, int]:
        """The newest checkpoint that is verified on every rank, this rank's part of it; and how many damaged ones were newer.

        In a gang every rank must ask: each reads its own part and waits for the others' word. Raises `CheckpointProblem`.
        """
        self.begin()
        groups, damaged = self._counted(), 0
        for at in sorted(groups, reverse=True):
            ranks = groups[at]
            try:
                manifests = {rank: self._manifest(ranks[rank], at, rank) for rank in sorted(ranks)}
                whole = {rank for manifest in manifests.values() for rank in range(manifest.world_size)} == manifests.keys()
                if not whole or not all(manifest.agreed for manifest in manifests.values()):
                    log.info("step %d of attempt %d was not saved by all ranks by agreement: passed over", at[1], at[0])
                    continue
                problem = self._verified_by_all(at, {rank: (ranks[rank], manifests[rank]) for rank in manifests})
            except Damaged as found:
                problem = str(found)
            if problem is None:
                own = self._rank if self._rank in ranks and manifests[self._rank].files else 0
                return Checkpoint(ranks[own], manifests[own]), damaged
            damaged += 1
            self._passed_over.update(ranks.values())
            log.warning("checkpoint of step %d, attempt %d, is damaged and was passed over: %s", at[1], at[0], problem)
        return None, damaged

    def _manifest(self, folder: Path, at: tuple[int, int], rank: int) -> Manifest:
        manifest = read_manifest(folder)
        if (manifest.attempt, manifest.step, manifest.rank) != (*at, rank):
            raise Damaged(f"{folder.name} says that it is step {manifest.step}, attempt {manifest.attempt}, rank {manifest.rank}")
        return manifest

    def _verified_by_all(self, at: tuple[int, int], parts: dict[int, tuple[Path, Manifest]]) -> str | None:
        """What is wrong with it, or None. In a gang all ranks come to the same word by files that all of them see."""
        problem = None
        try:
            for rank, (folder, manifest) in parts.items():
                if self._is_mine(rank):
                    verify(folder, manifest)
        except Damaged as found:
            problem = str(found)
        if self._world_size == 1:
            return problem
        words = self._own / f".restore-{self._restart}"
        words.mkdir(exist_ok=True)
        about = f"{at[0]:04}-{at[1]:08}.rank-"
        (words / f"{about}{self._rank:04}.{'ok' if problem is None else 'damaged'}").touch()
        said = self._all_words(words, about)
        others = sorted(rank for rank, word in said.items() if word != "ok")
        return problem or (f"of rank {others[0]}" if others else None)

    def _all_words(self, words: Path, about: str) -> dict[int, str]:
        began, told, pause = monotonic(), False, FIRST_LOOK_S
        while True:
            said = {_rank_of(word.name): word.suffix[1:] for word in words.iterdir() if word.name.startswith(about)}
            missing = sorted(set(range(self._world_size)) - said.keys())
            if not missing:
                return said
            waited = monotonic() - began
            if waited > GANG_PATIENCE_S:
                raise CheckpointProblem(
                    f"rank {missing[0]} did not say within {GANG_PATIENCE_S:.0f} s whether its part of the checkpoint is whole."
                    " Every rank of a gang must call restore(), and all must see the same checkpoint directory."
                )
            if waited > SAYS_WHOM_AFTER_S and not told:
                told = True
                log.warning("waiting for rank %s to verify its part of the checkpoint", ", ".join(map(str, missing)))
            time.sleep(pause)
            pause = min(2 * pause, LOOKS_EVERY_S)

    def tidy(self, restored: Checkpoint | None) -> None:
        """Remove what saves left that did not end, and what this attempt saved beyond the step that it goes on from.

        Those steps will be done again, and what is saved then must not mix with what was saved before.
        """
        step = restored.step if restored and restored.manifest.attempt == self._attempt else -1
        for folder in self._own.glob("step-*"):
            if self._is_mine(_rank_of(folder.name)) and (_number(folder.name) or 0) > step:
                _remove(folder)
        for left in self._directory.glob("attempt-*/.tmp-*"):
            attempt = _number(left.parent.name)
            if attempt is not None and attempt <= self._attempt and self._is_mine(_rank_of(left.name)):
                shutil.rmtree(left, ignore_errors=True)


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
    """Files first, then every folder that holds one, deepest first."""
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
    """At once for whoever looks, whatever happens half way. What cannot be removed stays hidden."""
    hidden = folder.with_name(f".tmp-gone-{folder.name}-{os.getpid()}-{next(_drafts)}")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)
