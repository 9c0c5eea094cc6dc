"""What is left to do when Bailiff has been uninstalled from a Kubernetes cluster: `python -m bailiff.kubernetes_cleanup`.

The node agents' finalizer keeps the objects of ended pods until their devices are proven free. Without agents it would keep them,
and their namespaces, for ever. It is taken off every pod. So are the condition `bailiff.io/Placed` of pods and Jobs, which nobody
keeps true any more, and the nominated node of gated pods, for which kube-scheduler would keep room. Nothing else is changed, and
running pods go on.
"""

import asyncio
import contextlib
import sys

from bailiff_kubernetes import Api, Conflict, Invalid, NotFound, Object
from bailiff_kubernetes.names import FINALIZER, PLACED
from bailiff_kubernetes.resources import JOBS, PODS, condition_of, is_gated, uid_of

ATTEMPTS = 5


async def remove_finalizers(api: Api) -> int:
    """Take Bailiff's finalizer off every pod that has it. Returns the number of pods."""
    found = [pod["metadata"] for pod in (await api.list(PODS)).items if FINALIZER in pod["metadata"].get("finalizers", ())]
    for metadata in found:
        await _remove_finalizer(api, metadata["namespace"], metadata["name"], metadata["finalizers"])
    return len(found)


async def remove_conditions(api: Api) -> int:
    """Take the condition `bailiff.io/Placed` off every pod and Job that has it. Returns the number of objects."""
    found = [(kind, item) for kind in (PODS, JOBS) for item in (await api.list(kind)).items if condition_of(item, PLACED)]
    gone: Object = {"conditions": [{"type": PLACED, "$patch": "delete"}]}
    for kind, item in found:
        with contextlib.suppress(NotFound):
            await api.patch_status(kind, item["metadata"]["name"], gone, item["metadata"]["namespace"], uid_of(item))
    return len(found)


async def remove_nominations(api: Api) -> int:
    """Take the nominated node off every pod that waits in Bailiff's gate. Returns the number of pods."""
    found = [pod for pod in (await api.list(PODS)).items if is_gated(pod) and pod.get("status", {}).get("nominatedNodeName")]
    for pod in found:
        with contextlib.suppress(NotFound):
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            await api.patch_status(PODS, name, {"nominatedNodeName": None}, namespace, uid_of(pod))
    return len(found)


async def _remove_finalizer(api: Api, namespace: str, name: str, finalizers: list[str]) -> None:
    """Others may change the pod's finalizers meanwhile, so the position of ours is a condition of the change."""
    for _ in range(ATTEMPTS):
        path = f"/metadata/finalizers/{finalizers.index(FINALIZER)}"
        patch = [{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}]
        try:
            await api.patch(PODS, name, patch, namespace, form="json")
            return
        except NotFound:
            return
        except (Conflict, Invalid):
            now = await api.find(PODS, name, namespace)
            finalizers = (now or {"metadata": {}})["metadata"].get("finalizers", [])
            if FINALIZER not in finalizers:
                return
    raise RuntimeError(f"pod {namespace}/{name}: its finalizers keep changing")


async def main() -> None:
    """With the pod's service account, or the kubeconfig that `KUBECONFIG` names."""
    async with await Api.connect() as api:
        sys.stdout.write(f"{await remove_conditions(api)} pods and Jobs no longer have the condition {PLACED}\n")
        sys.stdout.write(f"{await remove_nominations(api)} gated pods are no longer nominated to a node\n")
        sys.stdout.write(f"{await remove_finalizers(api)} pods no longer have the finalizer {FINALIZER}\n")


if __name__ == "__main__":
    asyncio.run(main())
