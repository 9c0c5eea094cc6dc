"""The tree of projects, as the policy states it.

The root above all projects is `""`. Jobs are counted at leaves only: what is submitted straight to a project that has
projects below it, or to none or an unknown one while the policy has projects, counts at an unnamed child of that
project (`dept*`, and `*` below the root), which is a project of which nothing is stated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .policy import Project
from .resource_vector import UNLIMITED, Bounds, ResourceVector, Weights
from .state import PoolState

ROOT = ""
DIRECT = "*"  # no project may be called that
NO_BOUNDS = ResourceVector(UNLIMITED, UNLIMITED, UNLIMITED)


@dataclass(frozen=True, slots=True)
class Branch:
    """One project. `path`: itself and all above it, up to the root. `age`: smaller is older. Bounds of -1: none."""

    name: str
    path: tuple[str, ...]
    age: int
    quota: ResourceVector = NO_BOUNDS
    limit: ResourceVector = NO_BOUNDS
    weights: tuple[int, int, int] = (1, 1, 1)
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Siblings:
    """The children of one project, oldest first, and what they have stated, resource by resource.

    ranks: positions of the children of one priority that have a weight, the highest priority first. limited, unlimited,
    weightless: whether any child has a limit, no quota that bounds it, no weight.
    """

    parent: str
    names: tuple[str, ...]
    quotas: tuple[tuple[int, ...], ...]
    limits: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    ranks: tuple[tuple[tuple[int, ...], ...], ...]
    limited: tuple[bool, ...]
    unlimited: tuple[bool, ...]
    weightless: tuple[bool, ...]


class ProjectTree:
    """Looks up projects. `families` lists every project that has others below it, each after the one above it."""

    def __init__(self, projects: Sequence[Project] = ()) -> None:
        self.projects = projects
        self.branches: dict[str, Branch] = {ROOT: Branch(ROOT, (ROOT,), 0)}
        self.children: dict[str, tuple[str, ...]] = {}
        self.sibling_groups: list[Siblings] = []
        self._below: dict[tuple[str, str], str] = {}
        below: dict[str, list[tuple[int, Project]]] = {}
        by_age = sorted(range(len(projects)), key=lambda at: (projects[at].created, projects[at].name))
        for age, at in enumerate(by_age, start=1):
            below.setdefault(projects[at].parent or ROOT, []).append((age, projects[at]))
        waiting = [ROOT]
        for parent in waiting:
            found = below.get(parent, [])
            if not found:
                continue
            path = self.branches[parent].path
            nameless = Project.model_construct(name=parent + DIRECT)
            for age, project in [*found, (len(projects) + 1, nameless)]:
                self.branches[project.name] = _branch(project, path, age)
                waiting.append(project.name)
            self.children[parent] = (*[project.name for _, project in found], nameless.name)
            self.sibling_groups.append(self._family(parent))

    def leaf_of(self, project: str) -> str:
        """Where a job of this project is counted."""
        if project not in self.branches:
            project = ROOT
        return project + DIRECT if project in self.children else project

    def common(self, one: str, other: str) -> str:
        """The lowest common ancestor; a project counts as its own."""
        path = self.branches[one].path
        for name in self.branches[other].path:
            if name in path:
                return name
        return ROOT

    def below(self, ancestor: str, project: str) -> str:
        """The child of `ancestor` on the way to `project`; `project` itself where there is no step between them."""
        path = self.branches[project].path
        if ancestor not in path[1:]:
            return project
        return path[path.index(ancestor) - 1]

    def sides(self, preemptor: str, victim: str) -> tuple[str, str]:
        """Both projects' sides just below their lowest common ancestor."""
        common = self.common(preemptor, victim)
        return self.below(common, preemptor), self.below(common, victim)

    def _family(self, parent: str) -> Siblings:
        names = self.children[parent]
        found = [self.branches[name] for name in names]
        priorities = sorted(dict.fromkeys(branch.priority for branch in found), reverse=True)
        ranks = [[at for at, branch in enumerate(found) if branch.priority == priority] for priority in priorities]
        quotas, limits = _columns(branch.quota for branch in found), _columns(branch.limit for branch in found)
        weights = _columns(branch.weights for branch in found)
        return Siblings(
            parent,
            names,
            quotas,
            limits,
            weights,
            tuple(tuple(tuple(at for at in rank if column[at]) for rank in ranks) for column in weights),
            tuple(max(column) >= 0 for column in limits),
            tuple(min(column) < 0 for column in quotas),
            tuple(0 in column for column in weights),
        )


def tree_of(state: PoolState) -> ProjectTree:
    """The project tree of the policy in force."""
    projects = state.policy.projects if state.policy is not None else ()
    tree = state.indices.project_tree
    if not isinstance(tree, ProjectTree) or tree.projects is not projects:
        state.indices.project_tree = tree = ProjectTree(projects)
    return tree


def project_text(project: str) -> str:
    """How a sentence names the project."""
    if project.endswith(DIRECT):
        above = project.removesuffix(DIRECT)
        return f"what is submitted straight to project {above}" if above else "what is submitted without a project"
    return f"project {project}" if project else "the pool"


def _branch(project: Project, above: tuple[str, ...], age: int) -> Branch:
    return Branch(
        project.name,
        (project.name, *above),
        age,
        _amounts(project.quota, 0),
        _amounts(project.limit, UNLIMITED),
        _weights(project.over_quota_weight),
        project.priority,
    )


def _amounts(bounds: Bounds, gpus: int) -> ResourceVector:
    return ResourceVector(
        gpus if bounds.gpu_milli is None else bounds.gpu_milli,
        UNLIMITED if bounds.cpu_milli is None else bounds.cpu_milli,
        UNLIMITED if bounds.memory_bytes is None else bounds.memory_bytes,
    )


def _weights(weights: Weights) -> tuple[int, int, int]:
    return weights.gpu, weights.cpu, weights.memory


def _columns(rows: Iterable[tuple[object, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(zip(*rows, strict=True))
