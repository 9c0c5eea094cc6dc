"""Upper bound of the size of a start command: a job whose command exceeds the message limit could never start."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MAX_INPUT_BYTES
from bailiff_core.model.state import PoolState

REST_OF_THE_COMMAND = 2048
ENCRYPTION = 100  # besides base64
ONE_TASK = 220
ONE_DEVICE = 4
USUAL_TASKS_PER_NODE, USUAL_DEVICE_ID, LONGEST_DEVICE_ID = 1000, 40, 256


def start_command_too_large(state: PoolState, demand: JobDemand, spec: JobSpec) -> str | None:
    """Why the start command could exceed the message limit, with as many tasks on one node as fit; else None."""
    size = sum(group.count for group in demand.tasks)
    gpus = max(devices_of(group) for group in demand.tasks)
    private = len(spec.to_json())
    if state.root_key:
        private = private * 4 // 3 + ENCRYPTION
    if _command(private, size, size * gpus, LONGEST_DEVICE_ID) <= MAX_INPUT_BYTES:
        return None  # for any nodes: most jobs return here
    nodes = state.nodes.values()
    together = min(size, max((node.capacity.slots for node in nodes), default=USUAL_TASKS_PER_NODE))
    longest_id = max((len(device.id) for node in nodes for device in node.devices), default=USUAL_DEVICE_ID)
    devices = min(together * gpus, max((len(node.devices) for node in nodes), default=64))
    command = _command(private, together, devices, longest_id)
    if command <= MAX_INPUT_BYTES:
        return None
    return (
        f"the command to start {together} of its tasks on one node could have {command} bytes, {private} of them command and "
        f"environment; the limit is {MAX_INPUT_BYTES}: move large values into a file that the job reads"
    )


def _command(private: int, tasks: int, devices: int, device_id: int) -> int:
    """Upper bound of the command's size in bytes, for this number of tasks and devices."""
    return private + tasks * ONE_TASK + devices * (device_id + ONE_DEVICE) + REST_OF_THE_COMMAND
