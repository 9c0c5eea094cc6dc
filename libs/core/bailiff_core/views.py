"""The fields that every surface shows of a job, a node, a project, a victim and a decision.

The HTTP API makes them of the archive's rows, command, Python client and console of a pool's state; each adds what only it
knows. As typed dictionaries, so that rows stay plain data and the OpenAPI documents are generated from them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from bailiff_core.budgets.months import month_begins, month_text
from bailiff_core.budgets.text import left_ms
from bailiff_core.budgets.use import GPU_HOUR, hours_of, use_now
from bailiff_core.calendar.windows import begins_of, next_window, times_left
from bailiff_core.humanize import user_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.document import Document
from bailiff_core.model.gpu_shares import devices_of
from bailiff_core.model.mig import mig_gpu_milli, mig_weights_of
from bailiff_core.model.placement_ranges import NodeShare, numbers, ranges
from bailiff_core.model.policy import Policy
from bailiff_core.model.proposal import Explanation, VictimChoice
from bailiff_core.model.resource_vector import Amount
from bailiff_core.model.state import Job, Maintenance, PoolState, Task
from bailiff_core.model.units import restarts_to_shrink
from bailiff_core.model.work_lost import Loss, allocated_gpu_milli, victim_loss
from bailiff_core.records import decisions
from bailiff_core.records.payload import Payload
from bailiff_core.records.wire import time_text

JobState = Literal[
    "running",
    "starting",
    "reserved",
    "evicting",
    "pausing",
    "cancelling",
    "suspended",
    "pending",
    "waiting",
    "paused",
    "succeeded",
    "failed",
    "cancelled",
]
"""In one word. waiting: for other jobs; suspended: a decision about it failed. The archive knows no suspended job, and calls one
that is pausing or cancelling `evicting`.
"""
NodeState = Literal["ready", "unreachable", "lost", "draining", "drained"]
"""In one word. draining: drained, and tasks are still on it."""
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339, UTC."""
Gpus = Annotated[float, Field(description="Number of GPUs: of a shared GPU the fraction, of a MIG device its weight.")]
"""The unit of every field named `gpus` or `gpus_…`. Lists of single devices are named `devices`."""


class JobView(TypedDict):
    """A submission of a job."""

    job: str
    submitted_seq: Annotated[int, Field(description="The record that accepted it. A job name can be submitted again later.")]
    user: Annotated[str, Field(description="Who submitted it (an opaque id); empty: unknown.")]
    user_verified: Annotated[bool, Field(description="Whether the user, or who vouched for the user, signed the submission.")]
    project: Annotated[str, Field(description="Empty: none.")]
    priority_class: str
    state: JobState
    gpus: Annotated[Gpus, Field(description="Requested GPUs, without parts requested in bytes.")]
    tasks: Annotated[int, Field(description="Requested tasks.")]
    attempt: Annotated[int, Field(description="0 before the first placement.")]
    submitted_at: Moment
    ended_at: Moment | None


class NodeView(TypedDict):
    """A machine."""

    node: str
    state: NodeState
    gpus: Annotated[Gpus, Field(description="Its GPUs, also those that cannot be allocated.")]
    gpu_models: list[str]
    cpu_milli: int
    memory_bytes: int
    machine_id: str


class Amounts(TypedDict):
    """Amounts of the three resources, rounded down; of a bound null: unlimited."""

    gpus: Gpus | None
    cpu_milli: int | None
    memory_bytes: int | None


class ProjectView(TypedDict):
    """What a project uses and may use, with its subprojects."""

    project: str
    used: Amounts
    non_preemptible: Annotated[Amounts, Field(description="Used by jobs that are not preemptible.")]
    requested: Annotated[Amounts, Field(description="By its jobs, also the pending ones.")]
    quota: Amounts
    quota_in_force: Annotated[Amounts, Field(description="Less than the quota where more is asked for than there is.")]
    limit: Amounts
    fair_share: Amounts
    past_use: Annotated[Amounts, Field(description="Above the quota, on average over the past; without a half-life 0.")]
    borrowed: Annotated[Amounts, Field(description="Usage above the quota.")]


class BudgetView(TypedDict):
    """A budget of the policy in this month. Hours: GPU-hours."""

    budget: str
    project: Annotated[str | None, Field(description="With the projects below it; null: any.")]
    user: str | None
    priority_class: str | None
    month: Annotated[str, Field(description="As in `2026-12`, UTC.")]
    counted_since: Moment
    policy_hours: Annotated[int, Field(description="As the policy says.")]
    topped_up_hours: Annotated[int, Field(description="Added in this month.")]
    transferred_hours: Annotated[int, Field(description="From other budgets in this month, less those to others.")]
    hours: Annotated[int, Field(description="All in all.")]
    used_hours: float
    left_hours: float
    level: Literal["within", "warning", "exhausted"]
    warn_at: Annotated[int, Field(description="Per cent.")]
    at_limit: Literal["lowest-class", "borrow-only", "stop-admitting", "evict"]


class MaintenanceView(TypedDict):
    """A time at which a node is drained.

    Attributes:
        now: It has begun.
        made_at_seq: The record of the request.
    """

    node: str
    begin: str
    end: str
    duration_s: int
    now: bool
    made_at_seq: int
    made_by: str
    reason: str


class ReservationView(TypedDict):
    """A reservation of GPUs for the jobs of a project, and of those below it."""

    reservation: str
    project: str
    gpus: int
    begin: Annotated[Moment, Field(description="Of the time that is now or next.")]
    end: Annotated[Moment, Field(description="Of the same.")]
    now: Annotated[bool, Field(description="Whether it is that time now.")]
    duration_s: int
    repeat: Literal["never", "daily", "weekly"]
    weekdays: Annotated[list[int], Field(description="Of `weekly`, UTC; Monday is 0.")]
    times_left: Annotated[int, Field(description="How many times are not over.")]
    first_begin: Moment
    times: int
    made_at_seq: int
    made_by: str
    reason: str


Effect = Literal[
    "evicted",
    "ends",
    "shrinks",
    "restarts with fewer tasks",
    "migrates",
    "loses its reservation",
    "reservation moves",
    "already evicting",
    "starts",
    "grows",
]
"""On a job. evicted: and requeued. ends: as its `on_eviction` is `end`. starts, grows: gets its first, or more, tasks placed."""


class VictimView(TypedDict):
    """What a job loses to a preemption, a drain or a request: foreseen or decided."""

    job: str
    project: Annotated[str, Field(description="Empty: none.")]
    priority_class: str
    priority: int
    effect: Effect
    tasks: Annotated[str, Field(description="The evicted tasks, as in `4-7`; empty: all.")]
    gpus: Annotated[Gpus, Field(description="Of the evicted tasks.")]
    work_lost_gpu_ms: Annotated[int, Field(description="Work since its last checkpoint, or since its start.")]
    restart_gpu_ms: Annotated[int, Field(description="What its restart costs: as the policy assumes, or as measured.")]
    restart_measured: Annotated[bool, Field(description="By its last snapshot and the restore from it.")]
    to: Annotated[list[str], Field(description="The new node of each task that has one, in task order.")]


class DecisionView(Document):
    """A decision with its victims.

    Attributes:
        explanation: None unless the decision has victims.
    """

    action: str | None
    job: Annotated[str | None, Field(description="The preemptor, or the job that is placed or evicted.")]
    reason: str
    victims: tuple[VictimView, ...] = ()
    explanation: Explanation | None = None


class PendingReason(TypedDict):
    """Why a job is pending, from the newest record that says so; all null if it is not, or none does."""

    pending_reason: str | None
    pending_reason_seq: int | None
    pending_reason_at: Moment | None


def requested_gpu_milli(demand: JobDemand, policy: Policy | None) -> int:
    """Returns the GPUs of all tasks in thousandths, as `JobView.gpus` counts them."""
    return int(sum(group.count * _of_task(group, policy) for group in demand.tasks))


def _of_task(group: TaskGroup, policy: Policy | None) -> Amount:
    if group.mig_profile is not None:
        return mig_gpu_milli(group.mig_profile, mig_weights_of(policy)) * devices_of(group)
    return group.gpu_milli or (group.gpu_share_milli or 0) * (group.gpu_devices or 1)


def project_view(project: str, usage: Mapping[str, Sequence[int | None]]) -> ProjectView:
    """The project.

    Args:
        usage: Thousandths of GPUs, thousandths of CPUs and bytes, by the names of the view.
    """
    pairs = zip(usage["used"], usage["quota"], strict=True)
    borrowed = [0 if quota is None else max(0, (used or 0) - quota) for used, quota in pairs]
    return {
        "project": project,
        "used": _amounts(usage["used"]),
        "non_preemptible": _amounts(usage["non_preemptible"]),
        "requested": _amounts(usage["requested"]),
        "quota": _amounts(usage["quota"]),
        "quota_in_force": _amounts(usage["quota_in_force"]),
        "limit": _amounts(usage["limit"]),
        "fair_share": _amounts(usage["fair_share"]),
        "past_use": _amounts(usage["past_use"]),
        "borrowed": _amounts(borrowed),
    }


def _amounts(found: Sequence[int | None]) -> Amounts:
    gpu_milli, cpu_milli, memory_bytes = found
    return {"gpus": None if gpu_milli is None else gpu_milli / 1000, "cpu_milli": cpu_milli, "memory_bytes": memory_bytes}


def victim_view(
    state: PoolState, job: Job, tasks: Sequence[Task], loss: Loss, effect: Effect, to: Iterable[str] = ()
) -> VictimView:
    """The job as a victim.

    Args:
        tasks: The tasks that it loses; all of them: the whole job.
    """
    return {
        "job": job.id,
        "project": job.project,
        "priority_class": job.class_name,
        "priority": job.priority,
        "effect": effect,
        "tasks": "" if len(tasks) == len(job.tasks) else ranges(task.index for task in tasks),
        "gpus": allocated_gpu_milli(state, job, tasks) / 1000,
        "work_lost_gpu_ms": loss.work,
        "restart_gpu_ms": loss.restart,
        "restart_measured": loss.measured > 0,
        "to": list(to),
    }


def chosen_victim(state: PoolState, choice: VictimChoice) -> VictimView:
    """The victim of a decision.

    Args:
        state: The state right after the decision, or before it; while it has the job, more fields are filled.
    """
    loss = victim_loss(state, choice) or Loss(choice.lost_gpu_ms, 0)
    job = state.jobs.get(choice.job)
    tasks = tasks_of(job, choice.tasks) if job is not None else []
    named = tasks and not choice.extends
    milli = allocated_gpu_milli(state, job, tasks) if job is not None and named else choice.gpus * 1000
    effect: Effect = "evicted" if job is None else effect_on(job, whole=not choice.tasks and not choice.not_relocated)
    effect = "loses its reservation" if choice.reserved else "migrates" if choice.relocated else effect
    return {
        "job": choice.job,
        "project": choice.project or (job.project if job is not None else ""),
        "priority_class": choice.class_name or (job.class_name if job is not None else ""),
        "priority": choice.priority,
        "effect": effect,
        "tasks": choice.tasks,
        "gpus": milli / 1000,
        "work_lost_gpu_ms": loss.work,
        "restart_gpu_ms": loss.restart,
        "restart_measured": loss.measured > 0,
        "to": nodes_of(state, choice.moved_to),
    }


def effect_on(job: Job, *, whole: bool) -> Effect:
    """The effect of an eviction on a job that gets no other place.

    Args:
        whole: Whether it loses all its tasks.
    """
    if not whole:
        return "restarts with fewer tasks" if restarts_to_shrink(job) else "shrinks"
    return "ends" if job.demand.on_eviction == "end" else "evicted"


def decision_view(state: PoolState, data: Payload | None) -> DecisionView:
    """What a record decides.

    Args:
        state: The state right after the record.
    """
    decided = data if isinstance(data, decisions.PreemptionDecided | decisions.PreemptionRefused) else None
    return DecisionView(
        action=getattr(data, "action", None),
        job=decided.preemptor.job if decided is not None else getattr(data, "job", None),
        reason=getattr(data, "reason", ""),
        victims=tuple(chosen_victim(state, choice) for choice in getattr(data, "victims", ())),
        explanation=decided.explanation if decided is not None else None,
    )


def nodes_of(state: PoolState, placement: Iterable[NodeShare]) -> list[str]:
    """The node of each task that is placed, in task order."""
    places = sorted((index, share.node) for share in placement for index in numbers(share.tasks))
    return [state.nodes[node].name for _, node in places]


def tasks_of(job: Job, tasks: str) -> list[Task]:
    """The job's tasks in these ranges; empty: all."""
    members = dict.fromkeys(numbers(tasks))
    return [task for task in job.tasks if not tasks or task.index in members]


def budget_views(state: PoolState) -> list[BudgetView]:
    """Every budget of the policy, in its order."""
    found: list[BudgetView] = []
    for row in state.rules.budgets if state.policy is not None else ():
        use, left = use_now(state, row), left_ms(state, row)
        found.append(
            {
                "budget": row.name,
                "project": row.project,
                "user": row.user,
                "priority_class": row.priority_class,
                "month": month_text(use.month),
                "counted_since": time_text(max(use.counted_since, month_begins(use.month))),
                "policy_hours": row.gpu_hours,
                "topped_up_hours": use.topped_up,
                "transferred_hours": use.transferred,
                "hours": hours_of(row, use),
                "used_hours": round(use.used / GPU_HOUR, 6),
                "left_hours": round(left / 3_600_000, 6),
                "level": use.level,
                "warn_at": row.warn_at,
                "at_limit": row.at_limit,
            }
        )
    return found


def maintenance_views(state: PoolState) -> list[MaintenanceView]:
    """The maintenance of nodes that is not over, the soonest first."""
    rows = [maintenance_view(state.nodes[number].name, each) for number, each in state.maintenance.items()]
    return sorted(rows, key=lambda row: (row["begin"], row["node"]))


def maintenance_view(node: str, each: Maintenance) -> MaintenanceView:
    """One of them."""
    return {
        "node": node,
        "begin": time_text(each.begin),
        "end": time_text(each.end),
        "duration_s": (each.end - each.begin) // 1_000_000,
        "now": each.began,
        "made_at_seq": each.seq,
        "made_by": user_text(each.requester, each.requester_verified),
        "reason": each.reason,
    }


def reservation_views(state: PoolState) -> list[ReservationView]:
    """Every reservation of GPUs, the soonest first."""
    found: list[ReservationView] = []
    nexts = [(window, each) for each in state.gpu_reservations.values() if (window := next_window(each)) is not None]
    for window, each in sorted(nexts, key=lambda pair: (pair[0].begin, pair[1].name)):
        found.append(
            {
                "reservation": each.name,
                "project": each.project,
                "gpus": each.gpus,
                "begin": time_text(window.begin),
                "end": time_text(window.end),
                "now": window.begin <= state.now < window.end,
                "duration_s": each.duration // 1_000_000,
                "repeat": each.repeat,
                "weekdays": list(each.weekdays),
                "times_left": times_left(each),
                "first_begin": time_text(next(begins_of(each))),
                "times": each.times,
                "made_at_seq": each.seq,
                "made_by": user_text(each.requester, each.requester_verified),
                "reason": each.reason,
            }
        )
    return found
