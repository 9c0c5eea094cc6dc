"""Which jobs of other projects are within the quota, or the fair share, of theirs: each resource, and each level of the tree."""

from typing import Any

import pytest
from tests.kits.builders import group
from tests.kits.pools import Bench, core, surplus
from tests.kits.searches import answers

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import Job
from bailiff_core.model.units import Unit
from bailiff_core.protections import VictimSetTests, excluded_by

NO_RECLAIM = ("allocate", "preempt")


def pool(*projects: dict[str, Any], shields: bool = True, reclaim: bool = False) -> Bench:
    """A preemptor of one GPU in the first of these projects."""
    actions = {} if reclaim else {"actions": NO_RECLAIM}
    bench = Bench(projects=projects, preemption={"scope": "pool", "quota_shields": shields, **actions})
    bench.preemptor.project = projects[0]["name"]
    return bench


def project(name: str, gpus: int, parent: str | None = None, **other: Any) -> dict[str, Any]:
    return {"name": name, "quota": {"gpus": gpus, **other}, **({"parent": parent} if parent else {})}


def shield(bench: Bench, job: Job) -> str | None:
    bench.state.indices.snapshot = None
    return excluded_by(bench.state, "preempt", bench.preemptor, core(job))


def forbidden(bench: Bench, *units: Any) -> str | None:
    bench.state.indices.snapshot = None
    return VictimSetTests(bench.state, "preempt", bench.preemptor).violation(units)


def runs(bench: Bench, name: str, *groups: TaskGroup, devices: range) -> Job:
    """A job of `theirs`, with all its GPUs on these devices."""
    job = bench.sketch.job(name, *groups)
    job.project = "theirs"
    uses = [each.gpu_milli or each.gpu_share_milli or each.gpu_share_bytes for each in groups]
    return bench.sketch.at(job, *(("a", devices if used else []) for used in uses))


# --- the resource of which the project uses too much


def test_an_unlimited_quota_protects_every_job() -> None:
    bench = pool(project("ours", 8), project("theirs", -1))
    assert shield(bench, bench.running("victim", project="theirs", gpus=4)) == "quota-shields"


@pytest.mark.parametrize(("needs", "rule"), [(group(gpus=1), None), (group(cpu=1), None), (group(), "quota-shields")])
def test_jobs_of_two_projects_that_the_policy_does_not_name_have_one_quota(needs: TaskGroup, rule: str | None) -> None:
    """It has no GPUs and no CPUs in it; and it does not make them jobs of one project."""
    bench = pool(project("named", 8))
    bench.preemptor.project = "ours"
    victim = runs(bench, "victim", needs, devices=range(1))
    assert shield(bench, victim) == rule


def test_a_job_of_the_own_project_is_protected_neither_alone_nor_before_others() -> None:
    bench = pool(project("ours", 8), project("theirs", 2))
    own = bench.running("own", project="ours")
    victims = [bench.running(f"v{number}", project="theirs") for number in range(3)]
    assert shield(bench, own) is None
    assert forbidden(bench, core(own), core(victims[0])) is None
    expected = "project theirs would lose more than it uses beyond its quota"
    assert forbidden(bench, core(own), core(victims[0]), core(victims[1])) == expected


@pytest.mark.parametrize(("of_core", "of_surplus", "permitted"), [(3, 1, True), (1, 3, False)])
@pytest.mark.parametrize("order", [1, -1])
def test_of_a_job_that_leaves_in_parts_the_core_is_the_last(of_core: int, of_surplus: int, permitted: bool, order: int) -> None:
    """Four GPUs are in use and two are the quota: the last part must still find more than two in use."""
    bench = pool(project("ours", 8), project("theirs", 2))
    wide = bench.sketch.job("wide", group(gpus=of_core), group(gpus=of_surplus))
    wide.project, wide.demand = "theirs", wide.demand.model_copy(update={"min_tasks": 1})
    bench.sketch.at(wide, ("a", range(of_core)), ("a", range(of_core, 4)))
    rest = Unit(wide, (0,), core=True)
    assert (forbidden(bench, *[surplus(wide), rest][::order]) is None) == permitted


# --- where the others could reclaim it at once


def departments(*, lab: int = 4, vision: int = 2, speech: int = 2, web: int = 1, of: str = "web") -> Bench:
    """No job is protected but where reclaim would take the resources back."""
    tree = [project("web", web), project("lab", lab), project("vision", vision, "lab"), project("speech", speech, "lab")]
    bench = pool(*tree, shields=False, reclaim=True)
    bench.preemptor.project = of
    return bench


def test_within_its_own_quota_a_project_takes_from_others_within_theirs() -> None:
    bench = departments(web=4)
    assert shield(bench, bench.running("victim", project="vision")) is None


def test_beyond_its_quota_it_takes_only_where_every_level_of_the_other_side_is_beyond_its_own() -> None:
    bench = departments(web=0)
    victim = bench.running("victim", project="vision", gpus=3)
    assert shield(bench, victim) == "quota-shields", "vision is beyond its quota, lab is not"
    other = bench.running("other", project="speech", gpus=2)
    assert shield(bench, victim) is None
    assert shield(bench, other) == "quota-shields", "lab is beyond its quota, speech is not"


def test_a_set_leaves_every_level_beyond_its_quota_until_the_last_eviction() -> None:
    bench = departments(web=0, vision=1)
    victims = [core(bench.running(f"v{number}", project="vision")) for number in range(3)]
    bench.running("other", project="speech", gpus=2)
    assert forbidden(bench, *victims[:1]) is None
    assert forbidden(bench, *victims[:2]) == "project lab would lose more than it uses beyond its quota"


def test_the_last_eviction_of_a_project_need_not_be_the_last_of_the_department() -> None:
    bench = departments(web=0, vision=1, speech=1)
    small = core(bench.running("small", project="vision"))
    bench.running("kept", project="vision", gpus=2)
    large = core(bench.running("large", project="speech", gpus=2))
    bench.running("kept-too", project="speech")
    assert forbidden(bench, small, large) is None, "lab uses six of its four: small goes first, and large finds five"


def test_a_department_beyond_its_quota_takes_nothing_from_others_within_theirs_whichever_project_asks() -> None:
    bench = departments(lab=1, speech=2, vision=2, web=4, of="speech")
    victim = bench.running("victim", project="web")
    assert shield(bench, victim) is None
    bench.running("busy", project="vision")
    assert shield(bench, victim) == "quota-shields", "with the preemptor, lab would use two of its quota of one"
    sibling = bench.running("sibling", project="vision", gpus=1)
    assert shield(bench, sibling) is None, "lab is on both sides, and speech is within its quota"


def test_beyond_its_fair_share_it_takes_only_from_projects_beyond_theirs() -> None:
    """Two GPUs are in no quota: lab and web get one each, so vision has a share of three and speech one of four."""
    bench = departments(lab=6, vision=2, speech=4, web=0)
    bench.running("mine", project="web", gpus=2)
    victim = bench.running("victim", project="vision", gpus=3)
    bench.running("rest", project="speech", gpus=3)
    bench.waiting("pending", project="speech", gpus=1)
    assert forbidden(bench, core(victim)) == "project vision would lose more than it uses beyond its share"


def test_a_preemptor_that_requests_nothing_would_exceed_nothing() -> None:
    bench = departments(web=0)
    victim = bench.running("victim", project="vision")
    assert shield(bench, victim) == "quota-shields"
    bench.sketch.at(bench.preemptor, ("a", [7]))
    assert shield(bench, victim) is None


def test_each_request_of_a_batch_is_judged_by_its_own_size() -> None:
    """The large one would exceed its project's quota, so the other project is protected from it; from the small one it is not."""
    bench = pool(project("ours", 6), project("theirs", -1), shields=False, reclaim=True)
    for name in ("one", "two"):
        bench.running(name, gpus=4, project="theirs")
    for name, gpus in (("large", 8), ("small", 4)):
        bench.waiting(name, gpus=gpus, priority=75, project="ours")
    large, small = answers(bench.sketch, "large", "small")
    assert large.refused == "impossible"
    assert (small.refused, small.action, [victim.job for victim in small.victims]) == (None, "preempt", ["two"])


def test_what_an_earlier_request_of_a_batch_takes_counts_for_the_next() -> None:
    """With the GPUs of the first the project is at its quota, and the other project is protected from the second."""
    bench = pool(project("ours", 4), project("theirs", -1), shields=False, reclaim=True)
    for name in ("one", "two"):
        bench.running(name, gpus=4, project="theirs")
    for name in ("first", "second"):
        bench.waiting(name, gpus=4, priority=75, project="ours")
    first, second = answers(bench.sketch, "first", "second")
    assert [victim.job for victim in first.victims] == ["two"]
    assert not second.victims
    assert [entry.rule for entry in second.explanation.excluded] == ["already-evicting", "quota-shields"]
