"""All declared domains into one archive; waits where PostgreSQL is away, and for its turn where another replica is at work."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.ambient import REAL, Ambient
from bailiff_bus.domains import check_topics
from bailiff_bus.logs import logger
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus, BusUnavailable, OffsetGone
from bailiff_bus.runtime import ExitCode, MustStop
from bailiff_bus.seals import KeyFault, make_private_key, read_private_key
from bailiff_bus.settings import PoolDeclaration, read_pools
from bailiff_bus.until_first import until_first
from bailiff_bus.view import StateDiverged

from .alarms import Alarms, Told
from .archiver import Archiver
from .database import AWAY, connect, hold, migrate, migrations
from .holds import AnotherLog
from .keeper import NotOurs, position_of
from .logends import LogEnds
from .sealer import Sealer
from .settings import AuditorSettings
from .usage import follow_usage

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
LAG_EVERY = 5.0
SECOND = 1_000_000


class AuditorService:
    """Archives every declared domain, with two connections for each and one more. told: alarms that were raised already."""

    name = "auditor"

    def __init__(self, settings: AuditorSettings, metrics: Metrics, bus: Bus, told: set[Told], ambient: Ambient = REAL) -> None:
        self._settings, self._metrics, self._bus, self._ambient = settings, metrics, bus, ambient
        self._pools = read_pools(settings.pools)
        self._keys = self._read_keys()
        self._states: dict[str, str | None] = {pool.name: "its archive is being opened" for pool in self._pools}
        self._alarms = Alarms(bus, metrics, ambient, told)
        self._archivers: dict[str, Archiver] = {}

    def readiness(self) -> Mapping[str, str | None]:
        """Per domain: None once its log is archived to the end, or another replica sees to it."""
        return dict(self._states)

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        await self._check()
        try:
            await until_first(*map(self._tend, self._pools), self._measure_lag(), stop.wait())
        finally:
            await self._bus.close()

    async def _check(self) -> None:
        await check_topics(self._bus)
        try:
            await self._bus.spans(topics.SEALS.name)
        except KeyError:
            text = f"there is no topic {topics.SEALS.name}: run `bailiff topics create` first"
            raise MustStop(ExitCode.KAFKA_SETTINGS, text) from None

    def _read_keys(self) -> tuple[bytes, bytes | None]:
        told = self._settings
        try:
            if told.seal_key is not None:
                key = read_private_key(told.seal_key)
            else:
                file = told.state_dir / self.name / "seal.key"
                key = read_private_key(file) if file.exists() else make_private_key(file)
            return key, read_private_key(told.seal_key_before) if told.seal_key_before is not None else None
        except KeyFault as fault:
            raise MustStop(ExitCode.SETTINGS, f"the sealing key: {fault}") from None

    async def _tend(self, pool: PoolDeclaration) -> None:
        failures = 0
        while True:
            connection: Connection | None = None
            try:
                connection = await self._connect()
                await migrate(connection, migrations())
                domain = (await position_of(connection, pool)).id
                self._states[pool.name] = None  # ready to take over
                await hold(connection, domain)
                self._states[pool.name], failures = "its log is being archived", 0
                logger(domain=pool.name).info("this replica archives the domain")
                await self._archive(pool, domain, connection)
            except NotOurs as reason:
                logger(domain=pool.name).warning("reading the position anew", reason=str(reason))
            except AWAY as error:
                failures += 1
                await self._wait_for_postgres(pool, failures, error)
            finally:
                if connection is not None:
                    connection.terminate()

    async def _connect(self) -> Connection:
        return await connect(self._settings.postgres.get_secret_value(), self._settings.postgres_timeout_s)

    async def _archive(self, pool: PoolDeclaration, domain: int, connection: Connection) -> None:
        """Until something fails. Use over time is looked at only once the archive has caught up."""
        told, caught_up = self._settings, asyncio.Event()
        sealer = Sealer(
            self._bus, pool.name, self._keys, told.seal_records, int(told.seal_seconds * SECOND), self._metrics, self._alarms,
            self._ambient,
        )  # fmt: skip

        def say(state: str | None) -> None:
            self._states[pool.name] = state
            if state is None:
                caught_up.set()

        archiver = self._archivers[pool.name] = Archiver(self._bus, pool, connection, self._metrics, self._alarms, sealer, say)
        await until_first(archiver.run(), self._look(pool, domain, caught_up))

    async def _look(self, pool: PoolDeclaration, domain: int, caught_up: asyncio.Event) -> None:
        await caught_up.wait()
        snapshots = self._settings.state_dir / self.name
        while True:
            connection = await self._connect()
            try:
                await follow_usage(self._bus, pool, domain, connection, self._settings.usage_seconds * SECOND, snapshots)
            except StateDiverged as diverged:
                await self._alarms.alarm(pool.name, "state-diverged", str(diverged))
                await asyncio.Event().wait()  # the archive goes on; these figures cannot
            except (OffsetGone, AnotherLog) as gone:
                logger(domain=pool.name).warning("use over time: reading the log anew", why=str(gone))
                await asyncio.sleep(LONGEST_PAUSE)
            finally:
                connection.terminate()

    async def _measure_lag(self) -> None:
        ends = LogEnds(self._connect)
        try:
            while True:
                await asyncio.sleep(LAG_EVERY)
                with suppress(BusUnavailable):
                    spans = await self._bus.spans(topics.AUDIT.name)
                    for pool in self._pools:
                        archiver = self._archivers.get(pool.name)
                        if archiver is not None and pool.partition in spans:
                            behind = spans[pool.partition].end - archiver.offset
                            self._metrics.archive_lag.labels(pool.name).set(max(0, behind))
                    await ends.note({pool.name: spans[pool.partition].end for pool in self._pools if pool.partition in spans})
        finally:
            ends.close()

    async def _wait_for_postgres(self, pool: PoolDeclaration, failures: int, error: BaseException) -> None:
        why = str(error) or type(error).__name__
        self._states[pool.name] = f"PostgreSQL is not there: {why}"
        self._metrics.postgres_outages.inc()
        logger(domain=pool.name).warning(f"PostgreSQL is not there: waiting (try {failures})", reason=why)
        await asyncio.sleep(min(FIRST_PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE))
