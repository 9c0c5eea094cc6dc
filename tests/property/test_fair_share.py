"""Fair shares of random trees equal those of an independent reference, and keep their guarantees."""

from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.property.share_reference import Member, divide

from bailiff_core.model.policy import Project
from bailiff_core.model.project_tree import DIRECT, NO_BOUNDS, ROOT, ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, Bounds, ResourceVector
from bailiff_core.quota.fair_share import Contest, Division, Entitlement, Steps, _allocatable, entitlements
from bailiff_core.quota.quotas_in_full import quotas_in_full

TREES_AN_EXAMPLE = 10


def some_amount(rng: Random) -> int:
    return rng.randrange(41)


def some_gpus(rng: Random) -> int:
    return rng.choice([rng.randrange(13) * 1000, rng.randrange(9000)])


def in_bytes(rng: Random) -> Fraction:
    """Thousandths of a GPU, as computed from a request in bytes of a device."""
    return Fraction(rng.randrange(60_000), rng.choice([3, 7, 11]))


def some_projects(rng: Random) -> list[Project]:
    def bounds() -> dict[str, int | None]:
        parts = {"gpu_milli": some_gpus(rng), "cpu_milli": some_amount(rng), "memory_bytes": some_amount(rng)}
        return {name: rng.choice([amount, amount, None, UNLIMITED]) for name, amount in parts.items()}

    found: list[Project] = []
    for number in range(rng.randrange(1, 15)):
        found.append(
            Project(
                name=f"p{number}",
                parent=rng.choice([None, *[above.name for above in found]]),
                created=rng.randrange(3),
                priority=rng.randrange(3),
                over_quota_weight={name: rng.choice([0, 1, 1, 1, 2, 3, 7]) for name in ("gpu", "cpu", "memory")},
                quota=bounds(),
                limit=bounds(),
            )
        )
    return found


def some_requests(rng: Random, projects: list[Project], *, bytes_too: bool) -> dict[str, ResourceVector]:
    found = {}
    for name in ["", *[project.name for project in projects]]:
        gpus: Amount = in_bytes(rng) if bytes_too and rng.randrange(4) == 0 else some_gpus(rng)
        found[name] = ResourceVector(gpus, some_amount(rng), some_amount(rng)) if rng.randrange(5) else ZERO
    return found


def some_total(rng: Random) -> ResourceVector:
    return ResourceVector(rng.choice([5, 1]) * some_gpus(rng), rng.choice([5, 1]) * some_amount(rng), some_amount(rng))


PARTS: list[tuple[Amount, ...]] = [(1000,), (1000,), (500,), (300, 500), (Fraction(1000, 7),), (Fraction(2000, 7), 1000), ()]


def some_steps(rng: Random, tree: ProjectTree) -> Steps:
    """What the jobs of each leaf ask of a device."""
    steps = Steps()
    for name in tree.branches:
        if name not in tree.children:
            steps.count(tree.branches[name].path, rng.choice(PARTS), 1)
    return steps


def some_owed(rng: Random, tree: ProjectTree) -> dict[str, int]:
    """What rounding of earlier turns owes some projects."""
    return {name: rng.randrange(-1000, 1000) for name in tree.branches if rng.randrange(3) == 0}


def some_used(rng: Random, tree: ProjectTree) -> dict[str, int]:
    """What some projects used beyond their quotas on average."""
    return {name: rng.choice([rng.randrange(300), some_gpus(rng)]) for name in tree.branches if rng.randrange(3) == 0}


def rolled_up(tree: ProjectTree, own: dict[str, ResourceVector]) -> dict[str, ResourceVector]:
    """Requests of each project: the sum over its leaves."""
    found: dict[str, ResourceVector] = {}
    for name, requests in own.items():
        for above in tree.branches[tree.leaf_of(name)].path:
            found[above] = found.get(above, ZERO).plus(requests)
    return found


def quota_of(projects: list[Project], entry: Project, at: int, above: Amount, total: Amount, gpus: Amount) -> Amount:
    """As the text says, of one project below one with a quota of `above`. total: of the resource."""
    name, weight = [("gpu_milli", "gpu"), ("cpu_milli", "cpu"), ("memory_bytes", "memory")][at]
    own, below = getattr(entry.quota, name), [each for each in projects if each.parent == entry.name]
    if entry.name.endswith(DIRECT):
        return 0
    if own is not None:
        return own
    if not at or (gpus and below and entry.quota.gpu_milli is None):
        found = [quota_of(projects, each, at, UNLIMITED, total, gpus) for each in below]
        return UNLIMITED if UNLIMITED in found else sum(found)
    if gpus:
        own_gpus = quota_of(projects, entry, 0, UNLIMITED, gpus, gpus)
        return UNLIMITED if own_gpus == UNLIMITED else own_gpus * total // gpus
    beside = [each for each in projects if each.parent == entry.parent]
    stated = sum(max(0, getattr(each.quota, name) or 0) for each in beside)
    weights = [getattr(each.over_quota_weight, weight) for each in beside if getattr(each.quota, name) is None]
    left = max(0, (total if above == UNLIMITED else above) - stated)
    return left * getattr(entry.over_quota_weight, weight) // (sum(weights) or 1)


def reference(
    projects: list[Project],
    total: ResourceVector,
    gpus: Amount,
    requested: dict[str, ResourceVector],
    steps: Steps,
    owed: dict[str, int],
    used: dict[str, int],
) -> dict[str, tuple[ResourceVector, ResourceVector]]:
    """All families from the root downwards, by the reference implementation."""
    shares, in_force = {ROOT: total}, {ROOT: NO_BOUNDS}
    in_full: dict[str, tuple[Amount, ...]] = {ROOT: NO_BOUNDS}
    waiting = [ROOT]
    for parent in waiting:
        below = [entry for entry in projects if (entry.parent or ROOT) == parent]
        if not below:
            continue
        below.sort(key=lambda entry: (entry.created, entry.name))
        below.append(Project.model_construct(name=parent + DIRECT))
        columns = []
        for resource, (name, weight) in enumerate([("gpu_milli", "gpu"), ("cpu_milli", "cpu"), ("memory_bytes", "memory")]):
            members = []
            for age, entry in enumerate(below):
                quota = quota_of(projects, entry, resource, in_full[parent][resource], total[resource], gpus)
                in_full[entry.name] = (*in_full.get(entry.name, ()), quota)
                limit = getattr(entry.limit, name)
                members.append(
                    Member(
                        age,
                        requested.get(entry.name, ZERO)[resource],
                        None if quota == UNLIMITED else quota,
                        None if limit in (None, UNLIMITED) else limit,
                        getattr(entry.over_quota_weight, weight),
                        entry.priority,
                        1 if resource else steps.of(entry.name),
                        0 if resource else owed.get(entry.name, 0),
                        (2 * used.get(entry.name, 0) * total[resource] // total[0] if total[0] else 0)
                        if resource
                        else 2 * used.get(entry.name, 0),
                    )
                )
            divide(shares[parent][resource], members)
            columns.append([(member.share, UNLIMITED if member.in_force is None else member.in_force) for member in members])
        for entry, *found in zip(below, *columns, strict=True):
            shares[entry.name], in_force[entry.name] = (ResourceVector(*amounts) for amounts in zip(*found, strict=True))
            waiting.append(entry.name)
    return {name: (shares[name], in_force[name]) for name in shares}


def as_pairs(found: dict[str, Entitlement]) -> dict[str, tuple[ResourceVector, ResourceVector]]:
    return {name: (entitled.share, entitled.quota) for name, entitled in found.items()}


@examples(75)
@given(st.integers(0, 2**32))
def test_shares_equal_the_reference(seed: int) -> None:
    divide_as_the_text(seed)


@pytest.mark.long
@settings(max_examples=5_000, deadline=None)
@given(st.integers(0, 2**32))
def test_shares_equal_the_reference_at_length(seed: int) -> None:
    divide_as_the_text(seed)


def divide_as_the_text(seed: int) -> None:
    rng = Random(seed)
    for _ in range(TREES_AN_EXAMPLE):
        projects, total = some_projects(rng), some_total(rng)
        tree = ProjectTree(projects)
        own, known = some_requests(rng, projects, bytes_too=True), {}
        requested = rolled_up(tree, own)
        steps, gpus = some_steps(rng, tree), rng.choice([0, total[0], 2 * total[0]])
        quotas, owed = quotas_in_full(tree, total, gpus), some_owed(rng, tree)
        used = rng.choice([{}, some_used(rng, tree)])
        assert as_pairs(entitlements(tree, total, quotas, requested, steps, known, owed, used)) == reference(
            projects, total, gpus, requested, steps, owed, used
        )
        changed = rolled_up(tree, own | {rng.choice(projects).name: ResourceVector(some_gpus(rng), some_amount(rng), 0)})
        later = rng.choice([owed, some_owed(rng, tree)])
        assert entitlements(tree, total, quotas, changed, steps, known, later, used) == entitlements(
            tree, total, quotas, changed, steps, owed=later, used=used
        )


@examples(200)
@given(st.integers(0, 2**32))
def test_shares_do_not_exceed_the_capacity(seed: int) -> None:
    rng = Random(seed)
    projects, total = some_projects(rng), some_total(rng)
    tree = ProjectTree(projects)
    requested, steps = rolled_up(tree, some_requests(rng, projects, bytes_too=False)), some_steps(rng, tree)
    quotas = quotas_in_full(tree, total, total[0])
    found = entitlements(tree, total, quotas, requested, steps)
    for family in tree.sibling_groups:
        for resource in range(3):
            above = found[family.parent].share[resource]
            bounded = claimed = 0
            claims = {}
            for name, limit in zip(family.names, family.limits[resource], strict=True):
                quota = quotas[name][resource]
                requests = requested.get(name, ZERO)[resource]
                requestable = requests if limit < 0 else min(requests, limit)
                assert found[name].share[resource] <= requestable
                claims[name] = min(requestable, above if quota < 0 else quota)
                bounded += claims[name] if quota >= 0 else 0
                claimed += claims[name]
            shares = {name: found[name].share[resource] for name in claims}
            if bounded <= above:  # all quotas that are asked for can be met: nobody gets less than its own
                assert all(shares[name] >= claims[name] for name in claims)
            else:  # they shrink, and nobody gets more than its own
                assert all(shares[name] <= claims[name] for name in claims)
                assert sum(shares[name] for name in claims if found[name].quota[resource] >= 0) <= above
            assert claimed > above or sum(shares.values()) <= above


@examples(300)
@given(st.one_of(st.none(), st.integers(-1, 50)), st.one_of(st.none(), st.integers(-1, 50)), st.integers(0, 50))
def test_allocatable_share_lies_between_limit_quota_and_share(quota: int | None, limit: int | None, share: int) -> None:
    stated = Project(name="a", quota={"gpu_milli": quota}, limit={"gpu_milli": limit})
    branch = ProjectTree([stated]).branches["a"]
    found = _allocatable(branch.quota.gpu_milli, branch.limit.gpu_milli, share)
    endless = 10**9
    most = endless if quota == UNLIMITED else max(quota or 0, share)
    most = min(most, endless if limit in (None, UNLIMITED) else limit)
    assert found == (UNLIMITED if most == endless else most)


SMALL = range(4)


@pytest.mark.parametrize("size", [1000, 500])
def test_of_all_splits_of_a_small_pool_the_fairest_is_chosen(size: int) -> None:
    """Three projects of equal weight, in whole GPUs and in halves: whoever has least beyond its quota has as much as can be."""
    for total, quotas in product(range(7), [(0, 0, 0), (1, 0, 0), (2, 2, 0), (2, 2, 2)]):
        tree = ProjectTree(
            [Project(name=name, quota={"gpu_milli": quota * size}) for name, quota in zip("abc", quotas, strict=True)]
        )
        steps = Steps()
        for name in "abc":
            steps.count(tree.branches[name].path, (size,), 1)
        for wants in product(SMALL, SMALL, SMALL):
            requested = {name: ResourceVector(want * size) for name, want in zip("abc", wants, strict=True)}
            found = entitlements(tree, ResourceVector(total * size), quotas_in_full(tree, ZERO, total), requested, steps)
            shares = tuple(found[name].share.gpu_milli // size for name in "abc")
            assert beyond(shares, total, quotas, wants) == max(
                beyond(split, total, quotas, wants) for split in splits(total, quotas, wants)
            ), (total, quotas, wants, shares)
            assert shares in splits(total, quotas, wants)


def claims_of(quotas: tuple[int, ...], wants: tuple[int, ...]) -> list[int]:
    return [min(quota, want) for quota, want in zip(quotas, wants, strict=True)]


def splits(total: int, quotas: tuple[int, ...], wants: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All that hand out what is asked for, as far as there is, and quotas before the rest."""
    claims = claims_of(quotas, wants)
    met = sum(claims) <= total
    ranges = [range(claim if met else 0, (want if met else claim) + 1) for claim, want in zip(claims, wants, strict=True)]
    return [split for split in product(*ranges) if sum(split) == min(total, sum(wants))]


def beyond(split: tuple[int, ...], total: int, quotas: tuple[int, ...], wants: tuple[int, ...]) -> list[Fraction]:
    """The smallest first: what each has beyond its quota; where the quotas cannot be met, which part of it each has."""
    claims = claims_of(quotas, wants)
    if sum(claims) <= total:
        return sorted(Fraction(share - claim) for share, claim in zip(split, claims, strict=True))
    return sorted(Fraction(share, quota) for share, quota in zip(split, quotas, strict=True) if quota)


def test_turns_give_each_project_its_part_of_what_rounding_leaves_over() -> None:
    """Whole GPUs, everybody asks for more than there is: after any number of turns nobody is a GPU off its exact part or more."""
    for total, weights in product(range(1, 4), [(1, 1), (2, 1), (5, 1), (1, 1, 1), (3, 2, 1), (9, 1, 1), (1, 1, 1, 1, 1)]):
        names = "abcde"[: len(weights)]
        tree = ProjectTree([Project(name=name, over_quota_weight=weight) for name, weight in zip(names, weights, strict=True)])
        steps = Steps()
        for name in names:
            steps.count(tree.branches[name].path, (1000,), 1)
        requested = {name: ResourceVector(9000) for name in names}
        owed: dict[str, int] = {}
        had = dict.fromkeys(names, 0)
        for turns in range(1, 60):
            cache: dict[str, Division] = {}
            found = entitlements(
                tree, ResourceVector(1000 * total), quotas_in_full(tree, ZERO, total), requested, steps, cache, owed
            )
            for name in names:
                had[name] += found[name].share.gpu_milli
            contest = cache[ROOT].contests.get(0)
            if contest is None:
                assert all(found[name].share.gpu_milli >= 1000 for name in names)
                break
            assert set(contest.without) == {name for name in names if not found[name].share.gpu_milli}
            owed = dict(contest.owed)
            for name, weight in zip(names, weights, strict=True):
                exact = Fraction(1000 * total * turns * weight, sum(weights))
                assert abs(had[name] - exact) <= 1100, (total, weights, turns, had)


def test_a_turn_passes_nothing_to_a_lower_priority() -> None:
    """One GPU, whole GPUs: of two projects of a higher priority one has it, and the project below them has none."""
    projects = [Project(name=name, priority=priority) for name, priority in (("a", 1), ("b", 1), ("c", 0))]
    tree, steps, cache = ProjectTree(projects), Steps(), dict[str, Division]()
    requested = {name: ResourceVector(1000) for name in "abc"}
    found = entitlements(tree, ResourceVector(1000), quotas_in_full(tree, ZERO, 1), requested, steps, cache)
    assert [found[name].share.gpu_milli for name in "abc"] == [1000, 0, 0]
    assert cache[ROOT].contests == {0: Contest(("b",), {"a": 0}, {"a": -500, "b": 500})}
    found = entitlements(tree, ResourceVector(1000), quotas_in_full(tree, ZERO, 1), requested, steps, None, {"a": -500, "b": 500})
    assert [found[name].share.gpu_milli for name in "abc"] == [0, 1000, 0]


@examples(1000)
@given(st.integers(0, 2**32))
def test_a_project_has_no_less_than_it_would_have_split_in_two_but_for_one_step(seed: int) -> None:
    """With the quotas, weights and requests of both. Whole GPUs: rounding may be worth one of them."""
    random = Random(seed)

    def some(name: str) -> tuple[str, int, int, int]:
        return name, random.randrange(5), random.randint(1, 3), random.randrange(9)

    others = [some(f"o{number}") for number in range(random.randrange(4))]
    one, two = some("p"), some("q")
    joined = ("p", *(a + b for a, b in zip(one[1:], two[1:], strict=True)))
    total = 1000 * random.randrange(16)

    def share_of(*listed: tuple[str, int, int, int]) -> Amount:
        projects = [
            Project(name=name, over_quota_weight=weight, quota=Bounds(gpu_milli=1000 * quota))
            for name, quota, weight, _ in listed
        ]
        tree = ProjectTree(projects)
        requested = {name: ResourceVector(1000 * gpus) for name, *_, gpus in listed}
        found = entitlements(tree, ResourceVector(total), quotas_in_full(tree, ZERO, total), requested, Steps())
        return sum((found[name].share.gpu_milli for name in ("p", "q") if name in found), start=0)

    assert share_of(joined, *others) >= share_of(one, two, *others) - 1000  # type: ignore[arg-type]
