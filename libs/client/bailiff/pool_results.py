"""What the Python client returns about pools: nodes, projects, the policy, verification, what-if. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool, as of the end of its log: record `head_seq`. gpus_allocated includes GPUs that are being released."""

    name: str
    head_seq: int
    head_time: datetime | None
    policy_seq: int
    nodes: int
    nodes_ready: int
    gpus: float
    gpus_free: float
    gpus_allocated: float
    jobs_running: int
    jobs_pending: int
    jobs_evicting: int
    jobs_paused: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU.

    Attributes:
        state: `free`, `shared`, `allocated`, `releasing`, `reserved`, `unhealthy` or `quarantined`.
        free: The free part, 0 to 1.
        job: The job to which it is allocated.
        jobs: The tasks that share it, as job/task.
        fault: Why it is unhealthy or quarantined.
    """

    number: int
    id: str
    model: str
    memory_bytes: int
    state: str
    free: float
    job: str | None
    jobs: tuple[str, ...]
    reserved_for: str | None
    fault: str


@dataclass(frozen=True, slots=True)
class Node:
    """A machine.

    Attributes:
        state: `ready`, `unreachable`, `lost`, `draining` or `drained`.
        tasks: Number of tasks on it.
        gpus: Number of its GPUs, MIG devices by their weight.
        gpus_free: Of these, on which no task is; none while it is drained or does not report.
    """

    name: str
    state: str
    labels: Mapping[str, str]
    tasks: int
    cpus: float
    cpus_free: float
    memory_bytes: int
    memory_bytes_free: int
    drain_reason: str
    gpus: float
    gpus_free: float
    devices: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of resources; None: unlimited."""

    gpus: float | None
    cpus: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Project:
    """A project. All amounts include its subprojects.

    Attributes:
        name: Its name; empty for jobs without a project.
        quota_in_force: Less than the quota where more is asked for than there is.
        past_use: Usage above the quota, on average over the past; without a half-life 0.
        borrowed: Usage above the quota.
    """

    name: str
    parent: str | None
    description: str
    priority: int
    used: Amounts
    quota: Amounts
    quota_in_force: Amounts
    limit: Amounts
    fair_share: Amounts
    past_use: Amounts
    borrowed: Amounts
    jobs_running: int
    jobs_pending: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget of the policy in this month (UTC). Hours are GPU-hours.

    Attributes:
        project: Whose jobs, with those of the projects below it; as user and class: None: anyone's.
        month: As in `2026-12`.
        counted_since: From when its use counts: the begin of the month, or when it came into the policy.
        policy_hours: As the policy says.
        topped_up_hours: Added in this month.
        transferred_hours: From other budgets in this month, less those to others.
        hours: All in all.
        level: `within`, `warning` or `exhausted`, as recorded last.
        warn_at: Per cent.
        at_limit: What follows once it is exhausted: `lowest-class`, `borrow-only`, `stop-admitting` or `evict`.
    """

    name: str
    project: str | None
    user: str | None
    priority_class: str | None
    month: str
    counted_since: datetime
    policy_hours: int
    topped_up_hours: int
    transferred_hours: int
    hours: int
    used_hours: float
    left_hours: float
    level: str
    warn_at: int
    at_limit: str


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy in force since the record `seq`.

    Attributes:
        document: Its fields as in a policy file, with durations such as 30s.
    """

    pool: str
    seq: int
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a log: `ok`, or the problems.

    Attributes:
        sealed: Number of records covered by a valid seal.
        head_hash: Hash of the last record.
        data: Everything, as `bailiff audit verify -o json` prints it.
    """

    ok: bool
    pool: str
    records: int
    head_seq: int
    head_hash: str
    sealed: int
    orphans: int
    problems: tuple[str, ...]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """The past, or a simulation of it. Waiting times in hours.

    Attributes:
        lost: GPU-hours of work that was lost to evictions.
    """

    jobs: int
    ended: int
    mean_wait: float
    p95_wait: float
    evictions: int
    lost: float
    work: float
    utilisation: float


@dataclass(frozen=True, slots=True)
class ChangedJob:
    """A job that would have waited or lost other hours. Pairs: simulated under the policies in force, and under the other."""

    job: str
    project: str
    priority_class: str
    gpus: float
    waited: tuple[float, float]
    evictions: tuple[int, int]
    lost: tuple[float, float]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The recorded past, its simulation under the policies in force, and under another policy.

    Attributes:
        confidence: How well the simulation reproduces the past.
        data: Everything, as `bailiff what-if -o json` prints it.
    """

    pool: str
    recorded: Run
    simulated: Run
    other: Run
    improved: tuple[ChangedJob, ...]
    worsened: tuple[ChangedJob, ...]
    confidence: str
    assumptions: tuple[str, ...]
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-hours, as docs/how-to/accounting.md defines them.

    What a row is for: time, user, project, priority_class, job, gpu_model, preemptor, preemptor_project; None: all, or unknown.

    Attributes:
        borrowed: Part of used.
        lost: GPU-hours of work that preemption lost.
        jobs: Number of jobs with any of these.
        user_verified: Whether the user is known.
    """

    used: float
    borrowed: float
    lost: float
    lost_other: float
    restart: float
    waiting: float
    preemptions: int
    jobs: int
    time: datetime | None = None
    user: str | None = None
    user_verified: bool | None = None
    project: str | None = None
    priority_class: str | None = None
    job: str | None = None
    submitted_seq: int | None = None
    gpu_model: str | None = None
    preemptor: str | None = None
    preemptor_project: str | None = None


@dataclass(frozen=True, slots=True)
class Accounting:
    """GPU-hours of a pool from `since` to `until`.

    Attributes:
        known_until: Time up to which the archive has all records.
        capacity: GPU-hours of healthy GPUs.
        capacity_by_time: The same by the minute, hour, day or month.
    """

    pool: str
    since: datetime
    until: datetime
    known_until: datetime | None
    rows: tuple[GpuHours, ...]
    totals: GpuHours
    capacity: float
    capacity_by_time: Mapping[datetime, float]
