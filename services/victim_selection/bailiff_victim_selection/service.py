"""Wiring of victim selection: views, the group that deals out domains, one selector per owned domain."""

import asyncio
from collections.abc import Mapping

from bailiff_bus.ambient import Ambient
from bailiff_bus.domains import Domains
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus
from bailiff_bus.settings import PoolDeclaration, ServiceSettings, read_pools
from bailiff_bus.view import DomainView

from .selector import Search, answer_in_thread, select_for_ever

GROUP = "bailiff-victim-selection"


class VictimSelectionService:
    """Victim selection on all declared domains that the group gives to this replica."""

    name = "victim-selection"

    def __init__(
        self, settings: ServiceSettings, metrics: Metrics, bus: Bus, ambient: Ambient, search: Search = answer_in_thread
    ) -> None:
        self._settings, self._metrics, self._bus, self._ambient, self._search = settings, metrics, bus, ambient, search
        pools = read_pools(settings.pools)
        self._domains = Domains(bus, GROUP, settings.instance, pools, self._open_view, self._select)

    def readiness(self) -> Mapping[str, str | None]:
        """Ready when every domain's log has been read to its end."""
        return self._domains.readiness()

    async def run(self, stop: asyncio.Event) -> None:
        """Until asked to stop."""
        await self._domains.run(stop)

    async def _open_view(self, pool: PoolDeclaration) -> DomainView:
        snapshots = self._settings.state_dir / "victim-selection"
        return DomainView(self._bus, pool.name, pool.partition, self._metrics, snapshots=snapshots)

    async def _select(self, view: DomainView) -> None:
        await select_for_ever(view, self._ambient, self._search)
