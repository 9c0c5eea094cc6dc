"""What a node offers to save and restore tasks with."""

from typing import Annotated, Literal

from pydantic import Field

from .document import Document, MeasuredBytes, Reason, SnapshotDriver
from .privacy import PRIVATE

NotRestored = Literal["", "other-folder", "no-driver", "other-cpu", "other-tasks"]
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
