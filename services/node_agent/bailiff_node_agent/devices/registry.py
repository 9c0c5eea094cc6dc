"""The inventories that a node can have, by its setting `gpus`: those in `PLUGINS`, and plug-ins of other packages.

A package adds one by an entry point of the group `bailiff.devices` that names an `InventoryPlugin`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bailiff_node_agent.plugins import installed
from bailiff_node_agent.runtime import NodeParts

from .inventory import DeviceInventory, NoDriver
from .nvml import NvmlInventory


@dataclass(frozen=True)
class InventoryPlugin:
    """matches: whether the setting `gpus` means this inventory. real: the devices are this machine's own, and so are the
    node's CPU and memory. open: raises `NoDriver`, or `ValueError` for a malformed setting.
    """

    matches: Callable[[str], bool]
    real: bool
    open: Callable[[NodeParts], DeviceInventory]


def _of_kubelet(parts: NodeParts) -> DeviceInventory:
    from .kubernetes import KubernetesInventory  # late: only nodes with a kubelet have its dependencies

    if parts.cluster_node is not None:
        from .cluster import ClusterInventory

        return ClusterInventory(parts.cluster_node)
    settings = parts.settings.kubernetes
    try:
        inventory = KubernetesInventory(
            settings.pod_resources_socket, settings.gpu_resource, settings.kubelet_grace_s, parts.published
        )
        inventory.list()
    except (ImportError, OSError) as problem:
        raise NoDriver(f"no kubelet to ask for GPUs: {problem}") from None
    return inventory


PLUGINS = (
    InventoryPlugin(lambda spec: spec == "nvml", real=True, open=lambda _: NvmlInventory()),
    InventoryPlugin(lambda spec: spec == "kubernetes", real=True, open=_of_kubelet),
    InventoryPlugin(lambda spec: spec == "0", real=False, open=lambda _: DeviceInventory()),
)


def inventory_plugin(spec: str) -> InventoryPlugin:
    """The inventory that the setting `gpus` names. Raises `ValueError` for an unknown one."""
    plugins: tuple[InventoryPlugin, ...] = (*PLUGINS, *installed("bailiff.devices"))
    found = next((each for each in plugins if each.matches(spec)), None)
    if found is None:
        raise ValueError(
            f"gpus: {spec!r} is neither nvml nor kubernetes, nor 0 for none; "
            "simulated GPUs such as 8xH100-80GB need the package bailiff-devstack beside the agent"
        )
    return found
