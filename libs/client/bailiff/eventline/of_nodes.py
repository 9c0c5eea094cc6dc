"""Lines about nodes and their devices."""

from bailiff_core.model.pool import Pool
from bailiff_core.records import facts
from bailiff_core.records.wire import time_text
from bailiff_core.words import count_text, memory_text, thousandths_text

from .line import Said
from .tellers import Tellers
from .words import joined

tells = Tellers()


@tells(facts.NodeJoined)
def _node_joined(fact: facts.NodeJoined, _pool: Pool) -> Said:
    models: dict[str, int] = {}
    for device in fact.devices:
        models[device.model] = models.get(device.model, 0) + 1
    gpus = ", ".join(f"{count} × {model}" for model, count in models.items()) or "no GPU"
    sick = sum(not device.healthy for device in fact.devices)
    room = f"{thousandths_text(fact.cpu_milli)} CPU, {memory_text(fact.memory_bytes)}"
    return Said("node joined", fact.node, joined(gpus, room, f"{count_text(sick, 'device')} unhealthy" if sick else ""), "good")


@tells(facts.NodeRefused)
def _node_refused(fact: facts.NodeRefused, _pool: Pool) -> Said:
    advice = f"bailiff node replace {fact.node} {fact.machine_id}"
    return Said("node refused", fact.node, f"machine {fact.machine_id}: {fact.reason} (to allow it: {advice})", "bad")


@tells(facts.NodeUnreachable)
def _node_unreachable(fact: facts.NodeUnreachable, _pool: Pool) -> Said:
    heard = time_text(fact.last_heard)[11:19]
    return Said("node unreachable", fact.node, f"last heard {heard}; nothing new is placed there", "warn")


@tells(facts.NodeReachable)
def _node_reachable(fact: facts.NodeReachable, _pool: Pool) -> Said:
    return Said("node reachable", fact.node, "it speaks again", "good")


@tells(facts.NodeLost)
def _node_lost(fact: facts.NodeLost, _pool: Pool) -> Said:
    heard = time_text(fact.last_heard)[11:19]
    return Said("node lost", fact.node, f"last heard {heard}; its lease is over, its jobs have ended", "bad")


@tells(facts.ReportsStale)
def _reports_stale(fact: facts.ReportsStale, _pool: Pool) -> Said:
    shown = ", ".join(fact.nodes[:5]) + (" …" if len(fact.nodes) > 5 else "")
    more = f"{shown}; none counts as lost until an operator says: bailiff node return"
    return Said("reports stale", count_text(len(fact.nodes), "node"), more, "bad")


@tells(facts.DeviceQuarantined)
def _device_quarantined(fact: facts.DeviceQuarantined, _pool: Pool) -> Said:
    seen = f"{memory_text(fact.reading.memory_used)} and {count_text(fact.reading.processes, 'process')} on it"
    left = f"left so by {fact.job}/{fact.task}" if fact.job is not None else ""
    return Said("device quarantined", f"{fact.node} {fact.device}", joined(fact.detail or fact.reason, seen, left), "bad")


@tells(facts.DeviceClearRequested)
def _device_clear_requested(fact: facts.DeviceClearRequested, _pool: Pool) -> Said:
    return Said("clear asked", f"{fact.node} {fact.device}", fact.reason, "warn")


@tells(facts.DeviceCleared)
def _device_cleared(fact: facts.DeviceCleared, _pool: Pool) -> Said:
    how = f"as asked in #{fact.asked}" if fact.asked is not None else "it was seen free"
    return Said("device cleared", f"{fact.node} {fact.device}", f"{how}; it is given out again", "good")


@tells(facts.DeviceUnhealthy)
def _device_unhealthy(fact: facts.DeviceUnhealthy, _pool: Pool) -> Said:
    what = f"Xid {fact.code}" if fact.code is not None else fact.reason
    return Said("device unhealthy", f"{fact.node} {fact.device}", joined(what, fact.detail, "it is out of use"), "bad")


@tells(facts.DeviceHealthy)
def _device_healthy(fact: facts.DeviceHealthy, _pool: Pool) -> Said:
    return Said("device healthy", f"{fact.node} {fact.device}", joined(fact.detail, "it is given out again"), "good")
