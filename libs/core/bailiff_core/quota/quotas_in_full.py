"""The quotas of all projects in full, before any shrink: where a project states none of CPU or memory, it follows from its GPUs.

It is the project's part of the GPUs of the nodes that count, taken of their CPUs and memory. Without GPUs, those who state none
have equal parts, by weight, of what the others leave. Of a kind of GPU that somebody names, a project that states no quota has
the part, as of its GPUs, of what its siblings' stated quotas leave, at most its GPUs.
"""

from collections.abc import Mapping

from bailiff_core.model.gpu_kinds import FIRST
from bailiff_core.model.project_tree import ROOT, ProjectTree, Siblings, gpus_of_kind, sum_of_quotas
from bailiff_core.model.resource_vector import UNLIMITED, Amount, ResourceVector


def quotas_in_full(tree: ProjectTree, total: ResourceVector, gpus: Amount) -> Mapping[str, ResourceVector]:
    """The quota of each project but the root.

    Args:
        gpus: Of the nodes that count, thousandths, whether or not a claimant accepts them.
    """
    found = {name: branch.quota for name, branch in tree.branches.items()}
    if gpus:
        for name in reversed(found):
            _follow_gpus(tree, name, total, gpus, found)
    else:
        found[ROOT] = total
        for family in tree.sibling_groups:
            _follow_weights(tree, family, total, found)
    for at in range(FIRST, FIRST + len(tree.kinds)):
        _follow_kind(tree, at, total, found)
    del found[ROOT]
    return found


def _follow_gpus(tree: ProjectTree, name: str, total: ResourceVector, gpus: Amount, found: dict[str, ResourceVector]) -> None:
    """Children before their parents: one that states no GPUs either has the sum of its children's."""
    branch, quota = tree.branches[name], list(found[name])
    for at in [at for at in branch.unstated if at < FIRST]:
        if 0 in branch.unstated and name in tree.children:
            quota[at] = sum_of_quotas([found[child][at] for child in tree.children[name]])
        elif at:
            quota[at] = UNLIMITED if quota[0] == UNLIMITED else quota[0] * total[at] // gpus
    found[name] = ResourceVector(*quota)


def _follow_weights(tree: ProjectTree, family: Siblings, total: ResourceVector, found: dict[str, ResourceVector]) -> None:
    """Parents before their children."""
    for at in (1, 2):
        above = found[family.parent][at]
        left = total[at] if above == UNLIMITED else above
        left -= sum(max(0, found[name][at]) for name in family.names if at not in tree.branches[name].unstated)
        open_to = {name: tree.branches[name].weights[at] for name in family.names if at in tree.branches[name].unstated}
        for name, weight in open_to.items():
            quota = list(found[name])
            quota[at] = max(0, left) * weight // max(1, sum(open_to.values()))
            found[name] = ResourceVector(*quota)


def _follow_kind(tree: ProjectTree, at: int, total: ResourceVector, found: dict[str, ResourceVector]) -> None:
    """Children before their parents where a parent states no GPUs and a child states the kind; then parents before children."""
    stated = {name: branch.quota[at] for name, branch in tree.branches.items() if name and at not in branch.unstated}
    for name in reversed(tree.branches):
        if 0 in tree.branches[name].unstated and any(child in stated for child in tree.children.get(name, ())):
            stated[name] = sum_of_quotas([stated[child] for child in tree.children[name] if child in stated])
    quotas = {ROOT: total.amount(at)}
    for family in tree.sibling_groups:
        above = quotas[family.parent]
        left = total.amount(at) if above == UNLIMITED else above
        left = max(0, left - sum(max(0, stated[name]) for name in family.names if name in stated))
        whole = gpus_of_kind(tree.kinds[at - FIRST], 1000)
        others = {name: found[name][0] for name in family.names if name not in stated}
        all_of_them = sum(max(0, gpus) for gpus in others.values())
        for name in family.names:
            if name in stated:
                quotas[name] = stated[name]
            elif others[name] == UNLIMITED:
                quotas[name] = UNLIMITED
            else:
                mine = others[name] * 1000 // whole
                quotas[name] = min(mine, left * others[name] // all_of_them) if others[name] else 0
            found[name] = ResourceVector(*found[name][:at], quotas[name], *found[name][at + 1 :])
