"""Identity of the engine: release, digest of the core's source, logic number."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from bailiff_core.engine import LOGIC, RELEASE


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """An engine's release, digest and logic number. As text: `ce_engine` of a record; `WriterStarted` has the full digest."""

    release: str
    digest: str
    logic: int

    def __str__(self) -> str:
        return f"{self.release}/{self.digest[:12]}/{self.logic}"


@cache
def engine_identity() -> EngineIdentity:
    """The engine of this process."""
    return EngineIdentity(RELEASE, source_digest(files("bailiff_core")), LOGIC)


def source_digest(package: Traversable) -> str:
    """SHA-256 over the package's Python files, sorted by relative name; names and contents length-prefixed."""
    return digest_sources(sources_of(package))


def sources_of(package: Traversable) -> dict[str, bytes]:
    """The package's Python files by relative name."""
    return dict(_sources(package, ""))


def digest_sources(sources: Mapping[str, bytes]) -> str:
    """`source_digest` of files in memory."""
    digest = hashlib.sha256()
    for name, content in sorted(sources.items()):
        for part in (name.encode(), content):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _sources(entry, f"{name}/")
        elif name.endswith(".py"):
            yield name, entry.read_bytes()
