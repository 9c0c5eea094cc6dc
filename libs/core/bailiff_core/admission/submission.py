"""Admits submissions of jobs."""

from collections.abc import Iterator

from bailiff_core.humanize import duration_text, first_names
from bailiff_core.model.claims import is_preemptible
from bailiff_core.model.demand import Checkpointing, JobDemand, TaskGroup, TopologyRule
from bailiff_core.model.document import sort_by_name
from bailiff_core.model.gpu_shares import shares_devices
from bailiff_core.model.job_spec import EVERY_NODE_RUNTIMES, TERMINAL_RUNTIMES, JobSpec, runtime_label, sharing_label
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.model.snapshots import BY_NODE, not_saved
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import next_unit, sub_group_problem, too_many_levels, too_much_surplus
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.placement.shared_checkpoints import unshared_checkpoints
from bailiff_core.quota.quota_checks import never_within_bounds
from bailiff_core.records.facts import JobSubmitted, SubmitJob
from bailiff_core.records.payload import Fact
from bailiff_core.scheduling_snapshot import current_snapshot

from .budgets import budget_exhausted
from .dependencies import dependency_problem
from .handlers import Context, admits
from .limits import too_many_jobs
from .rejected import Rejected
from .senders import NAMED, Ownership, ownership
from .start_size import start_command_too_large

FURTHEST_BEGIN = 366 * 86_400_000_000
"""How far ahead, µs, a job's `begin` may be."""


@admits(SubmitJob)
def submit(context: Context, body: SubmitJob) -> Fact | Rejected:
    """The job with its project and defaults filled in."""
    state, demand, spec = context.state, body.demand, body.spec
    job = demand.job
    if job in state.jobs:
        return Rejected("job-exists", f"job {job!r} exists already ({state.jobs[job].phase}): choose another name", job)
    owner = ownership(state.rules, context.requester, demand, workload=spec.workload is not None)
    if isinstance(owner, Rejected):
        return owner
    demand = with_defaults(state.rules, demand).model_copy(update={"project": owner.project})
    demand = demand.model_copy(update={"checkpoint": _checkpointing(demand, spec, owner.priority_class)})
    tree = sub_group_problem(demand) or too_many_levels(demand) or too_much_surplus(demand)
    malformed = next(_malformed(demand), None) or tree or _spec_problem(spec)
    if malformed is not None:
        return Rejected("malformed", malformed, job)
    unsaved = not_saved(demand) or not_saved_spec(spec)
    if demand.checkpoint == "snapshot" and unsaved:
        return Rejected("no-snapshot", f"checkpoint: no node saves this job, because {unsaved}: choose auto, job or none", job)
    if demand.checkpoint_every is not None and (demand.checkpoint or owner.priority_class.checkpoint) not in BY_NODE:
        return Rejected("no-snapshot", "checkpoint_every: no node saves this job: set checkpoint to snapshot or auto", job)
    runtime = spec.runtime
    if runtime not in EVERY_NODE_RUNTIMES:
        missing = _no_node_with(state, demand, spec)
        if missing is not None:
            return Rejected("no-runtime", missing, job)
        demand = _on_nodes_with(demand, runtime)
    if (demand.begin or 0) - state.now > FURTHEST_BEGIN:
        return Rejected("malformed", f"begin: more than {duration_text(FURTHEST_BEGIN)} from now", job)
    dependency = dependency_problem(state, demand)
    if dependency is not None:
        return dependency
    unknown = _unknown_topology(state, demand)
    if unknown is not None:
        return Rejected("unknown-topology", unknown, job)
    # A pool whose nodes have not joined yet says nothing about what fits.
    if state.nodes:
        obstacle = could_ever_fit(state, demand)
        if obstacle is not None:
            return Rejected("never-fits", obstacle, job)
    if state.rules.unshared_checkpoints == "refuse" and spec.runtime != "simulated":
        unshared = unshared_checkpoints(state, demand)
        if unshared is not None:
            return Rejected("unshared-checkpoints", unshared, job)
    bound = _never_within_bounds(state, demand, owner.priority_class)
    if bound is not None:
        return Rejected("over-limit", f"the job could never run: {bound}", job)
    budget = None if context.requester.permitted else _no_budget(state, demand, owner)
    if budget is not None:
        return budget
    too_many = None if context.requester.permitted else too_many_jobs(state, owner, job)
    if too_many is not None:
        return too_many
    too_large = start_command_too_large(state, demand, spec)
    if too_large is not None:
        return Rejected("too-large", too_large, job)
    return JobSubmitted(
        request=context.request,
        demand=demand,
        spec_digest=context.evidence.spec_digest,
        user=owner.user,
        user_verified=owner.user_verified,
    )


def not_saved_spec(spec: JobSpec) -> str:
    """Why no node saves what runs like this; empty: nodes with a driver do."""
    if spec.runtime not in EVERY_NODE_RUNTIMES:
        return f"the runtime {spec.runtime} runs its tasks, and only processes are saved"
    return "its tasks have a terminal, which cannot be restored" if spec.tty else ""


def _checkpointing(demand: JobDemand, spec: JobSpec, entry: PriorityClass) -> Checkpointing | None:
    """The job's field: `job` where its own `auto`, or its class, lets the node save it, and its terminal cannot be saved."""
    stated = demand.checkpoint or entry.checkpoint
    by_itself = spec.tty and (stated == "auto" or (stated == "snapshot" and demand.checkpoint is None))
    return "job" if by_itself else demand.checkpoint


def _spec_problem(spec: JobSpec) -> str | None:
    if spec.workload is not None:
        if spec.command is not None or spec.image is not None or spec.runtime != "kubernetes":
            return "workload: its pods have their own command and image, and the runtime is kubernetes"
        return None
    if spec.command is None:
        return "command: missing"
    runs_images = spec.runtime not in EVERY_NODE_RUNTIMES
    if runs_images and spec.image is None:
        return f"image: missing; the runtime {spec.runtime} runs container images"
    if not runs_images and spec.image is not None:
        return f"image: the runtime {spec.runtime} runs no images: leave it out, or choose another runtime, such as docker"
    if spec.tty and spec.runtime not in TERMINAL_RUNTIMES:
        return f"tty: the runtime {spec.runtime} gives tasks no terminal: leave it out"
    return None


def _no_node_with(state: PoolState, demand: JobDemand, spec: JobSpec) -> str | None:
    """Why no node can run the job with its runtime; None as long as no node is known."""
    runtime, shares = spec.runtime, any(map(shares_devices, demand.tasks))
    if spec.workload is not None and shares:
        return "the pods of a workload have whole GPUs and MIG devices, no parts of a GPU: request whole ones, or a mig_profile"
    if state.nodes and not _some_node_has(state, runtime_label(runtime)):
        return f"no node of this pool has the runtime {runtime}: leave the image out, or add it to the runtimes of a node"
    if state.nodes and shares and not _some_node_has(state, sharing_label(runtime)):
        return (
            f"no node of this pool gives out parts of a GPU with the runtime {runtime}, "
            "which for pods needs a DRA driver: request whole ones, or a mig_profile"
        )
    return None


def _some_node_has(state: PoolState, label: str) -> bool:
    return any(node.labels.get(label) == "true" for node in state.nodes.values())


def _on_nodes_with(demand: JobDemand, runtime: str) -> JobDemand:
    """Every task requires the runtime, and one with a part of a GPU that the runtime can share GPUs there."""
    groups = tuple(_with_labels(group, runtime) for group in demand.tasks)
    return demand.model_copy(update={"tasks": groups})


def _with_labels(group: TaskGroup, runtime: str) -> TaskGroup:
    required = [runtime_label(runtime), *([sharing_label(runtime)] if shares_devices(group) else [])]
    return group.model_copy(update={"node_labels": sort_by_name({**group.node_labels, **dict.fromkeys(required, "true")})})


def with_defaults(policy: Policy, demand: JobDemand) -> JobDemand:
    """The demand with defaults, recorded in the log so that a change of policy or release does not affect the job."""
    return demand.model_copy(
        update={
            "max_failures": policy.restarts.max_failures if demand.max_failures is None else demand.max_failures,
            "elastic": demand.elastic or "restart",
        }
    )


def _malformed(demand: JobDemand) -> Iterator[str]:
    """Contradictions in the demand, with their fields."""
    for at, group in enumerate(demand.tasks):
        parts = [name for name in ("gpu_share_milli", "gpu_share_bytes") if getattr(group, name) is not None]
        if len(parts) > 1:
            yield f"tasks.{at}: gpu_share_milli and gpu_share_bytes are alternatives: remove one"
        if parts and group.gpu_milli:
            yield f"tasks.{at}: a task has whole GPUs (gpu_milli) or parts of them ({parts[0]}), not both"
        if group.mig_profile is not None and (parts or group.gpu_milli):
            yield f"tasks.{at}: a task has MIG devices (mig_profile) or GPUs ({parts[0] if parts else 'gpu_milli'}), not both"
        if group.gpu_devices is not None and not parts and group.mig_profile is None:
            yield f"tasks.{at}.gpu_devices: it counts shared devices and requires gpu_share_milli or gpu_share_bytes"
        if group.gpu_milli % 1000:
            yield (
                f"tasks.{at}.gpu_milli is {group.gpu_milli}: it counts whole GPUs (multiples of 1000); "
                "a part of one is gpu_share_milli, 100 to 1000"
            )
    if len(set(demand.ports)) < len(demand.ports):
        yield "ports: a port is listed twice"
    if demand.sub_groups and demand.min_tasks is not None:
        yield "min_tasks: not with sub-groups, which have their own min_tasks or min_groups: remove it"


def _unknown_topology(state: PoolState, demand: JobDemand) -> str | None:
    rules = [("topology", demand.topology), *((f"sub_groups.{group.name}", group.topology) for group in demand.sub_groups)]
    for where, rule in rules:
        problem = _topology_problem(state, rule) if rule is not None else None
        if problem is not None:
            return f"{where}: {problem}"
    return None


def _topology_problem(state: PoolState, rule: TopologyRule) -> str | None:
    known = {topology.name: topology.levels for topology in state.rules.topologies}
    if rule.topology not in known:
        has = f"the policy has {first_names(list(known), NAMED)}" if known else "the policy has none"
        return f"there is no topology {rule.topology!r}; {has}"
    for name, level in (("required", rule.required), ("preferred", rule.preferred)):
        if level is not None and level not in known[rule.topology]:
            levels = ", ".join(known[rule.topology])
            return f"{name} is {level!r}, which is no level of the topology {rule.topology!r}; it has {levels}"
    return None


def _no_budget(state: PoolState, demand: JobDemand, owner: Ownership) -> Rejected | None:
    job = _as_pending(demand, owner.priority_class)
    job.user, job.user_verified = owner.user, owner.user_verified
    return budget_exhausted(state, job)


def _as_pending(demand: JobDemand, entry: PriorityClass) -> Job:
    return Job(demand.job, 0, 0, demand, entry.name, entry.value, entry.preemptible, True, "", project=demand.project or "")


def _never_within_bounds(state: PoolState, demand: JobDemand, entry: PriorityClass) -> str | None:
    job = _as_pending(demand, entry)
    job.preemptible = is_preemptible(state, job, entry)
    unit = next_unit(job)
    return never_within_bounds(current_snapshot(state), unit) if unit is not None else None
