"""The tree of projects of the policy.

The root above all projects is `""`. Jobs are counted at leaves only. A job submitted to a project with children is counted
at an implicit child of it (`dept*`); a job without a project, or with an unknown one, at `*` below the root. Implicit
children have the default settings.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .gpu_kinds import FIRST, is_profile, names_of_kinds, resource_names
from .mig import mig_gpu_milli
from .policy import Claims, Project
from .resource_vector import FIELDS, UNLIMITED, Amount, Bounds, ResourceVector, Weights
from .state import PoolState

ROOT = ""
MAX_PROJECTS_NAMED = 5
DIRECT = "*"  # suffix of implicit children; not valid in project names
NO_BOUNDS = ResourceVector(UNLIMITED, UNLIMITED, UNLIMITED)
NO_QUOTA = Bounds.model_construct(gpu_milli=0, cpu_milli=0, memory_bytes=0)


@dataclass(frozen=True, slots=True)
class Branch:
    """One project. Bounds of -1 are unlimited.

    Attributes:
        path: The project and its ancestors up to the root.
        age: Rank by age; smaller is older.
        quota: As stated; -1 for CPU and memory of which it states none.
        unstated: The resources of which it states no quota; of GPUs, its quota is then the sum of its children's. One that states
            GPUs by kind has the sum of them.
    """

    name: str
    path: tuple[str, ...]
    age: int
    quota: ResourceVector = NO_BOUNDS
    unstated: tuple[int, ...] = ()
    limit: ResourceVector = NO_BOUNDS
    weights: tuple[int, ...] = (1, 1, 1)
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Siblings:
    """The children of one project, oldest first, with limits and weights as one column per resource.

    Attributes:
        ranks: Per resource, positions of children with a weight, grouped by priority, highest first.
        limited: Per resource, whether any child has a limit.
        weightless: Per resource, whether any child has no weight.
    """

    parent: str
    names: tuple[str, ...]
    limits: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[tuple[int, ...], ...], ...]
    limited: tuple[bool, ...]
    weightless: tuple[bool, ...]


class ProjectTree:
    """Project tree with look-ups. sibling_groups: the children of each project that has any, parents first.

    claims: what jobs may claim, of the projects that say something of it. stating: the projects with rules of their own.
    kinds: the kinds of GPU of which one of them states a quota or a limit. resources: all resources, as sentences name them."""

    def __init__(self, projects: Sequence[Project] = ()) -> None:
        self.projects = projects
        self.kinds = names_of_kinds(projects)
        self.resources = resource_names(self.kinds)
        self.claims = {project.name: project.claims for project in projects if project.claims != Claims()}
        self.stating = {project.name: project for project in projects if project.states_rules}
        self.branches: dict[str, Branch] = {ROOT: Branch(ROOT, (ROOT,), 0)}
        self.children: dict[str, tuple[str, ...]] = {}
        self.sibling_groups: list[Siblings] = []
        self._below: dict[tuple[str, str], str] = {}
        gpus = _gpu_quotas(projects)
        below: dict[str, list[tuple[int, Project]]] = {}
        by_age = sorted(range(len(projects)), key=lambda at: (projects[at].created, projects[at].name))
        for age, at in enumerate(by_age, start=1):
            below.setdefault(projects[at].parent or ROOT, []).append((age, projects[at]))
        to_expand = [ROOT]
        for parent in to_expand:
            found = below.get(parent, [])
            if not found:
                continue
            path = self.branches[parent].path
            implicit = Project.model_construct(name=parent + DIRECT, quota=NO_QUOTA)
            for age, project in [*found, (len(projects) + 1, implicit)]:
                self.branches[project.name] = _branch(project, gpus.get(project.name, 0), path, age, self.kinds)
                to_expand.append(project.name)
            self.children[parent] = (*[project.name for _, project in found], implicit.name)
            self.sibling_groups.append(self._siblings(parent))

    def place_of(self, kind: str) -> int:
        """Returns the place of a kind in a `ResourceVector`; that of all GPUs for the empty name."""
        return FIRST + self.kinds.index(kind) if kind else 0

    def leaf_of(self, project: str) -> str:
        """Returns the leaf at which jobs of this project are counted."""
        if project not in self.branches:
            project = ROOT
        return project + DIRECT if project in self.children else project

    def common(self, one: str, other: str) -> str:
        """Returns the lowest common ancestor; a project is its own ancestor."""
        path = self.branches[one].path
        for name in self.branches[other].path:
            if name in path:
                return name
        return ROOT

    def below(self, ancestor: str, project: str) -> str:
        """Returns the child of `ancestor` on the path to `project`; `project` itself if `ancestor` is not above it."""
        path = self.branches[project].path
        if ancestor not in path[1:]:
            return project
        return path[path.index(ancestor) - 1]

    def sides(self, preemptor: str, victim: str) -> tuple[str, str]:
        """Returns the two children of the lowest common ancestor that contain the projects."""
        common = self.common(preemptor, victim)
        return self.below(common, preemptor), self.below(common, victim)

    def _siblings(self, parent: str) -> Siblings:
        names = self.children[parent]
        found = [self.branches[name] for name in names]
        priorities = sorted(dict.fromkeys(branch.priority for branch in found), reverse=True)
        ranks = [[at for at, branch in enumerate(found) if branch.priority == priority] for priority in priorities]
        limits = _columns(branch.limit for branch in found)
        weights = _columns(branch.weights for branch in found)
        return Siblings(
            parent,
            names,
            limits,
            weights,
            tuple(tuple(tuple(at for at in rank if column[at]) for rank in ranks) for column in weights),
            tuple(max(column) >= 0 for column in limits),
            tuple(0 in column for column in weights),
        )


def tree_of(state: PoolState) -> ProjectTree:
    """Returns the project tree of the policy in force."""
    projects = state.policy.projects if state.policy is not None else ()
    tree = state.indices.project_tree
    if not isinstance(tree, ProjectTree) or tree.projects is not projects:
        state.indices.project_tree = tree = ProjectTree(projects)
    return tree


def projects_text(names: Sequence[str]) -> str:
    """`project a, project b and project c`; of many, the first ones."""
    texts = [project_text(name) for name in names[:MAX_PROJECTS_NAMED]]
    if len(names) > len(texts):
        texts.append(f"{len(names) - len(texts)} more projects")
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def are_several(names: Sequence[str]) -> bool:
    """Whether `projects_text` of these names several: projects, or the jobs of one."""
    return len(names) > 1 or names[0].endswith(DIRECT)


def project_text(project: str) -> str:
    """Returns the project as sentences name it."""
    if project.endswith(DIRECT):
        above = project.removesuffix(DIRECT)
        return f"jobs submitted directly to project {above}" if above else "jobs without a project"
    return f"project {project}" if project else "the pool"


def _branch(project: Project, gpus: Amount, above: tuple[str, ...], age: int, kinds: Sequence[str]) -> Branch:
    quota, limit = (_amounts(bounds, kinds) for bounds in (project.quota, project.limit))
    stated = [getattr(project.quota, name) for name in FIELDS] + [project.quota.by_model.get(kind) for kind in kinds]
    if stated[0] is None and project.quota.by_model:
        stated[0] = gpus
    return Branch(
        project.name,
        (project.name, *above),
        age,
        quota.with_gpus(gpus),
        tuple(at for at, amount in enumerate(stated) if amount is None),
        limit,
        _weights(project.over_quota_weight, kinds),
        project.priority,
    )


def _gpu_quotas(projects: Sequence[Project]) -> dict[str, Amount]:
    """The quota of GPUs of each project: one that states none has the sum of its children's."""
    children: dict[str, list[str]] = {}
    for project in projects:
        children.setdefault(project.parent or ROOT, []).append(project.name)
    stated = {project.name: _stated_gpus(project.quota) for project in projects}
    found: dict[str, Amount] = {}
    for name in reversed(_parents_first(children)):
        own = stated[name]
        found[name] = sum_of_quotas([found[child] for child in children.get(name, ())]) if own is None else own
    return found


def _stated_gpus(quota: Bounds) -> Amount | None:
    """Those that it states, in all or by kind; a MIG device counts by its slices."""
    if quota.gpu_milli is not None or not quota.by_model:
        return quota.gpu_milli
    return sum_of_quotas([gpus_of_kind(kind, amount) for kind, amount in quota.by_model.items()])


def gpus_of_kind(kind: str, amount: Amount) -> Amount:
    """So much of a kind in thousandths of a GPU, rounded down."""
    if not is_profile(kind) or amount == UNLIMITED:
        return amount
    return amount * mig_gpu_milli(kind, {}) // 1000


def sum_of_quotas(quotas: Sequence[Amount]) -> Amount:
    """The sum of what the children of a project have; -1 where one of them has no bound."""
    return UNLIMITED if UNLIMITED in quotas else sum(quotas)


def _parents_first(children: Mapping[str, Sequence[str]]) -> list[str]:
    found = list(children.get(ROOT, ()))
    for name in found:
        found += children.get(name, ())
    return found


def _amounts(bounds: Bounds, kinds: Sequence[str]) -> ResourceVector:
    stated = (getattr(bounds, name) for name in FIELDS)
    amounts = (UNLIMITED if amount is None else amount for amount in stated)
    return ResourceVector(*amounts, *(bounds.by_model.get(kind, UNLIMITED) for kind in kinds))


def _weights(weights: Weights, kinds: Sequence[str]) -> tuple[int, ...]:
    return (weights.gpu, weights.cpu, weights.memory, *(weights.gpu for _ in kinds))


def _columns(rows: Iterable[tuple[object, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(zip(*rows, strict=True))
