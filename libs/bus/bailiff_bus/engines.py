"""Engines kept as wheels, each in a folder named by its digest, so that what a release decided can be decided again later.

The digest is the one that records name: of the core's Python files. A wheel holds these files and nothing else that Python
could run, written so that the same files give the same bytes on every machine: uncompressed, in order, without dates.
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

from .engine_identity import EngineIdentity, digest_of, sources_of

PACKAGE = "bailiff_core"
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can say
STATED = re.compile(rb"^(LOGIC|RELEASE) = \"?([^\"\n]+)\"?$", re.MULTILINE)
DIGEST = re.compile(r"[0-9a-f]{64}")


class NoEngine(Exception):
    """There is no engine there, or it is not the one that it should be. The text says which and why."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A core's Python files, by name below the package, and what they say of themselves."""

    sources: Mapping[str, bytes]
    release: str
    digest: str
    logic: int

    def __str__(self) -> str:
        return str(EngineIdentity(self.release, self.digest, self.logic))

    @property
    def wheel_name(self) -> str:
        """As packagers name wheels."""
        return f"{PACKAGE}-{self.release}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class KeptEngine:
    """A wheel of the store. problem: why it cannot be used; sha256: of the file."""

    path: Path
    digest: str
    release: str = ""
    logic: int = 0
    sha256: str = ""
    problem: str = ""


def engine_of(sources: Mapping[str, bytes]) -> Engine:
    """The engine that consists of these files. Raises `NoEngine` where they are not a core."""
    stated = dict(STATED.findall(sources.get("engine.py", b"")))
    try:
        release, logic = stated[b"RELEASE"].decode(), int(stated[b"LOGIC"])
    except (KeyError, ValueError):
        raise NoEngine(f"there is no {PACKAGE}/engine.py that names RELEASE and LOGIC") from None
    return Engine(dict(sources), release, digest_of(sources), logic)


@cache
def running_engine() -> Engine:
    """The engine that this process would decide with."""
    return engine_of(sources_of(files(PACKAGE)))


def engine_in(path: Path) -> Engine:
    """The engine of a wheel, or of a folder that is the package, or holds it. Raises `NoEngine`."""
    try:
        if not path.is_dir():
            return engine_of(_in_wheel(path.read_bytes()))
        rooms = (path / PACKAGE, path / "libs" / "core" / PACKAGE, path)
        return engine_of(sources_of(next((room for room in rooms if (room / "engine.py").exists()), path)))
    except OSError as error:
        raise NoEngine(f"{path}: cannot be read: {error.strerror}") from None
    except NoEngine as no:
        raise NoEngine(f"{path}: {no}") from None


def engine_of_commit(repository: Path, revision: str) -> Engine:
    """The engine of a commit or tag of Bailiff's own repository. Raises `NoEngine`, and never fetches."""
    command = ["git", "-C", str(repository), "archive", "--format=tar", revision, f"libs/core/{PACKAGE}"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise NoEngine(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        raise NoEngine(f"{repository} does not hold {revision} (a shallow clone?): {done.stderr.decode().strip()}")
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                found[member.name.removeprefix(f"libs/core/{PACKAGE}/")] = content.read()
    return engine_of(found)


def wheel_of(engine: Engine) -> bytes:
    """The engine as a wheel: the same bytes wherever it is written."""
    info = f"{PACKAGE}-{engine.release}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {PACKAGE.replace('_', '-')}\nVersion: {engine.release}\nSummary: engine {engine}\n"
    held = {f"{PACKAGE}/{name}": content for name, content in sorted(engine.sources.items())}
    held[f"{info}/METADATA"] = about.encode()
    held[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: bailiff\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = [f"{name},sha256={_short_hash(content)},{len(content)}\n" for name, content in held.items()]
    held[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as wheel:
        for name, content in held.items():
            entry = zipfile.ZipInfo(name, WRITTEN_AT)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            wheel.writestr(entry, content)
    return packed.getvalue()


def keep(store: Path, engine: Engine | None = None) -> Path:
    """Put the engine (left out: the running one) into the store, unless it is there; its wheel. Raises `OSError`."""
    engine = running_engine() if engine is None else engine
    path = store / engine.digest / engine.wheel_name
    raw = wheel_of(engine)
    if not path.exists() or path.read_bytes() != raw:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{id(engine):x}.draft")
        draft.write_bytes(raw)
        draft.replace(path)
    return path


def find(store: Path, digest: str) -> Path | None:
    """The wheel of the engine with this digest, checked; None where none is kept. Raises `NoEngine` for another one."""
    wheels = sorted((store / digest).glob("*.whl")) if DIGEST.fullmatch(digest) else []
    if not wheels:
        return None
    found = engine_in(wheels[0])
    if found.digest != digest:
        raise NoEngine(f"{wheels[0]}: holds the engine {found.digest}, not the one that its folder names: it is not used")
    return wheels[0]


def kept(store: Path) -> list[KeptEngine]:
    """Every wheel of the store, and what is wrong with it."""
    found = []
    for path in sorted(store.glob("*/*.whl")):
        digest = path.parent.name
        try:
            find(store, digest)
            engine = engine_in(path)
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            found.append(KeptEngine(path, digest, engine.release, engine.logic, sha256))
        except NoEngine as no:
            found.append(KeptEngine(path, digest, problem=str(no)))
    return found


def _in_wheel(raw: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as wheel:
            held = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    except (zipfile.BadZipFile, ValueError, RuntimeError, NotImplementedError) as error:
        raise NoEngine(f"is no wheel: {error}") from None
    sources = {}
    for name, content in held.items():
        room, _, rest = name.partition("/")
        if room == PACKAGE and name.endswith(".py"):
            sources[rest] = content
        elif not room.endswith(".dist-info") and name != f"{PACKAGE}/py.typed":
            raise NoEngine(f"holds {name}, of which its digest says nothing")
    return sources


def _short_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
