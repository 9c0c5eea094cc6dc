"""Admits requests about nodes and their devices."""

from bailiff_core.calendar.windows import DAY
from bailiff_core.humanize import duration_text, first_names, minute_text
from bailiff_core.model.state import Node, PoolState
from bailiff_core.records.facts import CORDONED, ClearQuarantine, DrainNode, ReplaceNode, ReturnNode, UndrainNode
from bailiff_core.records.payload import Fact

from .handlers import Context, admits
from .rejected import Rejected

NAMED = 20
LATE = 300_000_000
"""How long ago maintenance may have begun that is asked for, µs: it begins now."""
AHEAD, LONGEST = 366 * DAY, 30 * DAY
"""Of maintenance, µs."""


def node_named(state: PoolState, name: str) -> Node | Rejected:
    """The node of that name; else a rejection that lists the nodes."""
    if name in state.node_numbers:
        return state.nodes[state.node_numbers[name]]
    names = sorted(state.node_numbers)
    return Rejected("no-such-node", f"there is no node {name!r}; the pool has {first_names(names, NAMED) or 'none'}")


@admits(DrainNode, ReplaceNode, ReturnNode)
def on_known_node(context: Context, body: DrainNode | ReplaceNode | ReturnNode) -> Fact | Rejected:
    """A repeated drain replaces mode, deadline and reason. `ReturnNode` without a node is for all of them."""
    node = node_named(context.state, body.node) if body.node is not None else None
    problem = _malformed(context.state, body) if isinstance(body, DrainNode) else ""
    if problem:
        return Rejected("malformed", problem)
    return node if isinstance(node, Rejected) else context.record(body)


def _malformed(state: PoolState, body: DrainNode) -> str:
    if (body.begin is None) != (body.duration is None):
        return "begin and duration: maintenance needs both"
    if body.begin is None or body.duration is None:
        return ""
    if body.mode != "graceful" or body.deadline is not None:
        return "mode and deadline are of a drain of now, not of maintenance"
    if body.begin > state.now + AHEAD or body.duration > LONGEST:
        return f"maintenance begins within {duration_text(AHEAD)} and lasts at most {duration_text(LONGEST)}"
    return f"begin: {minute_text(body.begin)} UTC is in the past" if body.begin < state.now - LATE else ""


@admits(UndrainNode)
def undrain(context: Context, body: UndrainNode) -> Fact | Rejected:
    """A drain that follows a cordon ends with the cordon."""
    node = node_named(context.state, body.node)
    if isinstance(node, Rejected):
        return node
    if node.drain is None and node.number not in context.state.maintenance:
        return Rejected("not-drained", f"node {node.name!r} is not drained")
    if node.drain is not None and node.drain.reason.startswith(CORDONED) and node.state == "ready":
        return Rejected("cordoned", f"node {node.name!r} is {node.drain.reason}: run kubectl uncordon {node.name}")
    return context.record(body)


@admits(ClearQuarantine)
def clear_quarantine(context: Context, body: ClearQuarantine) -> Fact | Rejected:
    """The device is given by id or number."""
    node = node_named(context.state, body.node)
    if isinstance(node, Rejected):
        return node
    found = [each for each in node.devices if each.id == body.device] or [
        each for each in node.devices if str(each.number) == body.device
    ]
    if not found:
        known = ", ".join(f"{each.number} ({each.id})" for each in node.devices)
        return Rejected("no-such-device", f"{node.name} has no device {body.device!r}; it has {known or 'none'}"[:2000])
    device = found[0]
    if device.healthy and not node.quarantined >> device.number & 1:
        reason = f"{device.id} of {node.name} is neither quarantined nor unhealthy: there is nothing to clear"
        return Rejected("not-quarantined", reason)
    return context.record(body, device=device.id)
