"""The HTTP API process: web server, PostgreSQL connections, readiness."""

import asyncio
from collections.abc import Mapping

from bailiff_bus.kafka_settings import secret_of
from bailiff_service.access_tokens import API_TOKEN_FILE, service_token
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.race import race
from bailiff_service.web_server import Server, listen

from .app import application
from .archive import Archive
from .events import Streams
from .settings import ApiSettings

POLL_S = 2.0
STREAMS_END_S = 3
OTHER_CONNECTIONS = 200  # besides streams


class ApiService:
    """Serves until stopped."""

    name = "api"

    def __init__(self, settings: ApiSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._token = service_token(
            secret_of(settings.api_token),
            settings.api_token_file or settings.state_dir / API_TOKEN_FILE,
            "api_token (BAILIFF_API_TOKEN)",
        )
        self._archive = Archive(settings.postgres.get_secret_value(), settings.api_connections, settings.api_statement_timeout_s)
        self.streams = Streams(settings.api_streams, settings.api_heartbeat_s)
        self._fault: str | None = "the archive was not checked yet"
        self.address = ""

    def readiness(self) -> Mapping[str, str | None]:
        """Whether the archive can be read."""
        return {"archive": self._fault}

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until stopped."""
        config = self._settings
        settings = "BAILIFF_API_HOST, BAILIFF_API_PORT"
        listening, self.address = listen(config.api_host, config.api_port, settings)
        await self._archive.open()
        app = application(self._archive, self.streams, self._metrics, self._token, config.api_hosts)
        server = Server(app, at_once=config.api_streams + OTHER_CONNECTIONS, end_s=STREAMS_END_S)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        logger().info("serving the HTTP API", at=f"{self.address}/v1/openapi.json")
        try:
            await race(asyncio.shield(serving), self._archive.listen(), self._poll(), stop.wait())
        finally:
            server.stop()
            await self._archive.close()
            await serving

    async def _poll(self) -> None:
        while True:
            self._fault = await self._archive.fault()
            self._metrics.api_streams.set(len(self.streams.running))
            await asyncio.sleep(POLL_S)
