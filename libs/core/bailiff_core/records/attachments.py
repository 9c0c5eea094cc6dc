"""Facts about attachments to running tasks, after `AttachGranted`."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.document import Hash, Seq
from bailiff_core.model.privacy import placeholder

from .tasks import TaskFact


class AttachReady(TaskFact):
    """The task's agent waits at this address for whom the record `grant` names.

    Attributes:
        fingerprint: SHA-256 of the agent's own X.509 certificate, for this connection.
    """

    grant: Seq
    address: Annotated[str, Field(min_length=3, max_length=300), placeholder("0:0")]
    fingerprint: Hash


class AttachStarted(TaskFact):
    """The holder of the certificate has connected, and is attached to the task."""

    grant: Seq


AttachEnd = Literal[
    "detached", "task-ended", "expired", "agent-restarted", "no-terminal", "no-shell", "not-running", "not-offered", "failed"
]


class AttachEnded(TaskFact):
    """The attachment has ended, or did not begin, for this reason. Nothing is recorded of what was typed or shown."""

    grant: Seq
    reason: AttachEnd
