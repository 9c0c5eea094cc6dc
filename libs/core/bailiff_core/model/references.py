"""Faults in the names that documents give and refer to: duplicates, unknown names, cycles."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Place = tuple[int | str, ...]


class Fault(NamedTuple):
    """One fault, and its place in the document."""

    place: Place
    text: str


def duplicate_faults(names: Sequence[str], place: Place, field: str = "name") -> list[Fault]:
    """A fault for each name that the list has before."""
    first = {name: at for at, name in reversed(list(enumerate(names)))}
    return [Fault((*place, at, field), f"{name!r} occurs twice") for at, name in enumerate(names) if first[name] < at]


def tree_faults(entries: Sequence[tuple[str, str | None]], place: Place) -> list[Fault]:
    """Faults of a list of (name, parent) that must form trees: duplicate names, unknown parents, cycles."""
    parents = dict(entries)
    faults = duplicate_faults([name for name, _ in entries], place)
    for at, (name, parent) in enumerate(entries):
        seen, above = [name], parent
        while above in parents and above not in seen:
            seen.append(above)
            above = parents[above]
        if parent is not None and parent not in parents:
            others = [each for each in parents if each != name]
            faults.append(Fault((*place, at, "parent"), f"there is no {parent!r}; {suggest(parent, others)}"))
        elif above == name:
            faults.append(Fault((*place, at, "parent"), f"{' -> '.join([*seen, name])} is a cycle"))
    return faults


def class_faults(classes: Sequence[tuple[str, bool]], place: Place = ("priority_classes",)) -> list[Fault]:
    """Duplicate names of (name, whether it is the global default), and other than exactly one default."""
    names = [name for name, _ in classes]
    defaults = [at for at, (_, is_default) in enumerate(classes) if is_default]
    faults = duplicate_faults(names, place)
    if len(defaults) != 1:
        text = f"exactly one class must be the global default, found {', '.join(names[at] for at in defaults) or 'none'}"
        faults.append(Fault((*place, defaults[1], "global_default") if defaults else place, text))
    return faults


def group_faults(groups: Mapping[str, Sequence[str]], named: Sequence[str], place: Place) -> list[Fault]:
    """A fault for each model that would be divided twice: in two groups, or in one and named by itself by quotas or limits."""
    faults: list[Fault] = []
    seen: dict[str, str] = {}
    for name, models in groups.items():
        for at, model in enumerate(models):
            if model in seen:
                faults.append(Fault((*place, name, at), f"{model!r} is in {seen[model]!r}, too: a model is in one group"))
            elif model in named and model != name:
                faults.append(Fault((*place, name, at), f"a quota or limit names {model!r} by itself: name the group there"))
            seen.setdefault(model, name)
    return faults


def project_faults(wanted: Sequence[str | None], known: Iterable[str], place: Place) -> list[Fault]:
    """A fault for each entry of the list whose `project` is not known."""
    names = list(known)
    return [
        Fault((*place, at, "project"), f"no project {name!r}; {suggest(name, names)}")
        for at, name in enumerate(wanted)
        if name is not None and name not in names
    ]


class BudgetRow(Protocol):
    """A row of the policy's budgets."""

    @property
    def name(self) -> str:
        """Of the row."""

    @property
    def project(self) -> str | None:
        """Whose jobs."""

    @property
    def user(self) -> str | None:
        """Whose jobs."""

    @property
    def priority_class(self) -> str | None:
        """Which jobs."""

    @property
    def at_limit(self) -> str:
        """What follows."""


def budget_faults(rows: Sequence[BudgetRow], classes: Sequence[str]) -> list[Fault]:
    """Faults of budgets: names or jobs that occur twice, unknown classes, borrowing where there is no quota."""
    faults = duplicate_faults([row.name for row in rows], ("budgets",))
    of_jobs: dict[tuple[str | None, ...], str] = {}
    for at, row in enumerate(rows):
        other = of_jobs.setdefault((row.project, row.user, row.priority_class), row.name)
        if other != row.name:
            faults.append(Fault(("budgets", at), f"{other!r} is of the same jobs"))
        if row.priority_class is not None and row.priority_class not in classes:
            text = f"no class {row.priority_class!r}; {suggest(row.priority_class, classes)}"
            faults.append(Fault(("budgets", at, "priority_class"), text))
        if row.at_limit == "borrow-only" and (row.project is None or row.user is not None or row.priority_class is not None):
            text = "borrow-only is for the budget of a project, all of it: only projects have quotas"
            faults.append(Fault(("budgets", at, "at_limit"), text))
    return faults


def names_of(entries: Any) -> tuple[str, ...]:
    """The `name` of each entry of a list of JSON objects; empty if it is not such a list."""
    found = [each.get("name") for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    return tuple(name for name in found if isinstance(name, str))


def suggest(wanted: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or the first few known names."""
    names = list(known)
    near = difflib.get_close_matches(wanted, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "there are none"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"there are {', '.join(names[:8])}{more}"
