"""The policy: one document, entered into the log as a record, that everything a decision depends on is read from."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .document import Count, Document, Duration, Integer, Name, in_order

Verb = Literal["allocate", "consolidate", "reclaim", "preempt"]


class PriorityClass(Document):
    """Higher value wins. `Never` may wait ahead of others but displaces nobody."""

    name: Name
    value: Integer
    preemptible: bool
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    global_default: bool = False
    grace: Duration | None = None


class PreemptionRules(Document):
    """Who may displace whom. Verbs not named are off."""

    verbs: tuple[Verb, ...] = ("allocate", "preempt")
    scope: Literal["pool", "project"] = "pool"
    reservation_expiry: Annotated[Duration, Field(ge=1)] = 600_000_000
    selection_timeout: Annotated[Duration, Field(ge=1)] = 5_000_000
    selection_backoff: Annotated[Duration, Field(ge=1, le=3_600_000_000)] = 1_000_000
    search_steps: Annotated[Integer, Field(ge=1)] = 20_000
    restart_cost: Duration = 60_000_000
    max_counted_loss: Duration = 3_600_000_000


class EvictionRules(Document):
    """How long a victim has between the notice and KILL, where neither its class nor the job says."""

    grace: Duration = 30_000_000
    stuck_after: Duration = 120_000_000


class NodeRules(Document):
    """When silence of a node means something (log protocol §7)."""

    unreachable_after: Duration = 30_000_000
    lease: Duration = 600_000_000
    lost_margin: Duration = 60_000_000
    stale_share_percent: Annotated[Integer, Field(ge=1, le=100)] = 20


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
    keys: Annotated[dict[str, str], AfterValidator(in_order)] = Field(default_factory=dict)
    operators: tuple[str, ...] = ()
    class_users: Annotated[dict[str, tuple[str, ...]], AfterValidator(in_order)] = Field(default_factory=dict)


class Policy(Document):
    """One pool's policy. `revision` is the log position of the record that brought it and is not part of the document."""

    priority_classes: Annotated[tuple[PriorityClass, ...], Field(min_length=1)]
    preemption: PreemptionRules = PreemptionRules()
    eviction: EvictionRules = EvictionRules()
    nodes: NodeRules = NodeRules()
    retention: RetentionRules = RetentionRules()
    identity: IdentityRules = IdentityRules()
    max_rejections_per_minute: Count = 60

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
