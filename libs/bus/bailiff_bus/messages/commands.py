"""`bailiff.node-commands`: what admission and the executor ask of one node agent, with what fences need (§6)."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.document import Count, Document, Duration, Name, OpaqueId

from .base import MessageBody
from .requests import JobSpec


class Order(Document):
    """Which record of the log ordered this: compared as the pair (epoch, seq)."""

    epoch: Count
    seq: Count


class CommandBody(MessageBody):
    """Base of all commands. The node's incarnation is the only one that obeys; `sender_epoch` is the sender's view of the log."""

    TYPE: ClassVar[str] = ""
    node: Name
    incarnation: OpaqueId
    sender: Literal["admission", "executor"]
    sender_epoch: Count


class Fence(CommandBody):
    """Admission commands of a lower epoch than `sender_epoch` are refused from now on.

    lease: how long the agent may be cut off from Kafka before it stops its jobs. lost_margin: how much longer the log
    believes in the node; half of it is the jobs' time from notice to KILL.
    """

    TYPE: ClassVar[str] = "bailiff.Fence.v1"
    lease: Duration = 600_000_000
    lost_margin: Duration = 60_000_000


class TaskAt(Document):
    """One task of the job on this node, with the devices it gets (ids), whole, or of each this share."""

    task: Count
    devices: tuple[OpaqueId, ...] = ()
    gpu_share_milli: Count | None = None
    gpu_share_bytes: Count | None = None
    cpu_milli: Count = 0
    memory_bytes: Count = 0
    rank: Count = 0
    local_rank: Count = 0


class JobCommand(CommandBody):
    """Base of commands about one attempt of one job."""

    TYPE: ClassVar[str] = ""
    order: Order
    job: Name
    attempt: Count


class StartTask(JobCommand):
    """Start these tasks of the gang. Ranks and sizes are what torchrun users expect. user: who submitted the job."""

    TYPE: ClassVar[str] = "bailiff.StartTask.v1"
    tasks: tuple[TaskAt, ...]
    spec: JobSpec
    grace: Duration
    node_rank: Count = 0
    nodes: Count = 1
    world_size: Count = 1
    local_world_size: Count = 1
    master_node: Name
    user: Annotated[str, Field(max_length=256)] = ""


class Evict(JobCommand):
    """Make the job's tasks on this node leave: notice now, TERM after `term_after`, KILL after `grace`.

    A task that has never said that it listens for notices gets TERM with the notice, as all do where `term_after` is left out.
    """

    TYPE: ClassVar[str] = "bailiff.Evict.v1"
    tasks: tuple[Count, ...]
    grace: Duration
    term_after: Duration | None = None
    cause: str
    for_job: Name | None = None


class SaveTogether(JobCommand):
    """The tasks have their notice, and all of their gang is to save at this step. `agreed`: all ranks have confirmed it."""

    TYPE: ClassVar[str] = "bailiff.SaveTogether.v1"
    tasks: tuple[Count, ...]
    step: Count
    agreed: bool = False


class Spare(JobCommand):
    """Do not evict the job after all: notice and deadlines are taken back, unless the task yields already or has its TERM."""

    TYPE: ClassVar[str] = "bailiff.Spare.v1"
    tasks: tuple[Count, ...]


class SendInventory(CommandBody):
    """Announce yourself again, with everything you hold: admission has missed something."""

    TYPE: ClassVar[str] = "bailiff.SendInventory.v1"
