"""Handlers of requests about nodes."""

from bailiff_bus.messages import ClearQuarantine, DrainNode, ReplaceNode, ReturnNode, UndrainNode
from bailiff_bus.messages.requests import CORDONED
from bailiff_core.model.state import Node, PoolState
from bailiff_core.records.facts import NodeDrained, NodeReplaced, NodeReturned, NodeUndrained, RequestId
from bailiff_core.records.payload import Fact

from .devices import clear_requested
from .rejected import Rejected

NAMED = 20

NodeRequest = DrainNode | UndrainNode | ReplaceNode | ReturnNode | ClearQuarantine


def request_for_node(state: PoolState, request: RequestId, body: NodeRequest) -> list[Fact] | Rejected:
    """The fact of a request about a node."""
    if body.node is None:
        return [NodeReturned(request=request)]
    node = node_named(state, body.node)
    if isinstance(node, Rejected):
        return node
    match body:
        case DrainNode():  # a repeated drain replaces mode, deadline and reason
            how = {"mode": body.mode, "deadline": body.deadline, "reason": body.reason}
            return [NodeDrained.model_validate({"request": request, "node": node.name, **how})]
        case UndrainNode():
            if node.drain is None:
                return Rejected("not-drained", f"node {node.name!r} is not drained")
            if node.drain.reason.startswith(CORDONED) and node.state == "ready":
                return Rejected("cordoned", f"node {node.name!r} is {node.drain.reason}: run kubectl uncordon {node.name}")
            return [NodeUndrained(request=request, node=node.name, reason=body.reason)]
        case ReplaceNode():
            return [NodeReplaced(request=request, node=node.name, machine_id=body.machine_id)]
        case ReturnNode():
            return [NodeReturned(request=request, node=node.name)]
        case ClearQuarantine():
            return clear_requested(node, request, body)


def node_named(state: PoolState, name: str) -> Node | Rejected:
    """The node of that name; else a rejection that lists the nodes."""
    if name in state.node_numbers:
        return state.nodes[state.node_numbers[name]]
    names = sorted(state.node_numbers)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return Rejected("no-such-node", f"there is no node {name!r}; the pool has {', '.join(names[:NAMED]) or 'none'}{more}")
