"""Admits requests about jobs."""

from bailiff_core.actions.migrate import place_elsewhere
from bailiff_core.fold.attachments import live_attachments
from bailiff_core.fold.operator_requests import holds_of
from bailiff_core.humanize import count_text
from bailiff_core.model.snapshots import why_not_saved
from bailiff_core.model.state import Job
from bailiff_core.model.units import surplus_problem
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

from .handlers import Context, admits_job
from .nodes import node_named
from .rejected import Rejected
from .senders import class_for

MAX_TASKS = 10_000
MAX_ATTACHMENTS = 16
PENDING_PHASES = ("waiting", "pending", "paused")
RUNNING_PHASES = ("starting", "running")


@admits_job(facts.CancelJob)
def cancel(context: Context, _: Job, body: facts.CancelJob) -> Fact | Rejected:
    """In any phase."""
    return context.record(body)


@admits_job(facts.ScaleJob)
def scale(context: Context, job: Job, body: facts.ScaleJob) -> Fact | Rejected:
    """Not below the job's minimum."""
    entry = class_for(context.state.rules, context.requester, job.class_name, job.id)
    if isinstance(entry, Rejected):
        return entry
    problem = _scale_problem(job, body)
    return context.record(body) if problem is None else Rejected("cannot-scale", problem, job.id)


def _scale_problem(job: Job, scale: facts.ScaleJob) -> str | None:
    groups = job.demand.tasks
    if job.cancelled:
        return f"{job.id} is cancelled"
    if scale.group >= len(groups):
        return f"{job.id} has task groups 0 to {len(groups) - 1}: there is no group {scale.group}"
    size = job.size - groups[scale.group].count + scale.tasks
    if size > MAX_TASKS:
        return f"{job.id} would have {size} tasks; the limit is {MAX_TASKS}"
    if job.demand.sub_groups:
        return f"{job.id} has sub-groups and cannot be scaled: submit it again with the new number of tasks"
    if scale.min_tasks is not None and scale.min_tasks > size:
        return f"min_tasks is {scale.min_tasks}, but the job would have only {count_text(size, 'task')}"
    rigid = job.demand.min_tasks is None
    least = scale.min_tasks or (size if rigid and job.phase in PENDING_PHASES else job.minimum)
    if size > job.size and (problem := surplus_problem(size, least)) is not None:
        return problem
    if job.phase in PENDING_PHASES:
        if scale.min_tasks is None and not rigid and size < job.minimum:
            return f"{job.id} needs {job.minimum} tasks to run, {size} are fewer: set a lower min_tasks as well"
        return None
    # Tasks are numbered through all groups: a change of another group would renumber running tasks.
    if scale.group != len(groups) - 1:
        return f"{job.id} has started: only its last task group (number {len(groups) - 1}) can change while it runs"
    if scale.min_tasks is None and size < job.minimum:
        return f"{job.id} needs {job.minimum} tasks to run, {size} are fewer: set a lower min_tasks as well, or cancel it"
    if scale.min_tasks is not None and scale.min_tasks > job.minimum:
        return f"min_tasks {scale.min_tasks} is more than the {job.minimum} that {job.id} was started with: cancel and submit it"
    placed = sum(task.index < size and task.eviction is None for task in job.tasks)
    least = job.minimum if scale.min_tasks is None else scale.min_tasks
    if size < job.size and placed < least:
        needs = count_text(least, "task")
        return f"{job.id} needs {needs} to run, and only {placed} of the first {size} are placed now: try again later"
    return None


@admits_job(facts.SetPriorityClass)
def set_priority_class(context: Context, job: Job, body: facts.SetPriorityClass) -> Fact | Rejected:
    """Only for pending and paused jobs."""
    entry = class_for(context.state.rules, context.requester, body.priority_class, job.id)
    if isinstance(entry, Rejected):
        return entry
    if job.phase not in PENDING_PHASES:
        reason = f"{job.id} is {job.phase}: its class can only be changed while it is pending or paused"
        return Rejected("not-pending", reason, job.id)
    return context.record(body)


@admits_job(facts.EvictJob)
def evict(context: Context, job: Job, body: facts.EvictJob) -> Fact | Rejected:
    """A job that has tasks or a reservation. A grace also applies to an eviction in progress, of a cancelled job, too."""
    if body.grace is not None and job.phase == "evicting":
        return context.record(body)
    if job.cancelled:
        return _cancelled(job)
    if job.phase == "evicting":
        reason = f"{job.id} is being evicted already: name a grace to shorten the one that it has (--grace 5s)"
        return Rejected("not-placed", reason, job.id)
    if job.phase not in (*RUNNING_PHASES, "reserved"):
        return Rejected("not-placed", f"{job.id} is {job.phase}: it has no tasks to evict", job.id)
    return context.record(body)


@admits_job(facts.PauseJob)
def pause(context: Context, job: Job, body: facts.PauseJob) -> Fact | Rejected:
    """In any phase."""
    if job.cancelled:
        return _cancelled(job)
    hold = holds_of(context.state, context.requester, job, body.hold)[0]
    if hold in job.holds:
        return Rejected("already-paused", f"{job.id} is paused already, since #{job.holds[hold][0]}", job.id)
    return context.record(body)


@admits_job(facts.CheckpointJob)
def checkpoint(context: Context, job: Job, body: facts.CheckpointJob) -> Fact | Rejected:
    """A running job that its nodes can save."""
    if job.cancelled:
        return _cancelled(job)
    if job.phase != "running":
        return Rejected("not-running", f"{job.id} is {job.phase}: only a running job can be saved", job.id)
    if job.saving_seq is not None:
        return Rejected("being-saved", f"{job.id} is being saved already, since #{job.saving_seq}", job.id)
    why_not = why_not_saved(context.state, job)
    return Rejected("cannot-save", f"{job.id} cannot be saved: {why_not}", job.id) if why_not else context.record(body)


@admits_job(facts.ResumeJob)
def resume(context: Context, job: Job, body: facts.ResumeJob) -> Fact | Rejected:
    """A paused job."""
    if job.cancelled:
        return _cancelled(job)
    if not any(hold in job.holds for hold in holds_of(context.state, context.requester, job, body.hold)):
        held = "".join(f"; {hold} holds it since #{seq}: {reason}" for hold, (seq, reason) in job.holds.items() if hold)
        return Rejected("not-paused", f"{job.id} is {job.phase} and not paused{' by you' if held else ''}{held}", job.id)
    return context.record(body)


@admits_job(facts.MigrateJob)
def migrate(context: Context, job: Job, body: facts.MigrateJob) -> Fact | Rejected:
    """A running job, to resources that are free now."""
    if job.cancelled:
        return _cancelled(job)
    if job.phase not in RUNNING_PHASES:
        return Rejected("not-running", f"{job.id} is {job.phase}: only a running job can be migrated", job.id)
    if job.suspended_reason is not None:
        return Rejected("suspended", f"{job.id} is suspended, a decision about it failed: cancel it", job.id)
    if body.node is not None:
        node = node_named(context.state, body.node)
        if isinstance(node, Rejected):
            return node
        if not node.schedulable:
            what = f"is {node.state}" if node.state != "ready" else "is draining"
            return Rejected("node-unschedulable", f"node {node.name!r} {what} and not schedulable: choose another node")
    place = place_elsewhere(context.state, job, body.node)
    if isinstance(place, str):
        return Rejected("cannot-migrate", f"{job.id} cannot be migrated: {place}", job.id)
    return context.record(body)


@admits_job(facts.AttachJob)
def attach(context: Context, job: Job, body: facts.AttachJob) -> Fact | Rejected:
    """A grant for one connection to a running task."""
    task = job.task(body.task)
    if task is None or task.state != "running":
        what = f"task {body.task} of {job.id}" if job.phase == "running" and job.size > 1 else job.id
        phase = job.phase if job.phase != "running" else task.state if task is not None else "not there"
        return Rejected("not-running", f"{what} is {phase}: you can attach only to a running task", job.id)
    if body.port is not None and body.shell:
        return Rejected("malformed", "shell: cannot be combined with port", job.id)
    if body.port is not None and body.port not in job.demand.ports:
        known = ", ".join(map(str, job.demand.ports)) or "none"
        return Rejected("no-such-port", f"{job.id} does not declare port {body.port}; it declares {known}", job.id)
    count = len(live_attachments(context.state, job.id))
    if count >= MAX_ATTACHMENTS:
        return Rejected("too-many-attachments", f"{job.id} has {count} attachments, the most there may be: end one", job.id)
    return context.record(body, attempt=job.attempt, node=context.state.nodes[task.node].name)


@admits_job(facts.ReadJobSpec, ended=True)
def read_spec(context: Context, job: Job, body: facts.ReadJobSpec) -> Fact | Rejected:
    """A copy for the requester. The job may have ended."""
    if not context.evidence.valid_key:
        return Rejected("malformed", "encryption_key: nothing can be encrypted for this key", job.id)
    return context.record(body)


def _cancelled(job: Job) -> Rejected:
    return Rejected("cancelled", f"{job.id} is cancelled", job.id)
