"""The console under test: as a process beside a devstack, and a client of its live stream."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.kits.http import PATIENCE_S, TOKEN, get, refused, serving

from bailiff_bus.port import Bus
from bailiff_console.live.change import PARTS
from bailiff_console.service import ConsoleService
from bailiff_console.settings import ConsoleSettings
from bailiff_devstack.ports import free_port
from bailiff_devstack.stack import Stack
from bailiff_service.metrics import Metrics

CONSOLE = "console"


class ConsoleProcess:
    """`python -m bailiff_console` on this stack's Kafka, with the query API if the plan has it."""

    def __init__(self, stack: Stack, port: int | None = None, **env: str) -> None:
        self.stack, self.port, self.env = stack, port or free_port(), env
        self._http = free_port()

    @property
    def address(self) -> str:
        """The URL of the console."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def link(self) -> str:
        """The URL that signs in."""
        return f"{self.address}/auth/sign-in?token={TOKEN}"

    def start(self) -> None:
        """Start or restart. Does not wait until it is ready."""
        archive = {"BAILIFF_API": self.stack.api} if self.stack.plan.api else {}
        env = {**self.stack.environment(CONSOLE, self._http), **archive, "BAILIFF_CONSOLE_PORT": str(self.port)}
        if "BAILIFF_CONSOLE_URL" in self.env:
            env["BAILIFF_CONSOLE_JOBS_URL"] = "https://jobs.example.org"
        self.stack.certify(CONSOLE, env)
        self.stack.processes.start(
            CONSOLE,
            [sys.executable, "-m", "bailiff_console"],
            env={**env, "BAILIFF_CONSOLE_TOKEN": TOKEN, **self.env},
            ready_url=f"{self.address}/readyz",
        )

    def wait_ready(self) -> None:
        """Wait until it follows every pool."""
        self.stack.processes.wait_ready(CONSOLE, timeout_s=PATIENCE_S)

    def kill(self) -> None:
        """SIGKILL."""
        self.stack.processes.kill9(CONSOLE)


class ClientState:
    """The state of one page, from the events that it received: rows set and removed, in order."""

    def __init__(self) -> None:
        self.snapshot: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.telemetry: dict[str, Any] = {}
        self.last = ""
        self.seqs: list[int] = []
        self.events: list[dict[str, Any]] = []
        self.snapshots = 0
        self.changes = 0

    def take(self, name: str, data: Any, place: str) -> None:
        """One event."""
        if place:
            self.last = place
        if name == "snapshot":
            self.snapshot, self.snapshots = data, self.snapshots + 1
            self.events += data.get("events", [])
        elif name == "change":
            self._change(data)
        elif name == "telemetry":
            self.telemetry |= data["nodes"]
        elif name == "state":
            self.state = data

    def _change(self, data: Any) -> None:
        self.changes += 1
        self.seqs.append(data["seq"])
        for part, rows in data["updated"].items():
            self.snapshot[part] |= rows
        for part, names in data["removed"].items():
            for each in names:
                self.snapshot[PARTS.get(part, part)].pop(each, None)  # a row added and removed within one change is not sent
        self.events += data.get("events", [])
        for member in ("seq", "time", "pool", "queue", "classes"):
            if member in data:
                self.snapshot[member] = data[member]


class StreamClient:
    """The stream of an open page."""

    def __init__(self, lines: AsyncIterator[str], client_state: ClientState) -> None:
        self._lines, self.client_state = lines, client_state

    async def next(self) -> str:
        """Take the next event; its name, empty for a heartbeat."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            elif fields:
                if "event" in fields:
                    self.client_state.take(fields["event"], json.loads(fields["data"]), fields.get("id", ""))
                return fields.get("event", "")
        raise ConnectionError("the stream ended")

    async def until(self, what: str, condition: Any, within_s: float = PATIENCE_S) -> None:
        """Take events until the condition holds."""
        try:
            async with asyncio.timeout(within_s):
                while not condition(self.client_state):
                    await self.next()
        except TimeoutError:
            raise AssertionError(
                f"timed out after {within_s:g} s: {what}; at {self.client_state.last}: {self.client_state.state}"
            ) from None


@asynccontextmanager
async def page(
    client: httpx.AsyncClient,
    pool: str,
    show: str = "nodes,jobs,projects,queue,events",
    client_state: ClientState | None = None,
    job: str | None = None,
) -> AsyncIterator[StreamClient]:
    """Open a page, of this job if one is named; with `client_state`, reconnect it."""
    headers = {"last-event-id": client_state.last} if client_state is not None and client_state.last else {}
    params = {"include": show, **({"job": job} if job is not None else {})}
    async with client.stream("GET", f"/api/pools/{pool}/live", params=params, headers=headers, timeout=None) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield StreamClient(answer.aiter_lines(), client_state or ClientState())


async def sign_in(client: httpx.AsyncClient, token: str = TOKEN) -> dict[str, str]:
    """Sign in as the single user of a local console. Returns the headers for its requests."""
    answer = await client.get("/auth/sign-in", params={"token": token})
    assert answer.status_code == 303, answer.text
    return {"x-csrf-token": (await client.get("/api/me")).json()["csrf"]}


class Console:
    """The real service in this process, on the test's buses."""

    def __init__(self, bus: Bus, watch: Bus, folder: Path, **settings: Any) -> None:
        values = {"console_port": 0, "console_token": TOKEN, "state_dir": folder, "instance": CONSOLE, **settings}
        self.service = ConsoleService(ConsoleSettings(**values), Metrics(), bus, watch)
        self.http: httpx.AsyncClient

    @asynccontextmanager
    async def running(self, *pools: str) -> AsyncIterator["Console"]:
        """Run the console inside the context, once it follows these pools."""
        async with serving(self.service, lambda: all(self.follows(pool) for pool in pools)) as self.http:
            await sign_in(self.http)
            yield self

    def follows(self, pool: str) -> bool:
        """Whether it has read this pool's log to the end."""
        return any(each.name == pool and each.ready for each in self.service.pools.all())

    async def get(self, path: str, **parameters: Any) -> Any:
        """The JSON body of a successful response."""
        return await get(self.http, f"/api{path}", **parameters)

    async def refused(self, status: int, path: str, **parameters: Any) -> Any:
        """The problem."""
        return await refused(self.http, status, f"/api{path}", **parameters)
