"""What operators ask of nodes, and words about nodes that requests name."""

from bailiff_bus.messages import ClearQuarantine, DrainNode, ReplaceNode, ReturnNode, UndrainNode
from bailiff_core.model.pool import Node, Pool
from bailiff_core.records.facts import NodeDrained, NodeReplaced, NodeReturned, NodeUndrained, RequestId
from bailiff_core.records.payload import Fact

from .devices import clear_requested
from .rejected import Rejected

NAMED = 20

AskedOfNode = DrainNode | UndrainNode | ReplaceNode | ReturnNode | ClearQuarantine


def asked_of_node(pool: Pool, request: RequestId, asked: AskedOfNode) -> list[Fact] | Rejected:
    """What somebody wants of a node that the pool has."""
    if asked.node is None:
        return [NodeReturned(request=request)]
    node = node_named(pool, asked.node)
    if isinstance(node, Rejected):
        return node
    match asked:
        case DrainNode():  # asked again, with other words, the newer ones hold
            how = {"mode": asked.mode, "deadline": asked.deadline, "reason": asked.reason}
            return [NodeDrained.model_validate({"request": request, "node": node.name, **how})]
        case UndrainNode():
            if node.drain is None:
                return Rejected("not-drained", f"node {node.name!r} is not drained: there is nothing to take back")
            return [NodeUndrained(request=request, node=node.name, reason=asked.reason)]
        case ReplaceNode():
            return [NodeReplaced(request=request, node=node.name, machine_id=asked.machine_id)]
        case ReturnNode():
            return [NodeReturned(request=request, node=node.name)]
        case ClearQuarantine():
            return clear_requested(node, request, asked)


def node_named(pool: Pool, name: str) -> Node | Rejected:
    """The node of that name, or which the pool has."""
    if name in pool.node_numbers:
        return pool.nodes[pool.node_numbers[name]]
    names = sorted(pool.node_numbers)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return Rejected("no-such-node", f"there is no node {name!r}; the pool has {', '.join(names[:NAMED]) or 'none'}{more}")
