"""Fair shares of random trees are those of an independent reading of the text, and keep what they promise."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.share_reference import Member, divide

from bailiff_core.model.amounts import NOTHING, UNLIMITED, Amounts
from bailiff_core.model.policy import Project
from bailiff_core.queue.fair_share import STEPS, allocatable, fair_shares
from bailiff_core.queue.tree import OWN, ROOT, Tree

NAMES = [f"p{number}" for number in range(14)]
GPUS = st.one_of(st.integers(0, 12).map(lambda whole: whole * 1000), st.integers(0, 9000))
IN_BYTES = st.builds(Fraction, st.integers(0, 60_000), st.sampled_from([3, 7, 11]))
SMALL = st.integers(0, 40)


def amounts(gpus: st.SearchStrategy) -> st.SearchStrategy[Amounts]:
    return st.builds(Amounts, gpus, SMALL, SMALL)


@st.composite
def project(draw: st.DrawFn, name: str, above: list[str]) -> Project:
    maybe = [st.none(), st.just(UNLIMITED)]
    bounds = {
        key: {
            "gpu_milli": draw(st.one_of(GPUS, *maybe)),
            "cpu_milli": draw(st.one_of(SMALL, *maybe)),
            "memory_bytes": draw(st.one_of(SMALL, *maybe)),
        }
        for key in ("quota", "limit")
    }
    weight = st.sampled_from([0, 1, 1, 1, 2, 3, 7])
    return Project(
        name=name,
        parent=draw(st.sampled_from([None, *above])),
        created=draw(st.integers(0, 2)),
        priority=draw(st.integers(0, 2)),
        over_quota_weight={"gpu": draw(weight), "cpu": draw(weight), "memory": draw(weight)},
        **bounds,
    )


@st.composite
def trees(draw: st.DrawFn) -> list[Project]:
    found: list[Project] = []
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        found.append(draw(project(name, [above.name for above in found])))
    return found


def rolled_up(tree: Tree, own: dict[str, Amounts]) -> dict[str, Amounts]:
    """Requests of each project: what is asked for at its leaves."""
    found: dict[str, Amounts] = {}
    for name, asked in own.items():
        for above in tree.branches[tree.leaf_of(name)].path:
            found[above] = found.get(above, NOTHING).plus(asked)
    return found


def reference(projects: list[Project], total: Amounts, requested: dict[str, Amounts]) -> dict[str, Amounts]:
    """All families from the root downwards, by the slow reading."""
    shares = {ROOT: total}
    waiting = [ROOT]
    for parent in waiting:
        below = [entry for entry in projects if (entry.parent or ROOT) == parent]
        if not below:
            continue
        below.sort(key=lambda entry: (entry.created, projects.index(entry)))
        below.append(Project.model_construct(name=parent + OWN))
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
                        requested.get(entry.name, NOTHING)[resource],
                        None if quota == UNLIMITED else quota,
                        None if limit in (None, UNLIMITED) else limit,
                        getattr(entry.over_quota_weight, weight),
                        entry.priority,
                    )
                )
            divide(shares[parent][resource], members, STEPS[resource])
            columns.append([member.share for member in members])
        for entry, *found in zip(below, *columns, strict=True):
            shares[entry.name] = Amounts(*found)
            waiting.append(entry.name)
    return shares


@settings(max_examples=3000, deadline=None)
@given(trees(), amounts(GPUS), st.dictionaries(st.sampled_from(["", *NAMES]), amounts(st.one_of(GPUS, IN_BYTES))))
def test_shares_are_those_of_the_text(projects: list[Project], total: Amounts, own: dict[str, Amounts]) -> None:
    tree = Tree(projects)
    requested = rolled_up(tree, own)
    assert fair_shares(tree, total, requested) == reference(projects, total, requested)


@settings(max_examples=500, deadline=None)
@given(trees(), amounts(GPUS), st.dictionaries(st.sampled_from(["", *NAMES]), amounts(GPUS)))
def test_shares_promise_no_more_than_there_is_beyond_the_quotas(
    projects: list[Project], total: Amounts, own: dict[str, Amounts]
) -> None:
    tree = Tree(projects)
    requested = rolled_up(tree, own)
    shares = fair_shares(tree, total, requested)
    for family in tree.families:
        for resource in range(3):
            above = shares[family.parent][resource]
            mine = [shares[name][resource] for name in family.names]
            assert all(type(share) is int for share in mine)
            quotas = [above if quota < 0 else quota for quota in family.quotas[resource]]
            if sum(mine) > above:  # only quotas may sum above the total, and then nobody gets more than its own
                assert all(share <= quota for share, quota in zip(mine, quotas, strict=True))
            for share, quota, name, limit in zip(mine, quotas, family.names, family.limits[resource], strict=True):
                asked = requested.get(name, NOTHING)[resource]
                requestable = asked if limit < 0 else min(asked, limit)
                assert share >= min(quota, requestable)  # nobody below what it deserves and asks for
                assert share < requestable + STEPS[resource]  # a leftover goes as a whole, at most one


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-1, 50)), min_size=3, max_size=3), amounts(SMALL))
def test_allocatable_share_lies_between_limit_quota_and_share(bounds: list[int | None], share: Amounts) -> None:
    quota, limit, _ = bounds
    stated = Project(name="a", quota={"gpu_milli": quota}, limit={"gpu_milli": limit})
    found = allocatable(Tree([stated]).branches["a"], share).gpu_milli
    endless = 10**9
    most = endless if quota == UNLIMITED else max(quota or 0, share.gpu_milli)
    most = min(most, endless if limit in (None, UNLIMITED) else limit)
    assert found == (UNLIMITED if most == endless else most)
