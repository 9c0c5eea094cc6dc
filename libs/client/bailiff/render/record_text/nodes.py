"""Text of records about nodes and their devices."""

from bailiff_core.humanize import count_text, memory_text, thousandths_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts
from bailiff_core.records.wire import time_text

from .line import Statement
from .phrases import joined
from .registry import Entries

describes = Entries()


@describes(facts.NodeJoined, event="NodeReady")
def _node_joined(fact: facts.NodeJoined, _state: PoolState) -> Statement:
    models: dict[str, int] = {}
    for device in fact.devices:
        kind = f"{device.profile} of {device.model}" if device.profile else device.model
        models[kind] = models.get(kind, 0) + 1
    gpus = ", ".join(f"{count} × {model}" for model, count in models.items()) or "no GPU"
    failed = sum(not device.healthy for device in fact.devices)
    unhealthy = f"{count_text(failed, 'device')} unhealthy" if failed else ""
    host = f"{thousandths_text(fact.cpu_milli)} CPU, {memory_text(fact.memory_bytes)}"
    return Statement("node joined", fact.node, joined(gpus, host, unhealthy), "good")


@describes(facts.NodeRefused)
def _node_refused(fact: facts.NodeRefused, _state: PoolState) -> Statement:
    advice = f"bailiff node replace {fact.node} {fact.machine_id}"
    return Statement("node refused", fact.node, f"machine {fact.machine_id}: {fact.reason} (to allow it: {advice})", "bad")


@describes(facts.EnrolmentPermitted)
def _enrolment_permitted(fact: facts.EnrolmentPermitted, _state: PoolState) -> Statement:
    who = f"the agent with the key {fact.key}" if fact.key is not None else "one agent with the token"
    most = f", with at most {count_text(fact.max_devices, 'GPU')}" if fact.max_devices is not None else ""
    return Statement("enrolment permitted", fact.node, f"{who}{most}, until {time_text(fact.expires)[:19]}", "warn")


@describes(facts.NodeWaiting)
def _node_waiting(fact: facts.NodeWaiting, _state: PoolState) -> Statement:
    return Statement("node waiting", fact.node, f"its key is not enrolled: {fact.key}", "warn")


@describes(facts.NodeEnrolled)
def _node_enrolled(fact: facts.NodeEnrolled, _state: PoolState) -> Statement:
    how = {"certificate": "by certificate", "token": "by token", "operator": "by an operator"}[fact.by]
    if fact.certificate is not None:
        how += f" of the root key, valid until {time_text(fact.certificate.expires)}"
    permit = f", as #{fact.permitted_by} permits" if fact.permitted_by is not None else ""
    return Statement("node enrolled", fact.node, f"{how}{permit}, key {fact.key}", "good")


@describes(facts.NodeUnreachable, event="NodeNotReady")
def _node_unreachable(fact: facts.NodeUnreachable, _state: PoolState) -> Statement:
    last_contact = time_text(fact.last_contact)[11:19]
    return Statement("node unreachable", fact.node, f"last contact {last_contact}; no new placements", "warn")


@describes(facts.NodeReachable, event="NodeReady")
def _node_reachable(fact: facts.NodeReachable, _state: PoolState) -> Statement:
    return Statement("node reachable", fact.node, "heartbeats resumed", "good")


@describes(facts.NodeLost, event="NodeLost")
def _node_lost(fact: facts.NodeLost, _state: PoolState) -> Statement:
    last_contact = time_text(fact.last_contact)[11:19]
    return Statement("node lost", fact.node, f"last contact {last_contact}; lease expired, its tasks are lost", "bad")


@describes(facts.NodesSilent)
def _nodes_silent(fact: facts.NodesSilent, _state: PoolState) -> Statement:
    shown = ", ".join(fact.nodes[:5]) + (" …" if len(fact.nodes) > 5 else "")
    more = f"{shown}; not declared lost until an operator runs: bailiff node return"
    return Statement("nodes silent", count_text(len(fact.nodes), "node"), more, "bad")


@describes(facts.DeviceQuarantined, event="DeviceQuarantined")
def _device_quarantined(fact: facts.DeviceQuarantined, _state: PoolState) -> Statement:
    seen = f"{memory_text(fact.reading.memory_used)} and {count_text(fact.reading.processes, 'process')} on it"
    left = f"after {fact.job}/{fact.task}" if fact.job is not None else ""
    return Statement("device quarantined", f"{fact.node} {fact.device}", joined(fact.detail or fact.reason, seen, left), "bad")


@describes(facts.DeviceClearRequested)
def _device_clear_requested(fact: facts.DeviceClearRequested, _state: PoolState) -> Statement:
    return Statement("clear requested", f"{fact.node} {fact.device}", fact.reason, "warn")


@describes(facts.DeviceCleared, event="DeviceCleared")
def _device_cleared(fact: facts.DeviceCleared, _state: PoolState) -> Statement:
    how = f"as requested in #{fact.requested_by}" if fact.requested_by is not None else "it was verified free"
    return Statement("device cleared", f"{fact.node} {fact.device}", f"{how}; schedulable again", "good")


@describes(facts.DeviceUnhealthy, event="DeviceUnhealthy")
def _device_unhealthy(fact: facts.DeviceUnhealthy, _state: PoolState) -> Statement:
    what = f"Xid {fact.code}" if fact.code is not None else fact.reason
    return Statement("device unhealthy", f"{fact.node} {fact.device}", joined(what, fact.detail, "out of service"), "bad")


@describes(facts.DeviceHealthy, event="DeviceHealthy")
def _device_healthy(fact: facts.DeviceHealthy, _state: PoolState) -> Statement:
    return Statement("device healthy", f"{fact.node} {fact.device}", joined(fact.detail, "schedulable again"), "good")
