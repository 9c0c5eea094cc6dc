"""The process: the web server, the pools that it follows, and whether they can be read."""

import asyncio
from collections.abc import Mapping

import uvicorn

from bailiff.client import Client
from bailiff.problem import Problem
from bailiff.settings import read_key
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus
from bailiff_bus.settings import SettingsError, secret_of
from bailiff_bus.until_first import until_first
from bailiff_bus.webserver import Server, listen

from .acting.desk import Desk
from .acting.thinker import Thinker
from .acting.whatifs import WhatIfs
from .app import application
from .archive import ArchiveProxy
from .door.gate import gate_of
from .live.pools import Pools
from .settings import ConsoleSettings

STREAMS_END_S = 2
OTHERS = 300  # connections beside the streams


class ConsoleService:
    """Answers until it is asked to stop. bus: what it reads; watch: a connection that gives up soon (`Pools`)."""

    name = "console"

    def __init__(self, settings: ConsoleSettings, metrics: Metrics, bus: Bus, watch: Bus) -> None:
        self._settings, self._bus, self._watch = settings, bus, watch
        self.archive = ArchiveProxy(settings.api, secret_of(settings.api_token))
        self.pools = Pools(bus, watch, metrics, settings.state_dir / "console", settings.console_snapshots)
        self.pools.archive_answers = lambda: self.archive.answers
        self.gate = gate_of(settings)
        self.desk = Desk(
            self.pools, Client(bus, source=self.name, actor=settings.actor, private_key=_key_of(settings)), Thinker()
        )
        self.what_ifs = WhatIfs(settings.kafka)
        self.app = application(
            self.pools, self.archive, self.readiness, self.gate, self.desk, self.what_ifs, most_pages=settings.console_pages
        )
        self.address = ""

    def readiness(self) -> Mapping[str, str | None]:
        """Whether every pool that was found is followed."""
        kafka = None if self.pools.kafka["answers"] else "it does not answer"
        pools = {each.name: each.fault or (None if each.ready else "its log is being read") for each in self.pools.all()}
        return {"kafka": kafka, **pools}

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        told = self._settings
        settings = "BAILIFF_CONSOLE_HOST, BAILIFF_CONSOLE_PORT"
        listening, self.address = listen(told.console_host, told.console_port, settings)
        server = Server(
            uvicorn.Config(
                self.app, lifespan="off", log_config=None, log_level="critical", access_log=False, server_header=False,
                limit_concurrency=told.console_pages + OTHERS, timeout_graceful_shutdown=STREAMS_END_S, ws="none",
                proxy_headers=False,  # whose headers count, the door says
            )
        )  # fmt: skip
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        logger().info("the page is there", at=self.address)
        try:
            await until_first(asyncio.shield(serving), self.pools.run(), self.archive.look(), stop.wait())
        finally:
            server.should_exit = True
            self.gate.sessions.end_streams()
            await self.what_ifs.close()
            await self.desk.thinker.close()
            await serving
            await self.archive.close()
            await self._bus.close()
            await self._watch.close()


def _key_of(settings: ConsoleSettings) -> bytes | None:
    try:
        return read_key(settings.key) if settings.key is not None else None
    except Problem as problem:
        raise SettingsError([problem.text]) from None
