"""Attempts that never start: counted apart, elsewhere next time, and no victim is evicted for them twice."""

import pytest
from tests.kits.explained import sentences
from tests.kits.log_builder import DAY, HOUR, SECOND, Story
from tests.kits.story_script import play, stories

GIVEN = """
given one node
    rules {restarts: {max_start_failures: 5}, preemption: {scope: pool}, identity: {operators: [ops]}}; node n1: 8 gpus

given two nodes
    one node; node n2: 8 gpus

given low runs
    one node; runs low: 8 gpus

given urgent is refused when low has left for it
    low runs; submit urgent: interactive, 8 gpus; propose all; yields low; refuse urgent; => JobPlaced low; started low

given five attempts were refused
    one node; submit job: 4 gpus; refuse job; back_off job; refuse job; back_off job; refuse job; back_off job; refuse job
    back_off job; refuse job; back_off job; job.start_failures = 5

given low left for the growth of a gang
    two nodes; runs low: 8 gpus; submit gang: interactive, 2 x 8 gpus, min 1, elastic live; started gang 0
    propose all; yields low

given eve has urgent preempt low
    low runs; as eve; submit urgent: interactive, 8 gpus; propose

given it is cancelled while low leaves
    begin low; staged low term_sent; cancel urgent; ends low 85
"""

test_failed_starts_in_stories = stories(f"""{GIVEN}
a node that refuses a job is not offered to it again while others could take it
    two nodes; submit job: 4 gpus; refuse job; => JobRequeued job outcome=lost rule=never-started refused_by=n1 held=-
    back_off job; job.tasks.0.node = 1; started job; job.start_failures = 0

the node is offered again when its agent joins anew
    two nodes; submit job: 4 gpus; refuse job; node n1: 8 gpus
    job.refused_by = nothing; refusals = nothing; job.demand.tasks.0.excluded_nodes = nothing

on the only node it is tried again later and later, and paused after five attempts
    one node; submit job: 4 gpus; refuse job; job.not_before = now + 2s; back_off job; refuse job; job.not_before = now + 4s
    back_off job; refuse job; job.not_before = now + 8s; back_off job; refuse job; job.not_before = now + 16s; back_off job
    refuse job; job.not_before = now + 32s; back_off job; job is paused; job.losses = 0; job.failures = 0
    job.pause_reason = its last 5 attempts did not start (policy field restarts.max_start_failures)
    as ops; resume job; => JobPlaced job; job.start_failures = 0

its owner's resume gives it one more attempt when its back-off is over
    five attempts were refused
    resume job; back_off job; job is starting; refuse job; job is paused; job.start_failures = 6; job.not_before = now + 64s
    resume job; job.not_before = now + 64s; back_off job; job is starting; refuse job; job is paused; job.start_failures = 7
    job.not_before = now + 64s

a job that refuses to start costs its victim one eviction
    urgent is refused when low has left for it; back_off urgent
    propose; => PreemptionRefused explanation.excluded.*.rule~evicted-in-vain; propose all; low is running; low.evictions = 1

once an operator resumes it, it may evict the victim again
    urgent is refused when low has left for it; pause urgent; as ops; resume urgent; spared = nothing; propose all
    low is evicting

an operator's pause is the only hold of a job that does not start meanwhile
    # so the owner's resume in a log from before LOGIC 8, when operators had no hold of their own, still ends all there is
    rules {{restarts: {{max_start_failures: 1}}, identity: {{operators: [ops]}}}}; node n1: 8 gpus; submit job: 8 gpus
    as ops; pause job; refuse job; => JobRequeued job held~"did not start"; as eve; resume job; job is pending
    job.holds = nothing

a resume may say that nothing has changed
    urgent is refused when low has left for it; pause urgent; resume urgent keep_failed_starts=true; propose all
    urgent.start_failures = 1; low is running

a node that says its GPU is in use costs each victim one eviction
    low runs; submit urgent: interactive, 8 gpus; propose all; yields low
    report TaskStartRefused urgent reason="its GPU is in use" in_use=true; low is starting; started low; +600s; tick; propose all
    low is running; urgent.start_failures = 0

an exit before the start counts as a start that failed
    one node; submit job: 4 gpus; report TaskExited job exit_code=-9 unobserved=true reason="no node admits its pod"
    report TaskReleased job; job.start_failures = 1

a grown gang that is scaled down before its new tasks start evicts nobody twice
    low left for the growth of a gang; scale gang 1; ends gang 85 task=1; started low; scale gang 2; wait 600s; propose all
    low is running

a grown gang whose new tasks never start evicts nobody twice
    low left for the growth of a gang; refuse gang; started low; back_off gang; propose all; low is running; low.evictions = 1

a job that runs for longer than the longest back-off was evicted for of use
    eve has urgent preempt low; yields low; started urgent; wait 64s; ends urgent 1; cancel urgent; spared = nothing

short urgent jobs that succeed evict for use and wait for nothing
    low runs; as eve; submit a: interactive, 8 gpus; propose; yields low; started a; ends a after=1000000; started low
    submit b: interactive, 8 gpus; propose; yields low; started b; ends b after=1000000; started low
    submit c: interactive, 8 gpus; propose; yields low; started c; ends c after=1000000; started low
    low.evictions = 3; spared = nothing

what jobs do to others of their own verified owner is spared by none
    one node; as eve; submit low: 8 gpus; started low; submit urgent: interactive, 8 gpus; propose; yields low; cancel urgent
    yields urgent; urgent is cancelled; spared = nothing

who is not verified counts as one
    low runs; submit urgent: interactive, 8 gpus; propose; it is cancelled while low leaves; started low
    submit again: interactive, 8 gpus, user another; propose all; low is running

a victim that stays after all was not evicted in vain
    eve has urgent preempt low; cancel urgent; low is running; spared = nothing

who pauses its own preemptor spares for the same time as with a new job
    eve has urgent preempt low; yields low; started urgent; wait 1s; pause urgent; yields urgent; started low
    spared.user eve.low.until = now + 64s; resume urgent; propose all; low is running; wait 63s; propose all; low is running
    wait 1s; propose all; low is evicting

a job that ran for long and ends right after it has grown spares who left for that
    two nodes; as eve; submit gang: interactive, 8 gpus, min 1, elastic live; started gang 0; as nobody
    runs low: 8 gpus; wait 1h; as eve; scale gang 2 1; propose; yields low; started gang 1; cancel gang; yields gang
    spared.user eve = low

a clock that steps neither ends nor extends it
    eve has urgent preempt low; it is cancelled while low leaves; spared.user eve.low.until = now + 64s; clock steps 1h
    spared.user eve.low.until = now + 64s

whom a job evicted hours before it migrated was not evicted in vain when it ends soon after
    eve has urgent preempt low; yields low; started urgent; wait 10h; node n2: 8 gpus; node n3: 8 gpus; as ops; migrate urgent
    yields urgent; urgent.victims = nothing; started urgent; ends urgent 1 after=1000000; urgent is failed; spared = nothing
    urgent.victims_in_vain = nothing
""")


@pytest.mark.parametrize(("ran", "evictions"), [(0, 1), (63 * SECOND, 1), (64 * SECOND, 3)])
def test_a_job_that_fails_at_once_costs_its_victim_one_eviction_too(ran: int, evictions: int):
    """It fails three times; one that has run longer than the longest back-off may have lost real work, and evicts again."""
    story = play("low runs; submit urgent: interactive, 8 gpus, max_failures 5", given=GIVEN)
    for _ in range(3):
        story.propose_all()
        if story.job("low").phase == "evicting":
            story.yields("low")
        if story.job("urgent").phase == "starting":
            story.started("urgent")
            story.ends("urgent", 127, after=ran)
        if story.job("low").phase == "starting":
            story.started("low")
        story.back_off("urgent")
    assert (story.job("low").evictions, story.job("low").phase) == (evictions, "running")


OF_ITS_OWNER = {
    "pause and resume": "pause urgent; resume urgent",
    "another class": "fact JobPriorityClassChanged job=urgent priority_class=interactive",
    "another size": "scale urgent 2 1; scale urgent 1 1",
}


@pytest.mark.parametrize("actor", ["nobody", "eve", "ada"])
@pytest.mark.parametrize("change", OF_ITS_OWNER.values(), ids=OF_ITS_OWNER)
def test_whatever_its_owner_changes_it_evicts_nobody_twice_before_it_has_run(change: str, actor: str):
    left = f"low runs; as {actor}; submit urgent: inference, 8 gpus; propose all; yields low; refuse urgent; started low"
    play(left, change, "back_off urgent; propose all; low is running; low.evictions = 1", given=GIVEN)


REFUSED = "report TaskStartRefused job reason=gone"


@pytest.mark.parametrize("ends", ["lost n1", "vanished job 0", f"{REFUSED} was_started=true", f"{REFUSED} in_use=true"])
def test_a_loss_that_is_not_the_fault_of_the_job_is_no_failed_start(ends: str):
    play("two nodes; submit job: 4 gpus", ends, "job.start_failures = 0; job.losses = 1", given=GIVEN)


def test_a_gang_that_grows_and_shrinks_at_once_spares_for_a_time_who_left_for_it():
    begin = "two nodes; submit gang: interactive, 8 gpus, min 1, elastic live; started gang 0; runs low: 8 gpus; wait 1h"
    story = play(begin, given=GIVEN)

    def settles() -> None:
        story.propose_all()
        if story.job("low").phase == "evicting":
            story.yields("low")
        for name in ("gang", "low"):
            story.started(name)

    for _ in range(3):
        story.scale("gang", 2, 1)
        settles()
        story.wait(SECOND)
        story.scale("gang", 1, 1)
        story.ends("gang", 85, task=1)
        settles()
    assert (story.job("low").phase, story.job("low").evictions) == ("running", 1)
    story.wait(HOUR)
    story.scale("gang", 2, 1)
    settles()
    assert story.job("low").evictions == 2


WAYS = {
    "cancelled while its victim leaves": "it is cancelled while low leaves",
    "cancelled before it starts": "yields low; cancel urgent; yields urgent",
    "cancelled at once": "yields low; started urgent; wait 1s; cancel urgent; yields urgent",
    "failed at once": "yields low; started urgent; wait 1s; ends urgent 127; cancel urgent",
    "yielded at once": "yields low; started urgent; wait 1s; ends urgent 85; cancel urgent",
    "stopped at its own limit": "yields low; started urgent; wait 10s; yields urgent",
    "its reservation expired": "begin low; wait 1h; ends low 85; cancel urgent; yields urgent",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("user", ["eve", "ada"])
def test_other_jobs_of_its_owner_spare_who_left_for_it_in_vain_and_nobody_else_s_do(way: str, user: str):
    urgent = "low runs; as eve; submit urgent: interactive, 8 gpus, run_time_limit 10s; propose"
    again = f"started low; low is running; as {user}; submit again: interactive, 8 gpus; propose all"
    story = play(urgent, way, again, given=GIVEN)
    if user == "ada":
        assert story.job("low").phase == "evicting"
        return
    (said,) = (text for text in sentences(story, "again") if "It spares low until" in text)
    assert "it was evicted in vain for jobs of eve (rule evicted-in-vain)" in said
    story.pause("again")
    assert not any("It spares" in text for text in sentences(story, "again")), "that is not why it is paused"
    story.resume("again")
    until = story.state.spared["user eve"]["low"].until
    while story.time < until:
        assert story.job("low").phase == "running"
        story.wait(SECOND)
        story.propose_all()
    assert story.job("low").phase == "evicting", "its time is over"


def test_users_without_a_verified_name_are_told_that_they_count_as_one():
    urgent = "low runs; submit urgent: interactive, 8 gpus; propose; yields low; cancel urgent; yields urgent"
    story = play(urgent, "started low; low is running; submit again: interactive, 8 gpus; propose all", given=GIVEN)
    said = sentences(story, "again")
    assert any("It spares low until" in text and "for jobs of users whose names are not verified" in text for text in said)
    assert any(text.startswith("These users count as one") for text in said)


def test_after_a_day_without_a_further_time_it_begins_anew_and_what_is_older_is_forgotten():
    story = play("two nodes; runs low: 8 gpus; runs other: 8 gpus", given=GIVEN)
    for number, user in enumerate(("ada", "eve", "eve")):
        play(f"as {user}; submit urgent-{number}: interactive, 8 gpus; propose", story=story)
        victim = next(name for name in ("low", "other") if story.job(name).phase == "evicting")
        play(f"yields {victim}; cancel urgent-{number}; yields urgent-{number}; started {victim}", story=story)
        entry = next(iter(story.state.spared[f"user {user}"].values()))
        assert (len(story.state.spared), entry.times) == (1, 1)
        story.wait(DAY + 65 * SECOND)


def test_each_further_time_it_is_spared_for_twice_as_long_up_to_an_hour():
    story = play("low runs; as eve", given=GIVEN)
    for number, spared in enumerate((64, 128, 256, 512, 1024, 2048, 3600, 3600)):
        left = (
            f"begin low; staged low term_sent; cancel urgent-{number}; ends low 85; spared.user eve.low.until = now + {spared}s"
        )
        play(f"submit urgent-{number}: interactive, 8 gpus; propose; {left}; started low; wait {spared}s", story=story)
    once_more = "wait 8d; submit urgent: interactive, 8 gpus; propose; it is cancelled while low leaves"  # as long as it is kept
    play(once_more, "spared.user eve.low.times = 1; cancel low; yields low; spared = nothing", given=GIVEN, story=story)


OF_OTHERS = ("cancel urgent", "pause urgent", "evict urgent", "drain n1 fast", "lost n1", "breaks n1 0")
WHEN = {"reserved": "", "starting": "ends low 85", "running": "ends low 85; started urgent"}


def left(story: Story) -> Story:
    """Both jobs have ended, as far as they run."""
    for name in ("low", "urgent"):
        story.ends(name, 85)
    return story


@pytest.mark.parametrize("when", WHEN.values(), ids=WHEN)
@pytest.mark.parametrize("ends", OF_OTHERS)
def test_its_owner_spares_nobody_for_what_others_ended(ends: str, when: str):
    story = left(play("eve has urgent preempt low; begin low; staged low term_sent", when, "as ops", ends, given=GIVEN))
    assert (story.state.spared, story.job("urgent").victims_in_vain) == ({}, ())


@pytest.mark.parametrize("when", WHEN.values(), ids=WHEN)
def test_who_preempts_a_job_that_has_not_run_answers_for_all_who_left_for_it(when: str):
    """And two who work together gain nothing: neither may the second evict another such job of the first, until it has run."""
    begun = "eve has urgent preempt low; begin low; staged low term_sent"
    story = left(play(begun, when, "as mal; submit first: inference, 8 gpus; propose all", given=GIVEN))
    play("cancel urgent; first is starting; cancel first; yields first", story=story)
    assert {owner: list(jobs) for owner, jobs in story.state.spared.items()} == {"user mal": ["low"]}
    again = "started low; as eve; submit again: interactive, 8 gpus; propose; yields low; started again"
    play(again, "as mal; submit second: inference, 8 gpus", story=story)
    for _ in range(63):
        play("propose all; again is running; wait 1s", story=story)
    play("propose all; wait 2s; propose all; again is evicting", story=story)  # it has run: who left for it left for something


def test_a_job_that_grows_again_and_again_keeps_no_account_of_those_that_left_for_it_long_ago():
    story = play(
        "two nodes; as eve; submit gang: interactive, 8 gpus, min 1, elastic live; started gang 0; as nobody", given=GIVEN
    )
    for number in range(3):
        low = f"low-{number}"
        play(f"scale gang 1 1; ends gang 85 task=1; runs {low}: 8 gpus; wait 1h; scale gang 2 1; propose", story=story)
        play(f"yields {low}; started gang 1; gang.victims = {low}; wait 1h; cancel {low}", story=story)
