"""The Docker engine that tests of containers need, with a local image; or the reason why they are skipped."""

import contextlib
import json
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiff_node_agent.runtime.docker import ENGINE

IMAGE = "debian:bookworm-slim"


def docker(*arguments: str, timeout: float = 120, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command `docker`."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout, check=False, input=stdin)


def need_engine(image: str = IMAGE) -> None:
    """Skip the test if no engine answers or the image is missing: nothing is pulled."""
    try:
        answer = docker("info", "--format", "{{.ServerVersion}}", timeout=20)
    except FileNotFoundError:
        pytest.skip("no Docker: there is no command named docker")
    except subprocess.TimeoutExpired:
        pytest.skip("no Docker engine answers within 20 s")
    if answer.returncode:
        pytest.skip(f"no Docker engine answers: {answer.stderr.strip()}")
    if docker("image", "inspect", image).returncode:
        pytest.skip(f"the Docker engine has no image {image}")


@contextlib.contextmanager
def image_of(context: Path, base: str, *sources: Path) -> Iterator[str]:
    """An image with copies of these files and folders in `/job`."""
    name = f"bailiff-test-{uuid.uuid4().hex[:8]}:job"
    context.mkdir()
    for source in sources:
        subprocess.run(["cp", "-r", str(source), str(context)], check=True)
    (context / "Dockerfile").write_text(f"FROM {base}\nCOPY . /job\n")
    built = docker("build", "-q", "-t", name, str(context), timeout=300)
    assert built.returncode == 0, built.stderr
    yield name
    docker("rmi", "-f", name)


def containers_of(folder: object) -> list[str]:
    """All containers started for this folder's tasks, in any state."""
    return docker("ps", "-aq", "--filter", f"label=org.bailiff.folder={folder}").stdout.split()


def about(container: str) -> dict[str, object]:
    """The engine's description of the container."""
    found: list[dict[str, object]] = json.loads(docker("inspect", container).stdout)
    return found[0]


class EngineProxy:
    """A proxy socket to the engine that can be closed: open connections break, and new ones are refused."""

    def __init__(self, path: Path) -> None:
        self.url, self._path = f"unix://{path}", path
        self._open: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def close(self) -> None:
        self._path.unlink()
        for each in [self._listener, *self._open]:
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._open, self._listener = [], None

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                inside, _ = listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(ENGINE.removeprefix("unix://"))
                self._open += [inside, engine]
                for here, there in ((inside, engine), (engine, inside)):
                    threading.Thread(target=_carry, args=[here, there], daemon=True).start()


def _carry(here: socket.socket, there: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := here.recv(65536):
            there.sendall(data)
    with contextlib.suppress(OSError):
        there.shutdown(socket.SHUT_RDWR)
