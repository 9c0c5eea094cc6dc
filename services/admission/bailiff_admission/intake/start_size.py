"""How large the command that starts a job may become: it travels on a topic, too, and what does not fit never starts."""

from bailiff_bus.envelope import MAX_INPUT_BYTES
from bailiff_bus.messages import JobSpec
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.pool import Pool
from bailiff_core.model.sharing import devices_of

REST_OF_THE_COMMAND = 2048
ONE_TASK = 220
ONE_DEVICE = 4
USUAL_TASKS_PER_NODE, USUAL_DEVICE_ID, LONGEST_DEVICE_ID = 1000, 40, 256


def too_large_to_start(pool: Pool, demand: JobDemand, spec: JobSpec) -> str | None:
    """Why no node could be told to start this gang, if one node got as many of its tasks as it takes."""
    size = sum(group.count for group in demand.tasks)
    gpus = max(devices_of(group) for group in demand.tasks)
    private = len(spec.to_json())
    if _command(private, size, size * gpus, LONGEST_DEVICE_ID) <= MAX_INPUT_BYTES:
        return None  # whatever the nodes are: most jobs need no look at all of them
    nodes = pool.nodes.values()
    together = min(size, max((node.capacity.slots for node in nodes), default=USUAL_TASKS_PER_NODE))
    longest_id = max((len(device.id) for node in nodes for device in node.devices), default=USUAL_DEVICE_ID)
    devices = min(together * gpus, max((len(node.devices) for node in nodes), default=64))
    command = _command(private, together, devices, longest_id)
    if command <= MAX_INPUT_BYTES:
        return None
    return (
        f"the order to start {together} of its tasks on one node could have {command} bytes, {private} of them command and "
        f"environment, and at most {MAX_INPUT_BYTES} can be sent: put large values into a file that the job reads"
    )


def _command(private: int, tasks: int, devices: int, device_id: int) -> int:
    """Bytes, at most, of the command with so many tasks and devices."""
    return private + tasks * ONE_TASK + devices * (device_id + ONE_DEVICE) + REST_OF_THE_COMMAND
