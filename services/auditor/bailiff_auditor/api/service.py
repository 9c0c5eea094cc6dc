"""The process: the web server, the connections to PostgreSQL, and whether they answer."""

import asyncio
from collections.abc import Mapping

import uvicorn

from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.settings import secret_of
from bailiff_bus.until_first import until_first
from bailiff_bus.webserver import Server, listen

from .app import application
from .archive import Archive
from .events import Streams
from .settings import ApiSettings

LOOK_EVERY = 2.0
STREAMS_END_S = 3
OTHERS = 200  # connections beside the streams
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ApiService:
    """Answers until it is asked to stop."""

    name = "api"

    def __init__(self, settings: ApiSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._archive = Archive(settings.postgres.get_secret_value(), settings.api_connections, settings.api_statement_timeout_s)
        self.streams = Streams(settings.api_streams, settings.api_heartbeat_s)
        self._fault: str | None = "the archive has not been asked yet"
        self.address = ""

    def readiness(self) -> Mapping[str, str | None]:
        """Whether the archive can be read."""
        return {"archive": self._fault}

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        told = self._settings
        settings = "BAILIFF_API_HOST, BAILIFF_API_PORT"
        listening, self.address = listen(told.api_host, told.api_port, settings)
        await self._archive.open()
        token = secret_of(told.api_token)
        if token is None and told.api_host not in LOOPBACK:
            logger().warning("whoever reaches this address may read the archive: there is no BAILIFF_API_TOKEN", at=self.address)
        server = Server(
            uvicorn.Config(
                application(self._archive, self.streams, self._metrics, token), lifespan="off", log_config=None,
                log_level="critical", access_log=False, server_header=False, limit_concurrency=told.api_streams + OTHERS,
                timeout_graceful_shutdown=STREAMS_END_S,
                ws="none",
            )
        )  # fmt: skip
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        logger().info("answering", at=f"{self.address}/v1/openapi.json")
        try:
            await until_first(asyncio.shield(serving), self._archive.listen(), self._look(), stop.wait())
        finally:
            server.should_exit = True
            await self._archive.close()
            await serving

    async def _look(self) -> None:
        while True:
            self._fault = await self._archive.fault()
            self._metrics.api_streams.set(len(self.streams.running))
            await asyncio.sleep(LOOK_EVERY)
