"""The tree of projects."""

from tests.unit.core_queue.kit import Town, project

from bailiff_core.model.project_tree import ProjectTree, tree_of
from bailiff_core.model.resource_vector import UNLIMITED, ResourceVector


def company() -> ProjectTree:
    return ProjectTree(
        [project("lab"), project("vision", "lab"), project("speech", "lab"), project("shop"), project("search", "shop")]
    )


def test_without_projects_there_is_only_the_root() -> None:
    tree = ProjectTree()
    assert list(tree.branches) == [""]
    assert tree.leaf_of("") == tree.leaf_of("whatever-a-job-says") == ""
    assert tree.sibling_groups == []


def test_ancestors_and_the_branches_below_the_lowest_common_ancestor() -> None:
    tree = company()
    assert tree.branches["vision"].path == ("vision", "lab", "")
    assert tree.common("vision", "speech") == "lab"
    assert tree.sides("vision", "speech") == ("vision", "speech")
    assert tree.common("vision", "search") == ""
    assert tree.sides("vision", "search") == ("lab", "shop")
    assert tree.sides("vision", "vision") == ("vision", "vision")
    assert tree.sides("vision", "lab") == ("vision", "lab")


def test_jobs_belong_to_leaves_and_others_to_an_unnamed_leaf() -> None:
    tree = company()
    assert tree.leaf_of("vision") == "vision"
    assert tree.leaf_of("lab") == "lab*"
    assert tree.leaf_of("") == tree.leaf_of("gone") == "*"
    assert tree.branches["lab*"].path == ("lab*", "lab", "")
    assert tree.children["lab"] == ("speech", "vision", "lab*")
    assert tree.branches["lab*"].quota == ResourceVector(0, UNLIMITED, UNLIMITED)


def test_the_defaults() -> None:
    plain = ProjectTree([project("a", quota={}, limit={})]).branches["a"]
    assert plain.quota == ResourceVector(0, UNLIMITED, UNLIMITED)
    assert plain.limit == ResourceVector(UNLIMITED, UNLIMITED, UNLIMITED)
    stated = ProjectTree([project("a", quota={"gpus": 0.5, "cpus": 2}, limit={"memory": "1KiB"})]).branches["a"]
    assert stated.quota == ResourceVector(500, 2000, UNLIMITED)
    assert stated.limit == ResourceVector(UNLIMITED, UNLIMITED, 1024)


def test_age_is_the_date_then_the_name() -> None:
    tree = ProjectTree([project("d", created=9), project("c", created=5), project("b", created=5), project("a")])
    assert tree.children[""] == ("a", "b", "c", "d", "*")
    assert sorted(tree.branches, key=lambda name: tree.branches[name].age) == ["", "a", "b", "c", "d", "*"]


def test_a_pool_keeps_its_tree_until_another_policy_is_in_force() -> None:
    town = Town(project("a"))
    town.state.indices.snapshot = town.snapshot()
    kept = tree_of(town.state)
    assert kept is tree_of(town.state)
    town.state.policy = Town(project("b")).state.policy
    assert "b" in tree_of(town.state).branches
    assert kept is not tree_of(town.state)
