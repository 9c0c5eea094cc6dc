"""The policy: the configuration of a pool, recorded in its log; decisions depend on no other configuration."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from .demand import Checkpointing, Placement
from .document import (
    MAX_GPU_HOURS,
    BudgetName,
    ClassName,
    Count,
    Document,
    Duration,
    GpuModel,
    Integer,
    Label,
    Labels,
    MigProfile,
    Name,
    OpaqueId,
    ProjectName,
    Text,
    parse_bytes_with_unit,
    sort_by_name,
)
from .gpu_kinds import names_of_kinds
from .identity import IdentityRules, Names
from .privacy import PRIVATE, Treatment, pseudonym
from .references import budget_faults, class_faults, duplicate_faults, group_faults, project_faults, tree_faults
from .resource_vector import Bounds, Weights

Action = Literal["allocate", "consolidate", "reclaim", "preempt"]
ACTIONS: tuple[Action, ...] = ("allocate", "consolidate", "reclaim", "preempt")


class StartSlo(Document):
    """Time within which 95 % and 99 % of a class's jobs should start after submission; misses are reported."""

    p95: Duration | None = None
    p99: Duration | None = None


class Claims(Document):
    """What a job may claim that makes it harder to evict. What it claims beyond that is not granted.

    A class's entry replaces the policy's; a project's, or that of the nearest project above it, adds to it.

    Attributes:
        grace: Longest grace of its own.
        stale_grace: Longest time of its own for which its gang may run below its minimum.
        preemption_delay: Shortest delay of its own before it preempts; omitted: the policy's.
        non_preemptible: Whether `preemptible: false` is granted.
        protective_labels: Whether labels that it sets itself put it under `protections.excluded` or a budget.
    """

    grace: Duration | None = None
    stale_grace: Duration | Literal["never"] | None = None
    preemption_delay: Duration | None = None
    non_preemptible: bool | None = None
    protective_labels: bool | None = None


DEFAULT_CLAIMS = Claims.model_construct(
    grace=600_000_000, stale_grace=600_000_000, non_preemptible=False, protective_labels=False
)


class MinRuntime(Document):
    """Time after its last start during which a job is protected, by action.

    Attributes:
        consolidate: Omitted: the longer of the other two.
    """

    preempt: Duration | None = None
    reclaim: Duration | None = None
    consolidate: Duration | None = None

    def under(self, action: Action) -> int | None:
        """Returns the time under the action; `None` where nothing is stated for it."""
        if action == "preempt":
            return self.preempt
        if action == "reclaim":
            return self.reclaim
        return max(filter(None, (self.preempt, self.reclaim)), default=None) if self.consolidate is None else self.consolidate


class EvictionCap(Document):
    """At most `evictions` involuntary evictions of one job within `window`."""

    evictions: Annotated[Integer, Field(ge=1, le=64)]
    window: Annotated[Duration, Field(ge=1)]


class Cooldown(Document):
    """Protection of a job after it restarted following an eviction; time during which a reclaimed project may not borrow."""

    job: Duration = 0
    project: Duration = 0


class ClassCooldown(Document):
    """A class's cooldown of its jobs."""

    job: Duration | None = None


class ProjectCooldown(ClassCooldown):
    """A project's cooldown of its jobs, and its own."""

    project: Duration | None = None


class PriorityClass(Document):
    """A priority class; the higher value wins. Jobs with `Never` are ordered by it but do not preempt.

    Its `grace`, `kill_after`, `min_runtime`, `eviction_cap` and `cooldown` are those of its jobs where no project of theirs
    states them; omitted: the policy's.

    Attributes:
        claims: What its jobs may claim, in place of the policy's `claims`.
        immediate: A serving tier; victims of its jobs get at most `immediate_grace`.
        checkpoint: Who saves the work of its jobs in an eviction; default of the job field.
    """

    name: ClassName
    value: Integer
    preemptible: bool
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    global_default: bool = False
    grace: Duration | None = None
    kill_after: Duration | None = None
    immediate: bool = False
    immediate_grace: Duration = 5_000_000
    start_slo: StartSlo = StartSlo.model_construct()
    claims: Claims = Claims.model_construct()
    checkpoint: Checkpointing = "job"
    min_runtime: MinRuntime = MinRuntime.model_construct()
    eviction_cap: EvictionCap | None = None
    cooldown: ClassCooldown = ClassCooldown.model_construct()


ByteQuota = Annotated[Integer, BeforeValidator(parse_bytes_with_unit), Field(ge=2**20)]


class ProjectSnapshots(Document):
    """A project's own rules of what is kept of snapshots; omitted: those of the project above it, else the policy's.

    Attributes:
        quota: Bytes of the snapshots of its jobs and those of projects below it.
        kept_for: As `snapshots.kept_for` of the policy, for its jobs and those of projects below it.
    """

    quota: ByteQuota | None = None
    kept_for: Annotated[Duration, Field(ge=1)] | None = None


class Project(Document):
    """A project in the tree of projects. Age order is `created`, then name.

    Its `grace`, `kill_after`, `min_runtime`, `eviction_cap` and `cooldown` are those of its jobs, and of jobs of projects below
    it that state none; omitted: the class's, else the policy's.

    Attributes:
        quota: Its entitlement; omitted GPUs are the sum of its children's, or 0, omitted CPU and memory the same part as of
            the GPUs.
        limit: A hard cap.
        admins: Users with the rights of `project-admin` on its jobs and those of the projects below it.
        submitters: Users that may submit to it and to the projects below it, besides admins and operators; omitted: inherited
            from the parent project, else unrestricted.
        claims: What its jobs and those of the projects below it may claim beyond their class's claims.
    """

    name: ProjectName
    parent: ProjectName | None = None
    created: Annotated[Count, Treatment("age")] = 0
    quota: Bounds = Bounds.model_construct()
    limit: Bounds = Bounds.model_construct()
    over_quota_weight: Weights = Weights.model_construct()
    priority: Integer = 0
    grace: Duration | None = None
    kill_after: Duration | None = None
    min_runtime: MinRuntime = MinRuntime.model_construct()
    eviction_cap: EvictionCap | None = None
    cooldown: ProjectCooldown = ProjectCooldown.model_construct()
    snapshots: ProjectSnapshots = ProjectSnapshots.model_construct()
    description: Annotated[Text, Field(max_length=1000)] = ""
    admins: Annotated[Names, PRIVATE] = ()
    submitters: Annotated[Names | None, PRIVATE] = None
    claims: Claims = Claims.model_construct()

    @property
    def states_rules(self) -> bool:
        """Whether it states any of the rules of `job_rules.py`, or of its snapshots."""
        rules = self.grace, self.kill_after, self.min_runtime, self.eviction_cap, self.cooldown, self.snapshots
        return rules != (None, None, MinRuntime(), None, ProjectCooldown(), ProjectSnapshots())


class Topology(Document):
    """An ordered list of node labels, coarse to fine."""

    name: Annotated[Name, pseudonym("topology")]
    levels: Annotated[tuple[Label, ...], Field(min_length=1, max_length=16), pseudonym("label")]


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

    name: BudgetName
    labels: Labels = Field(default_factory=dict)
    project: ProjectName | None = None
    max_disruptions: Count


class ScheduleTimeout(Document):
    """Action for a gang that is pending longer than `after`: report, fail, or pass (backfill stops reserving for it)."""

    after: Annotated[Duration, Field(ge=1)] = 300_000_000
    action: Literal["report", "fail", "pass"] = "report"


class Protections(Document):
    """Protections of jobs from eviction. Omitted ones are off.

    Attributes:
        excluded: Jobs that have all labels of any entry are never victims.
        stale_gang: How long a gang may run below its minimum; null: unlimited.
    """

    min_runtime: MinRuntime = MinRuntime.model_construct()
    eviction_cap: EvictionCap | None = None
    cooldown: Cooldown = Cooldown.model_construct()
    ageing: Ageing | None = None
    preemption_delay: Duration = 0
    excluded: tuple[Annotated[Labels, Field(min_length=1)], ...] = ()
    budgets: tuple[Budget, ...] = ()
    stale_gang: Duration | None = 0
    schedule_timeout: ScheduleTimeout | None = None


class PreemptionRules(Document):
    """Rules of preemption. Actions that are not listed are off.

    Attributes:
        scope: Whose jobs `preempt` may evict; omitted: the job's own project where there are projects, else the pool.
        quota_shields: Under scope `pool`, jobs within their project's quota are protected.
        cap_at_fair_share: `preempt` does not take the preemptor's project beyond its fair share, where `reclaim` is on.
        max_migrations: How many jobs one decision may move that it may not evict otherwise; 0: none, null: unlimited.
        move_higher_priority: Such moves may also be of jobs of higher priority than the job that they move for.
        payback: Time within which such moves must gain more GPU time for a job than they lose, and a job with
            `elastic: restart` more by growing than its restart loses; null: no bound.
        cpus_per_gpu: How many CPUs of tasks without GPUs count as one GPU in the cost of victims and in work lost.
    """

    actions: tuple[Action, ...] = ACTIONS
    scope: Literal["pool", "project"] | None = None
    quota_shields: bool = True
    cap_at_fair_share: bool = True
    max_migrations: Count | None = 0
    move_higher_priority: bool = False
    payback: Duration | None = 3_600_000_000
    reservation_expiry: Annotated[Duration, Field(ge=1)] = 600_000_000
    selection_timeout: Annotated[Duration, Field(ge=1)] = 5_000_000
    selection_backoff: Annotated[Duration, Field(ge=1, le=3_600_000_000)] = 1_000_000
    search_steps: Annotated[Integer, Field(ge=1)] = 20_000
    restart_cost: Duration = 60_000_000
    max_counted_loss: Duration = 3_600_000_000
    cpus_per_gpu: Annotated[Integer, Field(ge=1)] = 16


class EvictionRules(Document):
    """Default grace of victims (notice to KILL) and its part from TERM to KILL.

    Attributes:
        kill_after: Null: a fifth of the grace.
        short_grace: Maximum grace in a fast drain.
    """

    grace: Duration = 150_000_000
    short_grace: Duration = 5_000_000
    kill_after: Duration | None = None
    stuck_after: Duration = 120_000_000


class RestartRules(Document):
    """Restart backoff after a failure, a loss, a start that failed, or a job's own exit with 85. Evictions do not count.

    It is `backoff`, doubled for each further restart, at most `max_backoff`.

    Attributes:
        grow_after: Minimum run time before a job with `elastic: restart` restarts to grow.
        max_failures: Default maximum number of retries after failed attempts.
        max_yields: Maximum number of restarts of a job that exits with 85 without an eviction notice.
        max_start_failures: How many attempts in a row may fail to start until the job is paused.
    """

    backoff: Duration = 2_000_000
    max_backoff: Duration = 64_000_000
    grow_after: Duration = 300_000_000
    max_failures: Annotated[Integer, Field(ge=0, le=1000)] = 3
    max_yields: Annotated[Integer, Field(ge=0, le=1000)] = 10
    max_start_failures: Annotated[Integer, Field(ge=1, le=1000)] = 5


class NodeRules(Document):
    """Timeouts of silent nodes (log protocol §7)."""

    unreachable_after: Duration = 30_000_000
    lease: Duration = 600_000_000
    lost_margin: Duration = 60_000_000
    silent_share_percent: Annotated[Integer, Field(ge=1, le=100)] = 20


GpuGroup = Annotated[tuple[GpuModel, ...], Field(min_length=1, max_length=64)]
GpuGroups = Annotated[dict[Name, GpuGroup], Field(max_length=64), AfterValidator(sort_by_name), Treatment("gpu_groups")]
MigWeight = Annotated[Integer, Field(ge=1, le=1000)]
MigWeights = Annotated[dict[MigProfile, MigWeight], AfterValidator(sort_by_name), Treatment("mig_weights")]


class DeviceRules(Document):
    """Rules for devices.

    Attributes:
        over_share: Action for a task that uses more memory of a shared device than its share.
        mig_weights: Thousandths of a GPU that a MIG device counts as, by profile; default: its slices of seven (`3g.40gb`: 3/7).
    """

    over_share: Literal["warn", "evict"] = "warn"
    mig_weights: MigWeights = Field(default_factory=dict)


class IdleRules(Document):
    """Action for a job whose GPUs were all idle for `after`: a warning or a pause. Omitted: none."""

    after: Annotated[Duration, Field(ge=1)] | None = None
    action: Literal["warn", "pause"] = "warn"


class Limits(Document):
    """What one user, project or pool may ask for. Omitted: no limit.

    Attributes:
        open_jobs: Jobs that have not ended.
        requests_per_second: On average; after a pause, a minute's requests at once.
        bytes_per_second: Of requests, likewise.
    """

    open_jobs: Count | None = None
    requests_per_second: Annotated[Integer, Field(ge=1, le=1_000_000)] | None = None
    bytes_per_second: Annotated[Integer, Field(ge=1_024)] | None = None


class UserLimits(Limits):
    """Of each user."""

    open_jobs: Count | None = 20_000
    requests_per_second: Annotated[Integer, Field(ge=1, le=1_000_000)] | None = 200
    bytes_per_second: Annotated[Integer, Field(ge=1_024)] | None = 4_194_304


class PoolLimits(Limits):
    """Of all together."""

    open_jobs: Count | None = 100_000


class LimitRules(Document):
    """What may be asked for; more is rejected, with the time from which it may be sent again.

    Of what operators sign, the rates of users count submissions only.

    Attributes:
        user: Of each user. Those with unverified names are one user for `open_jobs`, and one for each `source` in the rates.
        project: Of each project by itself.
        pool: Of all together. Requests above its rates wait, in turn by user, and are not rejected.
    """

    user: UserLimits = UserLimits.model_construct()
    project: Limits = Limits.model_construct()
    pool: PoolLimits = PoolLimits.model_construct()


class FairnessRules(Document):
    """How projects share what is beyond their quotas.

    Attributes:
        half_life: Time after which past use of GPUs beyond the quota counts half; null: past use does not count.
    """

    half_life: Annotated[Duration, Field(ge=86_400_000_000, le=31_536_000_000_000)] | None = None


AtLimit = Literal["lowest-class", "borrow-only", "stop-admitting", "evict"]


class GpuBudget(Document):
    """GPU-hours that jobs of a project (and those below it), a user and a class may use in a calendar month, UTC.

    Of project, user and class, those that are omitted are any. Of a policy with keys, only jobs of the verified user count.

    Attributes:
        warn_at: Per cent of it from which it is at its warning.
        at_limit: Once it is used, until the next month or more hours: its jobs are as of the policy's lowest class; the project
            has no quota, so that it only borrows; no job is admitted or starts; `evict`: likewise, and running ones are evicted.
    """

    name: BudgetName
    project: ProjectName | None = None
    user: Annotated[OpaqueId, pseudonym("user")] | None = None
    priority_class: ClassName | None = None
    gpu_hours: Annotated[Integer, Field(ge=0, le=MAX_GPU_HOURS)]
    warn_at: Annotated[Integer, Field(ge=1, le=100)] = 80
    at_limit: AtLimit = "lowest-class"


class ReservationRules(Document):
    """Who may reserve GPUs for a project, how far ahead, and how many.

    Attributes:
        who: `project-admin`: admins of the project or of one above it; `operator`; `anyone`: whoever may submit to the project.
        ahead: How far ahead the last time of a reservation may begin.
        max_gpus: The most that may be reserved for one project at a time; null: what the pool can promise.
        max_duration: The longest time.
        margin: Added to the time that a job needs to leave, before GPUs are promised to others.
    """

    who: tuple[Literal["project-admin", "operator", "anyone"], ...] = ("operator",)
    ahead: Annotated[Duration, Field(ge=1, le=31_622_400_000_000)] = 2_592_000_000_000
    max_gpus: Count | None = None
    max_duration: Annotated[Duration, Field(ge=1, le=31_622_400_000_000)] = 604_800_000_000
    margin: Annotated[Duration, Field(le=3_600_000_000)] = 60_000_000


class RetentionRules(Document):
    """Retention of ended jobs and request ids in the state, and of the private specs of ended jobs; log time."""

    ended_jobs: Duration = 604_800_000_000
    request_ids: Duration = 5_184_000_000_000
    job_specs: Duration = 604_800_000_000


class SnapshotRules(Document):
    """Snapshots: how often those of running jobs at intervals (job field `checkpoint_every`), and how much of them is kept.

    Attributes:
        min_interval: The shortest interval; a shorter one of a job counts as this.
        at_once: The most jobs that are being saved at a time; the others wait.
        project_quota: Once the snapshots of a project's own jobs hold as many bytes, no node saves another one of it; null: no
            bound. Of each project that states no quota of its own.
        kept_for: How long the snapshot of a job is kept that does not run; null: until the job ends. One that is paused or
            waits for longer begins anew.
        park_limit: How long an evicted job stays in the memory of its node, where that parks jobs, before it is saved to disk;
            null: no job is parked.
        compressed: Whether snapshots are compressed.
        encrypted: Whether they are encrypted, for their node and those that have the same folder for checkpoints. Only in a pool
            with a root key, whose nodes have keys.
    """

    min_interval: Duration = 600_000_000
    at_once: Annotated[Integer, Field(ge=0, le=1000)] = 2
    project_quota: ByteQuota | None = None
    kept_for: Annotated[Duration, Field(ge=1)] | None = None
    park_limit: Annotated[Duration, Field(ge=1)] | None = 600_000_000
    compressed: bool = False
    encrypted: bool = False


class KubernetesRules(Document):
    """Rules for workloads of Kubernetes.

    Attributes:
        bridges: The names of the Kubernetes bridges, which alone may submit workloads; none: operators may.
        pdb: Whether a victim's PodDisruptionBudget is respected until the end of its grace, or ignored.
    """

    TREATMENT = PRIVATE
    bridges: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    pdb: Literal["respect", "ignore"] = "ignore"


class Policy(Document):
    """One pool's policy. Its revision is the seq of its `PolicyApplied` and is not part of the document.

    Attributes:
        unshared_checkpoints: Action at submission of a gang that needs several nodes which may not share a checkpoint directory:
            a warning to the owner, or refusal.
        placement: Default of the job field.
        gpu_groups: Names for several GPU models of which quotas and limits count together.
        claims: What jobs may claim where their class and project say nothing. A record without it is of a time when every claim
            but that of a grace beyond the default was granted.
    """

    priority_classes: Annotated[tuple[PriorityClass, ...], Field(min_length=1)]
    preemption: PreemptionRules = PreemptionRules.model_construct()
    eviction: EvictionRules = EvictionRules.model_construct()
    restarts: RestartRules = RestartRules.model_construct()
    nodes: NodeRules = NodeRules.model_construct()
    devices: DeviceRules = DeviceRules.model_construct()
    idle: IdleRules = IdleRules.model_construct()
    retention: RetentionRules = RetentionRules.model_construct()
    identity: IdentityRules = IdentityRules.model_construct()
    kubernetes: KubernetesRules = KubernetesRules.model_construct()
    snapshots: SnapshotRules = SnapshotRules.model_construct()
    max_rejections_per_minute: Count = 60
    limits: LimitRules = LimitRules.model_construct()
    projects: Annotated[tuple[Project, ...], Field(max_length=10_000)] = ()
    gpu_groups: GpuGroups = Field(default_factory=dict)
    fairness: FairnessRules = FairnessRules.model_construct()
    budgets: Annotated[tuple[GpuBudget, ...], Field(max_length=1000)] = ()
    reservations: ReservationRules = ReservationRules.model_construct()
    topologies: Annotated[tuple[Topology, ...], Field(max_length=64)] = ()
    protections: Protections = Protections.model_construct()
    backfill: Literal["greedy", "reserve", "preemptible"] = "preemptible"
    packing: Literal["binpack", "spread"] = "binpack"
    placement: Placement = "any"
    unshared_checkpoints: Literal["warn", "refuse"] = "warn"
    claims: Claims | None = None

    @model_validator(mode="after")
    def _names_are_unambiguous(self, info: ValidationInfo) -> "Policy":
        """Budgets may also name projects from the validation context, for snapshots that list projects outside the policy."""
        faults = class_faults([(each.name, each.global_default) for each in self.priority_classes])
        faults += tree_faults([(each.name, each.parent) for each in self.projects], ("projects",))
        faults += duplicate_faults([each.name for each in self.topologies], ("topologies",))
        known = (*(each.name for each in self.projects), *(info.context or {}).get("projects", ()))
        faults += project_faults([each.project for each in self.protections.budgets], known, ("protections", "budgets"))
        faults += group_faults(self.gpu_groups, names_of_kinds(self.projects), ("gpu_groups",))
        faults += project_faults([each.project for each in self.budgets], known, ("budgets",))
        faults += budget_faults(self.budgets, [each.name for each in self.priority_classes])
        if faults:
            raise ValueError("; ".join(f"{'.'.join(map(str, place))}: {text}" for place, text in faults))
        return self

    def complete(self) -> "Policy":
        """Returns the policy with all fields set, so that its record does not depend on a later release's defaults."""
        stated = {} if self.claims is None else {name: value for name, value in self.claims if value is not None}
        claims = DEFAULT_CLAIMS.model_copy(update=stated)
        return Policy.model_validate_json(self.model_copy(update={"claims": claims}).model_dump_json())

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


DEFAULT_POLICY = Policy.model_construct(
    priority_classes=(
        PriorityClass.model_construct(name="inference", value=125, preemptible=False),
        PriorityClass.model_construct(name="build", value=100, preemptible=False),
        PriorityClass.model_construct(name="interactive", value=75, preemptible=True),
        PriorityClass.model_construct(name="train", value=50, preemptible=True, global_default=True),
    )
)
