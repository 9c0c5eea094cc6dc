"""Resolves the nodes of a snapshot, and assigns the placed tasks to their devices.

Devices that a task does not name are assigned as by placement: whole ones from the lowest number on, shares on the fullest
device on which they fit.
"""

from dataclasses import dataclass, field

from bailiff_core.humanize import count_text
from bailiff_core.model.gpu_shares import devices_of, share_of, shares_devices, units_of
from bailiff_core.model.mig import profile_of
from bailiff_core.model.placement_ranges import bits
from bailiff_core.model.references import Fault, Place, duplicate_faults, suggest
from bailiff_core.model.resources import add
from bailiff_core.model.state import Device, Resources

from .snapshot import DeviceDoc, NodeDoc
from .snapshot_jobs import PLACED_STATES, ResolvedJob, ResolvedTask


@dataclass(slots=True)
class ResolvedNode:
    """A node, and what its tasks take of it; those that are releasing apart."""

    doc: NodeDoc
    number: int
    place: Place
    devices: list[Device]
    held: Resources = field(default_factory=Resources)
    releasing: Resources = field(default_factory=Resources)

    def number_of(self, device: str) -> int | None:
        """The device's number, by its id."""
        return next((found.number for found in self.devices if found.id == device), None)

    def excluding(self, task: ResolvedTask) -> tuple[Resources, ...]:
        """What the task cannot have. A reservation may use what releasing tasks still take."""
        return (self.held,) if task.state == "reserved" else (self.held, self.releasing)

    def taken_with(self, task: ResolvedTask) -> Resources:
        """Where what the task takes is counted."""
        return self.releasing if task.state == "releasing" else self.held


def resolve_node(doc: NodeDoc, number: int, faults: list[Fault]) -> ResolvedNode:
    place: Place = ("nodes", number)
    if doc.gpus is not None and doc.devices is not None:
        faults.append(Fault((*place, "devices"), "gpus counts what devices lists: leave one of them out"))
    listed = doc.devices
    if listed is None:
        listed = tuple(DeviceDoc(id=str(each), model=doc.gpu_model, memory=doc.gpu_memory) for each in range(doc.gpus or 0))
    else:
        faults += duplicate_faults([each.id for each in listed], (*place, "devices"), "id")
    devices = [
        Device(
            at,
            each.id,
            each.model,
            each.memory,
            "mig" if each.mig is not None else "gpu",
            healthy=each.healthy,
            labels=dict(each.labels),
            profile=each.mig or "",
            island=each.island,
        )
        for at, each in enumerate(listed)
    ]
    return ResolvedNode(doc, number, place, devices)


def assign_devices(nodes: list[ResolvedNode], jobs: list[ResolvedJob], faults: list[Fault]) -> None:
    """Assigns every placed task to its node: releasing tasks first, so that reservations may use their resources.

    Tasks that name devices get these, the others any that remain free.
    """
    placed = [task for job in jobs for task in job.tasks if task.state in PLACED_STATES and task.node is not None]
    order = {"releasing": 0, "stuck_releasing": 1, "running": 1, "reserved": 2}
    placed.sort(
        key=lambda task: (task.state == "reserved", not task.requested_devices, order[task.state], shares_devices(task.group))
    )
    for task in placed:
        assert task.node is not None
        node = nodes[task.node]
        problem = _choose_devices(node, task) or _take(node, task)
        if problem is not None:
            faults.append(Fault((*task.place, "devices" if task.requested_devices else "node"), problem))


def _choose_devices(node: ResolvedNode, task: ResolvedTask) -> str | None:
    group, name = task.group, node.doc.name
    wanted = devices_of(group)
    chosen: list[int] = []
    for device in task.requested_devices:
        number = node.number_of(device)
        if number is None:
            return f"node {name} has no device {device!r}; {suggest(device, [each.id for each in node.devices])}"
        if number in chosen:
            return f"device {device!r} is named twice"
        chosen.append(number)
    if chosen and len(chosen) != wanted:
        return f"names {count_text(len(chosen), 'device')}, but the task takes {wanted}"
    if not chosen and wanted:
        found = _free_devices(node, task, wanted)
        if found is None:
            what = f"{group.mig_profile} MIG device" if group.mig_profile is not None else "GPU"
            count = sum(profile_of(device) == (group.mig_profile or "") for device in node.devices)
            return f"node {name} has {count_text(count, what)}, and too few are left for this {task.state} task"
        chosen = found
    for number in chosen:
        problem = _blocked(node, task, number)
        if problem is not None:
            return problem
    task.devices = sum(1 << number for number in chosen)
    return None


def _blocked(node: ResolvedNode, task: ResolvedTask, number: int) -> str | None:
    """Why the task cannot have the device. Releasing tasks block running ones, but not reservations."""
    device, taken = node.devices[number], node.excluding(task)
    what = f"device {device.id!r} of {node.doc.name}"
    if profile_of(device) != (task.group.mig_profile or ""):
        return f"{what} is {f'a {device.profile} MIG device' if device.profile else 'a GPU'}, which the task does not request"
    if not device.healthy:
        return f"{what} is not healthy"
    if any(each.devices >> number & 1 for each in taken):
        return f"{what} is allocated whole to another task already"
    used = sum(each.shares.get(number, 0) for each in taken)
    if not shares_devices(task.group):
        return f"{what} is shared by other tasks already" if used else None
    if used + share_of(task.group, device) > units_of(device):
        return f"{what} is full: {used * 100 // units_of(device)} % of it are taken"
    return None


def _free_devices(node: ResolvedNode, task: ResolvedTask, wanted: int) -> list[int] | None:
    numbers = [device.number for device in node.devices if _blocked(node, task, device.number) is None]
    if shares_devices(task.group):  # the fullest first
        numbers.sort(key=lambda number: (-node.held.shares.get(number, 0) - node.releasing.shares.get(number, 0), number))
    elif task.state == "reserved":  # free devices before releasing ones
        numbers.sort(key=lambda number: (node.releasing.devices >> number & 1, number))
    return sorted(numbers[:wanted]) if len(numbers) >= wanted else None


def _take(node: ResolvedNode, task: ResolvedTask) -> str | None:
    """Counts what the task takes of the node. Why that is too much of its CPUs, memory or tasks."""
    group, chosen = task.group, bits(task.devices)
    shares = {number: share_of(group, node.devices[number]) for number in chosen} if shares_devices(group) else {}
    add(node.taken_with(task), 0 if shares else task.devices, group.cpu_milli, group.memory_bytes, shares)
    capacity = {"cpu_milli": node.doc.cpus, "memory_bytes": node.doc.memory, "slots": node.doc.max_tasks}
    for what, bound in capacity.items():
        used = sum(getattr(each, what) for each in node.excluding(task))
        if used > bound:
            amounts = f"it has {_amount(what, bound)}, and its tasks take {_amount(what, used)}"
            return f"node {node.doc.name} is overcommitted: {amounts}"
    return None


def _amount(what: str, value: int) -> str:
    if what == "cpu_milli":
        return f"{value / 1000:g} cores"
    return f"{value / 2**30:g}GiB of memory" if what == "memory_bytes" else count_text(value, "task")
