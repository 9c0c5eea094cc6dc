"""Drains of Bailiff as cordons of Kubernetes. The other way, a node's agent reports a cordon, which admission records as a drain.

There is no loop: agents do not report a cordon that has the bridge's mark, and the bridge makes none for a drain that came from a
cordon. The mark names the drain, so each drain cordons once: who uncordons the node meanwhile keeps it so, and Bailiff still
places nothing there.
"""

from collections.abc import Iterator, Mapping

from bailiff_core.model.job_spec import runtime_label
from bailiff_core.model.state import Node, PoolState
from bailiff_core.records.facts import CORDONED
from bailiff_kubernetes.names import CORDONED_BY
from bailiff_kubernetes.resources import Object, annotations_of

from .actions import CordonNode


def cordons(state: PoolState, nodes: Mapping[str, Object]) -> Iterator[CordonNode]:
    """Nodes to cordon, and those whose drain has ended. nodes: of the cluster, by name."""
    for node in state.nodes.values():
        item = nodes.get(node.name)
        if item is None or runtime_label("kubernetes") not in node.labels:
            continue
        mark, wanted = annotations_of(item).get(CORDONED_BY, ""), _mark(state, node)
        is_cordoned = bool(item["spec"].get("unschedulable"))
        if mark == wanted or (wanted and is_cordoned and not mark):
            continue  # done, or somebody else has cordoned it
        yield CordonNode(node.name, str(item["metadata"]["resourceVersion"]), wanted)


def _mark(state: PoolState, node: Node) -> str:
    """Names the drain that calls for a cordon; empty for none."""
    drain = node.drain
    if drain is None or drain.reason.startswith(CORDONED):
        return ""
    return f"drain/{state.pool}/{drain.seq}"
