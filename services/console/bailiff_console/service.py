"""The console process: web server, pool followers, readiness."""

import asyncio
import socket
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

from bailiff.client.client import Client
from bailiff.client.settings import service_key
from bailiff_bus.kafka_settings import secret_of
from bailiff_bus.port import Bus
from bailiff_console.actions.request_service import RequestService
from bailiff_console.actions.what_ifs import WhatIfs
from bailiff_console.actions.worker import Worker
from bailiff_console.auth.auth_context import build_auth_context
from bailiff_console.auth.requester import RequesterNames
from bailiff_console.live.pools import Pools
from bailiff_service.access_tokens import client_token
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.race import race
from bailiff_service.web_server import Server, listen

from .app import application
from .archive import ArchiveProxy
from .job_ports.proxy import JobPortProxy
from .job_ports.targets import JobHosts
from .job_ports.tunnels import Tunnels
from .job_ports.visitors import Visitors
from .settings import ConsoleSettings

STREAMS_END_S = 2
OTHER_CONNECTIONS = 300  # besides streams


class ConsoleService:
    """Serves until stopped. bus: reads the topics; watch: short timeout, probes whether Kafka answers."""

    name = "console"

    def __init__(self, settings: ConsoleSettings, metrics: Metrics, bus: Bus, watch: Bus) -> None:
        self._settings, self._bus, self._watch = settings, bus, watch
        self.archive = ArchiveProxy(settings.api, partial(_api_token, settings))
        self.pools = Pools(bus, watch, metrics, settings.state_dir / "console", settings.console_snapshots)
        self.pools.archive_answers = lambda: self.archive.answers
        self.pools.auditor_silent = lambda: self.archive.silent
        self.auth = build_auth_context(settings)
        client = Client(bus, source=self.name, actor=settings.actor, private_key=service_key(settings.key))
        issuer = settings.oidc_issuer or settings.console_sign_in
        self.names = RequesterNames(client.actor, client.key_id, issuer, settings.unsigned)
        self.request_service = RequestService(self.pools, client, Worker(), names=self.names)
        self.what_ifs = WhatIfs(settings.kafka)
        self._jobs_socket, self._jobs_url = self._listen_for_jobs()
        hosts = JobHosts(self._jobs_url)
        self.visitors = Visitors(self.auth, hosts) if self._jobs_socket is not None else None
        self.app = application(
            self.pools,
            self.archive,
            self.readiness,
            self.auth,
            self.request_service,
            self.what_ifs,
            self.visitors,
            max_pages=settings.console_pages,
            witness_keys=settings.witness_keys,
        )
        self.address = ""

    def _listen_for_jobs(self) -> tuple[socket.socket | None, str]:
        """The socket for the ports of jobs, and the address that browsers use."""
        config = self._settings
        if config.console_jobs_port is None:
            return None, ""
        found, address = listen(config.console_host, config.console_jobs_port, "BAILIFF_CONSOLE_HOST, BAILIFF_CONSOLE_JOBS_PORT")
        port = urlsplit(address).port
        return found, (config.console_jobs_url or f"http://localhost:{port}").rstrip("/")

    async def _serve_jobs(self, stop: asyncio.Event) -> None:
        """The ports of jobs, until stopped."""
        if self._jobs_socket is None or self.visitors is None:
            await stop.wait()
            return
        config = self._settings
        own = (config.console_user_header, config.console_groups_header or "")
        tunnels = Tunnels(self.request_service, self.auth.changes)
        proxy = JobPortProxy(
            self.visitors, tunnels, JobHosts(self._jobs_url), (config.console_url or self.address).rstrip("/"), filter(None, own)
        )
        logger().info("serving ports of jobs", at=self._jobs_url)
        await race(proxy.serve(self._jobs_socket), stop.wait())

    def readiness(self) -> Mapping[str, str | None]:
        """Per pool: None once its log is followed to the end."""
        kafka = None if self.pools.kafka["answers"] else "Kafka does not answer"
        pools = {each.name: each.fault or (None if each.ready else "its log is being read") for each in self.pools.all()}
        return {"kafka": kafka, **pools}

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until stopped."""
        config = self._settings
        settings = "BAILIFF_CONSOLE_HOST, BAILIFF_CONSOLE_PORT"
        listening, self.address = listen(config.console_host, config.console_port, settings)
        at_once = config.console_pages + OTHER_CONNECTIONS
        # proxy_headers: AuthMiddleware decides which to trust
        server = Server(self.app, at_once=at_once, end_s=STREAMS_END_S, proxy_headers=False)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        logger().info("serving the console", at=self.address)
        try:
            await race(asyncio.shield(serving), self.pools.run(), self.archive.poll(), self._serve_jobs(stop))
        finally:
            server.stop()
            self.auth.sessions.end_streams()
            await self.what_ifs.close()
            await self.request_service.worker.close()
            await serving
            await self.archive.close()
            await self._bus.close()
            await self._watch.close()


def _api_token(settings: ConsoleSettings) -> str | None:
    """The HTTP API makes its token at its first start, which may be after the console's."""
    return client_token(settings.api or "", secret_of(settings.api_token), settings.api_token_file, settings.state_dir)
