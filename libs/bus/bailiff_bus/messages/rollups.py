"""`bailiff.rollups`: counts per window of log time."""

from typing import Annotated, Literal

from pydantic import Field

from bailiff_core.model.document import Count, Document, Hash, Integer, Time
from bailiff_core.model.message import MessageBody


class EvictionCount(Document):
    """Number of evictions decided with this action, by rule or cause."""

    action: Literal["preempt", "reclaim", "consolidate", "evict", "migrate"]
    rule: str
    count: Count


class WorkLost(Document):
    """GPU-ms of work lost by attempts that ended for this cause, and what the policy assumes that their restarts cost."""

    cause: str
    gpu_ms: Count
    restart_gpu_ms: Count = 0


class LateStarts(Document):
    """Number of jobs that started later than the policy's `start_slo` for this percentage of the class."""

    percent: Annotated[Integer, Field(ge=1, le=100)]
    jobs: Count


class ClassWindow(Document):
    """Jobs of one priority class: number submitted, number started for the first time, and pending time until then, ms.

    waited_ms: total pending time of all jobs within the window, started or not. Percentiles are upper bounds, at most 3 % too
    high; left out if no job started.
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
    """GPU-ms allocated to a project and all projects below it, and its fair share of them. `""`: the whole pool.

    idle_gpu_ms: part of them in which agents saw the GPUs idle (only with `idle` in the policy).
    """

    name: str
    used_gpu_ms: Count = 0
    idle_gpu_ms: Count = 0
    entitled_gpu_ms: Count = 0


class ProjectTelemetry(Document):
    """Telemetry of the GPUs of a project and all projects below it; a shared GPU counts in parts.

    gpu_ms: GPU time with measurements; busy_gpu_ms: that, times utilisation. Memory is in MiB times seconds.
    """

    name: str
    gpu_ms: Count = 0
    busy_gpu_ms: Count = 0
    memory_used_mib_s: Count = 0
    memory_mib_s: Count = 0


class TelemetryWindow(MessageBody):
    """GPU measurements of one pool in one window, `begin` to `end`, µs by the broker's append times, aligned to UTC.

    Published once it is over and a newer measurement has arrived; a repeat is identical. Project `""`: the whole pool.
    """

    window: Literal["1m", "1h", "1d"]
    begin: Time
    end: Time
    projects: tuple[ProjectTelemetry, ...] = ()


class RollupState(Document):
    """The roll-up's state of a pool up to but not including `next_seq`; hash: of the record before it.

    All other fields are private to the roll-up. With hundreds of projects the state is compressed (zlib).
    """

    next_seq: Count
    hash: Hash


class RollupWindow(MessageBody):
    """One window of one pool, `begin` to `end`, µs on log time, aligned to UTC. complete: it is over, else as of `end`.

    It follows from the records `first_seq` up to but not including `next_seq`; a repeat is identical.
    repeat_evictions: number of jobs evicted for others (preempt, reclaim, consolidate) that had resumed after another
    eviction less than one window's length before; thrash_permille: their share. cancelled_evictions: evictions that were
    cancelled.
    saved_gpu_ms: work that evicted jobs would have lost without their checkpoints. available_gpu_ms: of usable GPUs.
    """

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
