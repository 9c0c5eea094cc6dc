"""The bridge's local view of the cluster: labelled pods, and workloads of the kinds that the cluster has."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from bailiff_kubernetes import Api, ApiError, LocalView, NotFound, names, resources
from bailiff_service.logs import logger

from .memo import Memo
from .view import ClusterView, cluster_view
from .workloads.adapters import ADAPTERS

LOOK_FOR_KINDS_S = 30.0
WORKFLOWS = (resources.WORKFLOWS, resources.CRON_WORKFLOWS, resources.TRIALS, resources.EXPERIMENTS)
"""What has controllers that create for others: of Argo and of Katib."""
EXTRA = (resources.BAILIFF_JOBS, resources.EVICTIONS, *WORKFLOWS)
"""What is used where the cluster has it."""


class ClusterWatch:
    """Follows the API server. changed: called after every change."""

    def __init__(self, api: Api, changed: Callable[[], None]) -> None:
        self._api, self._on_change = api, changed
        self._memo = Memo()
        self._view: ClusterView | None = None
        self.pods = LocalView(api, resources.PODS, labels=names.POOL, trim=resources.without_managed_fields)
        self.nodes = LocalView(api, resources.NODES, trim=_bare)
        self._storage = [
            LocalView(api, each, trim=resources.without_managed_fields)
            for each in (resources.VOLUME_CLAIMS, resources.VOLUMES, resources.STORAGE_CLASSES)
        ]
        self._budgets = LocalView(api, resources.DISRUPTION_BUDGETS, trim=_bare)
        self._quotas = LocalView(api, resources.QUOTAS, trim=resources.without_managed_fields)
        self._views: dict[str, LocalView] = {}
        self._extra: dict[resources.Resource, LocalView] = {}

    def fault(self) -> str | None:
        """Why the view cannot be relied on now; None if it is complete and current."""
        if not self._views:
            return "looking for kinds of workloads"
        beside = {view.resource.kind: view for view in (*self._storage, self._budgets, self._quotas)}
        for kind, view in (("Pod", self.pods), *beside.items(), *self._views.items()):
            if not view.synced.is_set():
                return view.failure or f"listing {kind} objects"
            if not view.current.is_set():
                return view.failure or f"the watch of {kind} objects is interrupted"
        return None

    def view(self) -> ClusterView:
        """The cluster as of now; the same object until something has changed."""
        if self._view is None:
            kinds = {kind: view.objects.values() for kind, view in self._views.items()}
            shown, evictions = self._objects_of(resources.BAILIFF_JOBS), self._objects_of(resources.EVICTIONS) or ()
            storage = [item for view in self._storage for item in view.objects.values()]
            workflows = [item for kind in WORKFLOWS for item in self._objects_of(kind) or ()]
            beside = (self.pods, self.nodes, self._budgets, self._quotas)
            pods, nodes, budgets, quotas = (view.objects.values() for view in beside)
            self._view = cluster_view(pods, kinds, nodes, self._memo, shown, evictions, storage, workflows, budgets, quotas)
        return self._view

    async def run(self) -> None:
        """Follow the server, and start following kinds that are installed later, for ever."""
        async with asyncio.TaskGroup() as group:
            for view in (self.pods, self.nodes, *self._storage, self._budgets, self._quotas):
                group.create_task(self._follow(view))
            while True:
                for adapter in ADAPTERS:
                    kind = adapter.resource.kind
                    if kind not in self._views and await self._is_served(adapter.resource):
                        # the JobSet of a TrainJob has no label of its own
                        labels = "" if adapter.resource == resources.JOBSETS else names.POOL
                        self._view = None
                        self._views[kind] = LocalView(
                            self._api, adapter.resource, labels=labels, trim=resources.without_managed_fields
                        )
                        group.create_task(self._follow_kind(kind))
                for resource in EXTRA:
                    if resource not in self._extra and await self._is_served(resource):
                        is_workflow = resource in WORKFLOWS
                        labels, trim = (names.POOL, _metadata_only) if is_workflow else ("", resources.without_managed_fields)
                        self._extra[resource] = LocalView(self._api, resource, labels=labels, trim=trim)
                        group.create_task(self._follow_extra(resource))
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

    def _objects_of(self, resource: resources.Resource) -> Iterable[resources.Object] | None:
        view = self._extra.get(resource)
        return view.objects.values() if view is not None and view.synced.is_set() else None

    async def _follow_extra(self, resource: resources.Resource) -> None:
        """Until the cluster does not have them any more. Workloads are served without them."""
        with suppress(NotFound):
            await self._follow(self._extra[resource])
        del self._extra[resource]
        self._changed()

    async def _is_served(self, resource: resources.Resource) -> bool:
        try:
            await self._api.request("GET", resource.path(), query={"limit": "1"})
        except NotFound:
            return False
        except ApiError as error:
            logger().warning("kind not readable", kind=resource.kind, reason=error.message)
            return False
        return True


def _metadata_only(item: resources.Object) -> resources.Object:
    """A workflow grows while it runs; of it only who created it is read."""
    return {"metadata": resources.without_managed_fields(item)["metadata"]}


def _bare(item: resources.Object) -> resources.Object:
    """Of a node and a budget: what changes in its status, as with a heartbeat, changes nothing here."""
    return {**resources.without_managed_fields(item), "status": {}}
