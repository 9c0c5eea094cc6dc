"""What the agent finds by its entry points: `DEVICES` in the group `bailiff.devices`, `RUNTIME` in `bailiff.runtimes`."""

from bailiff_node_agent.devices.registry import InventoryPlugin
from bailiff_node_agent.runtime.plugin import NodeParts, RuntimePlugin

from .devices import SimulatedInventory, identity_of
from .runtime import SimulatedRuntime
from .tasks import SimulatedMachine


def open_inventory(parts: NodeParts) -> SimulatedInventory:
    """The devices, and the machine whose simulated tasks use them; real processes may use them as well."""
    machine = SimulatedMachine()

    def identify(pid: int) -> int | None:
        return machine.identify(pid) or identity_of(pid)

    inventory = SimulatedInventory(parts.gpus, parts.node, identify, parts.folder / "faults.json", machine)
    machine.attach_devices(inventory)
    return inventory


def open_runtime(parts: NodeParts) -> SimulatedRuntime:
    """On the machine of the node's simulated devices, or on one of its own beside real devices."""
    machine = parts.devices.machine if isinstance(parts.devices, SimulatedInventory) else None
    return SimulatedRuntime(machine or SimulatedMachine())


DEVICES = InventoryPlugin(matches=lambda _: True, real=False, open=open_inventory)
RUNTIME = RuntimePlugin("simulated", open_runtime)
