"""The requests that Bailiff makes to the API server, each by name.

Nothing is retried here: who calls knows whether a request may be repeated. A delete puts precondition and grace into the body:
with a body, the server ignores the parameters of the address.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from .connection import Connection, selectors_of
from .errors import Conflict, Gone, Invalid, NotFound
from .names import MANAGER
from .resources import PODS, Object, Resource

PAGE = 500
_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


Patch = Object | list[Object]
"""An object to merge, or the operations of a JSON patch."""


@dataclass(frozen=True)
class Listing:
    """Objects as of one resource version."""

    items: list[Object]
    resource_version: str


class Api(Connection):
    """Requests by name, on one connection. `connect` opens it."""

    # --- objects

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """One object. Raises `NotFound`."""
        found: Object = await self.request("GET", resource.path(namespace, name))
        return found

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object; None if there is none."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def list(self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Listing:
        """All objects that match the selectors, in pages, as of one resource version."""
        while True:
            try:
                return await self._list(resource, namespace, selectors_of(labels, fields))
            except Gone:  # compacted while paging
                continue

    async def _list(self, resource: Resource, namespace: str | None, selectors: dict[str, str]) -> Listing:
        items: list[Object] = []
        position = ""
        while True:
            query = {**selectors, "limit": str(PAGE), **({"continue": position} if position else {})}
            page = await self.request("GET", resource.path(namespace), query=query)
            # Items of a list do not repeat the list's kind.
            items += [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in page["items"]]
            position = page["metadata"].get("continue") or ""
            if not position:
                return Listing(items, page["metadata"]["resourceVersion"])

    async def create(self, resource: Resource, body: Object, namespace: str | None = None) -> Object:
        """Create the object. Raises `AlreadyExists`."""
        created: Object = await self.request("POST", resource.path(namespace), body, query={"fieldManager": MANAGER})
        return created

    async def replace(self, resource: Resource, body: Object, namespace: str | None = None) -> Object:
        """Replace the object. Raises `Conflict` unless its resourceVersion is the newest."""
        path = resource.path(namespace, body["metadata"]["name"])
        replaced: Object = await self.request("PUT", path, body, query={"fieldManager": MANAGER})
        return replaced

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_s: int | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete the object of this uid. Raises `NotFound`, or `Conflict` where the name has another uid or version by now.

        grace_s 0 is refused for pods: it removes the object while its containers may run.
        """
        if resource == PODS and grace_s == 0:
            raise ValueError("a pod is never deleted with grace 0: its containers may still run")
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {name: value for name, value in conditions.items() if value is not None}:
            body["preconditions"] = preconditions
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        await self.request("DELETE", resource.path(namespace, name), body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        form: str = "merge",
        subresource: str | None = None,
    ) -> Object:
        """Patch the object. form: `merge`, `strategic` (a pod's conditions by type) or `json`: a list of operations."""
        patched: Object = await self.request(
            "PATCH",
            resource.path(namespace, name, subresource),
            patch,
            query={"fieldManager": MANAGER},
            content_type=_PATCHES[form],
        )
        return patched

    async def patch_status(
        self,
        resource: Resource,
        name: str,
        status: Object,
        namespace: str | None = None,
        uid: str = "",
        *,
        metadata: Object | None = None,
    ) -> Object:
        """Merge into the status; conditions by type. With a uid, raises `Conflict` for another object of the name.

        metadata: merged, too; the API server takes a pod's annotations and finalizers with its status.
        """
        patch: Object = {"status": status, "metadata": {**(metadata or {}), **({"uid": uid} if uid else {})}}
        try:
            return await self.patch(resource, name, patch, namespace, form="strategic", subresource="status")
        except Invalid as error:
            if uid and "metadata.uid" in error.message:
                raise Conflict(error.message, error.status, error.reason) from None
            raise

    # --- pods

    async def evict(self, pod: Object, grace_s: int | None = None, *, dry_run: bool = False) -> None:
        """The eviction API, which honours disruption budgets. Raises `BudgetForbids` where one does not allow it."""
        metadata = pod["metadata"]
        options: Object = {"preconditions": {"uid": metadata["uid"]}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if dry_run:
            options["dryRun"] = ["All"]
        identity = {"name": metadata["name"], "namespace": metadata["namespace"]}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": identity, "deleteOptions": options}
        await self.request("POST", PODS.path(metadata["namespace"], metadata["name"], "eviction"), body)


def reference_to(item: Object) -> Object:
    metadata = item["metadata"]
    reference = {"apiVersion": item["apiVersion"], "kind": item["kind"], "name": metadata["name"], "uid": metadata.get("uid", "")}
    return {**reference, "namespace": metadata["namespace"]} if metadata.get("namespace") else reference


def micro_time(at: datetime) -> str:
    """A MicroTime of the API."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_time(at: datetime) -> str:
    """A Time of the API."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
