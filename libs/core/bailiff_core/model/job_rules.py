"""Rules that the policy states for all jobs, and a class or a project for its own: the most specific statement holds.

Of the job's project and those above it, the nearest that states the rule; else the job's class; else the policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from .policy import ACTIONS, Action, EvictionCap, Policy, PriorityClass, Project
from .project_tree import ProjectTree, tree_of
from .state import Job, PoolState

T = TypeVar("T")


class Stated(NamedTuple, Generic[T]):
    """What holds, and the field of the policy that states it, such as `projects.vision.eviction_cap`."""

    value: T
    field: str


@dataclass(frozen=True, slots=True)
class JobRule(Generic[T]):
    """One such rule.

    Attributes:
        name: Its field of a class or project.
        general: Its field of the policy, for all jobs.
        own: What a class or project states; None: nothing.
        default: What the policy states for all jobs.
    """

    name: str
    general: str
    own: Callable[[PriorityClass | Project], T | None]
    default: Callable[[Policy], T]

    def of(self, state: PoolState, job: Job, path: Sequence[str] | None = None) -> Stated[T]:
        """Returns what holds for the job.

        Args:
            path: The projects that are asked, the nearest first; None: the job's, and those above it.
        """
        tree = tree_of(state)
        asked = tree.branches[tree.leaf_of(job.project)].path if path is None else path
        found = _nearest(tree, asked, self.own, self.name)
        if found is not None:
            return found
        entry = state.rules.find_class(job.class_name)
        own = self.own(entry) if entry is not None else None
        if entry is not None and own is not None:
            return Stated(own, f"priority_classes.{entry.name}.{self.name}")
        return Stated(self.default(state.rules), self.general)

    def by_job(self, state: PoolState, path: Callable[[str], Sequence[str]] | None = None) -> Callable[[Job], T] | None:
        """Returns what holds for jobs of the pool as a function of the job; None: nothing holds for any.

        Args:
            path: Makes the projects that are asked from that of the job.
        """
        tree, rules = tree_of(state), state.rules
        entries: tuple[PriorityClass | Project, ...] = (*tree.stating.values(), *rules.priority_classes)
        if not self.default(rules) and all(not self.own(entry) for entry in entries):
            return None
        known: dict[tuple[str, str], T] = {}

        def holds(job: Job) -> T:
            key = job.project, job.class_name
            if key not in known:
                known[key] = self.of(state, job, None if path is None else path(job.project)).value
            return known[key]

        return holds


def _min_runtime(action: Action) -> JobRule[int]:
    return JobRule(
        "min_runtime",
        "protections.min_runtime",
        lambda entry: entry.min_runtime.under(action),
        lambda policy: policy.protections.min_runtime.under(action) or 0,
    )


MIN_RUNTIME = {action: _min_runtime(action) for action in ACTIONS}
EVICTION_CAP: JobRule[EvictionCap | None] = JobRule(
    "eviction_cap", "protections.eviction_cap", lambda entry: entry.eviction_cap, lambda policy: policy.protections.eviction_cap
)
COOLDOWN: JobRule[int] = JobRule(
    "cooldown.job", "protections.cooldown.job", lambda entry: entry.cooldown.job, lambda policy: policy.protections.cooldown.job
)
GRACE: JobRule[int] = JobRule("grace", "eviction.grace", lambda entry: entry.grace, lambda policy: policy.eviction.grace)
KILL_AFTER: JobRule[int | None] = JobRule(
    "kill_after", "eviction.kill_after", lambda entry: entry.kill_after, lambda policy: policy.eviction.kill_after
)
KEPT_FOR: JobRule[int | None] = JobRule(
    "snapshots.kept_for",
    "snapshots.kept_for",
    lambda entry: entry.snapshots.kept_for if isinstance(entry, Project) else None,
    lambda policy: policy.snapshots.kept_for,
)


def project_cooldown(state: PoolState, project: str) -> Stated[int]:
    """Returns how long the project may not borrow after a reclaim, µs."""
    tree, general = tree_of(state), state.rules.protections.cooldown.project
    path = tree.branches[project].path if project in tree.branches else ()
    return _nearest(tree, path, lambda entry: entry.cooldown.project, "cooldown.project") or Stated(
        general, "protections.cooldown.project"
    )


def _nearest(tree: ProjectTree, path: Sequence[str], own: Callable[[Project], T | None], name: str) -> Stated[T] | None:
    for project in path if tree.stating else ():
        stated = own(tree.stating[project]) if project in tree.stating else None
        if stated is not None:
            return Stated(stated, f"projects.{project}.{name}")
    return None
