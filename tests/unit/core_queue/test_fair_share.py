"""Fair shares with hand-computed values."""

from fractions import Fraction
from typing import Any

import pytest
from tests.kits.pools import gpus, project

from bailiff_core.model.project_tree import ProjectTree
from bailiff_core.model.resource_vector import UNLIMITED, Amount, ResourceVector
from bailiff_core.quota.fair_share import Steps, _allocatable, entitlements
from bailiff_core.quota.quotas_in_full import quotas_in_full

# Each line: the GPUs of the pool; of every project, oldest first, what it asks for and what its share is.
TABLE: dict[str, tuple[int, list[tuple[dict[str, Any], int, int]]]] = {
    "quotas first, the rest by weight": (8, [({"quota": 2}, 8, 5), ({"quota": 0}, 8, 3)]),
    "nobody gets more than it asks for": (8, [({"quota": 4}, 1, 1), ({"quota": 4}, 3, 3)]),
    "an unused quota is lent": (8, [({"quota": 4}, 8, 8), ({"quota": 4}, 0, 0)]),
    # 8 left: 8 × 1/4 = 2 and 8 × 3/4 = 6.
    "by weight": (8, [({"weight": 1}, 9, 2), ({"weight": 3}, 9, 6)]),
    # 10 left, 3⅓ each: 3, 3, 3 and one left over, all lost a third, the oldest gets it.
    "a leftover goes to the oldest of equals": (10, [({}, 9, 4), ({}, 9, 3), ({}, 9, 3)]),
    # 10 left: 10/6 = 1⅔, 20/6 = 3⅓, 30/6 = 5: 1, 3, 5 and one left over: the first lost most.
    "a leftover goes to whom the floor cost most": (10, [({"weight": 3}, 9, 5), ({"weight": 2}, 9, 3), ({"weight": 1}, 9, 2)]),
    # Round 1: 4 each; the first takes its 1, the others 4, 3 left. Round 2: 1½ each: 1, and one left over.
    "who is satisfied leaves the rest to others": (12, [({}, 1, 1), ({}, 9, 6), ({}, 9, 5)]),
    # Round 1: 1½, 3, 4½: the second is just satisfied, and 1 is left. Round 2: ¼ and ¾.
    "just satisfied is satisfied, and another round follows": (
        9,
        [({"weight": 1}, 9, 1), ({"weight": 2}, 3, 3), ({"weight": 3}, 9, 5)],
    ),
    "weight 0 gets its quota and nothing else": (10, [({"weight": 0, "quota": 2}, 9, 2), ({}, 3, 3), ({}, 9, 5)]),
    "weight 0 for everybody: nobody borrows": (8, [({"weight": 0, "quota": 1}, 9, 1), ({"weight": 0, "quota": 2}, 9, 2)]),
    "high priority borrows first": (8, [({"quota": 1}, 9, 2), ({"quota": 1, "priority": 1}, 6, 6)]),
    # High: 7 × 1/2 → 3 each, 1 left, which goes to the older one.
    "what floors leave over goes to no lower priority": (7, [({"priority": 1}, 9, 4), ({"priority": 1}, 9, 3), ({}, 9, 0)]),
    "a limit bounds what may be asked for": (8, [({"quota": 6, "limit": 3}, 8, 3), ({}, 9, 5)]),
    "a limit of nothing is one, too": (8, [({"limit": 0}, 8, 0), ({}, 9, 8)]),
    "quotas above the pool shrink in proportion": (8, [({"quota": 6}, 9, 4), ({"quota": 6}, 9, 4), ({}, 9, 0)]),
    "half the pool is gone": (4, [({"quota": 4}, 4, 2), ({"quota": 4}, 4, 2)]),
    "of half a pool, who asks for less than its part has all of it": (4, [({"quota": 4}, 4, 3), ({"quota": 4}, 1, 1)]),
    "quotas that nobody asks for shrink nothing": (8, [({"quota": 6}, 9, 6), ({"quota": 6}, 2, 2)]),
    # 8 × 6/12 = 4 and 8 × 3/12 = 2: the third asks for 1 only, and leaves the rest to the others: 7 × 6/9 and 7 × 3/9.
    "a small request leaves more of the quotas to the others": (
        8,
        [({"quota": 6}, 9, 5), ({"quota": 3}, 9, 2), ({"quota": 3}, 1, 1)],
    ),
    "an endless quota is the whole pool": (8, [({"quota": -1}, 9, 8), ({"quota": 1}, 9, 1)]),
}


def fair_shares(
    tree: ProjectTree, total: ResourceVector, requested: dict[str, ResourceVector], **sizes: Amount
) -> dict[str, ResourceVector]:
    """sizes: by project, what its tasks ask of a GPU; default: whole ones."""
    steps = Steps()
    for name, size in sizes.items():
        steps.count(tree.branches[name].path, (size,), 1)
    return {
        name: entitled.share
        for name, entitled in entitlements(tree, total, quotas_in_full(tree, total, total[0]), requested, steps).items()
    }


@pytest.mark.parametrize("story", TABLE)
def test_hand_computed_shares(story: str) -> None:
    total, lines = TABLE[story]
    projects = [project(f"p{at}", **stated) for at, (stated, _, _) in enumerate(lines)]
    requested = {f"p{at}": gpus(asked) for at, (_, asked, _) in enumerate(lines)}
    shares = fair_shares(ProjectTree(projects), gpus(total), requested)
    assert [shares[f"p{at}"] for at in range(len(lines))] == [gpus(share) for _, _, share in lines]


def test_fractions_are_exact_in_thousandths_and_floors_are_whole_gpus() -> None:
    tree = ProjectTree([project("a"), project("b"), project("c")])
    asked = {"a": gpus(0.3), "b": gpus(5), "c": gpus(5)}
    # Round 1: 4/3 each: a has its 0.3, b and c 1 each; 1.7 left. Round 2: 0.85 each: nothing whole. Then b has 1, c the rest.
    assert fair_shares(tree, gpus(4), asked) | {"*": gpus(0)} == {
        "": gpus(4),
        "a": gpus(0.3),
        "b": gpus(2),
        "c": gpus(1.7),
        "*": gpus(0),
    }


def test_cpu_and_memory_are_cut_to_millicores_and_bytes() -> None:
    tree = ProjectTree([project(name, quota={"cpus": 0, "memory": 0}) for name in ("a", "b", "c")])
    asked = dict.fromkeys(("a", "b", "c"), ResourceVector(0, 10**6, 10**6))
    shares = fair_shares(tree, ResourceVector(0, 1000, 1001), asked)
    assert [shares[name][1:] for name in ("a", "b", "c")] == [(334, 334), (333, 334), (333, 333)]


def test_requests_in_bytes_of_a_device_stay_exact() -> None:
    tree = ProjectTree([project("a"), project("b")])
    third = Fraction(1000, 3)
    shares = fair_shares(tree, gpus(2), {"a": ResourceVector(third), "b": gpus(5)})
    assert (shares["a"][0], shares["b"][0]) == (third, 2000 - third)


def test_a_department_divides_its_own_share() -> None:
    tree = ProjectTree([project("lab", quota=4), project("shop", quota=4), project("one", "lab"), project("two", "lab", quota=3)])
    asked = {"lab": gpus(12), "one": gpus(6), "two": gpus(6), "shop": gpus(2)}
    shares = fair_shares(tree, gpus(8), asked)
    assert {name: shares[name][0] // 1000 for name in ("lab", "shop", "one", "two")} == {"lab": 6, "shop": 2, "one": 2, "two": 4}


def test_jobs_without_a_project_share_like_a_project_with_default_settings() -> None:
    shares = fair_shares(ProjectTree([project("a", quota=4)]), gpus(8), {"a": gpus(8), "*": gpus(8)})
    assert (shares["a"], shares["*"]) == (gpus(6), gpus(2))


@pytest.mark.parametrize(
    ("stated", "share", "most"),
    [
        ({"quota": 4}, 2, 4000),
        ({"quota": 4}, 6, 6000),
        ({"quota": 4, "limit": 3}, 6, 3000),
        ({"quota": -1, "limit": 3}, 1, 3000),
        ({"quota": -1}, 1, UNLIMITED),
    ],
)
def test_allocatable_share(stated: dict[str, Any], share: int, most: int) -> None:
    branch = ProjectTree([project("a", **stated)]).branches["a"]
    assert _allocatable(branch.quota.gpu_milli, branch.limit.gpu_milli, share * 1000) == most
