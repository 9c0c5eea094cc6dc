"""Fair shares (semantics, quotas): what each project is entitled to, resource by resource, from the root downwards.

Amounts are whole numbers, except for GPUs that are requested in bytes or as MIG devices, and shares derived from them: these
are exact fractions. Fair shares limit reclaim and order projects; they never prevent the use of free resources.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from types import MappingProxyType
from typing import NamedTuple

from bailiff_core.model.project_tree import NO_BOUNDS, ROOT, Branch, ProjectTree, Siblings
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector

from .demand_vector import whole

WHOLE_GPU = 1000
UNUSED: Sequence[Sequence[Amount]] = ((), (), ())
PAST_COUNTS = 2  # so many times: with 1, a job that needs the whole pool would wait for the other one's to be forgotten
CATCH_UP = 5  # how often what the past owes counts beside what rounding takes now, where a step is left over


class Entitlement(NamedTuple):
    """What one project is entitled to.

    Attributes:
        share: Its fair share.
        quota: Its quota in force: all of it, or its part of it where the quotas that are asked for exceed what there is.
        full: Its quota in full (`quotas_in_full`).
        most: Its allocatable share, `min(limit, max(quota in force, fair share))`; -1 where nothing bounds it.
    """

    share: ResourceVector = ZERO
    quota: ResourceVector = ZERO
    full: ResourceVector = ZERO
    most: ResourceVector = ZERO


NOTHING = Entitlement()
Entitlements = Mapping[str, Entitlement]


class Contest(NamedTuple):
    """Rounding leaves siblings without a single step of GPUs, and gives a step that is left over to others.

    Attributes:
        without: Those that have none now, oldest first.
        floors: Of those that have a step that was left over, the share without it.
        owed: By project, what rounding owes it once this turn is over, thousandths of a GPU; less than 0: it had more than its
            part.
    """

    without: tuple[str, ...]
    floors: Mapping[str, Amount]
    owed: Mapping[str, int]


class Rounding(NamedTuple):
    """What rounding left over of the GPUs of one rank, by place among the siblings.

    Attributes:
        without: Those that have not a single step.
        given: What each has of it.
        due: What each lost to rounding, with what was owed to it, less what it has again in its own steps; times `weights`.
        weights: The sum of the weights.
    """

    without: Sequence[int]
    given: Mapping[int, Amount]
    due: Mapping[int, Amount]
    weights: Amount


class Division(NamedTuple):
    """How one project's share was divided among its children (`names`), and of what (`inputs`)."""

    inputs: tuple[object, ...]
    names: Sequence[str]
    entitled: Sequence[Entitlement]
    roundings: Mapping[int, Sequence[Rounding]]

    @property
    def contests(self) -> dict[int, Contest]:
        """Of GPUs (0), and of the kinds at these places, where somebody has no step."""
        return {at: self._contest(at, roundings) for at, roundings in self.roundings.items() if roundings}

    def _contest(self, at: int, roundings: Sequence[Rounding]) -> Contest:
        """What rounding owes is less the mean, so that it stays small."""
        given = {place: amount for each in roundings for place, amount in each.given.items()}
        owed = {  # rounded up, so that whoever lost anything gets it in the end
            place: -((given.get(place, 0) * each.weights - amount) // each.weights)
            for each in roundings
            for place, amount in each.due.items()
        }
        mean = sum(owed.values()) // len(owed)
        names = self.names
        return Contest(
            tuple(names[place] for place in sorted(place for each in roundings for place in each.without)),
            {names[place]: self.entitled[place].share[at] - given[place] for place in sorted(given)},
            {names[place]: owed[place] - mean for place in sorted(owed)},
        )


class Steps:
    """In which steps of GPUs each project can use its share: the greatest common divisor of what its tasks ask of a device."""

    def __init__(self) -> None:
        self._sizes: defaultdict[str, Counter[Amount]] = defaultdict(Counter)
        self._found: dict[str, Amount] = {}

    def count(self, path: Iterable[str], sizes: Iterable[Amount], jobs: int) -> None:
        """Add `jobs` jobs, or remove some (-1), that ask for such parts of devices, thousandths of a GPU, at these projects."""
        for project in path:
            counts = self._sizes[project]
            for size in sizes:
                counts[size] += jobs
                if counts[size] in (0, jobs):
                    self._found.pop(project, None)
                if not counts[size]:
                    del counts[size]

    def of(self, project: str) -> Amount:
        """Thousandths of a GPU."""
        found = self._found.get(project)
        if found is None:
            found = self._found[project] = _common_divisor(self._sizes.get(project, ()))
        return found


def _common_divisor(sizes: Iterable[Amount]) -> Amount:
    """The greatest common divisor of these positive amounts; a whole GPU if there are none."""
    amounts = [size for size in sizes if size]
    if not amounts:
        return WHOLE_GPU
    below = lcm(*(amount.denominator for amount in amounts))
    above = gcd(*(amount.numerator * (below // amount.denominator) for amount in amounts))
    return whole(Fraction(above, below))


def entitlements(
    tree: ProjectTree,
    total: ResourceVector,
    quotas: Mapping[str, ResourceVector],
    requested: Mapping[str, ResourceVector],
    steps: Steps,
    cache: dict[str, Division] | None = None,
    owed: Mapping[str, int] = MappingProxyType({}),
    used: Mapping[str, int] = MappingProxyType({}),
    steps_by_kind: Mapping[int, Steps] = MappingProxyType({}),
    owed_by_kind: Mapping[int, Mapping[str, int]] = MappingProxyType({}),
) -> dict[str, Entitlement]:
    """What every project, and the root, is entitled to of `total`.

    Args:
        quotas: In full.
        requested: Requested amounts by project, descendants included.
        owed: What rounding owes projects of earlier turns (`ShareTurn`), thousandths of a GPU.
        used: What they used beyond their quotas on average (`ShareTurn`), thousandths of a GPU.
        steps_by_kind: By the place of each kind of GPU, in which steps of it each project can use its share.
        owed_by_kind: Of each kind, what rounding owes projects.
        cache: The previous division of each project's share, for the same tree; reused where the inputs are equal.
    """
    cache = {} if cache is None else cache
    found = {ROOT: Entitlement(total, NO_BOUNDS, NO_BOUNDS, NO_BOUNDS)}
    for family in tree.sibling_groups:
        above = found[family.parent].share
        full = [quotas[name] for name in family.names]
        requests = [requested.get(name, ZERO) for name in family.names]
        owing = [owed.get(name, 0) for name in family.names] if owed else [0] * len(family.names)
        past = [in_proportion(PAST_COUNTS * used.get(name, 0), total) for name in family.names] if used else ()
        pasts = [column if any(column) else () for column in zip(*past, strict=True)] or UNUSED
        rounding = [([steps.of(name) for name in family.names], owing)]
        for at, steps_of_kind in steps_by_kind.items():
            owed_of_kind = owed_by_kind.get(at, {})
            steps_there = [steps_of_kind.of(name) for name in family.names]
            rounding.append((steps_there, [owed_of_kind.get(name, 0) for name in family.names]))
        inputs = (above, full, requests, rounding, pasts)
        before = cache.get(family.parent)
        if before is None or before.inputs != inputs:
            before = cache[family.parent] = Division(inputs, family.names, *_divide(tree, family, *inputs))
        found.update(zip(family.names, before.entitled, strict=True))
    return found


def in_proportion(gpu_milli: int, total: ResourceVector) -> ResourceVector:
    """So many thousandths of GPUs, and the same part of the CPUs and the memory."""
    cpu_milli, memory_bytes = (gpu_milli * amount // total.gpu_milli if total.gpu_milli else 0 for amount in total[1:3])
    return ResourceVector(gpu_milli, cpu_milli, memory_bytes)


def _divide(
    tree: ProjectTree,
    family: Siblings,
    above: ResourceVector,
    full: Sequence[ResourceVector],
    requests: Sequence[ResourceVector],
    by_gpus: Sequence[tuple[Sequence[Amount], Sequence[int]]],
    pasts: Sequence[Sequence[Amount]],
) -> tuple[list[Entitlement], dict[int, list[Rounding]]]:
    """Divides what one project has among its children.

    by_gpus: of GPUs, and of each kind of them, the steps of each child and what rounding owes it.
    pasts: by resource, what each used on average; all empty: it does not count.
    """
    ones, nothing = [1] * len(family.names), [0] * len(family.names)
    of_gpus = {0: by_gpus[0], **dict(enumerate(by_gpus[1:], start=3))}
    roundings: dict[int, list[Rounding]] = {at: [] for at in of_gpus}
    columns = [
        _divide_resource(
            above.amount(at),
            [quota[at] for quota in full],
            [each.amount(at) for each in requests],
            family,
            at,
            of_gpus.get(at, (ones, nothing)),
            pasts[at] if at < 3 else (),
            roundings.get(at, []),
        )
        for at in range(2 + len(by_gpus))
    ]
    shares = zip(*(shares for shares, _ in columns), strict=True)
    in_force = zip(*(quotas for _, quotas in columns), strict=True)
    entitled = [
        _entitlement(tree.branches[name], ResourceVector(*share), ResourceVector(*quota), stated)
        for name, share, quota, stated in zip(family.names, shares, in_force, full, strict=True)
    ]
    return entitled, roundings


def _entitlement(branch: Branch, share: ResourceVector, quota: ResourceVector, full: ResourceVector) -> Entitlement:
    return Entitlement(share, quota, full, ResourceVector(*map(_allocatable, quota, branch.limit, share)))


def _allocatable(quota: Amount, limit: Amount, share: Amount) -> Amount:
    most = UNLIMITED if quota == UNLIMITED else max(quota, share)
    if limit == UNLIMITED or most == UNLIMITED:
        return max(limit, most)
    return min(limit, most)


def _divide_resource(
    total: Amount,
    quotas: Sequence[Amount],
    requested: Sequence[Amount],
    family: Siblings,
    at: int,
    rounding: tuple[Sequence[Amount], Sequence[int]],
    past: Sequence[Amount],
    roundings: list[Rounding],
) -> tuple[Sequence[Amount], Sequence[Amount]]:
    """The shares of one resource, and the quotas in force."""
    wanted = requested
    if family.limited[at]:
        pairs = zip(requested, family.limits[at], strict=True)
        wanted = [amount if limit < 0 or amount < limit else limit for amount, limit in pairs]
    if not family.weightless[at] and sum(wanted) <= total:
        return wanted, quotas  # all requests can be satisfied
    # 1. Quotas, as far as they are asked for. Where those that have a bound exceed the total they shrink in proportion.
    claimed = [min(want, total if quota < 0 else quota) for want, quota in zip(wanted, quotas, strict=True)]
    if sum(claim for claim, quota in zip(claimed, quotas, strict=True) if quota >= 0) > total:
        bounded = [place for place, quota in enumerate(quotas) if quota > 0]
        start = [0 if quota >= 0 else claim for claim, quota in zip(claimed, quotas, strict=True)]
        shares = _fill(total, claimed, start, [bounded], quotas, *rounding, (), roundings)
        in_force = zip(shares, claimed, quotas, strict=True)
        return shares, [share if share < claim else quota for share, claim, quota in in_force]
    rest = total - sum(claimed)
    # 2. The rest, by priority and weight.
    return _fill(rest, wanted, claimed, family.ranks[at], family.weights[at], *rounding, past, roundings), quotas


def _fill(
    rest: Amount,
    wanted: Sequence[Amount],
    shares: Sequence[Amount],
    ranks: Iterable[Sequence[int]],
    weights: Sequence[Amount],
    steps: Sequence[Amount],
    owed: Sequence[int],
    past: Sequence[Amount],
    roundings: list[Rounding],
) -> list[Amount]:
    """Adds `rest` to the shares by weight, the first ranks first, up to what is wanted, in steps.

    What was used in the past (`past`, as often as it counts; empty: nothing) is as if it was part of `rest`, and given already.
    """
    start, shares = shares, list(shares)
    short: list[int] = []
    for rank in ranks:
        unsatisfied = [place for place in rank if shares[place] < wanted[place]]
        lost: dict[int, Amount] = {}
        all_weights: Amount = 1
        while unsatisfied and rest > 0:
            available, all_weights, had = rest, sum([weights[place] for place in unsatisfied]), past
            if past:
                had = [amount + share - before for amount, share, before in zip(past, shares, start, strict=True)]
                available, all_weights = _with_the_past(rest, unsatisfied, had, weights)
            still: list[int] = []
            lost = {}
            for place in unsatisfied:
                portion, missing = available * weights[place], wanted[place] - shares[place]
                if had:
                    portion = max(0, portion - had[place] * all_weights)
                # Compared before any division, so that no rounding decides who is satisfied.
                if missing * all_weights <= portion:
                    granted = missing
                else:
                    still.append(place)
                    # Whole steps of the share, not of what is added: a quota may end between two steps.
                    reached, step = portion + shares[place] * all_weights, steps[place]
                    granted = max(0, reached // (step * all_weights) * step - shares[place])
                    loss = reached - (shares[place] + granted) * all_weights
                    if loss:
                        lost[place] = loss
                shares[place] += granted
                rest -= granted
            # All have their portion now; what remains was lost to rounding.
            if len(still) == len(unsatisfied):
                break
            unsatisfied = still
        if not lost:
            continue
        common, returned = _rounded_further(rest, lost, unsatisfied, shares, start, steps)
        for place, amount in returned.items():
            shares[place] -= amount
            rest += amount
            lost[place] = lost.get(place, 0) + amount * all_weights
        sizes = [common if place in returned else step for place, step in enumerate(steps)] if returned else steps
        # What rounding left over: a step each, to whom rounding owes most first, then the older project.
        due = {place: loss + owed[place] * all_weights for place, loss in lost.items()} if any(owed) else lost
        if past:
            due = _due_of_the_past(due, past, weights, all_weights)
        left_over, given = rest, dict[int, Amount]()
        in_turn: dict[int, Amount] = {}  # without those whose step is more than there is: what rounding owes them would only grow
        for _, place in sorted([(-amount, place) for place, amount in due.items()]):
            step = (shares[place] // sizes[place] + 1) * sizes[place] - shares[place]
            if step <= left_over:
                in_turn[place] = due[place]
            if step <= rest:
                given[place] = min(step, wanted[place] - shares[place])
                shares[place] += given[place]
                rest -= given[place]
            else:
                short.append(place)
        without = [place for place in short if place in in_turn and shares[place] < sizes[place]]
        for place, amount in returned.items():
            reached = (shares[place] + min(rest, amount)) // steps[place] * steps[place]
            if place not in given and shares[place] < reached:  # in its own steps, before a lower rank has it
                if place in in_turn:
                    in_turn[place] -= (reached - shares[place]) * all_weights
                rest -= reached - shares[place]
                shares[place] = reached
        if without:
            roundings.append(Rounding(without, given, in_turn, all_weights))
    # At last what is no step.
    for place in short:
        granted = min(rest, wanted[place] - shares[place])
        shares[place] += granted
        rest -= granted
    return [whole(share) for share in shares]


def _with_the_past(
    rest: Amount, unsatisfied: Sequence[int], had: Sequence[Amount], weights: Sequence[Amount]
) -> tuple[Amount, Amount]:
    """What is divided, with what those had in the past who get any of it, and the sum of their weights.

    Whoever had more than its part of that gets nothing.
    """
    available: Amount = rest
    all_weights: Amount = 0
    for place in sorted(unsatisfied, key=lambda each: (Fraction(had[each], weights[each]), each)):
        if all_weights and had[place] * all_weights >= available * weights[place]:
            break
        available += had[place]
        all_weights += weights[place]
    return available, all_weights


def _due_of_the_past(
    due: Mapping[int, Amount], past: Sequence[Amount], weights: Sequence[Amount], all_weights: Amount
) -> dict[int, Amount]:
    """With what each lacks of its part of what these used, so that over time each has its part, however few GPUs there are."""
    used, weight = sum(past[place] for place in due), sum(weights[place] for place in due)
    lacks = {place: (weights[place] * used - past[place] * weight) // weight for place in due}
    return {place: amount + CATCH_UP * lacks[place] * all_weights for place, amount in due.items()}


def _rounded_further(
    rest: Amount,
    lost: Mapping[int, Amount],
    unsatisfied: Sequence[int],
    shares: Sequence[Amount],
    start: Sequence[Amount],
    steps: Sequence[Amount],
) -> tuple[Amount, dict[int, Amount]]:
    """Where `rest` is no step of somebody who has none: its step, and what siblings return who are rounded down to it, too.

    The largest amounts first, then of the older project, until it is enough. Without this a project that asks for a tenth of a
    GPU beside its whole ones had nothing to round, and kept those for ever.
    """
    missing = [(steps[place], steps[place] - shares[place] - rest) for place in lost if rest < steps[place] - shares[place]]
    for step, enough in dict(sorted(missing, reverse=True)).items():  # of each size of a step, the smallest amount
        amounts = [(max(start[place], shares[place] // step * step) - shares[place], place) for place in unsatisfied]
        returned: dict[int, Amount] = {}
        for amount, place in sorted(amounts):
            if enough <= 0 or not amount:
                break
            returned[place] = -amount
            enough += amount
        if enough <= 0:
            return step, returned
    return 0, {}
