"""The Docker engine's API as the runtime needs it. A call returns, or raises `EngineError` or `EngineUnavailable`."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException

TIMEOUT_S, STARTS_WITHIN_S, POLL_S = 15.0, 10.0, 0.05
# The engine has such keys always, by default Ctrl-P Ctrl-Q, and holds the first one back until the next is typed: so it is one
# that programs hardly use, and nobody types what follows.
DETACH_KEYS = ",".join(["ctrl-^", *["ctrl-@"] * 31])
Reply = TypeVar("Reply")


class EngineUnavailable(Exception):
    """The engine does not answer, or the connection broke in the middle of an answer."""


class EngineError(Exception):
    """The engine refused the call; the text is the engine's. status: the HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Engine:
    """A client for one thread. It connects with the first call."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: docker.APIClient | None = None

    def ping(self) -> None:
        """Check that it answers."""
        self._call(lambda client: client.ping())

    def has_image(self, image: str) -> bool:
        """Whether the image is on this machine."""
        return self._unless_missing(lambda client: client.inspect_image(image)) is not None

    def pull(self, image: str) -> Iterator[str]:
        """Pull the image with the credentials of the engine's own configuration; yields its progress."""
        with _translated_errors():
            for event in self._connected().pull(image, stream=True, decode=True):
                if "error" in event:
                    raise EngineError(500, str(event["error"]))
                yield str(event.get("status", ""))

    def create(self, name: str, config: dict[str, Any]) -> str:
        """The id of a new container, or of the existing one of this name."""
        try:
            return str(self._call(lambda client: client.create_container_from_config(config, name))["Id"])
        except EngineError as refusal:
            found = self.inspect(name) if refusal.status == 409 else None
            if found is None:
                raise
            return str(found["Id"])

    def start(self, container: str) -> None:
        self._call(lambda client: client.start(container))

    def inspect(self, container: str) -> dict[str, Any] | None:
        """The engine's description of the container; None where there is none."""
        return self._unless_missing(lambda client: client.inspect_container(container))

    def output(self, container: str, since: int) -> Iterator[bytes]:
        """What it printed since that second, and what it prints until it exits: chunks that begin with their timestamp."""
        with _translated_errors():
            more = {"since": since} if since else {}
            yield from self._connected().logs(container, stream=True, follow=True, timestamps=True, **more)

    def attach(self, container: str) -> socket.socket:
        """What is typed into its terminal, and what that shows from now on."""
        with _translated_errors():
            wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "detachKeys": DETACH_KEYS}
            return _socket_of(self._connected().attach_socket(container, wanted))

    def execute(self, container: str, command: list[str], env: dict[str, str]) -> tuple[str, socket.socket]:
        """Run the command beside the container's own, with a terminal: its id, and the terminal's bytes."""
        wanted = {"stdin": True, "tty": True, "environment": env, "detach_keys": DETACH_KEYS}
        made = self._call(lambda client: client.exec_create(container, command, **wanted))
        with _translated_errors():
            return str(made["Id"]), _socket_of(self._connected().exec_start(made["Id"], tty=True, socket=True))

    def pid_of(self, execution: str) -> int | None:
        """The pid, on this machine, of a command that `execute` has started; None where it cannot be started."""
        for _ in range(int(STARTS_WITHIN_S / POLL_S)):
            found = self._call(lambda client: client.exec_inspect(execution))
            if found["Pid"] or found["ExitCode"] is not None:
                return int(found["Pid"]) or None
            time.sleep(POLL_S)
        return None

    def resize(self, container: str, rows: int, columns: int) -> None:
        """The size of its terminal."""
        with contextlib.suppress(EngineError):
            self._call(lambda client: client.resize(container, height=rows, width=columns))

    def resize_execution(self, execution: str, rows: int, columns: int) -> None:
        """The size of the terminal of what `execute` has started."""
        with contextlib.suppress(EngineError):
            self._call(lambda client: client.exec_resize(execution, height=rows, width=columns))

    def signal(self, container: str, number: int) -> None:
        """Send this signal to its main process, if it runs."""
        with contextlib.suppress(EngineError):
            self._call(lambda client: client.kill(container, signal=number))

    def remove(self, container: str) -> None:
        """Remove it with its volumes, running or not. One that is gone, or is being removed, is not an error."""
        try:
            self._call(lambda client: client.remove_container(container, v=True, force=True))
        except EngineError as refusal:
            if refusal.status not in (404, 409):
                raise

    def labelled(self, label: str) -> list[dict[str, Any]]:
        """All containers with this label (`name=value`), exited ones included."""
        found: list[dict[str, Any]] = self._call(lambda client: client.containers(all=True, filters={"label": label}))
        return found

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> docker.APIClient:
        if self._client is None:
            with _translated_errors():
                self._client = docker.APIClient(self._url, version="auto", timeout=TIMEOUT_S)
        return self._client

    def _call(self, call: Callable[[docker.APIClient], Reply]) -> Reply:
        with _translated_errors():
            return call(self._connected())

    def _unless_missing(self, call: Callable[[docker.APIClient], dict[str, Any]]) -> dict[str, Any] | None:
        try:
            return self._call(call)
        except EngineError as refusal:
            if refusal.status != 404:
                raise
            return None


def _socket_of(stream: Any) -> socket.socket:
    return socket.socket(fileno=os.dup(stream.fileno()))


@contextlib.contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn the errors of all layers below into `EngineError` or `EngineUnavailable`."""
    try:
        yield
    except APIError as refusal:
        status = refusal.status_code or 500
        raise EngineError(status, str(refusal.explanation or refusal).strip()) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError, ValueError) as problem:
        raise EngineUnavailable(f"the Docker engine does not answer: {type(problem).__name__}") from None


def pids_of(container: str) -> tuple[int, ...]:
    """The living processes of this machine in the container's cgroup and below it, ascending."""
    wanted, found = container.encode(), []
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, most of them of other processes
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{name}/cgroup").read_bytes():
                    found.append(int(name))
    return tuple(sorted(found))
