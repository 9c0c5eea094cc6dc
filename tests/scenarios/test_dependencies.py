"""Jobs that wait for others (`submit --after`)."""

from datetime import UTC, datetime

import pytest
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy
from tests.kits.story_script import play

from bailiff.client.errors import ClientError
from bailiff.client.job_parser import job_from
from bailiff.render.serializers.jobs import job_rows
from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.admission.submission import FURTHEST_BEGIN
from bailiff_core.decision_cycle import wake_at
from bailiff_core.explain.dependencies import dependency_sentences
from bailiff_core.explain.job import explain_job
from bailiff_core.model.demand import Dependency
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob


def submit_after(story: Story, job: str, *jobs: str, until: str = "succeeded", **requested: object) -> None:
    """Submit a job that waits for these."""
    named = tuple(Dependency.model_validate({"job": name, "until": until}) for name in jobs)
    story.cycle(story.submitted(job, after=named, **requested))


def one_node(**rules: object) -> Story:
    story = Story(policy(**rules))
    story.node("n1", gpus=4)
    return story


def test_a_job_starts_after_the_jobs_that_it_waits_for_have_succeeded() -> None:
    story = one_node()
    story.runs("prep-1", gpus=1)
    story.runs("prep-2", gpus=1)
    submit_after(story, "train", "prep-1", "prep-2", gpus=1)
    assert story.phases()["train"] == "waiting"
    story.ends("prep-1", after=HOUR)
    assert story.phases()["train"] == "waiting"
    play("+1h; ends prep-2; => DependenciesMet train; => JobPlaced train", story=story)
    assert story.job("train").queued_since == story.state.now, "its waiting time counts from when it may start"
    story.holds()


def test_one_that_had_to_succeed_and_did_not_cancels_those_behind_it_by_rule() -> None:
    story = one_node()
    story.runs("prep", gpus=1, max_failures=0)
    submit_after(story, "train", "prep", gpus=1)
    submit_after(story, "test", "train", gpus=1)
    submit_after(story, "report", "test", until="ended", gpus=1)
    submit_after(story, "clean", "prep", until="ended", gpus=1)
    story.ends("prep", code=1, after=HOUR)
    ended = {decision.job: decision for decision in story.decisions("JobEnded")}
    assert ended["train"].outcome == "cancelled"
    assert ended["train"].reason == "prep, which had to succeed before it, did not (rule dependency-failed)"
    assert "train" in ended["test"].reason
    assert story.phases()["report"] == story.phases()["clean"] == "starting", "their jobs have ended, which is all they need"
    assert story.state.dependents == {}
    story.holds()


def test_a_dependency_that_ended_before_the_submission_is_met_at_once() -> None:
    story = one_node()
    story.runs("prep", gpus=1)
    story.ends("prep")
    submit_after(story, "train", "prep", gpus=1)
    assert story.phases()["train"] == "starting"
    story.holds()


def test_a_waiting_job_takes_no_place_in_the_queue_and_blocks_no_backfill() -> None:
    story = one_node(backfill="reserve")
    story.runs("prep", gpus=1)
    submit_after(story, "wide", "prep", gpus=4, cls="inference")
    story.submit("small", gpus=2, cls="train", after=SECOND)
    assert story.phases() == {"prep": "running", "wide": "waiting", "small": "starting"}
    assert not story.job("small").backfilled, "nobody was ahead of it"
    assert story.state.queue == []


def test_its_time_limits_of_waiting_begin_when_it_may_start() -> None:
    story = one_node(protections={"schedule_timeout": {"after": "10m", "action": "fail"}})
    story.runs("prep", gpus=4)
    submit_after(story, "train", "prep", gpus=4)
    story.wait(HOUR)
    assert story.phases()["train"] == "waiting"
    story.submit("next", gpus=4, cls="inference", after=MINUTE)
    story.ends("prep", after=MINUTE)
    assert story.phases()["next"] == "starting"
    assert story.phases()["train"] == "pending"
    story.wait(11 * MINUTE)
    assert story.phases()["train"] == "failed"


def test_it_can_be_paused_and_cancelled_while_it_waits() -> None:
    story = one_node()
    story.runs("prep", gpus=1)
    for name in ("one", "two", "three"):
        submit_after(story, name, "prep", gpus=1)
    play("cancel one; pause two; pause three; resume three", story=story)
    assert story.phases() == {"prep": "running", "one": "cancelled", "two": "waiting", "three": "waiting"}
    story.ends("prep")
    assert story.phases() == {"prep": "succeeded", "one": "cancelled", "two": "paused", "three": "starting"}
    story.resume("two")
    assert story.phases()["two"] == "starting"
    story.holds()


def test_a_preempted_or_restarted_dependency_has_not_ended() -> None:
    story = one_node()
    story.runs("prep", gpus=1, max_failures=3)
    submit_after(story, "train", "prep", until="ended", gpus=1)
    story.ends("prep", code=1, after=MINUTE)
    assert story.phases()["train"] == "waiting", "prep is tried again"
    play("wait 1h; started prep; ends prep", story=story)
    assert story.phases()["train"] == "starting"
    story.holds()


def test_of_an_array_that_it_waits_for_the_first_are_named_and_the_others_counted() -> None:
    story = one_node()
    story.runs("sweep-0", gpus=4)
    names = [f"sweep-{index}" for index in range(1, 100)]
    for name in names:
        story.submit(name, gpus=4)
    submit_after(story, "collect", "sweep-0", *names, gpus=1)
    texts = [sentence.text for sentence in dependency_sentences(story.state, story.state.jobs["collect"])]
    assert texts[:3] == [
        "It waits for sweep-0, sweep-1, sweep-2, sweep-3, sweep-4 and 95 more to succeed.",
        "sweep-0 is running.",
        "sweep-1, sweep-2, sweep-3, sweep-4, sweep-5 and 94 more are pending.",
    ]


def test_explain_and_list_say_what_it_waits_for() -> None:
    story = one_node()
    story.runs("prep", gpus=1)
    story.runs("load", gpus=1)
    submit_after(story, "train", "prep", gpus=1)
    submit_after(story, "clean", "prep", "load", until="ended", gpus=1)
    sections = {section.question: section for section in explain_job(story.state, story.job("train"), story.records)}
    texts = [sentence.text for sentence in sections["What does it wait for?"].sentences]
    assert texts[0] == "It waits for prep to succeed."
    assert texts[1] == "prep is running."
    assert "rule dependency-failed" in texts[2]
    assert "Why is it pending?" not in sections
    rows = {row["job"]: row for row in job_rows(story.state, story.time)}
    assert (rows["train"]["state"], rows["train"]["note"], rows["train"]["jobs_ahead"]) == (
        "waiting",
        "waits for prep to succeed",
        None,
    )
    assert rows["clean"]["note"] == "waits for prep and load to end"
    story.ends("prep", code=0, after=MINUTE)
    rows = {row["job"]: row for row in job_rows(story.state, story.time + MINUTE)}
    assert rows["train"]["state"] == "starting"
    assert rows["train"]["pending_s"] == 60, "counted from when it joined the queue"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("prep", [("prep", "succeeded")]),
        (["prep", "load:ended"], [("prep", "succeeded"), ("load", "ended")]),
        ({"job": "prep", "until": "ended"}, [("prep", "ended")]),
    ],
)
def test_a_job_file_names_the_jobs_to_wait_for(given: object, read: list[tuple[str, str]]) -> None:
    request = job_from({"name": "train", "gpus": 1, "command": "true", "after": given})
    assert [(each.job, each.until) for each in request.demand.after] == read


def test_a_job_file_that_waits_for_nonsense_is_refused() -> None:
    with pytest.raises(ClientError, match="expected JOB, JOB:succeeded or JOB:ended"):
        job_from({"name": "train", "gpus": 1, "command": "true", "after": "prep:soon"})


def test_a_job_is_not_in_the_queue_before_its_begin_and_starts_at_that_moment() -> None:
    story = one_node(backfill="reserve")
    begin = story.time + 8 * HOUR
    story.cycle(story.submitted("night", gpus=4, cls="inference", begin=begin))
    story.runs("small", gpus=1)
    assert story.phases()["night"] == "waiting"
    assert not story.job("small").backfilled, "it is ahead of nobody"
    assert {row["job"]: row["note"] for row in job_rows(story.state, story.time)}["night"].startswith("waits until ")
    story.ends("small", after=HOUR)
    assert wake_at(story.state) == begin
    story.wait(begin - story.time - 1)
    assert story.phases()["night"] == "waiting"
    story.wait(1)
    assert story.phases()["night"] == "starting"
    assert story.job("night").queued_since == begin
    story.holds()


@pytest.mark.parametrize("first", ["its begin", "the end of the job before it"])
def test_a_job_with_a_begin_and_a_dependency_waits_for_both(first: str) -> None:
    story = one_node()
    story.runs("prep", gpus=1)
    submit_after(story, "train", "prep", gpus=1, begin=story.time + HOUR)
    if first == "its begin":
        story.wait(2 * HOUR)
        assert story.phases()["train"] == "waiting"
        story.ends("prep")
    else:
        story.ends("prep")
        assert story.phases()["train"] == "waiting"
        story.wait(HOUR)
    assert story.phases()["train"] == "starting"
    story.holds()


def test_a_begin_that_has_passed_delays_nothing() -> None:
    story = one_node()
    story.wait(HOUR)
    story.cycle(story.submitted("late", gpus=1, begin=story.time))
    assert story.phases()["late"] == "starting"


def test_a_job_that_waits_for_its_begin_can_be_paused_and_cancelled() -> None:
    story = one_node()
    for name in ("one", "two"):
        story.cycle(story.submitted(name, gpus=1, begin=story.time + HOUR))
    play("cancel one; pause two", story=story)
    story.wait(2 * HOUR)
    assert story.phases() == {"one": "cancelled", "two": "paused"}
    story.resume("two")
    assert story.phases()["two"] == "starting"
    story.holds()


@pytest.mark.parametrize(("ahead", "admitted"), [(FURTHEST_BEGIN, True), (FURTHEST_BEGIN + 1, False)])
def test_no_job_waits_for_longer_than_a_year(ahead: int, admitted: bool) -> None:
    story = one_node()
    body = SubmitJob(demand=story.submitted("far", gpus=1, begin=story.state.now + ahead).demand, spec=JobSpec(command="true"))
    found = admit(Context(story.state, PERMITTED, story.request()), body)
    assert isinstance(found, Rejected) != admitted
    if isinstance(found, Rejected):
        assert (found.code, found.text) == ("malformed", "begin: more than 366d from now")


@pytest.mark.parametrize(
    "given",
    [
        "2026-12-24T08:00:00Z",
        "2026-12-24 08:00",
        "2026-12-24T09:00+01:00",
        1_798_099_200_000_000,
        datetime(2026, 12, 24, 8, tzinfo=UTC),
    ],
)
def test_a_job_file_says_when_a_job_begins_in_any_time_zone(given: object) -> None:
    assert job_from({"name": "train", "command": "true", "begin": given}).demand.begin == 1_798_099_200_000_000


@pytest.mark.parametrize("given", ["tomorrow", "", -1, 2**53, True, [8], "0001-01-01T00:00Z"])
def test_a_begin_that_is_no_time_is_refused(given: object) -> None:
    with pytest.raises(ClientError, match="begin: expected"):
        job_from({"name": "train", "command": "true", "begin": given})
