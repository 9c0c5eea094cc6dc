"""Fair shares of random trees equal those of an independent reference, and keep their guarantees."""

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.share_reference import Member, divide

from bailiff_core.model.policy import Project
from bailiff_core.model.project_tree import DIRECT, ROOT, ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, ZERO, Amount, ResourceVector
from bailiff_core.quota.fair_share import STEPS, allocatable, fair_shares

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


def rolled_up(tree: ProjectTree, own: dict[str, ResourceVector]) -> dict[str, ResourceVector]:
    """Requests of each project: the sum over its leaves."""
    found: dict[str, ResourceVector] = {}
    for name, requests in own.items():
        for above in tree.branches[tree.leaf_of(name)].path:
            found[above] = found.get(above, ZERO).plus(requests)
    return found


def reference(projects: list[Project], total: ResourceVector, requested: dict[str, ResourceVector]) -> dict[str, ResourceVector]:
    """All families from the root downwards, by the reference implementation."""
    shares = {ROOT: total}
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
                quota, limit = getattr(entry.quota, name), getattr(entry.limit, name)
                if quota is None:
                    quota = 0 if name == "gpu_milli" else UNLIMITED
                members.append(
                    Member(
                        age,
                        requested.get(entry.name, ZERO)[resource],
                        None if quota == UNLIMITED else quota,
                        None if limit in (None, UNLIMITED) else limit,
                        getattr(entry.over_quota_weight, weight),
                        entry.priority,
                    )
                )
            divide(shares[parent][resource], members, STEPS[resource])
            columns.append([member.share for member in members])
        for entry, *found in zip(below, *columns, strict=True):
            shares[entry.name] = ResourceVector(*found)
            waiting.append(entry.name)
    return shares


@settings(max_examples=75, deadline=None)
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
        assert fair_shares(tree, total, requested, known) == reference(projects, total, requested)
        changed = rolled_up(tree, own | {rng.choice(projects).name: ResourceVector(some_gpus(rng), some_amount(rng), 0)})
        assert fair_shares(tree, total, changed, known) == fair_shares(tree, total, changed)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_shares_do_not_exceed_the_capacity_beyond_the_quotas(seed: int) -> None:
    rng = Random(seed)
    projects, total = some_projects(rng), some_total(rng)
    tree = ProjectTree(projects)
    requested = rolled_up(tree, some_requests(rng, projects, bytes_too=False))
    shares = fair_shares(tree, total, requested)
    for family in tree.sibling_groups:
        for resource in range(3):
            above = shares[family.parent][resource]
            mine = [shares[name][resource] for name in family.names]
            assert all(type(share) is int for share in mine)
            quotas = [above if quota < 0 else quota for quota in family.quotas[resource]]
            if sum(mine) > above:  # only quotas may sum above the total; then no project gets more than its quota
                assert all(share <= quota for share, quota in zip(mine, quotas, strict=True))
            for share, quota, name, limit in zip(mine, quotas, family.names, family.limits[resource], strict=True):
                requests = requested.get(name, ZERO)[resource]
                requestable = requests if limit < 0 else min(requests, limit)
                assert share >= min(quota, requestable)  # no project gets less than its requested quota
                assert share < requestable + STEPS[resource]  # a remainder is given as a whole, at most one


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.none(), st.integers(-1, 50)), st.one_of(st.none(), st.integers(-1, 50)), st.integers(0, 50))
def test_allocatable_share_lies_between_limit_quota_and_share(quota: int | None, limit: int | None, share: int) -> None:
    stated = Project(name="a", quota={"gpu_milli": quota}, limit={"gpu_milli": limit})
    found = allocatable(ProjectTree([stated]).branches["a"], ResourceVector(share)).gpu_milli
    endless = 10**9
    most = endless if quota == UNLIMITED else max(quota or 0, share)
    most = min(most, endless if limit in (None, UNLIMITED) else limit)
    assert found == (UNLIMITED if most == endless else most)
