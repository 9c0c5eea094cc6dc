"""Settings of the runtime `kubernetes` and of the GPUs that a kubelet gives out."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

DNS_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"


class KubernetesSettings(BaseModel):
    """kubeconfig: how to reach the API server; without it as the agent's own pod.

    namespace: of the pods that Bailiff itself creates. kubelet_dir: the kubelet's root directory. pod_resources: its socket, if
    that is elsewhere. gpu_resource: the resource that the device plugin offers. dra_driver: where this DRA driver publishes the
    node's devices, pods get exactly those that they are placed on; empty: never. dra_device_class, dra_mig_device_class: of their
    claims. dra_shared_device_class: of the claims of GPUs that several pods share, where that is another, such as one with the
    driver's own configuration for it. dra_uuid_attribute: the driver's attribute with a device's UUID. kubelet_grace_s: so long
    the kubelet may offer no devices, as while it restarts, before no more pods are placed on its node. placement_timeout_s: a pod
    that no scheduler has bound to the node after this time is given up, and so is one whose image the kubelet cannot pull, or
    whose container it cannot create, for so long. tolerated_taints: keys of taints that do not keep Bailiff
    from a node; pods that it creates itself tolerate them. shells: whether `bailiff shell` opens shells in pods of `bailiff
    submit`, which needs rights to `pods/exec` in their namespace. api_only: this process runs on none of its nodes; it knows and
    changes them by the API server alone (docs/how-to/pods.md#one-agent-for-many-nodes).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: Path | None = None
    namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "bailiff-jobs"
    kubelet_dir: Path = Path("/var/lib/kubelet")
    pod_resources: Path | None = None
    gpu_resource: str = "nvidia.com/gpu"
    dra_driver: Annotated[str, Field(pattern=f"^({DNS_NAME})?$")] = "gpu.nvidia.com"
    dra_device_class: Annotated[str, Field(pattern=f"^{DNS_NAME}$")] = "gpu.nvidia.com"
    dra_mig_device_class: Annotated[str, Field(pattern=f"^{DNS_NAME}$")] = "mig.nvidia.com"
    dra_shared_device_class: Annotated[str, Field(pattern=f"^({DNS_NAME})?$")] = ""
    dra_uuid_attribute: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")] = "uuid"
    kubelet_grace_s: Annotated[float, Field(ge=0)] = 40.0
    placement_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    tolerated_taints: tuple[str, ...] = ("nvidia.com/gpu",)
    shells: bool = False
    api_only: bool = False

    @property
    def pod_resources_socket(self) -> Path:
        """The socket of the kubelet's pod-resources API."""
        return self.pod_resources or self.kubelet_dir / "pod-resources" / "kubelet.sock"
