"""GPUs that are reserved for a project: what is promised, who may start before, and who leaves when."""

from typing import Any

import pytest
from tests.kits.log_builder import HOUR, MINUTE, NEW_YEAR, SECOND, Story, policy

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.calendar.windows import DAY, begins_of, weekday_of
from bailiff_core.explain.not_placed import what_it_lacks
from bailiff_core.explain.reservations import reserved_for_it, stays_until
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.policy import Policy
from bailiff_core.permissions import Requester
from bailiff_core.records import facts
from bailiff_core.views import reservation_views

PROJECTS = [
    {"name": "demo", "admins": ["ann"]},
    {"name": "other", "quota": {"gpus": 8}},
    {"name": "org"},
    {"name": "vision", "parent": "org"},
]
LEAD = 210 * SECOND  # the default grace and margin


def rules(**parts: Any) -> Policy:
    return policy(**{"projects": PROJECTS, "preemption": {"scope": "pool"}, **parts})


def pool(gpus: int = 8, nodes: int = 1, **parts: Any) -> Story:
    story = Story(rules(**parts))
    for number in range(nodes):
        story.node(f"n{number}", gpus=gpus)
    return story


def asked(story: Story, gpus: int = 4, begin: int = 10 * HOUR, sender: Requester = PERMITTED, **more: Any) -> Any:
    fields = {"reservation": "course", "project": "demo", "gpus": gpus, "begin": story.time + begin, "duration": 2 * HOUR}
    body = facts.ReserveGpus.model_validate({**fields, **more})
    return admit(Context(story.state, sender, story.request()), body)


def reserve(story: Story, gpus: int = 4, begin: int = 10 * HOUR, **more: Any) -> None:
    found = asked(story, gpus, begin, **more)
    assert not isinstance(found, Rejected), found
    story.cycle(found)


def code(found: Any) -> str:
    return found.code if isinstance(found, Rejected) else ""


def evicted(story: Story) -> list[tuple[str, int, int]]:
    """Who was evicted for a promise, when, and with which grace."""
    return [
        (each.data.job, each.time - NEW_YEAR, each.data.grace)
        for each in story.records
        if type(each.data).__name__ == "EvictionDecided" and each.data.cause == "reservation"
    ]


def test_the_example_of_the_documentation() -> None:
    story = pool()
    story.time = NEW_YEAR + 22 * HOUR
    story.runs("train", gpus=8, project="other")
    reserve(story, reservation="demo-1")
    (stays,) = stays_until(story.state, story.job("train"))
    assert stays.text.startswith("It is evicted at 2026-01-02 07:56 UTC if nothing else leaves: 4 GPUs are reserved")
    story.wait(10 * HOUR - LEAD - SECOND)
    assert story.job("train").phase == "running"
    story.wait(2 * SECOND)
    assert evicted(story) == [("train", 32 * HOUR - LEAD, 150 * SECOND)]
    story.yields("train", after=140 * SECOND)
    text = "4 GPUs are reserved for project demo, 2026-01-02 08:00 to 10:00 UTC (reservation demo-1)"
    assert (what_it_lacks(story.state, story.job("train")) or "").startswith(text)
    story.wait(2 * MINUTE)
    (began,) = story.decisions("ReservationBegan")
    assert (began.missing, began.begin) == (0, NEW_YEAR + 32 * HOUR)
    story.submit("practical", gpus=4, project="demo")
    story.expect("JobPlaced", job="practical", reserved=False)
    story.ends("practical")
    story.propose_all()
    story.submit("stranger", gpus=4, project="other")
    story.expect("JobPlaced", job="stranger", reserved=False)
    story.submit("another", gpus=1, project="other")
    assert story.job("another").phase == "pending", "the free GPUs are those of demo"
    story.cancel("another")
    story.ends("stranger")
    story.wait(2 * HOUR)
    (ended,) = story.decisions("ReservationEnded")
    assert ended.last
    assert story.job("train").phase == "starting"
    assert not story.state.gpu_reservations
    story.holds()


def test_jobs_that_end_before_fill_the_time_and_others_leave_what_is_promised() -> None:
    story = pool()
    reserve(story)
    story.submit("short", gpus=8, project="other", cls="build", run_time_limit=HOUR)
    story.expect("JobPlaced", job="short")
    story.ends("short")
    story.submit("long", gpus=8, project="other", cls="build", run_time_limit=10 * HOUR)
    assert story.job("long").phase == "pending"
    assert "it could not be gone by then" in (what_it_lacks(story.state, story.job("long")) or "")
    story.submit("build", gpus=4, project="other", cls="build")
    story.expect("JobPlaced", job="build")
    story.submit("more", gpus=4, project="other", cls="build")
    assert story.job("more").phase == "pending"
    story.submit("train", gpus=4, project="other")
    story.expect("JobPlaced", job="train")


def test_what_the_last_eviction_took_is_the_time_that_it_needs_to_leave() -> None:
    story = pool()
    story.runs("train", gpus=8, project="other")
    story.evict("train")
    story.begin("train")
    story.time += 20 * SECOND
    story.cycle(*[facts.TaskExited(**story.at("train", 0), exit_code=85)], facts.TaskReleased(**story.at("train", 0)))
    assert story.job("train").leaving_time == 20 * SECOND
    story.started("train")
    reserve(story)
    story.wait(10 * HOUR)
    ((job, at, grace),) = evicted(story)
    assert (job, at, grace) == ("train", 10 * HOUR + 20 * SECOND - 80 * SECOND, 50 * SECOND), (
        "it is stopped before the time begins"
    )


def test_of_those_that_can_leave_in_time_lower_priority_leaves_and_nobody_who_need_not() -> None:
    story = pool()
    story.runs("small", gpus=2, project="other")
    story.runs("large", gpus=4, project="other")
    story.runs("high", gpus=2, project="other", cls="interactive")
    reserve(story)
    story.wait(10 * HOUR - MINUTE)
    assert [name for name, _, _ in evicted(story)] == ["large"]


def test_nobody_leaves_where_enough_is_free_or_will_be() -> None:
    story = pool()
    story.runs("train", gpus=4, project="other")
    story.runs("limited", gpus=2, project="other", run_time_limit=5 * HOUR)
    reserve(story)
    story.wait(6 * HOUR)
    story.yields("limited")
    story.wait(6 * HOUR)
    assert evicted(story) == []


def test_surplus_leaves_before_whole_jobs() -> None:
    story = pool()
    story.runs("elastic", TaskGroup(count=4, gpu_milli=2000), min_tasks=1, project="other")
    story.started("elastic")
    reserve(story)
    story.wait(10 * HOUR - MINUTE)
    (decision,) = (each.data for each in story.records if getattr(each.data, "cause", "") == "reservation")
    assert decision.tasks == "2-3"


def test_jobs_of_the_project_use_what_it_was_promised_and_stay() -> None:
    story = pool()
    story.runs("own", gpus=4, project="demo")
    story.runs("train", gpus=4, project="other")
    reserve(story)
    story.wait(11 * HOUR)
    assert evicted(story) == []
    story.submit("high", gpus=4, project="other", cls="inference")
    story.propose_all()
    assert story.job("own").phase == "running"
    assert story.job("train").phase == "evicting"


def test_of_a_project_and_of_one_below_it_both_hold() -> None:
    story = pool()
    reserve(story, 4, project="vision", reservation="a")
    assert code(asked(story, 5, project="org", reservation="b")) == "not-enough-gpus"
    reserve(story, 4, project="org", reservation="b")
    story.wait(10 * HOUR)
    story.runs("v", gpus=4, project="vision")
    story.submit("other", gpus=1, project="other")
    story.propose_all()
    assert story.job("other").phase == "pending"
    story.runs("o", gpus=4, project="org")


def test_a_lost_node_is_the_excuse_on_record_and_others_leave_at_once() -> None:
    story = pool(nodes=2)
    story.runs("train", gpus=8, project="other")
    reserve(story, 8)
    story.wait(9 * HOUR)
    free = next(name for name in ("n0", "n1") if story.state.nodes[story.job("train").tasks[0].node].name != name)
    story.silent(free)
    story.lost(free)
    story.wait(HOUR)
    (began,) = story.decisions("ReservationBegan")
    assert (began.missing, began.unavailable, began.leaving) == (8, (free,), ("train",))
    story = pool(nodes=2)
    reserve(story, 8)
    story.wait(10 * HOUR)
    story.runs("train", gpus=8, project="other")
    on = story.job("train").tasks[0].node
    free = next(node.name for node in story.state.nodes.values() if node.number != on)
    story.silent(free)
    assert evicted(story) == [("train", 10 * HOUR, 150 * SECOND)]


def test_what_cannot_be_kept_is_not_promised() -> None:
    story = pool()
    assert code(asked(story, 9)) == "not-enough-gpus"
    reserve(story, 5)
    assert code(asked(story, 4, 11 * HOUR, reservation="b")) == "not-enough-gpus"
    assert code(asked(story, 8, 12 * HOUR, reservation="b")) == "", "the other is over"
    story.runs("build", gpus=2, project="other", cls="build")
    assert code(asked(story, 2, reservation="b")) == "not-enough-gpus"
    assert code(asked(story, 1, reservation="b")) == ""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"begin": -HOUR}, "malformed"),
        ({"begin": -4 * MINUTE, "duration": 2 * MINUTE}, "malformed"),
        ({"project": "nobody"}, "no-such-project"),
        ({"times": 2}, "malformed"),
        ({"repeat": "daily", "weekdays": (1,)}, "malformed"),
        ({"repeat": "daily", "times": 2, "duration": 25 * HOUR}, "malformed"),
        ({"repeat": "weekly", "times": 2, "weekdays": (1, 1)}, "malformed"),
        ({"begin": 31 * DAY}, "over-limit"),
        ({"repeat": "daily", "times": 40}, "over-limit"),
        ({"duration": 8 * DAY}, "over-limit"),
        ({"gpus": 7}, "over-limit"),
        ({"begin": 2**53 - 1 - NEW_YEAR}, "over-limit"),
        ({"reservation": "taken"}, "name-taken"),
    ],
)
def test_bounds_are_the_policys(change: dict[str, Any], expected: str) -> None:
    story = pool(reservations={"max_gpus": 6})
    reserve(story, 1, reservation="taken", project="other")
    begin = change.pop("begin", 10 * HOUR)
    assert code(asked(story, change.pop("gpus", 4), begin, **change)) == expected


def test_the_times_to_come_of_a_project_and_of_the_pool_are_bounded() -> None:
    projects = [{"name": f"p{number}"} for number in range(5)]
    story = pool(projects=projects, reservations={"ahead": 366 * DAY})
    daily = {"gpus": 1, "repeat": "daily", "duration": MINUTE}
    for project in range(4):
        for number, times in enumerate((100, 100, 50)):
            reserve(story, begin=10 * HOUR, reservation=f"{project}-{number}", project=f"p{project}", times=times, **daily)
            story.wait(MINUTE)
        assert code(asked(story, reservation="more", project=f"p{project}", **daily)) == "too-many-reservations"
    assert code(asked(story, reservation="more", project="p4", **daily)) == "too-many-reservations"
    story.wait(10 * HOUR)
    assert code(asked(story, reservation="more", project="p0", times=3, **daily)) == "", "so many are over"
    assert code(asked(story, reservation="more", project="p0", times=4, **daily)) == "too-many-reservations"
    story.holds()


def test_who_may_reserve_is_policy() -> None:
    ann, bob, ops = (Requester(name, "signed") for name in ("ann", "bob", "ops"))
    identity = {"operators": ["ops"]}
    story = pool(identity=identity)
    assert [code(asked(story, sender=each)) for each in (ops, ann, bob)] == ["", "not-permitted", "not-permitted"]
    story = pool(identity=identity, reservations={"who": ["project-admin"]})
    assert [code(asked(story, sender=each)) for each in (ops, ann, bob)] == ["", "", "not-permitted"]
    assert code(asked(story, sender=ann, project="other")) == "not-permitted"
    story = pool(identity=identity, reservations={"who": ["anyone"]})
    assert code(asked(story, sender=bob)) == ""
    reserve(story)
    for sender, expected in ((bob, ""), (ops, "")):
        body = facts.CancelReservation(reservation="course")
        assert code(admit(Context(story.state, sender, story.request()), body)) == expected
    gone = facts.CancelReservation(reservation="gone")
    assert code(admit(Context(story.state, ops, story.request()), gone)) == "no-such-reservation"


def test_a_cancelled_reservation_binds_nobody() -> None:
    story = pool()
    reserve(story)
    story.submit("build", gpus=8, project="other", cls="build")
    assert story.job("build").phase == "pending"
    story.cycle(facts.ReservationCancelled(request=story.request(), reservation="course"))
    story.expect("JobPlaced", job="build")


def test_it_is_repeated_on_weekdays_of_utc() -> None:
    monday = NEW_YEAR + 4 * DAY
    assert weekday_of(monday) == 0
    story = pool()
    reserve(story, begin=DAY, repeat="weekly", weekdays=(0, 2), times=3)
    each = story.state.gpu_reservations["course"]
    assert [(begin - NEW_YEAR) // DAY for begin in begins_of(each)] == [4, 6, 11]
    for begin in begins_of(each):
        story.wait(begin - story.time - MINUTE)
        story.submit(f"other-{begin}", gpus=8, project="other", cls="build", run_time_limit=3 * HOUR)
        assert story.job(f"other-{begin}").phase == "pending"
        story.wait(2 * HOUR + 2 * MINUTE)
        assert story.job(f"other-{begin}").phase == "starting"
        story.started(f"other-{begin}")
        story.ends(f"other-{begin}")
    assert [each.last for each in story.decisions("ReservationEnded")] == [False, False, True]
    story.holds()


def test_what_was_missed_while_no_writer_ran_is_recorded_at_once() -> None:
    story = pool()
    reserve(story, repeat="daily", times=3)
    story.restart(after=2 * DAY)
    assert [type(each).__name__ for each in story.last_decisions] == ["ReservationBegan", "ReservationEnded"] * 2
    (row,) = reservation_views(story.state)
    assert (row["times_left"], row["now"]) == (1, False)


def test_a_part_of_a_gpu_counts_as_a_whole_one() -> None:
    story = pool(gpus=2)
    reserve(story, 1)
    for name in ("a", "b"):
        story.submit(name, TaskGroup(gpu_share_milli=500), project="other", cls="build")
    assert [story.job(name).phase for name in ("a", "b")] == ["starting", "pending"]


def test_a_job_of_the_project_learns_when() -> None:
    story = pool()
    reserve(story)
    story.runs("all", gpus=8, project="other", cls="train")
    story.submit("practical", gpus=4, project="demo")
    (sentence,) = reserved_for_it(story.state, story.job("practical"))
    assert sentence.text == "4 GPUs are reserved for project demo, 2026-01-01 10:00 to 12:00 UTC (reservation course)."


def test_within_the_time_nobody_starts_on_what_others_have_yet_to_free() -> None:
    story = pool()
    reserve(story, 4)
    story.wait(10 * HOUR)
    story.runs("train", gpus=4, project="other")
    story.evict("train")
    story.begin("train")
    story.submit("next", gpus=4, project="other")
    assert story.job("next").phase == "pending", "4 GPUs are idle, and they are those of demo"
    story.submit("own", gpus=4, project="demo")
    story.expect("JobPlaced", job="own", reserved=False)


def test_who_is_being_evicted_for_longer_has_the_gpus_until_then() -> None:
    story = pool()
    story.runs("slow", gpus=4, project="other", grace=10 * MINUTE)
    story.runs("fast", gpus=4, project="other", cls="interactive")
    reserve(story, 4, 6 * MINUTE, reservation="soon")
    story.evict("slow")
    story.begin("slow")
    story.wait(6 * MINUTE)
    assert [name for name, _, _ in evicted(story)] == ["fast"], "slow may use its grace, which ends too late"


def test_what_jobs_of_the_project_leave_themselves_is_not_missing() -> None:
    story = pool()
    reserve(story, 8, begin=10 * HOUR)
    story.wait(10 * HOUR)
    story.runs("own", gpus=8, project="demo")
    story.evict("own")
    story.begin("own")
    reserve(story, 8, begin=2 * HOUR, reservation="again")
    story.wait(2 * HOUR)
    began = list(story.decisions("ReservationBegan"))
    assert [each.missing for each in began] == [0, 0]
