"""The bridge's local view of the cluster: labelled pods, and workloads of the kinds that the cluster has."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from bailiff_kubernetes import Api, ApiError, LocalView, NotFound, names
from bailiff_kubernetes.resources import BAILIFF_JOBS, JOBSETS, NODES, PODS, Object, Resource, without_managed_fields
from bailiff_service.logs import logger

from .memo import Memo
from .view import ClusterView, cluster_view
from .workloads.adapters import ADAPTERS

LOOK_FOR_KINDS_S = 30.0


class ClusterWatch:
    """Follows the API server. changed: called after every change."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._api, self._on_change = api, changed
        self._memo = Memo()
        self._view: ClusterView | None = None
        self.pods = LocalView(api, PODS, labels=names.POOL, trim=without_managed_fields)
        self.nodes = LocalView(api, NODES, trim=_bare_node)
        self._views: dict[str, LocalView] = {}
        self._shown: LocalView | None = None

    def fault(self) -> str | None:
        """Why the view cannot be relied on now; None if it is complete and current."""
        if not self._views:
            return "looking for kinds of workloads"
        for kind, view in (("Pod", self.pods), *self._views.items()):
            if not view.synced.is_set():
                return view.failure or f"listing {kind} objects"
            if not view.current.is_set():
                return view.failure or f"the watch of {kind} objects is interrupted"
        return None

    def view(self) -> ClusterView:
        """The cluster as of now; the same object until something has changed."""
        if self._view is None:
            kinds = {kind: view.objects.values() for kind, view in self._views.items()}
            shown = self._shown.objects.values() if self._shown is not None and self._shown.synced.is_set() else None
            self._view = cluster_view(self.pods.objects.values(), kinds, self.nodes.objects.values(), self._memo, shown)
        return self._view

    async def run(self) -> None:
        """Follow the server, and start following kinds that are installed later, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(self.pods))
            group.create_task(self._follow(self.nodes))
            while True:
                for adapter in ADAPTERS:
                    kind = adapter.resource.kind
                    if kind not in self._views and await self._is_served(adapter.resource):
                        # the JobSet of a TrainJob has no label of its own
                        labels = "" if adapter.resource == JOBSETS else names.POOL
                        self._view = None
                        self._views[kind] = LocalView(self._api, adapter.resource, labels=labels, trim=without_managed_fields)
                        group.create_task(self._follow_kind(kind))
                if self._shown is None and await self._is_served(BAILIFF_JOBS):
                    self._shown = LocalView(self._api, BAILIFF_JOBS, trim=without_managed_fields)
                    group.create_task(self._follow_shown(self._shown))
                await asyncio.sleep(LOOK_FOR_KINDS_S if self._views else 1.0)

    async def _follow(self, view: LocalView) -> None:
        async for _ in view.changes():
            self._changed()

    def _changed(self) -> None:
        self._view = None
        self._on_change()

    async def _follow_kind(self, kind: str) -> None:
        """Until the cluster does not have the kind any more, as where its controller is uninstalled."""
        try:
            await self._follow(self._views[kind])
        except NotFound:
            del self._views[kind]
            logger().warning("kind uninstalled", kind=kind)
            self._changed()

    async def _follow_shown(self, view: LocalView) -> None:
        """Until the cluster does not have them any more. Nothing is decided on them, so their fault is nobody's."""
        with suppress(NotFound):
            await self._follow(view)
        self._shown = None
        self._changed()

    async def _is_served(self, resource: Resource) -> bool:
        try:
            await self._api.request("GET", resource.path(), query={"limit": "1"})
        except NotFound:
            return False
        except ApiError as error:
            logger().warning("kind not readable", kind=resource.kind, reason=error.message)
            return False
        return True


def _bare_node(node: Object) -> Object:
    """What cordons need of it: a heartbeat in its status then changes nothing here."""
    return {**without_managed_fields(node), "status": {}}
