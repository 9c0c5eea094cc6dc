"""Gangs that run with fewer members than they ask for: they grow, shrink one by one, and never lose a part of their core."""

import pytest
from tests.log_builder import HOUR, MINUTE, SECOND, policy

from bailiff_core.model.demand import TaskGroup


def elastic(story, gpus=8, size=8, least=4):
    """`wide` runs on as many of `size` one-GPU tasks as the node takes, at least `least`."""
    story.node("n1", gpus=gpus)
    story.runs("wide", gpus=1, tasks=size, min_tasks=least)


def test_it_starts_with_the_tasks_that_fit_and_waits_for_more(story):
    elastic(story, gpus=6)
    assert story.members("wide", "running") == [0, 1, 2, 3, 4, 5]
    assert story.state.queue == ["wide"]


def test_below_its_minimum_the_whole_job_is_pending(story):
    story.node("n1", gpus=3)
    story.submit("wide", gpus=1, tasks=8, min_tasks=4)
    story.expect("JobPending", job="wide")
    assert story.members("wide") == []


def test_it_grows_in_the_same_attempt_when_resources_are_free(story):
    elastic(story, gpus=6)
    began = story.job("wide").last_start
    story.node("n2", gpus=8)
    assert [grown.placement[0].tasks for grown in story.decisions("JobGrown")][-2:] == ["6", "7"]
    story.started("wide", after=MINUTE)
    job = story.job("wide")
    assert (job.phase, job.attempt, job.last_start) == ("running", 1, began)
    assert story.members("wide", "running") == list(range(8))
    assert story.state.queue == []


def test_surplus_is_evicted_before_any_core_and_the_job_continues(story):
    elastic(story)
    story.submit("demo", gpus=2, cls="interactive")
    story.propose()
    decided = story.expect("PreemptionDecided")
    assert [(choice.job, choice.tasks) for choice in decided.victims] == [("wide", "6-7")]
    assert story.job("wide").phase == "running"
    story.yields("wide")
    shrunk = story.expect("JobShrunk", job="wide")
    assert (shrunk.tasks, shrunk.outcome, shrunk.cause) == ("6-7", "preempted", "preemption")
    assert shrunk.lost_gpu_ms == 2 * 60_000
    story.expect("JobStarting", job="demo")
    assert story.members("wide") == [0, 1, 2, 3, 4, 5]
    story.started("demo")
    story.ends("demo")
    assert story.members("wide") == list(range(8))


def test_at_its_minimum_it_is_evicted_whole(story):
    elastic(story)
    story.submit("demo", gpus=5, cls="interactive")
    story.propose()
    assert [choice.tasks for choice in story.expect("PreemptionDecided").victims] == [""]
    assert story.job("wide").phase == "evicting"
    assert story.state.queue == []


def test_evicted_surplus_that_exits_with_an_error_does_not_fail_the_job(story):
    elastic(story)
    story.submit("demo", gpus=1, cls="interactive")
    story.propose()
    story.yields("wide", code=1)
    assert story.expect("JobShrunk", job="wide").outcome == "preempted-unclean"
    assert story.job("wide").phase == "running"


def test_surplus_lost_with_its_machine_only_shrinks_the_job(story):
    elastic(story, gpus=6)
    story.node("n2", gpus=2)
    story.started("wide")
    story.lost("n2")
    shrunk = story.expect("JobShrunk", job="wide")
    assert (shrunk.tasks, shrunk.outcome, shrunk.cause) == ("6-7", "lost", "exit")
    assert story.job("wide").phase == "running"
    story.node("n3", gpus=1)
    assert story.members("wide") == [0, 1, 2, 3, 4, 5], "it grows again only after a while"
    story.wait(MINUTE)
    assert story.members("wide") == [0, 1, 2, 3, 4, 5, 6]


def test_a_core_member_lost_stops_the_gang(story):
    story.node("n1", gpus=4)
    story.node("n2", gpus=2)
    story.runs("wide", gpus=1, tasks=6, min_tasks=5)
    story.lost("n2")
    story.expect("EvictionDecided", job="wide", cause="gang-failure", tasks="")


def test_a_member_that_fails_stops_the_gang_surplus_or_not(story):
    elastic(story)
    story.exits("wide", 1, task=7)
    story.expect("EvictionDecided", job="wide", cause="gang-failure", tasks="")


def test_with_a_grace_for_stale_gangs_it_may_get_another_member(tell):
    story = tell(policy(protections={"stale_gang": 60 * SECOND}))
    story.node("n1", gpus=2)
    story.node("n2", gpus=1)
    story.runs("gang", gpus=1, tasks=3)
    story.lost("n2")
    story.expect("JobShrunk", job="gang", tasks="0", outcome="lost")
    assert story.job("gang").stale_since == story.state.now
    story.node("n3", gpus=1)
    story.wait(30 * SECOND)
    story.expect("JobGrown", job="gang")
    assert story.job("gang").stale_since is None


def test_a_stale_gang_is_evicted_when_its_grace_is_over(tell):
    story = tell(policy(protections={"stale_gang": 60 * SECOND}))
    story.node("n1", gpus=2)
    story.node("n2", gpus=1)
    story.runs("gang", gpus=1, tasks=3)
    story.lost("n2")
    story.wait(MINUTE)
    story.expect("EvictionDecided", job="gang", cause="stale-gang")


def test_pending_growth_does_not_stop_the_job(story):
    story.node("n1", gpus=4)
    story.runs("short", gpus=2)
    story.runs("wide", gpus=1, tasks=4, min_tasks=2)
    story.exits("short")
    story.expect("JobGrown", job="wide", reserved=True)
    assert story.job("wide").phase == "running"
    assert story.members("wide", "reserved") == [2, 3]
    story.releases("short")
    story.expect("JobStarting", job="wide", tasks="2-3")
    assert story.members("wide", "starting") == [2, 3]


def test_no_task_joins_a_gang_without_members(story):
    """Found by the simulation: the promised member was started although the one that it was to join had just failed."""
    story.node("n1", gpus=3)
    story.runs("short", gpus=2)
    story.runs("wide", gpus=1, tasks=3, min_tasks=1, max_failures=3)
    story.exits("short")
    story.expect("JobGrown", job="wide", reserved=True)
    story.exits("wide", code=1, task=0)
    story.releases("short")
    assert story.members("wide", "reserved") == [1, 2]
    story.releases("wide", task=0)
    story.expect("JobRequeued", job="wide", attempt=1, outcome="failed")
    story.wait(MINUTE)
    story.expect("JobPlaced", job="wide", attempt=2)


def test_a_reservation_for_growth_is_lost_with_its_node(story):
    story.node("n1", gpus=2)
    story.node("n2", gpus=2)
    story.runs("wide", gpus=1, tasks=4, min_tasks=2)
    story.cancel("wide")
    story.yields("wide")
    story.runs("short", gpus=2)
    story.runs("tall", gpus=1, tasks=4, min_tasks=2)
    story.exits("short")
    where = story.state.nodes[story.job("tall").task(2).node].name
    story.silent(where)
    story.expect("ReservationDropped", job="tall", reason="resources-lost", tasks="2-3")
    assert story.members("tall") == [0, 1]


def test_it_succeeds_when_all_started_members_have(story):
    elastic(story, gpus=6)
    story.exits("wide", task=5)
    assert story.state.queue == [], "a gang of which a member has finished does not grow"
    story.releases("wide")
    story.ends("wide")
    assert story.job("wide").phase == "succeeded"


def test_a_member_whose_eviction_is_cancelled_keeps_running(story):
    elastic(story)
    story.submit("demo", gpus=2, cls="interactive")
    story.propose()
    story.begin("wide")
    story.cancel("demo")
    assert story.expect("EvictionCancelled", job="wide").tasks == "6-7"
    story.eviction_cancelled("wide", task=6)
    assert story.job("wide").task(6).eviction is None
    story.cancel_eviction_refused("wide", task=7)
    story.exits("wide", 85, task=7)
    story.releases("wide")
    assert story.expect("JobShrunk", job="wide").tasks == "7"
    story.expect("JobGrown", job="wide")


def test_an_eviction_cancelled_before_its_notice_changes_nothing(story):
    elastic(story)
    story.submit("demo", gpus=2, cls="interactive")
    story.propose()
    story.cancel("demo")
    assert not story.expect("EvictionCancelled", job="wide", tasks="6-7").notified
    assert all(task.eviction is None for task in story.job("wide").tasks)


def test_members_whose_eviction_is_overdue_are_stuck_and_not_counted_on(story):
    elastic(story)
    story.submit("demo", gpus=2, cls="interactive")
    story.propose()
    story.begin("wide")
    story.wait(HOUR)
    assert story.job("wide").phase == "running"
    assert [stuck.tasks for stuck in story.decisions("EvictionStuck")] == ["6-7"]


@pytest.mark.parametrize("code", [0, 85])
def test_the_whole_job_is_evicted_while_some_members_are_being_evicted(story, code):
    elastic(story)
    story.submit("demo", gpus=2, cls="interactive")
    story.propose()
    story.begin("wide")
    story.cancel("wide")
    story.expect("EvictionDecided", job="wide", cause="cancelled", tasks="")
    story.yields("wide", code=code)
    assert story.job("wide").phase in ("cancelled", "succeeded")


def test_task_groups_grow_in_their_declared_order(story):
    story.node("n1", gpus=2)
    workers = (TaskGroup(count=1, gpu_milli=1000), TaskGroup(count=3, gpu_milli=1000, order=1))
    story.runs("mixed", *workers, min_tasks=2)
    assert story.members("mixed") == [1, 2]
