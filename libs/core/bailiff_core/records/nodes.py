"""Facts about nodes: who they are, and whether they report."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.certificate import Certificate, Key, Signature
from bailiff_core.model.document import (
    Count,
    DeviceId,
    Document,
    GpuModel,
    Labels,
    MachineId,
    Name,
    NodeName,
    OpaqueId,
    Text,
    Time,
)
from bailiff_core.model.privacy import PRIVATE, Treatment, placeholder, pseudonym
from bailiff_core.model.snapshot_offer import ParkingOffer as ParkingOffer
from bailiff_core.model.snapshot_offer import SnapshotOffer as SnapshotOffer

from .payload import Fact


class NodeWaiting(Fact):
    """An agent announced itself under the name of a node that is not enrolled.

    Attributes:
        key: Its public key; an operator may permit it.
    """

    NOT_PUBLISHED = "of participants, not of jobs"
    node: Name
    key: Key


class NodeEnrolled(Fact):
    """From here on only reports that this key signed count for this node; what only it may read is encrypted to `encryption_key`.

    Attributes:
        by: `certificate`: of the root key; `token` or `operator`: as `EnrolmentPermitted` (its seq is `permitted_by`) says.
        certificate: The one that was shown, so that the log alone shows that the root key issued it for this name and these keys.
        token_signature: The token's, over this name and these keys.
    """

    NOT_PUBLISHED = "of participants, not of jobs"
    node: Name
    key: Key
    encryption_key: Key
    by: Literal["certificate", "token", "operator"]
    permitted_by: Count | None = None
    certificate: Certificate | None = None
    token_signature: Signature | None = None


MAX_DEVICES = 64
"""Devices of one node."""


class DeviceInfo(Document):
    """One device of a node's inventory: a GPU, or a MIG device (kind `mig`, with its profile) of the card `parent`.

    Attributes:
        fault: Why it is not healthy.
        island: The same for GPUs of the node that NVLink or one PCIe switch connects.
    """

    id: DeviceId
    kind: Annotated[str, Treatment("device_kind")] = "gpu"
    model: GpuModel
    memory_bytes: Count
    parent: DeviceId | None = None
    healthy: bool = True
    labels: Labels = Field(default_factory=dict)
    fault: Annotated[Text, Field(max_length=1000)] = ""
    profile: Annotated[str, Field(max_length=64), Treatment("mig_profile")] = ""
    island: Annotated[str, Field(max_length=64), Treatment("island")] = ""


MAX_SNAPSHOT_DRIVERS = 8
"""Drivers of one node."""


class NodeJoined(Fact):
    """An agent incarnation announced itself; commands carry it from now on. Device numbers are list positions.

    Attributes:
        checkpoint_store: Identity of the checkpoint directory, where it is shared: nodes with the same one see the same files.
        announced: When the agent sent its inventory, as it signed it.
        snapshots: The drivers that save and restore tasks on the node, or why they cannot.
        parking: What it keeps for parked tasks; None: nothing.
    """

    node: NodeName
    number: Count
    incarnation: Annotated[OpaqueId, pseudonym("life")]
    machine_id: MachineId
    boot_id: Annotated[OpaqueId, pseudonym("boot")]
    report_number: Annotated[Count, placeholder(0)]
    cpu_milli: Count
    memory_bytes: Count
    max_tasks: Count = 1000
    labels: Labels = Field(default_factory=dict)
    devices: Annotated[tuple[DeviceInfo, ...], Field(max_length=MAX_DEVICES)] = ()
    checkpoint_store: Annotated[OpaqueId, pseudonym("folder")] | None = None
    announced: Annotated[Time | None, PRIVATE] = None
    snapshots: Annotated[tuple[SnapshotOffer, ...], Field(max_length=MAX_SNAPSHOT_DRIVERS)] = ()
    parking: ParkingOffer | None = None


class NodeRefused(Fact):
    """A second machine announced itself under a living node's name."""

    NOT_PUBLISHED = "a machine that was turned away; it has no effect"
    node: Name
    machine_id: OpaqueId
    reason: str


class NodeUnreachable(Fact):
    """No report from the node since `last_contact` (append time, µs). Nothing new is placed there."""

    node: NodeName
    last_contact: Time


class NodeReachable(Fact):
    """The node reports again."""

    node: NodeName


class NodeLost(Fact):
    """The node's lease expired: its agent has stopped the jobs, or the machine is down."""

    node: NodeName
    last_contact: Time


class NodesSilent(Fact):
    """Too many nodes fell silent at once; none is declared lost until an operator says so."""

    nodes: tuple[NodeName, ...]
