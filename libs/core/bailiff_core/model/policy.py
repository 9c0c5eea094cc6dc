"""The policy: the configuration of a pool, recorded in its log; decisions depend on no other configuration."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from .demand import Placement
from .document import Count, Document, Duration, Integer, Label, Labels, MigProfile, Name, sort_by_name
from .identity import IdentityRules, Names
from .resource_vector import Bounds, Weights

Action = Literal["allocate", "consolidate", "reclaim", "preempt"]
ACTIONS: tuple[Action, ...] = ("allocate", "consolidate", "reclaim", "preempt")


class StartSlo(Document):
    """Time within which 95 % and 99 % of a class's jobs should start after submission; misses are reported."""

    p95: Duration | None = None
    p99: Duration | None = None


class PriorityClass(Document):
    """A priority class; the higher value wins. Jobs with `Never` are ordered by it but do not preempt.

    immediate: a serving tier; victims of its jobs get at most `immediate_grace`.
    """

    name: Name
    value: Integer
    preemptible: bool
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    global_default: bool = False
    grace: Duration | None = None
    kill_after: Duration | None = None
    immediate: bool = False
    immediate_grace: Duration = 5_000_000
    start_slo: StartSlo = StartSlo()


class MinRuntime(Document):
    """Time after its last start during which a job is protected, by action. Omitted: inherited from the parent project."""

    preempt: Duration | None = None
    reclaim: Duration | None = None


class Project(Document):
    """A project in the tree of projects. Age order is `created`, then name.

    quota: its entitlement; omitted GPUs are 0, omitted CPU and memory are unlimited. limit: a hard cap. admins: users with the
    rights of `project-admin` on its jobs and those of the projects below it. submitters: users that may submit to it and to the
    projects below it, besides admins and operators; omitted: inherited from the parent project, else unrestricted.
    """

    name: Name
    parent: Name | None = None
    created: Count = 0
    quota: Bounds = Bounds()
    limit: Bounds = Bounds()
    over_quota_weight: Weights = Weights()
    priority: Integer = 0
    min_runtime: MinRuntime = MinRuntime()
    description: Annotated[str, Field(max_length=1000)] = ""
    admins: Names = ()
    submitters: Names | None = None


class Topology(Document):
    """An ordered list of node labels, coarse to fine."""

    name: Name
    levels: Annotated[tuple[Label, ...], Field(min_length=1, max_length=16)]


class EvictionCap(Document):
    """At most `evictions` involuntary evictions of one job within `window`."""

    evictions: Annotated[Integer, Field(ge=1, le=64)]
    window: Annotated[Duration, Field(ge=1)]


class Cooldown(Document):
    """Protection of a job after it restarted following an eviction; time during which a reclaimed project may not borrow."""

    job: Duration = 0
    project: Duration = 0


class Ageing(Document):
    """Adds `boost` to the priority of a job evicted `evictions` times or pending longer than `waiting`.

    The result stays below every class that is not preemptible.
    """

    boost: Annotated[Integer, Field(ge=1)]
    evictions: Annotated[Integer, Field(ge=1)] | None = None
    waiting: Annotated[Duration, Field(ge=1)] | None = None


class Budget(Document):
    """A disruption budget: at most `max_disruptions` of its jobs are evicted at a time.

    Its jobs have these labels and belong to this project or one below it.
    """

    name: Name
    labels: Labels = Field(default_factory=dict)
    project: Name | None = None
    max_disruptions: Count


class ScheduleTimeout(Document):
    """Action for a gang that is pending longer than `after`: report, fail, or pass (backfill stops reserving for it)."""

    after: Annotated[Duration, Field(ge=1)] = 300_000_000
    action: Literal["report", "fail", "pass"] = "report"


class Protections(Document):
    """Protections of jobs from eviction. Omitted ones are off.

    excluded: jobs that have all labels of any entry are never victims. stale_gang: how long a gang may run below its
    minimum; null: unlimited.
    """

    min_runtime: MinRuntime = MinRuntime()
    eviction_cap: EvictionCap | None = None
    cooldown: Cooldown = Cooldown()
    ageing: Ageing | None = None
    preemption_delay: Duration = 0
    excluded: tuple[Annotated[Labels, Field(min_length=1)], ...] = ()
    budgets: tuple[Budget, ...] = ()
    stale_gang: Duration | None = 0
    schedule_timeout: ScheduleTimeout | None = None


class PreemptionRules(Document):
    """Rules of preemption. Actions that are not listed are off.

    scope: whose jobs `preempt` may evict; omitted: the job's own project where there are projects, else the pool.
    quota_shields: under scope `pool`, jobs within their project's quota are protected.
    cap_at_fair_share: `preempt` does not take the preemptor's project beyond its fair share, where `reclaim` is on.
    max_migrations: how many jobs one consolidation may move; 0: none, null: unlimited.
    cpus_per_gpu: how many CPUs of tasks without GPUs count as one GPU in the cost of victims and in work lost.
    """

    actions: tuple[Action, ...] = ACTIONS
    scope: Literal["pool", "project"] | None = None
    quota_shields: bool = True
    cap_at_fair_share: bool = True
    max_migrations: Count | None = 0
    reservation_expiry: Annotated[Duration, Field(ge=1)] = 600_000_000
    selection_timeout: Annotated[Duration, Field(ge=1)] = 5_000_000
    selection_backoff: Annotated[Duration, Field(ge=1, le=3_600_000_000)] = 1_000_000
    search_steps: Annotated[Integer, Field(ge=1)] = 20_000
    restart_cost: Duration = 60_000_000
    max_counted_loss: Duration = 3_600_000_000
    cpus_per_gpu: Annotated[Integer, Field(ge=1)] = 16


class EvictionRules(Document):
    """Default grace of victims (notice to KILL) and its part from TERM to KILL.

    kill_after: null: a fifth of the grace. short_grace: maximum grace in a fast drain.
    """

    grace: Duration = 150_000_000
    short_grace: Duration = 5_000_000
    kill_after: Duration | None = None
    stuck_after: Duration = 120_000_000


class RestartRules(Document):
    """Restart backoff after a failure, a loss, or an exit of its own with 85.

    It is `backoff`, doubled for each further one, at most `max_backoff`. Evictions do not count. grow_after: minimum run time
    before a job with `elastic: restart` restarts to grow. max_failures: default maximum number of retries after failed attempts.
    max_yields: maximum number of restarts of a job that exits with 85 without an eviction notice.
    """

    backoff: Duration = 2_000_000
    max_backoff: Duration = 64_000_000
    grow_after: Duration = 300_000_000
    max_failures: Annotated[Integer, Field(ge=0, le=1000)] = 3
    max_yields: Annotated[Integer, Field(ge=0, le=1000)] = 10


class NodeRules(Document):
    """Timeouts of silent nodes (log protocol §7)."""

    unreachable_after: Duration = 30_000_000
    lease: Duration = 600_000_000
    lost_margin: Duration = 60_000_000
    silent_share_percent: Annotated[Integer, Field(ge=1, le=100)] = 20


MigWeight = Annotated[Integer, Field(ge=1, le=1000)]


class DeviceRules(Document):
    """over_share: action for a task that uses more memory of a shared device than its share.

    mig_weights: what a MIG device counts as, by profile, in thousandths of a GPU; others: their slices of seven (`3g.40gb`: 3/7).
    """

    over_share: Literal["warn", "evict"] = "warn"
    mig_weights: Annotated[dict[MigProfile, MigWeight], AfterValidator(sort_by_name)] = Field(default_factory=dict)


class IdleRules(Document):
    """Action for a job whose GPUs were all idle for `after`: a warning or a pause. Omitted: none."""

    after: Annotated[Duration, Field(ge=1)] | None = None
    action: Literal["warn", "pause"] = "warn"


class RetentionRules(Document):
    """Retention of ended jobs and request ids in the state, and of the private specs of ended jobs; log time."""

    ended_jobs: Duration = 604_800_000_000
    request_ids: Duration = 5_184_000_000_000
    job_specs: Duration = 604_800_000_000


class KubernetesRules(Document):
    """bridges: the names of the Kubernetes bridges, which alone may submit workloads; none: operators may.

    pdb: whether a victim's PodDisruptionBudget is respected until the end of its grace, or ignored.
    """

    bridges: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    pdb: Literal["respect", "ignore"] = "ignore"


class Policy(Document):
    """One pool's policy. Its revision is the seq of its `PolicyApplied` and is not part of the document.

    unshared_checkpoints: action at submission of a gang that needs several nodes which may not share a checkpoint directory:
    a warning to the owner, or refusal. placement: default of the job field.
    """

    priority_classes: Annotated[tuple[PriorityClass, ...], Field(min_length=1)]
    preemption: PreemptionRules = PreemptionRules()
    eviction: EvictionRules = EvictionRules()
    restarts: RestartRules = RestartRules()
    nodes: NodeRules = NodeRules()
    devices: DeviceRules = DeviceRules()
    idle: IdleRules = IdleRules()
    retention: RetentionRules = RetentionRules()
    identity: IdentityRules = IdentityRules()
    kubernetes: KubernetesRules = KubernetesRules()
    max_rejections_per_minute: Count = 60
    projects: Annotated[tuple[Project, ...], Field(max_length=10_000)] = ()
    topologies: Annotated[tuple[Topology, ...], Field(max_length=64)] = ()
    protections: Protections = Protections()
    backfill: Literal["greedy", "reserve", "preemptible"] = "preemptible"
    packing: Literal["binpack", "spread"] = "binpack"
    placement: Placement = "any"
    unshared_checkpoints: Literal["warn", "refuse"] = "warn"

    @model_validator(mode="after")
    def _classes_are_unambiguous(self) -> "Policy":
        names = [entry.name for entry in self.priority_classes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"priority class {name!r} is defined twice")
        defaults = [entry.name for entry in self.priority_classes if entry.global_default]
        if len(defaults) != 1:
            raise ValueError(f"exactly one priority class is the global default, found {defaults or 'none'}")
        return self

    @model_validator(mode="after")
    def _projects_are_a_tree(self, info: ValidationInfo) -> "Policy":
        """Budgets may also name projects from the validation context, for snapshots that list projects outside the policy."""
        parents: dict[str, str | None] = {}
        for project in self.projects:
            if project.name in parents:
                raise ValueError(f"project {project.name!r} is defined twice")
            parents[project.name] = project.parent
        for name in parents:
            above, seen = parents[name], [name]
            while above is not None:
                if above not in parents:
                    raise ValueError(f"project {seen[-1]!r} names the parent {above!r}, which is not defined")
                if above in seen:
                    raise ValueError(f"projects {' -> '.join([*seen, above])} form a cycle")
                seen.append(above)
                above = parents[above]
        for budget in self.protections.budgets:
            known = (*parents, *(info.context or {}).get("projects", ()))
            if budget.project is not None and budget.project not in known:
                raise ValueError(f"budget {budget.name!r} names the project {budget.project!r}, which is not defined")
        names = [topology.name for topology in self.topologies]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"topology {name!r} is defined twice")
        return self

    def complete(self) -> "Policy":
        """Returns the policy with all fields set, so that its record does not depend on a later release's defaults."""
        return Policy.model_validate_json(self.model_dump_json())

    @property
    def scope(self) -> Literal["pool", "project"]:
        """Whose jobs `preempt` may evict."""
        return self.preemption.scope or ("project" if self.projects else "pool")

    def find_class(self, name: str | None) -> PriorityClass | None:
        """Returns the class of that name, or the global default for `None`. Returns `None` if the policy has no such class."""
        for entry in self.priority_classes:
            if entry.name == name or (name is None and entry.global_default):
                return entry
        return None


DEFAULT_POLICY = Policy(
    priority_classes=(
        PriorityClass(name="inference", value=125, preemptible=False),
        PriorityClass(name="build", value=100, preemptible=False),
        PriorityClass(name="interactive", value=75, preemptible=True),
        PriorityClass(name="train", value=50, preemptible=True, global_default=True),
    )
)
