"""Wiring of the executor: views, the group that deals out domains, one executor per owned domain."""

import asyncio
from collections.abc import Mapping

from bailiff_bus.ambient import Ambient
from bailiff_bus.domains import Domains
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus
from bailiff_bus.settings import PoolDeclaration, ServiceSettings, read_pools
from bailiff_bus.view import DomainView

from .executor import Executor

GROUP = "bailiff-eviction-executor"


class EvictionExecutorService:
    """Evictions of all declared domains that the group gives to this replica."""

    name = "eviction-executor"

    def __init__(
        self, settings: ServiceSettings, metrics: Metrics, bus: Bus, ambient: Ambient
    ) -> None:
        self._settings, self._metrics, self._bus, self._ambient = settings, metrics, bus, ambient
        pools = read_pools(settings.pools)
        self._domains = Domains(bus, GROUP, settings.instance, pools, self._open_view, self._execute)

    def readiness(self) -> Mapping[str, str | None]:
        """Ready when every domain's log has been read to its end."""
        return self._domains.readiness()

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        await self._domains.run(stop)

    async def _open_view(self, pool: PoolDeclaration) -> DomainView:
        snapshots = self._settings.state_dir / "eviction-executor"
        return DomainView(self._bus, pool.name, pool.partition, self._metrics, snapshots=snapshots)

    async def _execute(self, view: DomainView) -> None:
        await Executor(view, self._ambient, self._metrics).run()
