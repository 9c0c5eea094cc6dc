"""An API server with pods and their ResourceClaims, in memory."""

from typing import Any

from bailiff_kubernetes import AlreadyExists, Conflict, NotFound
from bailiff_kubernetes.client import Listing
from bailiff_kubernetes.names import TASK_HASH
from bailiff_kubernetes.resources import PODS, RESOURCE_CLAIMS, Object, labels_of


class ClaimsServer:
    """The API server's pods and claims by kind and name. log: what was changed, in order. away: kinds that cannot be changed.

    refusals: what its next creations of claims are answered with.
    """

    def __init__(self, *refusals: Exception) -> None:
        self.refusals, self.objects = [*refusals], dict[tuple[str, str], Object]()
        self.log, self.away = list[str](), set[str]()

    async def create(self, resource: Any, body: Object, namespace: str) -> Object:
        name = body["metadata"]["name"]
        if resource == RESOURCE_CLAIMS and self.refusals:
            raise self.refusals.pop(0)
        if resource.kind in self.away:
            raise Conflict("not now", 409)
        if (resource.kind, name) in self.objects:
            raise AlreadyExists("there is one", 409)
        self.log.append(f"create {resource.kind}")
        metadata = {**body["metadata"], "namespace": namespace, "uid": f"uid of {name}", "resourceVersion": "1"}
        self.objects[resource.kind, name] = {**body, "metadata": metadata}
        return self.objects[resource.kind, name]

    async def find(self, resource: Any, name: str, _: str) -> Object | None:
        return self.objects.get((resource.kind, name))

    async def patch(self, resource: Any, name: str, patch: Object, _: str, *, form: str) -> Object:
        assert form == "strategic"
        found = self.objects.get((resource.kind, name))
        if found is None:
            raise NotFound("it is gone", 404)
        if resource.kind in self.away:
            raise Conflict("not now", 409)
        for owner in patch["metadata"].get("ownerReferences", []):
            owners = found["metadata"]["ownerReferences"]
            found["metadata"]["ownerReferences"] = [each for each in owners if each["uid"] != owner["uid"]] + [owner]
            self.log.append(f"own {resource.kind}")
        for gate in patch.get("spec", {}).get("schedulingGates", []):
            assert gate["$patch"] == "delete"
            found["spec"]["schedulingGates"] = [each for each in found["spec"]["schedulingGates"] if each["name"] != gate["name"]]
            self.log.append("open the gate")
        return found

    async def patch_status(self, resource: Any, name: str, *_: Any, **__: Any) -> Object:
        return self.objects[resource.kind, name]

    async def delete(self, resource: Any, name: str, *_: str, **__: Any) -> None:
        self.log.append(f"delete {resource.kind}")
        del self.objects[resource.kind, name]

    # --- what Kubernetes does

    def collect(self) -> None:
        """Remove claims that no pod owns any more."""
        pods = {pod["metadata"]["uid"] for (kind, _), pod in self.objects.items() if kind == PODS.kind}
        for at, claim in [*self.objects.items()]:
            if at[0] == RESOURCE_CLAIMS.kind and not {each["uid"] for each in claim["metadata"]["ownerReferences"]} & pods:
                del self.objects[at]

    def begin_removal(self, claim: str) -> None:
        self.objects[RESOURCE_CLAIMS.kind, claim]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"

    def owners(self, claim: str) -> list[str]:
        return [each["name"] for each in self.objects[RESOURCE_CLAIMS.kind, claim]["metadata"]["ownerReferences"]]

    def gates(self, pod: str) -> list[str]:
        return [each["name"] for each in self.objects[PODS.kind, pod]["spec"]["schedulingGates"]]

    async def list(self, resource: Any, *_: str, labels: str) -> Listing:
        found = [each for (kind, _), each in self.objects.items() if kind == resource.kind]
        return Listing([each for each in found if labels_of(each).get(TASK_HASH) == labels.partition("=")[2]], "1")
