"""Machines: who they are, and whether they speak."""

from bailiff_core.model.pool import Device, Node, Pool, Room
from bailiff_core.records import facts

from .devices import lose_device
from .log import remember
from .register import folds
from .room import recount_shares
from .tasks import task_gone


@folds(facts.NodeJoined)
def node_joined(pool: Pool, fact: facts.NodeJoined) -> None:
    """A new agent incarnation. Devices known before keep their numbers; those that are missing count as unhealthy.

    A device never seen takes the number of a missing one that nobody stands on, so that numbers stay small.
    """
    known = pool.nodes.get(fact.number)
    devices = list(known.devices) if known is not None else []
    numbers = {device.id: device.number for device in devices}
    present = {device.id for device in fact.devices}
    used = _used(known) if known is not None else 0
    vacant = [device.number for device in devices if device.id not in present and not used >> device.number & 1]
    for found in fact.devices:
        number = numbers.get(found.id, -1)
        if number < 0:
            number = vacant.pop(0) if vacant else len(devices)
        device = Device(
            number,
            found.id,
            found.model,
            found.memory_bytes,
            found.kind,
            found.parent,
            found.healthy,
            dict(found.labels),
            found.trouble,
            pool.now if found.trouble else None,
        )
        if number == len(devices):
            devices.append(device)
        else:
            devices[number] = device
    for device in devices:
        device.healthy = device.healthy and device.id in present
    for before in known.devices if known is not None else ():
        _in_trouble(pool, known, before, devices[before.number])
    usable = sum(1 << device.number for device in devices if device.healthy)
    node = Node(
        number=fact.number,
        name=fact.node,
        incarnation=fact.incarnation,
        machine_id=fact.machine_id,
        boot_id=fact.boot_id,
        joined_seq=pool.seq,
        capacity=Room(usable, fact.cpu_milli, fact.memory_bytes, fact.max_tasks),
        devices=devices,
        labels=dict(fact.labels),
        last_report=fact.report,
        lease=pool.rules.nodes.lease,
        checkpoints=fact.checkpoints,
    )
    if known is not None:
        node.held, node.releasing, node.reserved = known.held, known.releasing, known.reserved
        node.quarantined = known.quarantined
        node.drain = known.drain
        if known.machine_id != fact.machine_id:  # what another machine left dirty is not here
            node.quarantined &= sum(1 << device.number for device in devices if device.id in present)
    pool.nodes[fact.number] = node
    if node.held.shares or node.reserved.shares:
        recount_shares(pool, node)
    pool.node_numbers[fact.node] = fact.number
    pool.ever_fits.clear()
    pool.stale_nodes[fact.number] = None
    _speaks(pool, fact.node)


def _in_trouble(pool: Pool, node: Node | None, before: Device, device: Device) -> None:
    """Another incarnation of its agent makes a device no better; who stands on one that is broken now has lost it."""
    if node is None or before.id != device.id:
        return
    if node.quarantined >> device.number & 1 or not device.healthy:
        device.trouble = device.trouble or before.trouble or "its agent does not see it any more"
        device.trouble_since = before.trouble_since if before.trouble_since is not None else pool.now
        device.left_by, device.clear_seq = before.left_by, before.clear_seq
    if before.healthy and not device.healthy:
        lose_device(pool, node, device)


def _used(node: Node) -> int:
    """Devices that somebody stands on, is promised, or left dirty."""
    used = node.held.devices | node.reserved.devices | node.quarantined
    for number in (*node.held.shares, *node.reserved.shares):
        used |= 1 << number
    return used


@folds(facts.NodeReplaced)
def node_replaced(pool: Pool, fact: facts.NodeReplaced) -> None:
    """The name is free for that machine from now on."""
    pool.nodes[pool.node_numbers[fact.node]].machine_id = fact.machine_id
    remember(pool, fact.request)


@folds(facts.NodeReturned)
def node_returned(pool: Pool, fact: facts.NodeReturned) -> None:
    """The silence of this node, or of all that are silent now, may be judged like that of a single one."""
    for node in pool.nodes.values():
        if fact.node in (None, node.name) and node.state == "unreachable":
            node.silence_counts = True
    pool.reports_stale = [name for name in pool.reports_stale if fact.node not in (None, name)]
    remember(pool, fact.request)


@folds(facts.NodeUnreachable)
def node_unreachable(pool: Pool, fact: facts.NodeUnreachable) -> None:
    """Nothing new is placed there; what runs is believed to run. Whoever is first in the queue may wait for other room now."""
    pool.room_grew = True
    pool.nodes[pool.node_numbers[fact.node]].state = "unreachable"
    pool.ever_fits.clear()
    pool.stale_nodes[pool.node_numbers[fact.node]] = None


@folds(facts.NodeReachable)
def node_reachable(pool: Pool, fact: facts.NodeReachable) -> None:
    """It takes work again."""
    pool.nodes[pool.node_numbers[fact.node]].state = "ready"
    pool.ever_fits.clear()
    pool.stale_nodes[pool.node_numbers[fact.node]] = None
    _speaks(pool, fact.node)


def _speaks(pool: Pool, node: str) -> None:
    """The node takes work again, and a later silence is a new one."""
    pool.room_grew = True
    pool.nodes[pool.node_numbers[node]].silence_counts = False
    if node in pool.reports_stale:
        pool.reports_stale.remove(node)


@folds(facts.NodeLost)
def node_lost(pool: Pool, fact: facts.NodeLost) -> None:
    """Its lease is over: whatever ran there has ended."""
    pool.room_grew = True
    number = pool.node_numbers[fact.node]
    pool.nodes[number].state = "lost"
    pool.ever_fits.clear()
    pool.stale_nodes[number] = None
    for job in pool.active_jobs():
        for task in job.tasks:
            if task.node == number and task.state not in ("reserved", "released"):
                task_gone(pool, job, task)


@folds(facts.ReportsStale)
def reports_stale(pool: Pool, fact: facts.ReportsStale) -> None:
    """These are neither lost nor trusted until an operator says so."""
    pool.room_grew = True
    pool.reports_stale = list(fact.nodes)
    for name in fact.nodes:
        pool.nodes[pool.node_numbers[name]].state = "unreachable"
        pool.stale_nodes[pool.node_numbers[name]] = None
    pool.ever_fits.clear()
