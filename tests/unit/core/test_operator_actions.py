"""Operator requests: evict, pause, resume, drain and migrate."""

import pytest
from tests.log_builder import HOUR, MINUTE, policy

from bailiff_core.model.demand import TaskGroup
from bailiff_core.records.facts import ClockStepped, JobCancelled, JobEvictionRequested, NodeDrained, TaskProgressed
from bailiff_core.scheduling_snapshot import current_snapshot


def running(story, *jobs):
    story.node("n1", gpus=8)
    for job in jobs or ("train",):
        story.runs(job, gpus=4)


# --- evict


def test_an_evicted_job_has_its_grace_and_is_requeued_at_its_old_place(story):
    running(story)
    story.evict("train", reason="benchmark at noon")
    decided = story.expect("EvictionDecided", job="train", cause="requested", grace=150_000_000)
    assert decided.reason == "eviction requested: benchmark at noon"
    story.yields("train")
    requeued = story.expect("JobRequeued", job="train", cause="requested", outcome="preempted")
    assert requeued.not_before == 0
    story.expect("JobPlaced", job="train", attempt=2)
    assert (story.job("train").evictions, story.job("train").failures) == (1, 0)


def test_evicting_a_job_that_has_not_started_drops_its_reservation(story):
    running(story, "one", "two")
    story.submit("next", gpus=8, cls="interactive")
    story.propose()
    assert story.job("next").phase == "reserved"
    story.evict("next")
    story.expect("ReservationDropped", job="next", reason="requested")
    story.expect("EvictionCancelled", job="one")
    assert story.job("next").operator_request is None


def test_a_job_that_ends_on_eviction_is_not_requeued(story):
    story.node("n1", gpus=8)
    story.runs("once", gpus=4, on_eviction="end")
    story.evict("once")
    story.yields("once")
    story.expect("JobEnded", job="once", outcome="evicted")


def test_a_job_that_is_being_evicted_is_not_evicted_again(story):
    running(story)
    asked = {"request": story.request(), "job": "train"}
    story.cycle(JobEvictionRequested(**asked), JobCancelled(request=story.request(), job="train"))
    story.expect_only("EvictionDecided")
    story.expect("EvictionDecided", cause="cancelled")
    assert story.job("train").operator_request is None


# --- pause


def test_a_paused_job_frees_its_resources_until_it_is_resumed(story):
    running(story, "train", "other")
    story.submit("waits", gpus=4)
    story.pause("train", reason="data is being fixed")
    story.expect("EvictionDecided", job="train", cause="paused")
    story.yields("train")
    story.expect("JobRequeued", job="train", cause="paused")
    story.expect("JobStarting", job="waits")
    assert story.job("train").phase == "paused"
    assert "train" not in story.state.queue
    assert story.job("train").evictions == 0
    story.started("waits")
    story.ends("waits")
    assert story.job("train").phase == "paused"
    story.wait(HOUR)
    story.resume("train")
    story.expect("JobPlaced", job="train", attempt=2)


def test_a_resumed_job_goes_through_the_queue(story):
    running(story, "one", "two")
    story.pause("one")
    story.yields("one")
    story.runs("three", gpus=4)
    story.resume("one")
    story.expect("JobPending", job="one")
    assert story.state.queue == ["one"]


def test_a_pending_job_is_paused_at_once_and_requests_no_preemption(story):
    running(story, "one", "two")
    story.submit("urgent", gpus=8, cls="interactive")
    assert story.state.selection is not None
    story.pause("urgent")
    assert (story.job("urgent").phase, story.state.selection) == ("paused", None)
    story.resume("urgent")
    story.expect("PreemptionRequested", job="urgent")


def test_pausing_drops_a_reservation_and_its_victims_keep_running(story):
    running(story, "one", "two")
    story.submit("next", gpus=8, cls="interactive")
    story.propose()
    story.pause("next")
    story.expect("ReservationDropped", job="next", reason="paused")
    story.expect("EvictionCancelled", job="one")
    assert story.job("next").phase == "paused"


def test_a_paused_head_of_the_queue_blocks_no_other_job(tell):
    story = tell(policy(backfill="reserve"))
    running(story)
    story.submit("big", gpus=8)
    story.submit("small", gpus=4)
    story.expect("JobPending", job="small")
    story.pause("big")
    story.expect("JobPlaced", job="small")


def test_a_victim_that_is_paused_is_suspended_once_its_eviction_is_complete(story):
    running(story, "one", "two")
    story.submit("next", gpus=8, cls="interactive")
    story.propose()
    story.pause("one")
    story.expect_only()
    story.yields("one")
    story.expect("JobRequeued", job="one", cause="preemption")
    assert story.job("one").phase == "paused"


def test_a_paused_job_is_evicted_although_its_earlier_eviction_was_cancelled(story):
    running(story, "one", "two")
    story.submit("next", gpus=8, cls="interactive")
    story.propose()
    story.pause("one")
    story.cancel("next")
    story.expect("EvictionCancelled", job="one")
    story.expect("EvictionDecided", job="one", cause="paused")


def test_a_job_resumed_during_its_eviction_is_pending_afterwards(story):
    running(story)
    story.pause("train")
    story.begin("train")
    story.resume("train")
    assert story.job("train").phase == "evicting"
    story.ends("train", 85)
    story.expect("JobPlaced", job="train", attempt=2)


def test_a_paused_job_is_kept_even_if_it_ends_on_eviction(story):
    story.node("n1", gpus=8)
    story.runs("once", gpus=4, on_eviction="end")
    story.pause("once")
    story.yields("once")
    assert story.job("once").phase == "paused"


def test_a_paused_job_can_be_cancelled(story):
    running(story)
    story.pause("train")
    story.yields("train")
    story.cancel("train")
    story.expect("JobEnded", job="train", outcome="cancelled")


def test_a_paused_job_has_no_demand_for_fair_share(tell):
    story = tell(policy(projects=[{"name": "red", "quota": {"gpus": 4}}, {"name": "blue", "quota": {"gpus": 4}}]))
    story.node("n1", gpus=8)
    story.runs("there", gpus=8, project="blue")
    story.submit("train", gpus=8, project="red")
    story.pause("train")
    assert current_snapshot(story.state).usage.requested("red")[0] == 0
    story.resume("train")
    assert current_snapshot(story.state).usage.requested("red")[0] == 8000


def test_a_job_that_succeeds_within_its_grace_has_ended(story):
    running(story)
    story.pause("train")
    story.begin("train")
    story.ends("train", 0)
    story.expect("JobEnded", job="train", outcome="succeeded")


# --- drain


def test_a_drained_node_gets_no_new_tasks(story):
    story.node("n1", gpus=8)
    story.drain("n1", "graceful")
    story.submit("train", gpus=4)
    story.expect("JobPending", job="train")
    story.undrain("n1")
    story.expect("JobPlaced", job="train")


def test_under_a_graceful_drain_jobs_may_finish_until_the_deadline(story):
    running(story, "short", "long")
    story.drain("n1", "graceful", 10 * MINUTE, "new driver")
    story.expect_only()
    story.ends("short", after=MINUTE)
    story.wait(10 * MINUTE)
    story.expect("DrainDeadlineReached", node="n1")
    decided = story.expect("EvictionDecided", job="long", cause="drain", grace=150_000_000)
    assert decided.reason == "n1 is drained (graceful): new driver"
    story.yields("long")
    story.expect("JobRequeued", job="long", cause="drain")
    story.expect("JobPending", job="long")


def listens(story, job):
    """It has registered as cooperative."""
    story.cycle(*(TaskProgressed(**story.at(job, task.index), step=1) for task in story.job(job).tasks))


def test_under_a_graceful_drain_a_cooperative_job_moves_to_free_resources(story):
    running(story, "listens", "deaf")
    listens(story, "listens")
    story.node("n2", gpus=8)
    story.drain("n1", "graceful", HOUR, "new driver")
    moves = story.expect("MigrationDecided", job="listens", cause="migration")
    assert (moves.reason, [share.node for share in moves.placement]) == ("n1 is drained (graceful): new driver", [1])
    assert story.job("deaf").phase == "running"
    story.yields("listens")
    story.expect("JobStarting", job="listens")
    assert story.job("listens").evictions == 0


def test_it_moves_once_resources_are_free_or_once_it_registers_as_cooperative(story):
    running(story, "early", "late")
    listens(story, "early")
    story.drain("n1", "graceful")
    story.expect_only()
    story.node("n2", gpus=8)
    story.expect("MigrationDecided", job="early")
    assert story.job("late").phase == "running"
    listens(story, "late")
    story.expect("MigrationDecided", job="late")


def test_an_undrain_cancels_evictions_without_notice(story):
    running(story, "told", "untold")
    story.drain("n1", "quick")
    story.begin("told")
    story.undrain("n1")
    back = story.expect("EvictionCancelled", job="untold", notified=False)
    assert back.reason == "its node is no longer drained"
    assert (story.job("untold").phase, story.job("told").phase) == ("running", "evicting")
    assert story.job("untold").evictions == 0


def test_an_undrain_cancels_evictions_of_single_members_without_notice(story):
    story.node("n1", gpus=2)
    story.node("n2", gpus=2)
    story.runs("wide", gpus=1, tasks=4, min_tasks=2)
    story.drain("n2", "quick")
    story.undrain("n2")
    story.expect("EvictionCancelled", job="wide", notified=False)
    assert not any(task.eviction for task in story.job("wide").tasks)


def test_an_undrain_keeps_evictions_for_another_drained_node(story):
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("gang", gpus=8, tasks=2)
    story.drain("n1", "quick")
    story.drain("n2", "quick")
    story.undrain("n1")
    assert story.job("gang").phase == "evicting"


def test_a_graceful_drain_without_a_deadline_evicts_no_job(story):
    running(story)
    story.drain("n1", "graceful")
    story.wait(24 * HOUR)
    assert story.job("train").phase == "running"


@pytest.mark.parametrize(("mode", "grace"), [("quick", 150_000_000), ("fast", 5_000_000)])
def test_other_drain_modes_evict_at_once(story, mode, grace):
    running(story)
    story.drain("n1", mode)
    story.expect("EvictionDecided", job="train", cause="drain", grace=grace)


@pytest.mark.parametrize(("first", "second"), [("quick", "fast"), ("fast", "quick"), ("graceful", "fast"), ("fast", "graceful")])
def test_of_two_drains_under_a_gang_the_one_with_less_grace_counts(story, first, second):
    """In one cycle, since a gang that is evicted for the first keeps its grace."""
    story.node("n1", gpus=8)
    story.node("n2", gpus=8)
    story.runs("gang", gpus=8, tasks=2)
    fast = "n1" if first == "fast" else "n2"
    drains = [NodeDrained(request=story.request(), node=node, mode=mode) for node, mode in (("n1", first), ("n2", second))]
    story.cycle(*drains)
    story.expect("EvictionDecided", job="gang", grace=5_000_000, reason=f"{fast} is drained (fast)")


def test_a_deadline_shortens_the_grace(story):
    running(story)
    story.drain("n1", "quick", 10_000_000)
    story.expect("EvictionDecided", job="train", grace=10_000_000)


def test_a_second_request_replaces_the_first(story):
    running(story)
    story.drain("n1", "graceful", HOUR)
    story.drain("n1", "fast")
    story.expect("EvictionDecided", job="train", grace=5_000_000)


def test_reservations_on_a_drained_node_are_made_anew_elsewhere(story):
    story.node("n1", gpus=8)
    story.runs("low", gpus=8)
    story.submit("high", gpus=8, cls="interactive")
    story.propose()
    assert story.job("high").phase == "reserved"
    story.node("n2", gpus=8)
    story.drain("n1", "graceful")
    story.expect("ReservationDropped", job="high", reason="drain")
    story.expect("EvictionCancelled", job="low")
    placed = story.expect("JobPlaced", job="high")
    assert [share.node for share in placed.placement] == [1]


def test_an_elastic_job_continues_without_its_members_on_a_drained_node(story):
    story.node("n1", gpus=2)
    story.node("n2", gpus=2)
    story.runs("wide", gpus=1, tasks=4, min_tasks=2)
    there = [task.index for task in story.job("wide").tasks if task.node == 1]
    story.drain("n2", "quick")
    decided = story.expect("EvictionDecided", job="wide", cause="drain")
    assert decided.tasks == f"{there[0]}-{there[-1]}"
    story.yields("wide")
    story.expect("JobShrunk", job="wide", cause="drain")
    assert story.job("wide").phase == "running"


def test_a_drain_outlives_the_agent_and_its_machine(story):
    story.node("n1", gpus=8)
    story.drain("n1", "graceful", reason="memory")
    story.lost("n1")
    story.node("n1", gpus=8, boot=2)
    story.submit("train", gpus=4)
    story.expect("JobPending", job="train")
    assert story.state.nodes[0].drain.reason == "memory"


def test_a_jump_of_the_clock_moves_no_deadline(story):
    running(story)
    story.drain("n1", "graceful", HOUR)
    story.time += 2 * HOUR
    story.cycle(ClockStepped(jump=2 * HOUR))
    assert story.job("train").phase == "running"
    story.wait(HOUR)
    story.expect("DrainDeadlineReached", node="n1")


# --- migrate


def test_a_migrated_job_starts_on_its_reservation(story):
    running(story)
    story.node("n2", gpus=8)
    story.migrate("train", reason="n1 is noisy")
    decided = story.expect("MigrationDecided", job="train", reason="n1 is noisy")
    assert [share.node for share in decided.placement] == [1]
    assert story.state.nodes[1].reserved.devices
    story.submit("other", gpus=8)
    assert [share.node for share in story.expect("JobPlaced", job="other", reserved=True).placement] == [0]
    story.yields("train")
    story.expect("JobRequeued", job="train", cause="migration")
    story.expect("JobPlaced", job="train", action="migrate", attempt=2)
    story.expect("JobStarting", job="train")
    story.started("train")
    assert ([task.node for task in story.job("train").tasks], story.job("train").evictions) == ([1], 0)


def test_a_migration_uses_the_requested_node(story):
    running(story)
    story.node("n2", gpus=8)
    story.node("n3", gpus=8)
    story.migrate("train", "n3")
    assert [share.node for share in story.expect("MigrationDecided").placement] == [2]


def test_a_gang_migrates_whole_and_never_onto_its_own_resources(story):
    story.node("n1", gpus=4)
    story.node("n2", gpus=4)
    story.runs("gang", gpus=4, tasks=2)
    story.node("n3", gpus=8)
    story.migrate("gang")
    assert {share.node for share in story.expect("MigrationDecided").placement} == {2}


def test_a_migration_without_a_placement_is_refused_with_a_reason(story):
    running(story)
    story.node("n2", gpus=2)
    story.migrate("train")
    refused = story.expect("MigrationRefused", job="train")
    assert refused.reason
    assert (story.job("train").phase, story.job("train").operator_request) == ("running", None)


def test_releasing_resources_are_no_destination_for_a_migration(story):
    story.node("n1", gpus=4)
    story.runs("train", gpus=4)
    story.node("n2", gpus=4)
    story.runs("there", gpus=4)
    story.cancel("there")
    story.migrate("train")
    assert "evicting jobs" in story.expect("MigrationRefused", job="train").reason


def test_a_migration_respects_the_job_s_node_list(story):
    story.node("n1", gpus=8)
    story.runs("here", TaskGroup(gpu_milli=1000, nodes=("n1",)))
    story.node("n2", gpus=8)
    story.migrate("here")
    assert "not in the job's node list" in story.expect("MigrationRefused").reason


def test_a_migration_whose_reservation_is_lost_before_the_notice_is_cancelled(story):
    running(story)
    story.node("n2", gpus=8)
    story.migrate("train")
    story.silent("n2")
    story.expect("ReservationDropped", job="train", reason="resources-lost")
    story.expect("EvictionCancelled", job="train")
    assert story.job("train").phase == "running"


def test_a_migration_whose_reservation_is_lost_after_the_notice_requeues_the_job(story):
    running(story)
    story.node("n2", gpus=8)
    story.migrate("train")
    story.begin("train")
    story.drain("n2", "graceful")
    story.expect("ReservationDropped", job="train", reason="drain")
    story.ends("train", 85)
    story.expect("JobRequeued", job="train", cause="migration")
    placed = story.expect("JobPlaced", job="train")
    assert (placed.action, [share.node for share in placed.placement]) == ("allocate", [0])


def test_a_migrating_job_that_is_paused_loses_its_reservation(story):
    running(story)
    story.node("n2", gpus=8)
    story.migrate("train")
    story.begin("train")
    story.pause("train")
    assert story.state.nodes[1].reserved.devices == 0
    story.ends("train", 85)
    assert story.job("train").phase == "paused"


def test_a_job_that_ends_on_eviction_can_be_migrated(story):
    story.node("n1", gpus=8)
    story.runs("once", gpus=4, on_eviction="end")
    story.node("n2", gpus=8)
    story.migrate("once")
    story.yields("once")
    story.expect("JobStarting", job="once")


def test_a_job_that_fails_during_its_eviction_has_failed(story):
    running(story)
    story.node("n2", gpus=8)
    story.migrate("train")
    story.begin("train")
    story.ends("train", 3)
    story.expect("JobEnded", job="train", outcome="failed")
    assert story.state.nodes[1].reserved.devices == 0
