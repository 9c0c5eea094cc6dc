"""Cheap tests before victims are searched: which jobs may ask for a preemption, and by which action it might succeed."""

from typing import Any

import pytest
from tests.builders import requested_unit
from tests.unit.core_protections.kit import MINUTE, Bench

from bailiff_core.actions.possible_victims import PossibleVictims, may_request, possible_actions
from bailiff_core.actions.requesting import requesting_units
from bailiff_core.model.state import Job
from bailiff_core.queue.head import head_of_queue, is_schedulable
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot

PROJECTS = ({"name": "ours", "quota": {"gpus": 4}}, {"name": "theirs", "quota": {"gpus": 4}})


def pool(*projects: dict[str, Any], migrations: int = 0, scope: str = "pool", **preemption: Any) -> Bench:
    rules = {"scope": scope, "max_migrations": migrations, "quota_shields": False, **preemption}
    return Bench(projects=projects, preemption=rules)


def victims(bench: Bench) -> PossibleVictims:
    bench.state.indices.snapshot = None
    return PossibleVictims(bench.state)


def actions(bench: Bench, job: Job | None = None) -> list[str]:
    """The actions under which any job might be a victim for this one."""
    found = victims(bench)
    return [action for action in ("consolidate", "reclaim", "preempt") if found.exist_under(job or bench.preemptor, action)]  # type: ignore[arg-type]


# --- whether there may be a victim


def test_in_an_empty_pool_nobody_is_a_victim() -> None:
    bench = pool(*PROJECTS, migrations=1)
    assert actions(bench) == []
    assert not victims(bench).exist


@pytest.mark.parametrize("about", [{"phase": "evicting"}, {"preemptible": False}])
def test_a_job_that_leaves_or_is_not_preemptible_is_no_victim(about: dict[str, Any]) -> None:
    bench = pool(*PROJECTS, migrations=1)
    job = bench.running("x", project="theirs", **({"phase": "evicting"} if "phase" in about else {}))
    job.preemptible = about.get("preemptible", True)
    assert actions(bench) == []


@pytest.mark.parametrize(("priority", "found"), [(74, ["preempt"]), (75, []), (76, [])])
def test_preempt_needs_a_job_of_lower_priority(priority: int, found: list[str]) -> None:
    bench = pool()
    bench.running("x", priority=priority)
    bench.running("higher", priority=90)
    assert actions(bench) == found


def test_in_the_whole_pool_the_lowest_priority_of_any_project_counts() -> None:
    bench = pool(*PROJECTS)
    bench.running("dear", gpus=1, priority=90, project="ours")
    bench.running("cheap", gpus=1, priority=50, project="theirs")
    assert "preempt" in actions(bench)


def test_a_class_that_never_preempts_has_no_victims_under_preempt() -> None:
    bench = pool(*PROJECTS)
    bench.running("x", project="theirs")
    assert actions(bench) == ["reclaim", "preempt"]
    bench.preemptor.may_preempt = False
    assert actions(bench) == ["reclaim"]


def test_with_the_scope_project_only_jobs_of_the_own_project_count() -> None:
    bench = pool(*PROJECTS, scope="project")
    bench.running("x", project="theirs", priority=10)
    assert actions(bench) == ["reclaim"]
    bench.running("own", project="ours", priority=75)
    assert actions(bench) == ["reclaim"]
    bench.running("lower", project="ours", priority=74)
    bench.running("high-again", project="ours", priority=80)
    assert actions(bench) == ["reclaim", "preempt"]


def test_reclaim_needs_a_job_of_another_project() -> None:
    bench = pool(*PROJECTS)
    bench.running("own", project="ours", priority=90)
    assert actions(bench) == []
    bench.running("x", project="theirs", priority=90)
    assert actions(bench) == ["reclaim"]


def test_without_projects_there_is_no_reclaim() -> None:
    bench = pool()
    bench.running("x", project="theirs", priority=90)
    assert actions(bench) == []


def test_consolidation_needs_migrations() -> None:
    bench = pool(migrations=1)
    bench.running("x", priority=90)
    assert actions(bench) == ["consolidate"]
    bench = pool()
    bench.running("x", priority=90)
    assert actions(bench) == []


def test_some_action_of_the_policy_must_find_a_victim() -> None:
    bench = pool(actions=("allocate", "reclaim"))
    bench.running("x", priority=10)
    assert not victims(bench).exist_for(bench.preemptor), "the policy has no preempt"
    bench = pool()
    bench.running("x", priority=60)
    low, high, never = (bench.waiting(name, priority=priority) for name, priority in (("low", 50), ("high", 70), ("never", 70)))
    never.may_preempt = False
    found = victims(bench)
    for _ in range(2):
        assert [found.exist_for(job) for job in (low, high, never)] == [False, True, False]


# --- whether the job may ask


def test_a_job_asks_neither_before_its_delay_is_over_nor_before_its_next_request_is_due() -> None:
    bench = Bench(protections={"preemption_delay": "10m"})
    job = bench.preemptor
    job.submitted_at = bench.state.now - 10 * MINUTE
    assert may_request(bench.state, job)
    job.submitted_at += 1
    assert not may_request(bench.state, job)
    job.submitted_at -= 1
    job.next_request_at = bench.state.now
    assert may_request(bench.state, job)
    job.next_request_at += 1
    assert not may_request(bench.state, job)


@pytest.mark.parametrize(
    "obstacle", [{"suspended_reason": "gave up"}, {"cancelled": True}, {"not_before": Bench().state.now + 1}]
)
def test_a_job_that_may_not_start_asks_for_nothing_and_is_not_the_head(obstacle: dict[str, Any]) -> None:
    bench = pool()
    behind = bench.waiting("behind", priority=10)
    assert may_request(bench.state, bench.preemptor)
    assert head_of_queue(bench.state) is bench.preemptor
    for name, value in obstacle.items():
        setattr(bench.preemptor, name, value)
    assert not is_schedulable(bench.state, bench.preemptor)
    assert not may_request(bench.state, bench.preemptor)
    assert head_of_queue(bench.state) is behind
    bench.preemptor.suspended_reason, bench.preemptor.cancelled, bench.preemptor.not_before = None, False, bench.state.now
    assert head_of_queue(bench.state) is bench.preemptor


def test_the_head_is_within_its_bounds_and_fits_an_empty_pool() -> None:
    bench = pool({"name": "ours", "limit": {"gpus": 0}}, {"name": "theirs", "quota": {"gpus": 4}})
    bench.waiting("too-large", priority=70, project="theirs", gpus=9)
    head = bench.waiting("head", priority=60, project="theirs", gpus=8)
    bench.waiting("behind", priority=50, project="theirs")
    assert head_of_queue(bench.state) is head


def test_a_job_that_is_not_pending_is_not_the_head() -> None:
    bench = pool()
    behind = bench.waiting("behind", priority=10)
    bench.preemptor.phase = "paused"
    assert head_of_queue(bench.state) is behind
    behind.phase = "paused"
    assert head_of_queue(bench.state) is None


# --- which actions are worth a request


def possible(bench: Bench, gpus: int = 1) -> tuple[str, ...]:
    job = bench.waiting(f"asks-{gpus}", priority=75, project="ours", gpus=gpus)
    found = victims(bench)
    snapshot = current_snapshot(bench.state)
    return possible_actions(snapshot, shares_now(snapshot), requested_unit(job), found)


def test_a_request_names_the_actions_that_may_succeed_in_their_order() -> None:
    bench = pool(*PROJECTS, migrations=1)
    bench.running("x", project="theirs", gpus=6)
    assert possible(bench) == ("consolidate", "reclaim", "preempt")


def test_consolidation_is_left_out_where_too_little_is_free_in_total() -> None:
    bench = pool(*PROJECTS, migrations=1)
    bench.running("x", project="theirs", gpus=6)
    assert possible(bench, gpus=3) == ("reclaim", "preempt")
    bench = pool(*PROJECTS)
    bench.running("x", project="theirs", gpus=6)
    assert possible(bench, gpus=2) == ("reclaim", "preempt"), "the policy moves no job"


def test_reclaim_is_left_out_for_a_project_beyond_its_share() -> None:
    bench = pool(*PROJECTS, migrations=1)
    bench.running("x", project="theirs", gpus=2)
    bench.waiting("more", project="theirs", gpus=2)
    assert possible(bench, gpus=5) == ("consolidate", "preempt")


def test_a_job_that_nothing_can_help_does_not_change_whose_request_is_first() -> None:
    """Its class never preempts. With its eight GPUs its project would be behind the other one."""
    bench = pool(*PROJECTS, actions=("allocate", "preempt"))
    bench.running("x", gpus=8, priority=10)
    hopeless = bench.waiting("hopeless", project="ours", gpus=8, priority=75)
    hopeless.may_preempt = False
    bench.waiting("other", project="theirs", gpus=2, priority=60)
    bench.preemptor.priority = 50
    found = requesting_units(bench.state, victims(bench), 9)
    assert [unit.job.id for unit, _ in found] == ["preemptor", "other"]
