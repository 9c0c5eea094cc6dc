"""Nodes that another system has cordoned, as facts: a cordon is a drain on record, and its end ends that drain only."""

import hashlib

from bailiff_bus.messages.reports import NodeInventory
from bailiff_core.model.state import Node
from bailiff_core.records.facts import CORDONED, NodeDrained, NodeUndrained, RequestId
from bailiff_core.records.payload import Fact


def facts_of_cordon(node: Node | None, report: NodeInventory) -> list[Fact]:
    """What changes with the cordon that the report names. node: as the state has it; None for a new one."""
    drain = node.drain if node is not None else None
    if report.cordon:
        reason = f"{CORDONED}{report.cordon}"
        if drain is None:
            return [NodeDrained(request=_request(report), node=report.node, reason=reason)]
    elif report.cordon is not None and drain is not None and drain.reason.startswith(CORDONED):
        return [NodeUndrained(request=_request(report), node=report.node, reason="it is schedulable in Kubernetes again")]
    return []


def _request(report: NodeInventory) -> RequestId:
    digest = hashlib.sha256(f"{report.incarnation} {report.number} {report.cordon}".encode()).hexdigest()
    return RequestId(source=f"node/{report.node}"[:256], id=f"cordon/{report.incarnation}/{report.number}"[:256], digest=digest)
