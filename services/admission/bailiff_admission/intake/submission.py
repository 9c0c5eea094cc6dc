"""A job that somebody wants to run: accepted, or refused with a sentence that says what would be right."""

from collections.abc import Iterator

from bailiff_bus.messages import JobSpec, SubmitJob
from bailiff_bus.messages.requests import DOCKER_LABEL
from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.document import in_order
from bailiff_core.model.policy import PriorityClass
from bailiff_core.model.pool import Job, Pool
from bailiff_core.model.units import next_unit, sub_group_problem
from bailiff_core.placement.ever import could_ever_fit
from bailiff_core.placement.shared_disk import unshared_checkpoints
from bailiff_core.queue.gates import never_within_bounds
from bailiff_core.records.facts import JobSubmitted, RequestId
from bailiff_core.records.payload import Fact
from bailiff_core.scene import scene_of

from .rejected import Rejected
from .start_size import too_large_to_start

DEFAULT_PROJECT = "default"
NAMED = 20
NO_CONTAINERS = "no node of this pool runs containers: leave the image out, or let a node's runtimes name docker"


def submitted(pool: Pool, request: RequestId, actor: str, submit: SubmitJob, spec_digest: str) -> list[Fact] | Rejected:
    """The job, in its project."""
    demand = submit.demand
    job = demand.job
    if job in pool.jobs:
        return Rejected("job-exists", f"there is a job {job!r} already ({pool.jobs[job].phase}): choose another name", job)
    entry = class_for(pool, actor, demand.priority_class, job)
    if isinstance(entry, Rejected):
        return entry
    project = _project_of(pool, demand)
    if isinstance(project, Rejected):
        return project
    demand = demand.model_copy(update={**_left_out(pool, demand), "project": project})
    malformed = next(_malformed(demand), None) or sub_group_problem(demand) or _image_problem(submit.spec)
    if malformed is not None:
        return Rejected("malformed", malformed, job)
    if submit.spec.runtime == "docker":
        if pool.nodes and not any(node.labels.get(DOCKER_LABEL) == "true" for node in pool.nodes.values()):
            return Rejected("never-fits", f"it names an image, and {NO_CONTAINERS}", job)
        demand = _where_containers_run(demand)
    unknown = _unknown_topology(pool, demand)
    if unknown is not None:
        return Rejected("unknown-topology", unknown, job)
    if pool.nodes:
        obstacle = could_ever_fit(pool, demand)
        if obstacle is not None:
            return Rejected("never-fits", obstacle, job)
    if pool.rules.unshared_checkpoints == "refuse" and submit.spec.runtime != "simulated":
        unshared = unshared_checkpoints(pool, demand)
        if unshared is not None:
            return Rejected("unshared-checkpoints", unshared, job)
    bound = _never_within_bounds(pool, demand, entry)
    if bound is not None:
        return Rejected("over-limit", f"it could never run: {bound}", job)
    too_large = too_large_to_start(pool, demand, submit.spec)
    if too_large is not None:
        return Rejected("too-large", too_large, job)
    return [JobSubmitted(request=request, demand=demand, spec_digest=spec_digest, user=actor)]


def _image_problem(spec: JobSpec) -> str | None:
    if spec.runtime == "docker" and spec.image is None:
        return "image: the runtime docker has to be told which one to run"
    if spec.runtime != "docker" and spec.image is not None:
        return f"image: it is for the runtime docker, and not for {spec.runtime}: leave it out, or say runtime docker"
    return None


def _where_containers_run(demand: JobDemand) -> JobDemand:
    groups = tuple(
        group.model_copy(update={"node_labels": in_order({**group.node_labels, DOCKER_LABEL: "true"})}) for group in demand.tasks
    )
    return demand.model_copy(update={"tasks": groups})


def _left_out(pool: Pool, demand: JobDemand) -> dict[str, object]:
    """What the job did not say, as it stands in the log from now on: neither policy nor release changes it under the job."""
    return {
        "max_failures": pool.rules.restarts.max_failures if demand.max_failures is None else demand.max_failures,
        "elastic": demand.elastic or "restart",
    }


def class_for(pool: Pool, actor: str, name: str | None, job: str) -> PriorityClass | Rejected:
    """The class of that name, if there is one and the policy lets this person use it."""
    entry = pool.rules.find_class(name)
    if entry is None:
        known = ", ".join(entry.name for entry in pool.rules.priority_classes)
        return Rejected("unknown-class", f"there is no priority class {name!r}; the policy has {known}", job)
    users = pool.rules.identity.class_users.get(entry.name)
    if users is not None and actor not in users:
        who = actor or "an unnamed sender"
        return Rejected("not-permitted", f"the policy does not let {who} use the class {entry.name!r}", job)
    return entry


def _project_of(pool: Pool, demand: JobDemand) -> str | Rejected | None:
    known = [project.name for project in pool.rules.projects]
    if demand.project is None:
        if not known:
            return None
        if DEFAULT_PROJECT in known:
            return DEFAULT_PROJECT
        return Rejected("no-project", f"say which project the job is for: the policy has {_some(known)}", demand.job)
    if demand.project not in known:
        there = f"the policy has {_some(known)}" if known else "the policy has none, leave it out"
        return Rejected("unknown-project", f"there is no project {demand.project!r}; {there}", demand.job)
    return demand.project


def _malformed(demand: JobDemand) -> Iterator[str]:
    """What contradicts itself, place by place."""
    for at, group in enumerate(demand.tasks):
        parts = [name for name in ("gpu_share_milli", "gpu_share_bytes") if getattr(group, name) is not None]
        if len(parts) > 1:
            yield f"tasks.{at}: gpu_share_milli and gpu_share_bytes both say how much of a GPU: leave one out"
        if parts and group.gpu_milli:
            yield f"tasks.{at}: a task has whole GPUs (gpu_milli) or parts of them ({parts[0]}), not both"
        if group.gpu_devices is not None and not parts:
            yield f"tasks.{at}.gpu_devices: it counts shared devices, so gpu_share_milli or gpu_share_bytes belongs to it"
        if group.gpu_milli % 1000:
            yield (
                f"tasks.{at}.gpu_milli is {group.gpu_milli}: it counts whole GPUs (multiples of 1000); "
                "a part of one is gpu_share_milli, 100 to 1000"
            )
    if demand.sub_groups and demand.min_tasks is not None:
        yield "min_tasks: with sub-groups each of them says its own min_tasks or min_groups, leave this one out"


def _unknown_topology(pool: Pool, demand: JobDemand) -> str | None:
    rules = [("topology", demand.topology), *((f"sub_groups.{group.name}", group.topology) for group in demand.sub_groups)]
    for where, rule in rules:
        problem = _topology_problem(pool, rule) if rule is not None else None
        if problem is not None:
            return f"{where}: {problem}"
    return None


def _topology_problem(pool: Pool, rule: TopologyRule) -> str | None:
    known = {topology.name: topology.levels for topology in pool.rules.topologies}
    if rule.topology not in known:
        has = f"the policy has {_some(list(known))}" if known else "the policy has none"
        return f"there is no topology {rule.topology!r}; {has}"
    for name, level in (("required", rule.required), ("preferred", rule.preferred)):
        if level is not None and level not in known[rule.topology]:
            levels = ", ".join(known[rule.topology])
            return f"{name} is {level!r}, which is no level of the topology {rule.topology!r}; it has {levels}"
    return None


def _never_within_bounds(pool: Pool, demand: JobDemand, entry: PriorityClass) -> str | None:
    preemptible = entry.preemptible if demand.preemptible is None else demand.preemptible
    job = Job(demand.job, 0, 0, demand, entry.name, entry.value, preemptible, True, "", project=demand.project or "")
    unit = next_unit(job)
    return never_within_bounds(scene_of(pool), unit) if unit is not None else None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
