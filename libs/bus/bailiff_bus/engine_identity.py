"""Which code decides: the release, the digest of the core's source, and the number of its rules."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from bailiff_core.engine import LOGIC, RELEASE


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """As text, `ce_engine` of a record; the whole digest stands in `WriterStarted`."""

    release: str
    digest: str
    logic: int

    def __str__(self) -> str:
        return f"{self.release}/{self.digest[:12]}/{self.logic}"


@cache
def engine_identity() -> EngineIdentity:
    """The engine that this process would decide with."""
    return EngineIdentity(RELEASE, source_digest(files("bailiff_core")), LOGIC)


def source_digest(package: Traversable) -> str:
    """SHA-256 over the package's Python files, sorted by relative name; names and contents length-prefixed."""
    return digest_of(sources_of(package))


def sources_of(package: Traversable) -> dict[str, bytes]:
    """The package's Python files by relative name: all that an engine consists of."""
    return dict(_sources(package, ""))


def digest_of(sources: Mapping[str, bytes]) -> str:
    """`source_digest` of files that were read already."""
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
