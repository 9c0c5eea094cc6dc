"""Copies a container's output from the API server to the task's log file, each line once, also after interruptions."""

import asyncio
from pathlib import Path

from bailiff_kubernetes import Api, ApiError, NotFound
from bailiff_kubernetes.resources import PODS

RETRY_S = 1.0
PAUSES_S = (0.1, 0.3, 1.0, 3.0)
"""Between the attempts to read the end of a log: while the server refuses or is away, the task's exit waits so long."""


class LogFollower:
    """One pod's log. The time of the newest line that was copied is kept beside the log."""

    def __init__(self, api: Api, namespace: str, pod: str, container: str, log: Path) -> None:
        self._api, self._path = api, PODS.path(namespace, pod, "log")
        self._container, self._log, self._position = container, log, log.with_name(f"{log.name}.position")
        self._newest = self._position.read_text() if self._position.exists() else ""

    async def run(self) -> None:
        """Until it is cancelled, or the pod is gone."""
        while True:
            try:
                await self.copy(follow=True)
            except NotFound:
                return
            except ApiError:
                pass  # its container has not started, or the server is away
            await asyncio.sleep(RETRY_S)

    async def copy(self, *, follow: bool) -> None:
        """Append what is new; with `follow` until the container ends."""
        query = {"container": self._container, "timestamps": "true", "follow": str(follow).lower()}
        if self._newest:
            query["sinceTime"] = self._newest[:19] + "Z"
        rest = b""
        async for part in self._api.lines(self._path, query):
            rest += part
            if rest.endswith(b"\n"):
                self._append(rest)
                rest = b""
        if rest:
            self._append(rest + b"\n")

    async def finish(self) -> ApiError | None:
        """Append what is new after the container's end. Returns why that failed at each attempt."""
        problem: ApiError | None = None
        for pause in (*PAUSES_S, 0.0):
            try:
                await self.copy(follow=False)
            except NotFound as gone:
                return gone
            except ApiError as refusal:
                problem = refusal
                await asyncio.sleep(pause)
            else:
                return None
        return problem

    def _append(self, line: bytes) -> None:
        time, _, text = line.partition(b" ")
        at = time.decode(errors="replace")
        if at <= self._newest:
            return
        with self._log.open("ab") as file:
            file.write(text)
        self._newest = at
        self._position.write_text(at)
