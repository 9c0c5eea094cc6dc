"""Jobs that are being evicted and pending again at once: no job starts on what they would take back."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.kits.builders import requested_unit
from tests.kits.core_invariants import check_pool
from tests.kits.log_builder import Story
from tests.kits.pools import Bench
from tests.kits.story_script import play

from bailiff_core.actions import returning
from bailiff_core.actions.returning import ReturningJobs
from bailiff_core.model.state import Job
from bailiff_core.placement import GangPlacement, TaskPlacement

PROJECTS = ({"name": "ours", "quota": {"gpus": 8}}, {"name": "theirs", "quota": {"gpus": 0}})


def pool(*projects: dict[str, Any], gpus: int = 8, **parts: Any) -> tuple[Bench, Job]:
    """`back` leaves node a, with priority 75 and so many GPUs."""
    bench = Bench(projects=projects, **parts)
    back = bench.running("back", gpus=gpus, priority=75, project="ours" if projects else "", phase="evicting")
    return bench, back


def taking_back(bench: Bench, gpus: int = 8, node: int = 0, first: int = 0, **about: Any) -> str | None:
    """Who would take back the GPUs from `first` on of the node if a job of priority 50 started there."""
    preemptible = about.pop("preemptible", True)
    low = bench.waiting(f"low-{len(bench.state.jobs)}", gpus=gpus, **about)
    low.preemptible = preemptible
    mask = sum(1 << number for number in range(first, first + gpus))
    bench.state.indices.snapshot = None
    place = GangPlacement((TaskPlacement(0, node, mask),), future=True)
    found = ReturningJobs(bench.state).taking_back(requested_unit(low), place)
    return None if found is None else found.id


def test_a_job_that_returns_would_take_its_place_back() -> None:
    bench, _ = pool()
    assert taking_back(bench) == "back"
    assert taking_back(bench, gpus=1) == "back"


def test_not_where_it_fits_beside_the_other() -> None:
    bench, _ = pool(gpus=4)
    assert taking_back(bench, gpus=4, first=4) is None, "at its old place"
    assert taking_back(bench, gpus=4) is None, "on the other four GPUs"
    assert taking_back(bench, gpus=5) == "back"
    bench.sketch.node("b")
    assert taking_back(bench, gpus=8) is None, "on node b"


def test_not_where_it_has_no_place_anyway() -> None:
    bench, _ = pool()
    bench.state.nodes[0].state = "unreachable"
    bench.sketch.node("b", gpus=4)
    assert taking_back(bench, gpus=4, node=1) is None


@pytest.mark.parametrize(("priority", "found"), [(74, "back"), (75, None), (76, None)])
def test_only_from_a_job_of_lower_priority(priority: int, found: str | None) -> None:
    bench, _ = pool()
    assert taking_back(bench, priority=priority) == found


def test_not_from_a_job_that_is_not_preemptible() -> None:
    bench, _ = pool()
    assert taking_back(bench, preemptible=False) is None


def test_not_if_its_class_never_preempts() -> None:
    bench, back = pool()
    back.may_preempt = False
    assert taking_back(bench) is None


def test_not_if_it_has_to_wait_before_it_may_preempt() -> None:
    bench, _ = pool(protections={"preemption_delay": "1m"})
    assert taking_back(bench) is None


def test_not_under_a_policy_without_preempt_or_reclaim() -> None:
    bench, _ = pool(preemption={"actions": ("allocate", "consolidate")})
    assert taking_back(bench) is None


def test_the_first_in_the_queue_is_named() -> None:
    bench, _ = pool(gpus=4)
    bench.running("before", gpus=4, priority=80, phase="evicting")
    assert taking_back(bench) == "before"


# --- which jobs return at once


def test_nor_does_one_whose_eviction_is_cancelled() -> None:
    bench, back = pool()
    assert back.eviction is not None
    back.eviction.cancel_seq = 7
    assert taking_back(bench) is None


# --- by reclaim


def test_by_reclaim_it_takes_back_what_its_project_is_entitled_to_whatever_the_priority() -> None:
    bench, _ = pool(*PROJECTS, preemption={"scope": "project"})
    assert taking_back(bench, project="theirs", priority=90) == "back"
    assert taking_back(bench, project="ours", priority=90) is None
    bench, _ = pool(*PROJECTS, preemption={"scope": "project", "actions": ("allocate", "preempt")})
    assert taking_back(bench, project="theirs", priority=90) is None


def test_not_what_the_other_project_is_entitled_to() -> None:
    entitled = ({"name": "ours", "quota": {"gpus": 0}}, {"name": "theirs", "quota": {"gpus": 8}})
    bench, _ = pool(*entitled, preemption={"scope": "project"})
    assert taking_back(bench, project="theirs") is None


def test_by_preempt_it_takes_back_what_it_may_not_reclaim() -> None:
    """From its own project, which is beyond its share."""
    bench, _ = pool({"name": "ours", "quota": {"gpus": 0}}, {"name": "theirs", "quota": {"gpus": 8}})
    bench.waiting("asks", project="theirs", gpus=8)
    assert taking_back(bench, project="ours") == "back"


def test_by_preempt_it_takes_back_what_its_own_project_is_entitled_to() -> None:
    bench, _ = pool(*PROJECTS, gpus=4)
    bench.running("stays", project="theirs", gpus=4)
    assert taking_back(bench, project="ours", gpus=1) == "back"


def test_the_shares_are_those_once_it_asks_again() -> None:
    """No quota covers anything: as long as only the other project asks, the share of ours is nothing."""
    free = ({"name": "ours", "quota": {"gpus": 0}}, {"name": "theirs", "quota": {"gpus": 0}})
    bench, _ = pool(*free, gpus=4, preemption={"scope": "project"})
    assert taking_back(bench, project="theirs", gpus=8) == "back"


def test_what_its_project_uses_anyway_counts_for_its_share() -> None:
    """Both projects want the GPUs: four for each. Two run, and two that return make four."""
    bench = Bench(projects=({"name": "ours", "quota": {"gpus": 0}}, {"name": "theirs", "quota": {"gpus": 0}}))
    bench.running("also", gpus=2, priority=75, project="ours")
    bench.running("back", gpus=2, priority=75, project="ours", phase="evicting")
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    assert taking_back(bench, project="theirs", gpus=6, first=2) == "back"


@pytest.mark.parametrize(
    ("allows", "imbalance", "found"), [(True, None, "back"), (False, None, None), (True, "it would only reverse it", None)]
)
def test_not_where_the_set_of_victims_would_not_be_permitted(
    monkeypatch: pytest.MonkeyPatch, allows: bool, imbalance: str | None, found: str | None
) -> None:
    bench, _ = pool()
    constraints = SimpleNamespace(allows=lambda _: allows, imbalance=lambda _: imbalance)
    monkeypatch.setattr(returning, "Trial", lambda *_: constraints)
    assert taking_back(bench) == found


@pytest.mark.parametrize(
    ("projects", "actions", "first"),
    [
        # `first` could only preempt, and the policy does not preempt
        (PROJECTS, ("allocate", "reclaim"), {"project": "theirs"}),
        # it could only reclaim, and the policy does not reclaim
        (PROJECTS, ("allocate", "preempt"), {"project": "ours", "may_preempt": False}),
        # or has no projects to reclaim from
        ((), ("allocate", "reclaim", "preempt"), {"project": "unheard-of", "may_preempt": False}),
        # or the other job has the higher priority, and is of the same project
        (PROJECTS, ("allocate", "reclaim", "preempt"), {"project": "theirs", "other": 90}),
    ],
)
def test_a_job_that_no_action_permits_to_evict_anybody_takes_no_place_from_those_behind_it(
    projects: Any, actions: Any, first: dict[str, Any]
) -> None:
    """It returns before `back`, and from a machine that is lost: the only place for it would be that of `back`."""
    bench, back = pool(*projects, preemption={"actions": actions, "scope": "pool"})
    bench.sketch.node("c")
    ahead = bench.waiting("first", priority=80, gpus=8)
    ahead.project, ahead.may_preempt = first["project"], first.get("may_preempt", True)
    bench.sketch.at(ahead, ("c", range(8)), phase="evicting")
    bench.state.evicting["first"] = None
    bench.state.nodes[1].state = "lost"
    back.project = "ours" if "reclaim" in actions and projects else "theirs"
    assert taking_back(bench, project="theirs", priority=first.get("other", 50)) == "back"


def gang(bench: Bench, *devices: int, **demand: Any) -> Job:
    """Two tasks of one GPU each, which leave these devices of node a."""
    back = bench.waiting("back", priority=75, gpus=1, tasks=2)
    bench.sketch.at(back, *(("a", [number]) for number in devices), phase="evicting")
    back.demand = back.demand.model_copy(update=demand)
    bench.state.evicting["back"] = None
    return back


def test_a_gang_may_return_to_its_old_place_although_it_would_be_placed_nowhere_anew() -> None:
    bench = Bench()
    elsewhere = bench.preemptor.demand.tasks[0].model_copy(update={"count": 2, "nodes": ("elsewhere",)})
    gang(bench, 0, 1, tasks=(elsewhere,))
    assert taking_back(bench, gpus=2) == "back"
    assert taking_back(bench, gpus=2, first=2) is None, "beside it"


def test_not_if_a_task_of_it_has_exited_or_its_machine_is_lost() -> None:
    bench = Bench()
    elsewhere = bench.preemptor.demand.tasks[0].model_copy(update={"count": 2, "nodes": ("elsewhere",)})
    back = gang(bench, 0, 1, tasks=(elsewhere,))
    back.tasks[1].state = "exited"
    assert taking_back(bench, gpus=2) is None
    back.tasks[1].state = "running"
    bench.sketch.node("c").state = "lost"
    back.tasks[1].node = 1
    assert taking_back(bench, gpus=2) is None


def test_what_is_left_of_a_gang_is_not_all_that_it_needs_to_return() -> None:
    bench = Bench()
    back = gang(bench, 0, 1)
    bench.sketch.running("stays", "a", range(2, 8))
    assert taking_back(bench, gpus=1) == "back"
    del back.tasks[1]
    bench.state.nodes[0].releasing.devices = 0b1
    bench.sketch.running("too", "a", [1])
    assert taking_back(bench, gpus=1) is None, "there is a place for one of its two tasks only"


def test_a_job_that_has_no_place_is_refused_for_that_alone() -> None:
    """While a job of higher priority is being evicted, and would have a place."""
    story = Story(check=check_pool)
    play("node n1: 8 gpus; runs stays: 4 gpus; runs back: interactive, 4 gpus; evict back; submit large: 8 gpus", story=story)
    assert story.expect("JobPending", job="large").reason == "needs a node with 8 free GPUs, no node has them"
    story.submit("low", gpus=4)
    story.expect_only("JobPending")
