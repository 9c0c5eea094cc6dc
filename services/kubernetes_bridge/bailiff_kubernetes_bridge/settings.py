"""Settings of the bridge beyond the common ones."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from bailiff_core.model.document import Name
from bailiff_service.settings import ServiceSettings

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace() -> str:
    """The namespace of the pod that this is; `bailiff` outside of the cluster."""
    return OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else "bailiff"


class BridgeSettings(ServiceSettings):
    """Settings in addition to the common ones.

    kubeconfig: of the cluster; without one the pod's service account. cluster: the cluster's name, in labels of jobs and as the
    issuer of its users. key: file with the private key that signs requests. actor: the key's name in the policy.

    kubernetes_priority_classes: Bailiff's priority class for a PriorityClass of the cluster. lease_namespace, lease_name: the
    Lease by which replicas elect the one that acts. kubernetes_controllers: accounts of controllers that create pods and Jobs for
    others, whose user is who created the workflow.
    """

    kubeconfig: Path | None = None
    cluster: Name = "kubernetes"
    key: Path | None = None
    actor: str = "kubernetes"
    kubernetes_priority_classes: dict[str, Name] = Field(default_factory=dict)
    kubernetes_controllers: tuple[str, ...] = ()
    lease_namespace: Annotated[str, Field(min_length=1)] = Field(default_factory=own_namespace)
    lease_name: Annotated[str, Field(min_length=1)] = "bailiff-kubernetes-bridge"
