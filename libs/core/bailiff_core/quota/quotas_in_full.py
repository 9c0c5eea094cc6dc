"""The quotas of all projects in full, before any shrink: where a project states none of CPU or memory, it follows from its GPUs.

It is the project's part of the GPUs of the nodes that count, taken of their CPUs and memory. Without GPUs, those who state none
have equal parts, by weight, of what the others leave.
"""

from collections.abc import Mapping

from bailiff_core.model.project_tree import ROOT, ProjectTree, Siblings, sum_of_quotas
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
    del found[ROOT]
    return found


def _follow_gpus(tree: ProjectTree, name: str, total: ResourceVector, gpus: Amount, found: dict[str, ResourceVector]) -> None:
    """Children before their parents: one that states no GPUs either has the sum of its children's."""
    branch, quota = tree.branches[name], list(found[name])
    for at in branch.unstated:
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
