"""Nodes: inventory, reachability, loss."""

from collections.abc import Collection

from bailiff_core.model.state import Device, Node, PoolState, Resources
from bailiff_core.records import facts

from .allocation import recount_shares
from .devices import mark_device_failed
from .failed_starts import note_joined
from .log import remember
from .registry import folds
from .snapshots import offer_other_nodes
from .tasks import release_task

REPARTITIONED = "its card is partitioned differently now"


@folds(facts.NodeJoined)
def node_joined(state: PoolState, fact: facts.NodeJoined) -> None:
    """A new agent incarnation. Devices known before keep their numbers; those that are missing count as unhealthy.

    A new device takes the number of a missing, unused one if there is any, so that numbers stay small. Missing MIG devices, and
    cards that were partitioned, are gone.
    """
    known = state.nodes.get(fact.number)
    devices = list(known.devices) if known is not None else []
    numbers = {device.id: device.number for device in devices}
    present = {device.id for device in fact.devices}
    vacant = [] if known is None else _vacant(known, present)
    for info in fact.devices:
        number = numbers.get(info.id, -1)
        if number < 0:
            number = vacant.pop(0) if vacant else len(devices)
        device = Device(
            number,
            info.id,
            info.model,
            info.memory_bytes,
            info.kind,
            info.parent,
            info.healthy,
            dict(info.labels),
            info.fault,
            state.now if info.fault else None,
            profile=info.profile,
            island=info.island,
        )
        if number == len(devices):
            devices.append(device)
        else:
            devices[number] = device
    cards = {device.parent for device in fact.devices}
    for device in devices:
        if known is not None and device.id not in present and (device.kind == "mig" or device.id in cards) and not device.gone:
            device.gone, device.fault = True, REPARTITIONED
            mark_device_failed(state, known, device)
        device.healthy = device.healthy and device.id in present
    for before in known.devices if known is not None else ():
        _keep_fault(state, known, before, devices[before.number])
    usable = sum(1 << device.number for device in devices if device.healthy)
    node = Node(
        number=fact.number,
        name=fact.node,
        incarnation=fact.incarnation,
        machine_id=fact.machine_id,
        boot_id=fact.boot_id,
        joined_seq=state.seq,
        capacity=Resources(usable, fact.cpu_milli, fact.memory_bytes, fact.max_tasks),
        devices=devices,
        labels=dict(fact.labels),
        last_report=fact.report_number,
        lease=state.rules.nodes.lease,
        checkpoint_store=fact.checkpoint_store,
        snapshots=fact.snapshots,
        parking=fact.parking,
    )
    if known is not None:
        # A new agent releases nothing: what tasks hold is free only once their release is reported.
        node.allocated, node.releasing, node.reserved = known.allocated, known.releasing, known.reserved
        node.quarantined = known.quarantined
        node.drain = known.drain
        if known.machine_id != fact.machine_id:  # quarantined devices of another machine do not count
            node.quarantined &= sum(1 << device.number for device in devices if device.id in present)
    state.nodes[fact.number] = node
    if node.allocated.shares or node.reserved.shares:
        recount_shares(state, node)
    state.node_numbers[fact.node] = fact.number
    if fact.announced is not None and fact.node in state.enrolled:
        state.enrolled[fact.node].announced = fact.announced
    if known is not None and (known.snapshots, known.parking) != (node.snapshots, node.parking):
        state.indices.changed_jobs.update(dict.fromkeys(state.active))  # what evicting them costs has changed
    # What never fitted the nodes before may fit this one.
    state.indices.infeasible.clear()
    state.indices.changed_nodes[fact.number] = None
    note_joined(state, fact.node)
    _note_contact(state, fact.node)


def _keep_fault(state: PoolState, node: Node | None, before: Device, device: Device) -> None:
    """Keeps the fault of a device across agent incarnations; tasks on a device that is now unhealthy are marked."""
    if node is None or before.id != device.id:
        return
    if node.quarantined >> device.number & 1 or not device.healthy:
        device.fault = device.fault or before.fault or "its agent does not see it any more"
        device.fault_since = before.fault_since if before.fault_since is not None else state.now
        device.fault_job, device.clear_seq = before.fault_job, before.clear_seq
    if before.healthy and not device.healthy:
        mark_device_failed(state, node, device)


def device_numbers_after(node: Node, present: Collection[str]) -> int:
    """How many device numbers the node has once it has joined with these devices: one in use is not given to another device."""
    new = len(set(present).difference(device.id for device in node.devices))
    return len(node.devices) + max(0, new - len(_vacant(node, present)))


def _vacant(node: Node, present: Collection[str]) -> list[int]:
    """Numbers of devices that are gone and not in use."""
    used = _used(node)
    return [device.number for device in node.devices if device.id not in present and not used >> device.number & 1]


def _used(node: Node) -> int:
    """Mask of devices that are allocated, reserved or quarantined."""
    used = node.allocated.devices | node.reserved.devices | node.quarantined
    for number in (*node.allocated.shares, *node.reserved.shares):
        used |= 1 << number
    return used


@folds(facts.NodeReplaced)
def node_replaced(state: PoolState, fact: facts.NodeReplaced) -> None:
    """Assigns the node's name to that machine."""
    state.nodes[state.node_numbers[fact.node]].machine_id = fact.machine_id
    remember(state, fact.request)


@folds(facts.NodeReturned)
def node_returned(state: PoolState, fact: facts.NodeReturned) -> None:
    """Allows this node, or all silent ones, to be declared lost or reachable like a single silent node."""
    for node in state.nodes.values():
        if fact.node in (None, node.name) and node.state == "unreachable":
            node.silence_confirmed = True
    state.silent_nodes = [name for name in state.silent_nodes if fact.node not in (None, name)]
    remember(state, fact.request)


@folds(facts.NodeUnreachable)
def node_unreachable(state: PoolState, fact: facts.NodeUnreachable) -> None:
    """The node takes no new tasks; its tasks count as running. Jobs that did not fit are tried again."""
    state.indices.retry_unschedulable = True
    state.nodes[state.node_numbers[fact.node]].state = "unreachable"
    state.indices.infeasible.clear()
    state.indices.changed_nodes[state.node_numbers[fact.node]] = None


@folds(facts.NodeReachable)
def node_reachable(state: PoolState, fact: facts.NodeReachable) -> None:
    """The node is schedulable again."""
    state.nodes[state.node_numbers[fact.node]].state = "ready"
    state.indices.infeasible.clear()
    state.indices.changed_nodes[state.node_numbers[fact.node]] = None
    _note_contact(state, fact.node)


def _note_contact(state: PoolState, node: str) -> None:
    """The node is schedulable again; a later silence is judged from the start."""
    state.indices.retry_unschedulable = True
    state.nodes[state.node_numbers[node]].silence_confirmed = False
    if node in state.silent_nodes:
        state.silent_nodes.remove(node)


@folds(facts.NodeLost)
def node_lost(state: PoolState, fact: facts.NodeLost) -> None:
    """The lease expired: the node's tasks are released."""
    state.indices.retry_unschedulable = True
    number = state.node_numbers[fact.node]
    state.nodes[number].state = "lost"
    state.indices.infeasible.clear()
    state.indices.changed_nodes[number] = None
    for job in state.active_jobs():
        for task in job.tasks:
            if task.node == number and task.state not in ("reserved", "released"):
                release_task(state, job, task)
    for job in [state.jobs[name] for name in state.parked]:
        if job.snapshot is not None and any(each.node == number for each in job.snapshot.tasks):
            offer_other_nodes(state, job)


@folds(facts.NodesSilent)
def nodes_silent(state: PoolState, fact: facts.NodesSilent) -> None:
    """These nodes are unreachable and not declared lost until an operator confirms it."""
    state.indices.retry_unschedulable = True
    state.silent_nodes = list(fact.nodes)
    for name in fact.nodes:
        state.nodes[state.node_numbers[name]].state = "unreachable"
        state.indices.changed_nodes[state.node_numbers[name]] = None
    state.indices.infeasible.clear()
