"""Fair shares (semantics §2): the entitlement of each project, resource by resource, from the root downwards.

Amounts are whole numbers, except for requests in bytes of a device and shares derived from them: these are exact fractions.
Fair shares limit reclaim and order projects; they never prevent the use of free resources.
"""

from collections.abc import Mapping, Sequence

from bailiff_core.model.project_tree import ROOT, Branch, ProjectTree, Siblings
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector

STEPS = (1000, 1, 1)  # shares are rounded down to whole GPUs, millicores and bytes
Divided = tuple[ResourceVector, list[ResourceVector], list[ResourceVector]]


def fair_shares(
    tree: ProjectTree, total: ResourceVector, requested: Mapping[str, ResourceVector], cache: dict[str, Divided] | None = None
) -> dict[str, ResourceVector]:
    """Fair share of `total` of every project and of the root. `requested`: by project, descendants included.

    cache: cache of the previous division of each project's share, for the same tree; reused where the inputs are equal.
    """
    cache = {} if cache is None else cache
    shares = {ROOT: total}
    for family in tree.sibling_groups:
        above = shares[family.parent]
        requested_by_child = [requested.get(name, ZERO) for name in family.names]
        before = cache.get(family.parent)
        if before is None or before[0] != above or before[1] != requested_by_child:
            requests = tuple(zip(*requested_by_child, strict=True))
            columns = [_divide(above[at], requests[at], family, at) for at in range(3)]
            before = cache[family.parent] = (
                above,
                requested_by_child,
                [ResourceVector._make(row) for row in zip(*columns, strict=True)],
            )
        shares.update(zip(family.names, before[2], strict=True))
    return shares


def allocatable(branch: Branch, share: ResourceVector) -> ResourceVector:
    """Allocatable share of the project: `min(limit, max(quota, fair share))`; -1 where neither quota nor limit bounds it."""
    return ResourceVector(*(_allocatable(*bounds) for bounds in zip(branch.quota, branch.limit, share, strict=True)))


def _allocatable(quota: Amount, limit: Amount, share: Amount) -> Amount:
    entitlement = UNLIMITED if quota == UNLIMITED else max(quota, share)
    if limit == UNLIMITED or entitlement == UNLIMITED:
        return max(limit, entitlement)
    return min(limit, entitlement)


def _divide(total: Amount, requested: Sequence[Amount], family: Siblings, at: int) -> Sequence[Amount]:
    """Divides one resource among the children of one project."""
    weights = family.weights[at]
    wanted = requested
    if family.limited[at]:
        pairs = zip(requested, family.limits[at], strict=True)
        wanted = [amount if limit < 0 or amount < limit else limit for amount, limit in pairs]
    if not family.weightless[at] and sum(wanted) <= total:
        return wanted  # all requests can be satisfied
    # 1. Quotas, even if their sum exceeds the total.
    bounds = zip(family.quotas[at], wanted, strict=True)
    if family.unlimited[at]:
        shares = [total if quota < 0 and total < want else quota if 0 <= quota < want else want for quota, want in bounds]
    else:
        shares = [quota if quota < want else want for quota, want in bounds]  # noqa: FURB136 - a call takes longer
    rest = total - sum(shares)
    # 2. The remainder, by priority and weight, until a round satisfies no more projects.
    step = STEPS[at]
    rounding_losses: list[list[tuple[Amount, int]]] = []
    for rank in family.ranks[at]:
        unsatisfied = [place for place in rank if shares[place] < wanted[place]]
        lost: list[tuple[Amount, int]] = []
        while unsatisfied and rest > 0:
            available, all_weights = rest, sum([weights[place] for place in unsatisfied])
            whole_step = all_weights * step
            still: list[int] = []
            lost = []
            for place in unsatisfied:
                portion, missing = available * weights[place], wanted[place] - shares[place]
                if missing * all_weights <= portion:
                    granted = missing
                else:
                    still.append(place)
                    steps, remainder = divmod(portion, whole_step)
                    granted = steps * step
                    if remainder:
                        lost.append((-remainder, place))
                shares[place] += granted
                rest -= granted
            if len(still) == len(unsatisfied):
                break
            unsatisfied = still
        rounding_losses.append(lost)
    # 3. The remainder of rounding down: one step each, largest rounding loss first, then the older project.
    for lost in rounding_losses:
        lost.sort()
        for _, place in lost:
            granted = min(step, rest)
            shares[place] += granted
            rest -= granted
    return shares
