"""The policy: one document, entered into the log as a record, that everything a decision depends on is read from."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from .document import Count, Document, Duration, Integer, Label, Labels, Name, sort_by_name
from .resource_vector import Bounds, Weights

Action = Literal["allocate", "consolidate", "reclaim", "preempt"]
ACTIONS: tuple[Action, ...] = ("allocate", "consolidate", "reclaim", "preempt")


class StartSlo(Document):
    """How soon jobs of a class should run after they are submitted; misses are counted and explained."""

    p95: Duration | None = None
    p99: Duration | None = None


class PriorityClass(Document):
    """Higher value wins. `Never` may wait ahead of others but displaces nobody.

    immediate: a serving tier; whoever leaves for one of its jobs has `immediate_grace` at most, whatever its own grace is.
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
    """So long after its last start a job is shielded, from each action. Left out: inherited from the project above."""

    preempt: Duration | None = None
    reclaim: Duration | None = None


class Project(Document):
    """A node in the tree of projects. `created` orders projects by age, then their names do.

    quota: what it deserves; GPUs left out are 0, CPU and memory left out have no bound. limit: a hard cap.
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


class Topology(Document):
    """An ordered list of node labels, coarse to fine."""

    name: Name
    levels: Annotated[tuple[Label, ...], Field(min_length=1, max_length=16)]


class EvictionCap(Document):
    """At most `evictions` involuntary evictions of one job within `window`."""

    evictions: Annotated[Integer, Field(ge=1, le=64)]
    window: Annotated[Duration, Field(ge=1)]


class Cooldown(Document):
    """After an eviction: how long the job is left alone once it runs again; how long a reclaimed project may not borrow."""

    job: Duration = 0
    project: Duration = 0


class Ageing(Document):
    """A job evicted `evictions` times, or waiting longer than `waiting`, counts `boost` more.

    It stays below all that is not preemptible.
    """

    boost: Annotated[Integer, Field(ge=1)]
    evictions: Annotated[Integer, Field(ge=1)] | None = None
    waiting: Annotated[Duration, Field(ge=1)] | None = None


class Budget(Document):
    """At most `max_disruptions` of these jobs are on their way out at a time: those with these labels, in this project and below
    it.
    """

    name: Name
    labels: Labels = Field(default_factory=dict)
    project: Name | None = None
    max_disruptions: Count


class ScheduleTimeout(Document):
    """What happens to a gang that is pending for longer than `after`: it is reported, it fails, or smaller ones may pass."""

    after: Annotated[Duration, Field(ge=1)] = 300_000_000
    action: Literal["report", "fail", "pass"] = "report"


class Protections(Document):
    """Which jobs are protected from eviction, and when. What is left out is off.

    excluded: jobs that have all labels of any entry are no victims. stale_gang: grace of a gang that lacks a member;
    null: never evicted for it.
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
    """Which jobs may preempt which. Actions not named are off.

    scope: whose jobs `preempt` may take; left out: the job's own project where there are projects, else the pool.
    quota_shields: under scope `pool`, what runs within its own project's quota is left alone.
    cap_at_fair_share: `preempt` does not carry the preemptor's project beyond its fair share, where `reclaim` is on.
    max_migrations: how many jobs one consolidation may move; 0: none, null: any number.
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


class EvictionRules(Document):
    """How long a victim has between the notice and KILL, and of that between TERM and KILL, where nobody else says.

    kill_after: where nobody says at all, a fifth of the grace. short_grace: at most so long where a node is drained fast.
    """

    grace: Duration = 150_000_000
    short_grace: Duration = 5_000_000
    kill_after: Duration | None = None
    stuck_after: Duration = 120_000_000


class RestartRules(Document):
    """How long a job waits after a failure or a loss: `backoff`, doubled with each further one, at most `max_backoff`.

    What it was evicted for does not count. grow_after: so long after its start a job that restarts to grow is left running.
    max_failures: how often a job that does not say it is started again after a failed attempt.
    """

    backoff: Duration = 2_000_000
    max_backoff: Duration = 64_000_000
    grow_after: Duration = 300_000_000
    max_failures: Annotated[Integer, Field(ge=0, le=1000)] = 3


class NodeRules(Document):
    """When silence of a node means something (log protocol §7)."""

    unreachable_after: Duration = 30_000_000
    lease: Duration = 600_000_000
    lost_margin: Duration = 60_000_000
    silent_share_percent: Annotated[Integer, Field(ge=1, le=100)] = 20


class DeviceRules(Document):
    """over_share: what becomes of a task that uses more memory of a shared device than its share."""

    over_share: Literal["warn", "evict"] = "warn"


class IdleRules(Document):
    """What happens to a job whose GPUs were all idle for `after`: it is reported, or paused. Left out: nothing."""

    after: Annotated[Duration, Field(ge=1)] | None = None
    action: Literal["warn", "pause"] = "warn"


class RetentionRules(Document):
    """What the state forgets, on log time."""

    ended_jobs: Duration = 604_800_000_000
    request_ids: Duration = 5_184_000_000_000
    job_specs: Duration = 604_800_000_000


class IdentityRules(Document):
    """Which proofs of identity a request needs. `none`: anybody who can write to the topic may ask.

    keys: who holds a public key, by key id. operators: who may ask for what concerns the whole pool; empty: anybody.
    class_users: who may submit to a priority class; a class not named is open to all.
    """

    accept: tuple[Literal["none", "acl", "signed"], ...] = ("none", "acl", "signed")
    keys: Annotated[dict[str, str], AfterValidator(sort_by_name)] = Field(default_factory=dict)
    operators: tuple[str, ...] = ()
    class_users: Annotated[dict[str, tuple[str, ...]], AfterValidator(sort_by_name)] = Field(default_factory=dict)


class Policy(Document):
    """One pool's policy. `revision` is the log position of the record that brought it and is not part of the document.

    unshared_checkpoints: of a gang that needs several nodes, and whose members might not see one checkpoint directory, its owner
    is told when it is submitted; or it is refused.
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
    max_rejections_per_minute: Count = 60
    projects: Annotated[tuple[Project, ...], Field(max_length=10_000)] = ()
    topologies: Annotated[tuple[Topology, ...], Field(max_length=64)] = ()
    protections: Protections = Protections()
    backfill: Literal["greedy", "reserve"] = "reserve"
    packing: Literal["binpack", "spread"] = "binpack"
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
        """A snapshot may list its projects beside the policy: then their names come as context."""
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
                    raise ValueError(f"projects {' -> '.join([*seen, above])} go round in a circle")
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
        """The same policy with every field written out: what goes into the log must not depend on a later release's defaults."""
        return Policy.model_validate_json(self.model_dump_json())

    @property
    def scope(self) -> Literal["pool", "project"]:
        """Whose jobs `preempt` may take."""
        return self.preemption.scope or ("project" if self.projects else "pool")

    def find_class(self, name: str | None) -> PriorityClass | None:
        """The class of that name, the global default for `None`, or `None` where the policy knows no such class."""
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
