"""`bailiff.rollups`: counts per window of log time."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from bailiff_core.model.document import Count, Document, Hash, Integer, Time

from .base import MessageBody


class EvictionCount(Document):
    """So many evictions were decided with this action, by this right or for this cause."""

    action: Literal["preempt", "reclaim", "consolidate", "evict", "migrate"]
    rule: str
    count: Count


class WorkLost(Document):
    """GPU-ms of work that attempts lost which ended for this cause."""

    cause: str
    gpu_ms: Count


class LateStarts(Document):
    """So many jobs started later than the policy promised for this percentage of its class."""

    percent: Annotated[Integer, Field(ge=1, le=100)]
    jobs: Count


class ClassWindow(Document):
    """Jobs of one priority class: submitted, started for the first time, and how long they waited for that, ms.

    waited_ms: how long all that waited did so within the window, first start or not. Percentiles are upper bounds, at most 3 %
    above the truth; left out where nothing started.
    """

    name: str
    submitted: Count = 0
    started: Count = 0
    waited_ms: Count = 0
    p50_ms: Count | None = None
    p95_ms: Count | None = None
    p99_ms: Count | None = None
    late_starts: tuple[LateStarts, ...] = ()


class ProjectWindow(Document):
    """GPU-ms that a project, with all below it, held, and that it was entitled to: its fair share. `""`: the whole pool.

    idle_gpu_ms: of those held, while the agents saw that these GPUs did nothing (where the policy lets them look).
    """

    name: str
    used_gpu_ms: Count = 0
    idle_gpu_ms: Count = 0
    entitled_gpu_ms: Count = 0


class ProjectTelemetry(Document):
    """What agents measured on the GPUs that a project, with all below it, held; one that several hold counts in parts.

    gpu_ms: measured at all; busy_gpu_ms: of those, weighed by how busy they were. Memory is in MiB times seconds.
    """

    name: str
    gpu_ms: Count = 0
    busy_gpu_ms: Count = 0
    memory_used_mib_s: Count = 0
    memory_mib_s: Count = 0


class TelemetryWindow(MessageBody):
    """What was measured in one window of one pool, `begin` to `end`, µs by the broker's append times, aligned to UTC.

    It is told once it is over and something newer has come; told again it says the same. Project `""`: the whole pool.
    """

    TYPE: ClassVar[str] = "bailiff.TelemetryWindow.v1"
    window: Literal["1m", "1h", "1d"]
    begin: Time
    end: Time
    projects: tuple[ProjectTelemetry, ...] = ()


class RollupState(Document):
    """What the roll-up has counted of a pool, up to but not including `next_seq`; hash: of the record before that.

    Everything else in it is the roll-up's own affair. Where there are hundreds of projects all of it is packed (zlib).
    """

    next_seq: Count
    hash: Hash


class RollupWindow(MessageBody):
    """One window of one pool, `begin` to `end`, µs on log time, aligned to UTC. complete: it is over, else as of `end`.

    It follows from the records `first_seq` up to but not including `next_seq`, so that a window told twice says the same.
    repeat_evictions: how many of the jobs displaced for others (preempt, reclaim, consolidate) had come back from another
    eviction less than one window's length before; thrash_permille: their share. cancelled_evictions: evictions taken back.
    saved_gpu_ms: work that evicted jobs would have lost without their checkpoints. available_gpu_ms: of GPUs that could be used.
    """

    TYPE: ClassVar[str] = "bailiff.RollupWindow.v1"
    window: Literal["1m", "1h", "1d"]
    begin: Time
    end: Time
    complete: bool
    first_seq: Count
    next_seq: Count
    evictions: tuple[EvictionCount, ...] = ()
    repeat_evictions: Count = 0
    thrash_permille: Count = 0
    cancelled_evictions: Count = 0
    work_lost: tuple[WorkLost, ...] = ()
    saved_gpu_ms: Count = 0
    used_gpu_ms: Count = 0
    available_gpu_ms: Count = 0
    classes: tuple[ClassWindow, ...] = ()
    projects: tuple[ProjectWindow, ...] = ()
