"""Engines stored as wheels in folders named by digest, so that decisions of other releases can be replayed.

The digest is that of the core's Python files, as in the records. A wheel contains these files and nothing else that Python
could run, and is reproducible: uncompressed, sorted, without dates.
"""

import base64
import hashlib
import io
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from .engine_identity import EngineIdentity, digest_sources, sources_of
from .file_writing import write

PACKAGE = "bailiff_core"
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest date of the zip format
CONSTANTS = re.compile(rb"^(LOGIC|RELEASE) = \"?([^\"\n]+)\"?$", re.MULTILINE)
DIGEST = re.compile(r"[0-9a-f]{64}")


class EngineError(Exception):
    """An engine is missing or does not match its digest. The text says which and why."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A core's Python files by name, with the release and logic number that they state."""

    sources: Mapping[str, bytes]
    release: str
    digest: str
    logic: int

    def __str__(self) -> str:
        return str(EngineIdentity(self.release, self.digest, self.logic))

    @property
    def wheel_name(self) -> str:
        """File name of the wheel."""
        return f"{PACKAGE}-{self.release}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class StoredEngine:
    """A wheel in the store. problem: why it cannot be used; sha256: of the file."""

    path: Path
    digest: str
    release: str = ""
    logic: int = 0
    sha256: str = ""
    problem: str = ""


def engine_from_sources(sources: Mapping[str, bytes]) -> Engine:
    """The engine with these files. Raises `EngineError` if they are not a core."""
    constants = dict(CONSTANTS.findall(sources.get("engine.py", b"")))
    try:
        release, logic = constants[b"RELEASE"].decode(), int(constants[b"LOGIC"])
    except (KeyError, ValueError):
        raise EngineError(f"no {PACKAGE}/engine.py that defines RELEASE and LOGIC") from None
    return Engine(dict(sources), release, digest_sources(sources), logic)


@cache
def running_engine() -> Engine:
    """The engine of this process."""
    return engine_from_sources(sources_of(files(PACKAGE)))


def load_engine(path: Path) -> Engine:
    """The engine of a wheel, or of a folder that is or contains the package. Raises `EngineError`."""
    try:
        if not path.is_dir():
            return engine_from_sources(_in_wheel(path.read_bytes()))
        folders = (path / PACKAGE, path / "libs" / "core" / PACKAGE, path)
        return engine_from_sources(sources_of(next((folder for folder in folders if (folder / "engine.py").exists()), path)))
    except OSError as error:
        raise EngineError(f"{path}: cannot be read: {error.strerror}") from None
    except EngineError as error:
        raise EngineError(f"{path}: {error}") from None


def engine_from_commit(repository: Path, revision: str) -> Engine:
    """The engine of a commit or tag of Bailiff's repository, without fetching. Raises `EngineError`."""
    command = ["git", "-C", str(repository), "archive", "--format=tar", revision, f"libs/core/{PACKAGE}"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise EngineError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        raise EngineError(f"{repository} does not contain {revision} (a shallow clone?): {done.stderr.decode().strip()}")
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                found[member.name.removeprefix(f"libs/core/{PACKAGE}/")] = content.read()
    return engine_from_sources(found)


def build_wheel(engine: Engine) -> bytes:
    """The engine as a wheel, reproducible byte for byte."""
    info = f"{PACKAGE}-{engine.release}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {PACKAGE.replace('_', '-')}\nVersion: {engine.release}\nSummary: engine {engine}\n"
    contents = {f"{PACKAGE}/{name}": content for name, content in sorted(engine.sources.items())}
    contents[f"{info}/METADATA"] = metadata.encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: bailiff\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = [f"{name},sha256={_short_hash(content)},{len(content)}\n" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as wheel:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, ZIP_DATE)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            wheel.writestr(entry, content)
    return buffer.getvalue()


def store_engine(store: Path, engine: Engine | None = None) -> Path:
    """Store the engine (default: the running one) unless present. Returns the path of its wheel. Raises `OSError`."""
    engine = running_engine() if engine is None else engine
    path = store / engine.digest / engine.wheel_name
    raw = build_wheel(engine)
    if not path.exists() or path.read_bytes() != raw:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, raw)
    return path


def find_engine(store: Path, digest: str) -> Path | None:
    """The verified wheel of the engine with this digest; None if it is not stored. Raises `EngineError` for a mismatch."""
    wheels = sorted((store / digest).glob("*.whl")) if DIGEST.fullmatch(digest) else []
    if not wheels:
        return None
    found = load_engine(wheels[0])
    if found.digest != digest:
        raise EngineError(f"{wheels[0]}: contains engine {found.digest}, which does not match its folder: it is not used")
    return wheels[0]


def stored_engines(store: Path) -> list[StoredEngine]:
    """All wheels of the store, with their problems."""
    found = []
    for path in sorted(store.glob("*/*.whl")):
        digest = path.parent.name
        try:
            find_engine(store, digest)
            engine = load_engine(path)
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(StoredEngine(path, digest, engine.release, engine.logic, sha256))
        except EngineError as error:
            found.append(StoredEngine(path, digest, problem=str(error)))
    return found


def _in_wheel(raw: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as wheel:
            contents = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    except (zipfile.BadZipFile, ValueError, RuntimeError, NotImplementedError) as error:
        raise EngineError(f"is not a wheel: {error}") from None
    sources = {}
    for name, content in contents.items():
        folder, _, rest = name.partition("/")
        if folder == PACKAGE and name.endswith(".py"):
            sources[rest] = content
        elif not folder.endswith(".dist-info") and name != f"{PACKAGE}/py.typed":
            raise EngineError(f"contains {name}, which the digest does not cover")
    return sources


def _short_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
