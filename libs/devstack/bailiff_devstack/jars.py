"""Downloads and verifies the jars of Kafka 4.3.0, pinned by SHA-256.

`jars.sha256` names every jar by its Maven coordinates and SHA-256. jgo fetches the ones that are missing, by exactly
these coordinates (without resolving dependencies), and every start checks every digest, so that only pinned jars run.
The repositories are jgo's defaults, or those in the user's jgo settings.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.0"
PINS = Path(__file__).with_name("jars.sha256")

Progress = Callable[[str], None]


class JarMismatchError(RuntimeError):
    """A jar's SHA-256 differs from the pinned one."""


class JarUnavailableError(RuntimeError):
    """A jar is neither in the cache nor can it be downloaded."""


@dataclass(frozen=True)
class Pin:
    """One line of `jars.sha256`."""

    sha256: str
    group: str
    artifact: str
    version: str

    @property
    def coordinates(self) -> str:
        """Maven coordinates, `group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """The file name in a Maven repository."""
        return f"{self.artifact}-{self.version}.jar"

    def check(self, jar: Path) -> None:
        """Raises `JarMismatchError` unless the file has the pinned digest."""
        with jar.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise JarMismatchError(
                f"{self.coordinates} is not the jar that was pinned, so it is not run.\n"
                f"  file     {jar}\n  SHA-256  {found}\n  pinned   {self.sha256} (in {PINS.name})\n"
                "A broken download is the usual reason: delete that file (if it is still there) and start again. If it "
                "differs again, the repository that jgo uses serves another file under this name: do not use it."
            )


def default_cache() -> Path:
    """Default folder of the jar cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "bailiff" / f"kafka-{KAFKA_VERSION}"


def pins(file: Path = PINS) -> list[Pin]:
    """The pinned jars, in the order of the class path."""
    lines = [line.split() for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return [Pin(digest, *coordinates.split(":")) for digest, coordinates in lines]


@contextlib.contextmanager
def cache_lock(cache: Path, part: str) -> Iterator[None]:
    """Hold the lock of a part of the cache, so that one process at a time fills it."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{part}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def class_path(cache: Path, progress: Progress, wanted: Sequence[Pin] | None = None) -> list[Path]:
    """Paths of all jars, each verified. Downloads the missing ones first."""
    wanted = pins() if wanted is None else wanted
    folder = cache / "jars"
    with cache_lock(cache, "jars"):
        missing = [pin for pin in wanted if not (folder / pin.file_name).exists()]
        if missing:
            progress(f"downloading {len(missing)} jars of Kafka {KAFKA_VERSION} (once)")
            folder.mkdir(exist_ok=True)
            # Not directly into the cache: an interrupted jgo leaves a partial file, which it later treats as complete.
            with tempfile.TemporaryDirectory(prefix="incoming-", dir=cache) as incoming:
                for pin, jar in zip(missing, _fetch(missing, Path(incoming)), strict=True):
                    pin.check(jar)
                    shutil.move(jar, folder / pin.file_name)
    jars = [folder / pin.file_name for pin in wanted]
    for pin, jar in zip(wanted, jars, strict=True):
        pin.check(jar)
    return jars


def _fetch(wanted: Sequence[Pin], folder: Path) -> list[Path]:
    """Download with jgo, a client of Maven repositories, into its own layout below the folder."""
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    system = ssl.get_default_verify_paths()
    if system.cafile or system.capath:
        # requests uses its own CA bundle; the CA of a company's proxy is in the system's
        os.environ.setdefault("REQUESTS_CA_BUNDLE", str(system.cafile or system.capath))
    context = MavenContext(repo_cache=folder, remote_repos=GlobalSettings.load().repositories or None)

    def fetch(pin: Pin) -> Path:
        try:
            jar: Path = context.project(pin.group, pin.artifact).at_version(pin.version).artifact().resolve()
        except (OSError, RuntimeError) as error:  # what requests and jgo raise
            raise JarUnavailableError(
                f"{pin.coordinates} is not in the cache and could not be downloaded: {error}\n"
                "The first start needs a Maven repository (jgo's settings may name a mirror); later ones work offline. "
                f"Or set KAFKA_HOME to an unpacked Kafka {KAFKA_VERSION}."
            ) from error
        return jar

    with ThreadPoolExecutor(4) as workers:
        return list(workers.map(fetch, wanted))
