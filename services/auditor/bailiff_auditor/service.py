"""The auditor service: archives all declared pools; waits for PostgreSQL, and is on standby while another replica is active."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from asyncpg import Connection

from bailiff_bus import topics
from bailiff_bus.port import Bus, BusUnavailable, OffsetOutOfRange
from bailiff_log.credentials import CERTIFICATE
from bailiff_log.keys import KeyFileError, existing_or_new_key, read_private_key
from bailiff_log.projection import StateDiverged
from bailiff_service.clock_and_ids import SYSTEM, ClockAndIds
from bailiff_service.exit_code import ExitCode, MustStop
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics
from bailiff_service.pool_ownership import check_topics
from bailiff_service.race import race
from bailiff_service.settings import PoolDeclaration, read_own_credentials, read_pools

from .alarms import AlarmKey, Alarms
from .archive_writer import PositionMoved, position_of
from .archiver import Archiver
from .cosignatures import CosignatureArchiver
from .database import UNREACHABLE, acquire_pool_lock, connect, migrate, migrations
from .end_offsets import EndOffsets
from .gpu_allocations import LogReplaced
from .quota_usage import follow_usage
from .sealer import Sealer
from .settings import AuditorSettings

MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 15.0
LAG_EVERY = 5.0
SECOND = 1_000_000


class AuditorService:
    """Archives every declared pool, with three connections per pool and one for end offsets. raised: alarms raised already."""

    name = "auditor"

    def __init__(
        self, settings: AuditorSettings, metrics: Metrics, bus: Bus, raised: set[AlarmKey], clock_and_ids: ClockAndIds = SYSTEM
    ) -> None:
        self._settings, self._metrics, self._bus, self._clock_and_ids = settings, metrics, bus, clock_and_ids
        self._pools = read_pools(settings.pools)
        self._keys = self._read_keys()
        self._states: dict[str, str | None] = {pool.name: "opening its archive" for pool in self._pools}
        certified = settings.credentials is not None and (settings.credentials / CERTIFICATE).exists()
        credentials = read_own_credentials(settings) if certified else None
        self._alarms = Alarms(bus, metrics, clock_and_ids, raised, credentials)
        self._archivers: dict[str, Archiver] = {}

    def readiness(self) -> Mapping[str, str | None]:
        """Per pool: None once its log is archived to the end, or another replica archives it."""
        return dict(self._states)

    async def run(self, stop: asyncio.Event) -> None:
        """Archive until stopped."""
        await self._check()
        try:
            await race(*map(self._run_pool, self._pools), self._measure_lag(), stop.wait())
        finally:
            await self._bus.close()

    async def _check(self) -> None:
        await check_topics(self._bus)
        for topic in (topics.SEALS, topics.COSIGNATURES):
            await self._bus.spans(topic.name)

    def _read_keys(self) -> tuple[bytes, bytes | None]:
        config = self._settings
        try:
            if config.seal_key is not None:
                key = read_private_key(config.seal_key)
            else:
                key = existing_or_new_key(config.state_dir / self.name / "seal.key")
            return key, read_private_key(config.seal_key_before) if config.seal_key_before is not None else None
        except KeyFileError as fault:
            raise MustStop(ExitCode.SETTINGS, f"the sealing key: {fault}") from None

    async def _run_pool(self, pool: PoolDeclaration) -> None:
        failures = 0
        while True:
            connection: Connection | None = None
            try:
                connection = await self._connect()
                await migrate(connection, migrations())
                pool_id = (await position_of(connection, pool)).id
                self._states[pool.name] = None  # ready to take over
                await acquire_pool_lock(connection, pool_id)
                self._states[pool.name], failures = "archiving its log", 0
                logger(pool=pool.name).info("this replica archives the pool")
                await self._archive(pool, pool_id, connection)
            except PositionMoved as reason:
                logger(pool=pool.name).warning("reading the position again", reason=str(reason))
            except UNREACHABLE as error:
                failures += 1
                await self._wait_for_postgres(pool, failures, error)
            finally:
                if connection is not None:
                    connection.terminate()

    async def _connect(self) -> Connection:
        return await connect(self._settings.postgres.get_secret_value(), self._settings.postgres_timeout_s)

    async def _archive(self, pool: PoolDeclaration, pool_id: int, connection: Connection) -> None:
        """Archive until a failure. Usage sampling starts once the archive has caught up."""
        config, caught_up = self._settings, asyncio.Event()
        sealer = Sealer(
            self._bus,
            pool.name,
            self._keys,
            config.seal_records,
            int(config.seal_seconds * SECOND),
            self._metrics,
            self._alarms,
            self._clock_and_ids,
        )

        def set_readiness(state: str | None) -> None:
            self._states[pool.name] = state
            if state is None:
                caught_up.set()

        archiver = self._archivers[pool.name] = Archiver(
            self._bus, pool, connection, self._metrics, self._alarms, sealer, set_readiness
        )
        await race(archiver.run(), self._sample_usage(pool, pool_id, caught_up), self._archive_cosignatures(pool, pool_id))

    async def _archive_cosignatures(self, pool: PoolDeclaration, pool_id: int) -> None:
        connection = await self._connect()
        try:
            named = self._settings.witness_keys
            alarms, clock = self._alarms, self._clock_and_ids
            await CosignatureArchiver(self._bus, pool.name, pool_id, connection, alarms, clock, named).run()
        finally:
            connection.terminate()

    async def _sample_usage(self, pool: PoolDeclaration, pool_id: int, caught_up: asyncio.Event) -> None:
        await caught_up.wait()
        snapshots = self._settings.state_dir / self.name
        while True:
            connection = await self._connect()
            try:
                interval = self._settings.usage_seconds * SECOND
                await follow_usage(self._bus, pool, pool_id, connection, interval, snapshots, self._alarms, self._metrics)
            except StateDiverged as diverged:
                await self._alarms.alarm(pool.name, "state-diverged", str(diverged))
                await asyncio.Event().wait()  # archiving continues; usage sampling cannot
            except (OffsetOutOfRange, LogReplaced) as error:
                logger(pool=pool.name).warning("usage sampling: reading the log from its start", why=str(error))
                await asyncio.sleep(MAX_BACKOFF_S)
            finally:
                connection.terminate()

    async def _measure_lag(self) -> None:
        ends = EndOffsets(self._connect)
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
                    await ends.store({pool.name: spans[pool.partition].end for pool in self._pools if pool.partition in spans})
        finally:
            ends.close()

    async def _wait_for_postgres(self, pool: PoolDeclaration, failures: int, error: BaseException) -> None:
        why = str(error) or type(error).__name__
        self._states[pool.name] = f"PostgreSQL is unavailable: {why}"
        self._metrics.postgres_outages.inc()
        logger(pool=pool.name).warning(f"PostgreSQL is unavailable: waiting (attempt {failures})", reason=why)
        await asyncio.sleep(min(MIN_BACKOFF_S * 2 ** min(failures - 1, 10), MAX_BACKOFF_S))
