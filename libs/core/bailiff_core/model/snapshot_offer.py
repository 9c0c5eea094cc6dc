"""What a node offers to save and restore tasks with."""

from typing import Annotated, Literal

from pydantic import Field

from .document import Count, Document, MeasuredBytes, Reason, SnapshotDriver
from .privacy import PRIVATE

NotRestored = Literal["", "other-folder", "no-driver", "other-cpu", "other-tasks", "other-node"]
"""Why a task does not continue from a snapshot on a node; empty: it can be tried."""


class SnapshotOffer(Document):
    """A driver that saves and restores tasks on the node.

    Attributes:
        why_not: Why it does not work here; empty: it does.
        bytes_per_s: What it saved when it was probed; 0: unknown.
        cpu: SHA-256 of the CPU's features: a task is restored only where they are the same.
    """

    driver: SnapshotDriver
    version: Annotated[str, Field(max_length=64), PRIVATE] = ""
    why_not: Reason = ""
    bytes_per_s: MeasuredBytes = 0
    cpu: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$"), PRIVATE] = ""


class ParkingOffer(Document):
    """The memory that a node keeps for parked tasks: what stays in memory, stopped, while others use its CPUs and GPUs.

    Attributes:
        memory_bytes: Of all parked tasks together. It is no part of the memory that tasks may request.
        gpus: Whether a driver can take what tasks hold in GPUs into this memory.
    """

    memory_bytes: Count
    gpus: bool = False
