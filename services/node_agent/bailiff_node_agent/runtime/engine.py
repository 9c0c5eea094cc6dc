"""The Docker engine as the runtime needs it: each call answers, says no, or tells that nobody answers."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import docker
import requests
import urllib3
from docker.errors import APIError, DockerException

PATIENCE_S = 15.0
Answer = TypeVar("Answer")


class EngineAway(Exception):
    """The engine does not answer, or broke off in the middle of its answer."""


class EngineRefuses(Exception):
    """The engine answered no, in its own words. `status`: as HTTP has it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Engine:
    """Calls for one thread. The connection is made with the first of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: docker.APIClient | None = None

    def ping(self) -> None:
        """Whether it answers."""
        self._ask(lambda client: client.ping())

    def has_image(self, image: str) -> bool:
        """Whether it has this image already."""
        return self._unless_missing(lambda client: client.inspect_image(image)) is not None

    def pull(self, image: str) -> Iterator[str]:
        """Get the image, with the credentials of the engine's own configuration; yields how far it is."""
        with _told():
            for told in self._connected().pull(image, stream=True, decode=True):
                if "error" in told:
                    raise EngineRefuses(500, str(told["error"]))
                yield str(told.get("status", ""))

    def create(self, name: str, config: dict[str, Any]) -> str:
        """The id of a new container, or of the one that has this name."""
        try:
            return str(self._ask(lambda client: client.create_container_from_config(config, name))["Id"])
        except EngineRefuses as refusal:
            found = self.inspect(name) if refusal.status == 409 else None
            if found is None:
                raise
            return str(found["Id"])

    def start(self, container: str) -> None:
        """Let it run."""
        self._ask(lambda client: client.start(container))

    def inspect(self, container: str) -> dict[str, Any] | None:
        """What the engine knows of it; None where there is no such container."""
        return self._unless_missing(lambda client: client.inspect_container(container))

    def output(self, container: str, since: int) -> Iterator[bytes]:
        """What it printed since that second, and what it prints until it ends: pieces that begin with their time."""
        with _told():
            more = {"since": since} if since else {}
            yield from self._connected().logs(container, stream=True, follow=True, timestamps=True, **more)

    def signal(self, container: str, number: int) -> None:
        """Send this signal to its first process. One that does not run needs none."""
        with contextlib.suppress(EngineRefuses):
            self._ask(lambda client: client.kill(container, signal=number))

    def remove(self, container: str) -> None:
        """Take it away with its volumes, whatever it does. One that is gone, or is being removed, needs that no more."""
        try:
            self._ask(lambda client: client.remove_container(container, v=True, force=True))
        except EngineRefuses as refusal:
            if refusal.status not in (404, 409):
                raise

    def labelled(self, label: str) -> list[dict[str, Any]]:
        """All containers that carry this label (`name=value`), also those that have ended."""
        found: list[dict[str, Any]] = self._ask(lambda client: client.containers(all=True, filters={"label": label}))
        return found

    def close(self) -> None:
        """Hang up."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> docker.APIClient:
        if self._client is None:
            with _told():
                self._client = docker.APIClient(self._url, version="auto", timeout=PATIENCE_S)
        return self._client

    def _ask(self, call: Callable[[docker.APIClient], Answer]) -> Answer:
        with _told():
            return call(self._connected())

    def _unless_missing(self, call: Callable[[docker.APIClient], dict[str, Any]]) -> dict[str, Any] | None:
        try:
            return self._ask(call)
        except EngineRefuses as refusal:
            if refusal.status != 404:
                raise
            return None


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """The two ways in which a call fails, whichever layer below has noticed."""
    try:
        yield
    except APIError as refusal:
        status = refusal.status_code or 500
        raise EngineRefuses(status, str(refusal.explanation or refusal).strip()) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError, ValueError) as problem:
        raise EngineAway(f"the Docker engine does not answer: {type(problem).__name__}") from None


def pids_of(container: str) -> tuple[int, ...]:
    """The living processes of this machine in the container's cgroup and below it, in rising order."""
    wanted, found = container.encode(), []
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, of which most are no process of it
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{name}/cgroup").read_bytes():
                    found.append(int(name))
    return tuple(sorted(found))
