"""Requests about nodes and their devices, and the record that each leads to."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.document import DeviceId, Duration, MachineId, NodeName, Reason, Time

from .devices import DeviceFact
from .request import Recorded, RequestBody, RequestFact

NamedNode = Annotated[NodeName, Field(description="The node's name.")]
CORDONED = "cordoned in Kubernetes: "
"""Begins the reason of a drain that follows a cordon. It ends with the cordon; a drain by an operator has another reason."""


class DrainNode(RequestBody):
    """Place nothing new on this node, and empty it.

    Attributes:
        mode: `graceful`: jobs that handle eviction notices move if they fit elsewhere; others may finish until the deadline, then
            they are evicted. `quick`: jobs are evicted now, with their full grace. `fast`: now, with the policy's short grace.
        deadline: From now on; without one, `graceful` lets jobs finish.
        begin: For maintenance at this time: its jobs are gone by then. Without mode and deadline; with `duration`.
        duration: How long the maintenance lasts; then the node takes tasks again.
    """

    VERB = "drain"
    node: NodeName
    mode: Literal["graceful", "quick", "fast"] = "graceful"
    deadline: Duration | None = None
    reason: Recorded = ""
    begin: Time | None = None
    duration: Annotated[Duration, Field(ge=60_000_000)] | None = None


class NodeDrained(RequestFact, DrainNode):
    """An operator drains the node: nothing new is placed there, and its tasks are evicted.

    mode: graceful: at `deadline`, earlier only by migration or exit; quick: now, with full grace; fast: now, with the
    policy's short grace. deadline: time from now; omitted with graceful: none. begin: not now, but for maintenance from then on.
    """


class UndrainNode(RequestBody):
    """Make a drained node schedulable again, or cancel its maintenance. Evictions that have started continue, others do not."""

    VERB = "undrain"
    DONE = "{node} is schedulable again"
    node: NamedNode
    reason: Recorded = ""


class NodeUndrained(RequestFact, UndrainNode):
    """An operator makes the node schedulable again."""


class ReplaceNode(RequestBody):
    """Allow another machine to register under a node's name, after the first was removed permanently; an operator's request."""

    VERB = "node replace"
    DONE = "{node} may register as machine {machine_id}"
    node: NamedNode
    machine_id: Annotated[MachineId, Field(description="Id of the new machine, as in `audit tail --type NodeRefused`.")]


class NodeReplaced(RequestFact, ReplaceNode):
    """An operator allows another machine to take this node's name."""


class ReturnNode(RequestBody):
    """Resume lease expiry for a node, or for the pool after many nodes became silent at once; an operator's request."""

    VERB = "node return"
    DONE = "lease expiry resumed"
    node: Annotated[NodeName | None, Field(description="The node. Default: the whole pool.")] = None


class NodeReturned(RequestFact, ReturnNode):
    """An operator ends the hold on silent nodes: they are judged again like single ones. node: omitted: all."""


class ClearQuarantine(RequestBody):
    """Put a quarantined or repaired GPU back into service.

    Without this command, a quarantined GPU returns as soon as it is seen free. With it, whatever is on the GPU may stay.
    """

    VERB = "node clear"
    DONE = "GPU {device} of {node} is cleared; its agent is notified"
    node: NamedNode
    device: Annotated[DeviceId, Field(description="The GPU, by number on the node or by id.")]
    reason: Annotated[
        str, Field(min_length=1, max_length=1000, description="Why it can be used again; recorded in the audit log.")
    ]


class DeviceClearRequested(RequestFact, ClearQuarantine, DeviceFact):
    """An operator requested that the device be used again, whatever is seen on it."""

    reason: Reason
