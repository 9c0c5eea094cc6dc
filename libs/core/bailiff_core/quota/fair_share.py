"""Fair shares (semantics §2): what each project is entitled to, resource by resource, from the root downwards.

All amounts are whole numbers; requests in bytes of a device are exact fractions, and so is then what follows from them.
Fair shares limit reclaim and order projects; they never prevent the use of free resources.
"""

from collections.abc import Mapping, Sequence

from bailiff_core.model.project_tree import ROOT, Branch, ProjectTree, Siblings
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector

STEPS = (1000, 1, 1)  # shares are cut down to whole GPUs, millicores and bytes
Divided = tuple[ResourceVector, list[ResourceVector], list[ResourceVector]]


def fair_shares(
    tree: ProjectTree, total: ResourceVector, requested: Mapping[str, ResourceVector], known: dict[str, Divided] | None = None
) -> dict[str, ResourceVector]:
    """Every project's fair share of `total`, the root's own included. `requested`: by project, descendants included.

    known: cache of the previous division of each project's share, for the same tree; reused where the inputs are equal.
    """
    known = {} if known is None else known
    shares = {ROOT: total}
    for family in tree.sibling_groups:
        above = shares[family.parent]
        asked = [requested.get(name, ZERO) for name in family.names]
        before = known.get(family.parent)
        if before is None or before[0] != above or before[1] != asked:
            requests = tuple(zip(*asked, strict=True))
            columns = [_divide(above[at], requests[at], family, at) for at in range(3)]
            before = known[family.parent] = above, asked, [ResourceVector._make(row) for row in zip(*columns, strict=True)]
        shares.update(zip(family.names, before[2], strict=True))
    return shares


def allocatable(branch: Branch, share: ResourceVector) -> ResourceVector:
    """Allocatable share of the project: `min(limit, max(quota, fair share))`; -1 where neither quota nor limit bounds it."""
    return ResourceVector(*(_allocatable(*bounds) for bounds in zip(branch.quota, branch.limit, share, strict=True)))


def _allocatable(quota: Amount, limit: Amount, share: Amount) -> Amount:
    most = UNLIMITED if quota == UNLIMITED else max(quota, share)
    if limit == UNLIMITED or most == UNLIMITED:
        return max(limit, most)
    return min(limit, most)


def _divide(total: Amount, requested: Sequence[Amount], family: Siblings, at: int) -> Sequence[Amount]:
    """Divides one resource among the children of one project."""
    weights = family.weights[at]
    wanted = requested
    if family.limited[at]:
        pairs = zip(requested, family.limits[at], strict=True)
        wanted = [asked if limit < 0 or asked < limit else limit for asked, limit in pairs]
    if not family.weightless[at] and sum(wanted) <= total:
        return wanted  # all requests can be satisfied
    # 1. Quotas, even if their sum exceeds the total.
    bounds = zip(family.quotas[at], wanted, strict=True)
    if family.unlimited[at]:
        shares = [total if quota < 0 and total < want else quota if 0 <= quota < want else want for quota, want in bounds]
    else:
        shares = [quota if quota < want else want for quota, want in bounds]  # noqa: FURB136 - a call takes longer
    rest = total - sum(shares)
    if rest <= 0:
        return shares
    # 2. The remainder, by priority and weight, until a round satisfies no further project.
    step = STEPS[at]
    cut: list[list[tuple[Amount, int]]] = []
    for rank in family.ranks[at]:
        if rest <= 0:
            break
        asking = [place for place in rank if shares[place] < wanted[place]]
        lost: list[tuple[Amount, int]] = []
        while asking and rest > 0:
            offered, all_weights = rest, sum([weights[place] for place in asking])
            whole_step = all_weights * step
            still: list[int] = []
            lost = []
            for place in asking:
                mine, lacks = offered * weights[place], wanted[place] - shares[place]
                if lacks * all_weights <= mine:
                    give = lacks
                else:
                    still.append(place)
                    steps, remainder = divmod(mine, whole_step)
                    give = steps * step
                    if remainder:
                        lost.append((-remainder, place))
                shares[place] += give
                rest -= give
            if len(still) == len(asking):
                break
            asking = still
        cut.append(lost)
    # 3. The remainder of rounding down: one step each, largest rounding loss first, then the older project.
    for lost in cut:
        lost.sort()
        for _, place in lost:
            give = min(step, rest)
            shares[place] += give
            rest -= give
    return shares
