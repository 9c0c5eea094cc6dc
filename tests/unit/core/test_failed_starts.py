"""Attempts that never start: counted apart, elsewhere next time, and no victim is evicted for them twice."""

import pytest
from tests.kits.log_builder import DAY, HOUR, SECOND, Story, policy

from bailiff_core.explain import explain_job
from bailiff_core.model.state import ENDED
from bailiff_core.records import facts

ROOMY = policy(restarts={"max_start_failures": 5}, preemption={"scope": "pool"}, identity={"operators": ["ops"]})


def pool(*nodes: str, rules=ROOMY) -> Story:
    story = Story(rules)
    for node in nodes:
        story.node(node)
    return story


def refuse(story: Story, job: str, reason: str = "no such user") -> None:
    """Every task that is to start is refused by its node."""
    indices = story.members(job, "starting")
    story.cycle(*(facts.TaskStartRefused(**story.at(job, index), reason=reason) for index in indices))


def preempt(story: Story, victim: str) -> None:
    """The open selection is answered, and the victim leaves."""
    while story.state.selection is not None:
        story.propose()
    story.begin(victim)
    story.staged(victim, "noticed")
    story.ends(victim, 85)


def back_off(story: Story, job: str) -> None:
    story.wait(max(0, story.job(job).not_before - story.time))


def test_a_node_that_refuses_a_job_is_not_offered_to_it_again_while_others_could_take_it():
    story = pool("n1", "n2")
    story.submit("job", gpus=4)
    first = story.at("job", 0)["node"]
    refuse(story, "job")
    (requeued,) = story.decisions("JobRequeued")
    assert (requeued.outcome, requeued.rule, requeued.refused_by, requeued.held) == ("lost", "never-started", (first,), "")
    back_off(story, "job")
    assert story.at("job", 0)["node"] != first
    story.started("job")
    assert story.job("job").start_failures == 0


def test_the_node_is_offered_again_when_its_agent_joins_anew():
    story = pool("n1", "n2")
    story.submit("job", gpus=4)
    first = story.at("job", 0)["node"]
    refuse(story, "job")
    story.node(first)
    assert story.job("job").refused_by == ()
    assert not story.state.refusals
    assert story.job("job").demand.tasks[0].excluded_nodes == ()


def test_on_the_only_node_it_is_tried_again_later_and_later_and_paused_after_five_attempts():
    story = pool("n1")
    story.submit("job", gpus=4)
    waits = []
    for _ in range(5):
        refuse(story, "job")
        waits.append((story.job("job").not_before - story.time) // SECOND)
        back_off(story, "job")
    assert waits == [2, 4, 8, 16, 32]
    job = story.job("job")
    assert job.phase == "paused"
    assert job.losses == job.failures == 0
    assert job.pause_reason == "its last 5 attempts did not start (policy field restarts.max_start_failures)"
    story.actor = "ops"
    story.resume("job")
    story.expect("JobPlaced", job="job")
    assert job.start_failures == 0


def test_its_owner_s_resume_gives_it_one_more_attempt_when_its_back_off_is_over():
    story = pool("n1")
    story.submit("job", gpus=4)
    for _ in range(5):
        refuse(story, "job")
        back_off(story, "job")
    until = story.job("job").not_before
    refusals = 5
    for _ in range(3):
        story.resume("job")
        assert story.job("job").not_before == until
        back_off(story, "job")
        assert story.job("job").phase == "starting"
        refuse(story, "job")
        refusals += 1
        until = story.job("job").not_before
        assert (story.job("job").phase, story.job("job").start_failures, until - story.time) == ("paused", refusals, 64 * SECOND)


def test_a_job_that_refuses_to_start_costs_its_victim_one_eviction():
    story = pool("n1")
    story.runs("low", gpus=8)
    story.submit("urgent", gpus=8, cls="interactive")
    preempt(story, "low")
    refuse(story, "urgent")
    story.expect("JobPlaced", job="low")  # its place is free again while the other one waits
    story.started("low")
    back_off(story, "urgent")
    while story.state.selection is not None:
        (decision,) = [each for each in story.propose() if each.NAME == "PreemptionRefused"]
        assert "evicted-in-vain" in str(decision.explanation)
    assert story.job("low").phase == "running"
    assert story.job("low").evictions == 1


@pytest.mark.parametrize(("ran", "evictions"), [(0, 1), (63 * SECOND, 1), (64 * SECOND, 3)])
def test_a_job_that_fails_at_once_costs_its_victim_one_eviction_too(ran: int, evictions: int):
    """It fails three times; one that has run longer than the longest back-off may have lost real work, and evicts again."""
    story = pool("n1")
    story.runs("low", gpus=8)
    story.submit("urgent", gpus=8, cls="interactive", max_failures=5)
    for _ in range(3):
        if story.state.selection is not None and any(each.NAME == "PreemptionDecided" for each in story.propose()):
            preempt(story, "low")
        if story.job("urgent").phase == "starting":
            story.started("urgent")
            story.ends("urgent", 127, after=ran)
        if story.job("low").phase == "starting":
            story.started("low")
        back_off(story, "urgent")
    assert (story.job("low").evictions, story.job("low").phase) == (evictions, "running")


OF_ITS_OWNER = {
    "pause and resume": lambda story: (story.pause("urgent"), story.resume("urgent")),
    "another class": lambda story: story.cycle(
        facts.JobPriorityClassChanged(request=story.request(), job="urgent", priority_class="interactive")
    ),
    "another size": lambda story: (story.scale("urgent", 2, 1), story.scale("urgent", 1, 1)),
}


@pytest.mark.parametrize("actor", ["", "eve", "ada"])
@pytest.mark.parametrize("change", OF_ITS_OWNER.values(), ids=OF_ITS_OWNER)
def test_whatever_its_owner_changes_it_evicts_nobody_twice_before_it_has_run(change, actor):
    story = pool("n1")
    story.runs("low", gpus=8)
    story.actor = actor
    story.submit("urgent", gpus=8, cls="inference")
    preempt(story, "low")
    refuse(story, "urgent")
    story.started("low")
    change(story)
    back_off(story, "urgent")
    while story.state.selection is not None:
        story.propose()
    assert (story.job("low").phase, story.job("low").evictions) == ("running", 1)


def test_once_an_operator_resumes_it_it_may_evict_the_victim_again():
    story = pool("n1")
    story.runs("low", gpus=8)
    story.submit("urgent", gpus=8, cls="interactive")
    preempt(story, "low")
    refuse(story, "urgent")
    story.started("low")
    story.pause("urgent")
    story.actor = "ops"
    story.resume("urgent")
    assert not story.state.spared
    while story.state.selection is not None:
        story.propose()
    assert story.job("low").phase == "evicting"


def test_an_operator_s_pause_is_the_only_hold_of_a_job_that_does_not_start_meanwhile():
    """So the owner's resume in a log from before LOGIC 8, when operators had no hold of their own, still ends all there is."""
    story = pool("n1", rules=policy(restarts={"max_start_failures": 1}, identity={"operators": ["ops"]}))
    story.submit("job", gpus=8)
    story.actor = "ops"
    story.pause("job")
    refuse(story, "job")
    (requeued,) = story.decisions("JobRequeued")
    assert requeued.held
    story.actor = "eve"
    story.resume("job")
    assert (story.job("job").phase, story.job("job").holds) == ("pending", {})


def test_a_resume_may_say_that_nothing_has_changed():
    story = pool("n1")
    story.runs("low", gpus=8)
    story.submit("urgent", gpus=8, cls="interactive")
    preempt(story, "low")
    refuse(story, "urgent")
    story.started("low")
    story.pause("urgent")
    story.resume("urgent", keep_failed_starts=True)
    while story.state.selection is not None:
        story.propose()
    assert story.job("urgent").start_failures == 1
    assert story.job("low").phase == "running"


def test_a_node_that_says_its_gpu_is_in_use_costs_each_victim_one_eviction():
    story = pool("n1")
    story.runs("low", gpus=8)
    story.submit("urgent", gpus=8, cls="interactive")
    preempt(story, "low")
    story.cycle(facts.TaskStartRefused(**story.at("urgent", 0), reason="its GPU is in use", in_use=True))
    assert story.job("low").phase == "starting"
    story.started("low")
    story.cycle(facts.ClockAdvanced(), after=600_000_000)
    while story.state.selection is not None:
        story.propose()
    assert (story.job("low").phase, story.job("urgent").start_failures) == ("running", 0)


def test_an_exit_before_the_start_counts_as_a_start_that_failed():
    story = pool("n1")
    story.submit("job", gpus=4)
    story.cycle(facts.TaskExited(**story.at("job", 0), exit_code=-9, unobserved=True, reason="no node admits its pod"))
    story.cycle(facts.TaskReleased(**story.at("job", 0)))
    assert story.job("job").start_failures == 1


@pytest.mark.parametrize("ends", ["vanished", "was_started", "in_use", "lost"])
def test_a_loss_that_is_not_the_fault_of_the_job_is_no_failed_start(ends):
    story = pool("n1", "n2")
    story.submit("job", gpus=4)
    at = story.at("job", 0)
    if ends == "lost":
        story.lost(at["node"])
    elif ends == "vanished":
        story.cycle(facts.TaskVanished(**at))
    else:
        story.cycle(facts.TaskStartRefused(**at, reason="it was started, or its GPU is in use", **{ends: True}))
    assert (story.job("job").start_failures, story.job("job").losses) == (0, 1)


def test_a_grown_gang_that_is_scaled_down_before_its_new_tasks_start_evicts_nobody_twice():
    story = pool("n1", "n2")
    story.runs("low", gpus=8)
    story.submit("gang", gpus=8, tasks=2, min_tasks=1, cls="interactive", elastic="live")
    story.started("gang", 0)
    preempt(story, "low")
    story.scale("gang", 1)
    story.ends("gang", 85, task=1)
    story.started("low")
    story.scale("gang", 2)
    story.wait(600 * SECOND)
    while story.state.selection is not None:
        story.propose()
    assert story.job("low").phase == "running"


def test_a_grown_gang_whose_new_tasks_never_start_evicts_nobody_twice():
    story = pool("n1", "n2")
    story.runs("low", gpus=8)
    story.submit("gang", gpus=8, tasks=2, min_tasks=1, cls="interactive", elastic="live")
    story.started("gang", 0)
    preempt(story, "low")
    refuse(story, "gang")
    story.started("low")
    back_off(story, "gang")
    while story.state.selection is not None:
        story.propose()
    assert story.job("low").phase == "running"
    assert story.job("low").evictions == 1


def test_a_gang_that_grows_and_shrinks_at_once_spares_for_a_time_who_left_for_it():
    story = pool("n1", "n2")
    story.submit("gang", gpus=8, min_tasks=1, cls="interactive", elastic="live")
    story.started("gang", 0)
    story.runs("low", gpus=8)
    story.wait(HOUR)

    def settles() -> None:
        while story.state.selection is not None:
            story.propose()
        leaves(story, "low")
        for name in ("gang", "low"):
            for index in story.members(name, "starting"):
                story.started(name, index)

    for _ in range(3):
        story.scale("gang", 2, 1)
        settles()
        story.wait(SECOND)
        story.scale("gang", 1, 1)
        if 1 in story.members("gang"):
            story.ends("gang", 85, task=1)
        settles()
    assert (story.job("low").phase, story.job("low").evictions) == ("running", 1)
    story.wait(HOUR)
    story.scale("gang", 2, 1)
    settles()
    assert story.job("low").evictions == 2


def of(story: Story, job: str, user: str, **requested) -> None:
    """This verified user submits a job."""
    fact = story.submitted(job, gpus=8, cls="interactive", **requested)
    story.cycle(fact.model_copy(update={"user": user, "user_verified": user != ""}))


def leaves(story: Story, job: str) -> None:
    """Its eviction, if it is being evicted, is over at once."""
    if story.job(job).phase == "evicting":
        story.yields(job)


def explained(story: Story, job: str) -> str:
    """What is said of the job."""
    sections = explain_job(story.state, story.job(job), story.records)
    return " ".join(sentence.text for section in sections for sentence in section.sentences)


def reserved_and_cancelled(story: Story) -> None:
    """The job is cancelled while its victim leaves."""
    story.begin("low")
    story.staged("low", "term_sent")
    story.cancel("urgent")
    story.ends("low", 85)


def started(story: Story, ran: int = SECOND) -> None:
    """The job runs."""
    story.yields("low")
    story.started("urgent")
    story.wait(ran)


WAYS = {
    "cancelled while its victim leaves": reserved_and_cancelled,
    "cancelled before it starts": lambda story: (story.yields("low"), story.cancel("urgent"), leaves(story, "urgent")),
    "cancelled at once": lambda story: (started(story), story.cancel("urgent"), story.yields("urgent")),
    "failed at once": lambda story: (started(story), story.ends("urgent", 127)),
    "yielded at once": lambda story: (started(story), story.ends("urgent", 85)),
    "stopped at its own limit": lambda story: (started(story, 10 * SECOND), story.yields("urgent")),
    "its reservation expired": lambda story: (story.begin("low"), story.wait(HOUR), story.ends("low", 85)),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("user", "spared"), [("eve", True), ("ada", False)])
def test_other_jobs_of_its_owner_spare_who_left_for_it_in_vain_and_nobody_else_s_do(way, user: str, spared: bool):
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve", run_time_limit=10 * SECOND)
    story.propose()
    way(story)
    if story.job("urgent").phase not in ENDED:
        story.cancel("urgent")
        leaves(story, "urgent")
    story.started("low")
    assert story.job("low").phase == "running"
    of(story, "again", user)
    while story.state.selection is not None:
        story.propose()
    assert story.job("low").phase == ("running" if spared else "evicting")
    if spared:
        assert "It spares low until" in (said := explained(story, "again"))
        assert "it was evicted in vain for jobs of eve (rule evicted-in-vain)" in said
        story.pause("again")
        assert "It spares" not in explained(story, "again"), "that is not why it is paused"
        story.resume("again")
        until = story.state.spared["user eve"]["low"].until
        while story.time < until:
            assert story.job("low").phase == "running"
            story.wait(SECOND)
            while story.state.selection is not None:
                story.propose()
        assert story.job("low").phase == "evicting", "its time is over"


def test_a_job_that_runs_for_longer_than_the_longest_back_off_was_evicted_for_of_use():
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    started(story, 64 * SECOND)
    story.ends("urgent", 1)
    story.cancel("urgent")
    assert not story.state.spared


def test_short_urgent_jobs_that_succeed_evict_for_use_and_wait_for_nothing():
    story = pool("n1")
    story.runs("low", gpus=8)
    for number in range(3):
        of(story, f"short-{number}", "eve")
        story.propose()
        story.yields("low")
        story.started(f"short-{number}")
        story.ends(f"short-{number}", 0, after=SECOND)
        story.started("low")
    assert (story.job("low").evictions, story.state.spared) == (3, {})


def test_after_a_day_without_a_further_time_it_begins_anew_and_what_is_older_is_forgotten():
    story = pool("n1", "n2")
    for name in ("low", "other"):
        story.runs(name, gpus=8)
    for number in range(3):
        of(story, f"urgent-{number}", "eve" if number else "ada")
        story.propose()
        victim = next(name for name in ("low", "other") if story.job(name).phase == "evicting")
        story.yields(victim)
        story.cancel(f"urgent-{number}")
        leaves(story, f"urgent-{number}")
        story.started(victim)
        entry = next(iter(story.state.spared["user eve" if number else "user ada"].values()))
        assert (len(story.state.spared), entry.times) == (1, 1)
        story.wait(DAY + 65 * SECOND)


def test_what_jobs_do_to_others_of_their_own_verified_owner_is_spared_by_none():
    story = pool("n1")
    story.cycle(story.submitted("low", gpus=8).model_copy(update={"user": "eve", "user_verified": True}))
    story.started("low")
    of(story, "urgent", "eve")
    story.propose()
    story.yields("low")
    story.cancel("urgent")
    leaves(story, "urgent")
    assert (story.job("urgent").phase, story.state.spared) == ("cancelled", {})


def test_who_is_not_verified_counts_as_one():
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "")
    story.propose()
    reserved_and_cancelled(story)
    story.started("low")
    fact = story.submitted("again", gpus=8, cls="interactive")
    story.cycle(fact.model_copy(update={"user": "another"}))
    while story.state.selection is not None:
        story.propose()
    assert story.job("low").phase == "running"


def test_each_further_time_it_is_spared_for_twice_as_long_up_to_an_hour():
    story = pool("n1")
    story.runs("low", gpus=8)
    spared = []
    for number in range(8):
        of(story, f"urgent-{number}", "eve")
        story.propose()
        story.begin("low")
        story.staged("low", "term_sent")
        story.cancel(f"urgent-{number}")
        story.ends("low", 85)
        spared.append((story.state.spared["user eve"]["low"].until - story.time) // SECOND)
        story.started("low")
        story.wait(spared[-1] * SECOND)
    assert spared == [64, 128, 256, 512, 1024, 2048, 3600, 3600]
    story.wait(8 * DAY)  # as long as an ended job is kept
    of(story, "urgent", "eve")
    story.propose()
    reserved_and_cancelled(story)
    assert story.state.spared["user eve"]["low"].times == 1
    story.cancel("low")
    leaves(story, "low")
    assert not story.state.spared


def test_a_victim_that_stays_after_all_was_not_evicted_in_vain():
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    story.cancel("urgent")
    assert (story.job("low").phase, story.state.spared) == ("running", {})


OF_OTHERS = {
    "an operator cancels it": lambda story: story.cancel("urgent"),
    "an operator pauses it": lambda story: story.pause("urgent"),
    "an operator evicts it": lambda story: story.evict("urgent"),
    "its node is drained": lambda story: story.drain("n1", "fast"),
    "its node is lost": lambda story: story.lost("n1"),
    "its GPU breaks": lambda story: story.breaks("n1", 0),
}
WHEN = ("reserved", "starting", "running")


def up_to(story: Story, when: str) -> None:
    """The urgent job gets so far; its victim leaves, at the latest, afterwards."""
    story.begin("low")
    story.staged("low", "term_sent")
    if when != "reserved":
        story.ends("low", 85)
    if when == "running":
        story.started("urgent")


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("ends", OF_OTHERS.values(), ids=OF_OTHERS)
def test_its_owner_spares_nobody_for_what_others_ended(ends, when: str):
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    up_to(story, when)
    story.actor = "ops"
    ends(story)
    for name in ("low", "urgent"):
        if story.members(name, "starting", "running"):
            story.ends(name, 85)
    assert (story.state.spared, story.job("urgent").victims_in_vain) == ({}, ())


@pytest.mark.parametrize("when", WHEN)
def test_who_preempts_a_job_that_has_not_run_answers_for_all_who_left_for_it(when: str):
    """And two who work together gain nothing: neither may the second evict another such job of the first, until it has run."""
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    up_to(story, when)
    story.cycle(story.submitted("first", gpus=8, cls="inference").model_copy(update={"user": "mal", "user_verified": True}))
    while story.state.selection is not None:
        story.propose()
    for name in ("low", "urgent"):
        if story.members(name, "starting", "running"):
            story.ends(name, 85)
    story.cancel("urgent")
    assert story.job("first").phase == "starting"
    story.cancel("first")
    leaves(story, "first")
    assert {owner: list(jobs) for owner, jobs in story.state.spared.items()} == {"user mal": ["low"]}
    story.started("low")
    of(story, "again", "eve")
    story.propose()
    story.yields("low")
    story.started("again")
    story.cycle(story.submitted("second", gpus=8, cls="inference").model_copy(update={"user": "mal", "user_verified": True}))
    for _ in range(63):
        while story.state.selection is not None:
            story.propose()
        assert story.job("again").phase == "running"
        story.wait(SECOND)
    while story.state.selection is not None:
        story.propose()
    story.wait(2 * SECOND)
    while story.state.selection is not None:
        story.propose()
    assert story.job("again").phase == "evicting", "it has run: who left for it left for something"


def test_who_pauses_its_own_preemptor_spares_for_the_same_time_as_with_a_new_job():
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    started(story)
    story.actor = "eve"
    story.pause("urgent")
    story.yields("urgent")
    story.started("low")
    until = story.state.spared["user eve"]["low"].until
    assert until - story.time == 64 * SECOND
    story.resume("urgent")
    while story.time < until:
        assert story.job("low").phase == "running"
        story.wait(SECOND)
        while story.state.selection is not None:
            story.propose()
    assert story.job("low").phase == "evicting"


def test_a_job_that_ran_for_long_and_ends_right_after_it_has_grown_spares_who_left_for_that():
    story = pool("n1", "n2")
    of(story, "gang", "eve", min_tasks=1, elastic="live")
    story.started("gang", 0)
    story.runs("low", gpus=8)
    story.wait(HOUR)
    story.actor = "eve"
    story.scale("gang", 2, 1)
    story.propose()
    story.yields("low")
    story.started("gang", 1)
    story.cancel("gang")
    leaves(story, "gang")
    assert list(story.state.spared["user eve"]) == ["low"]


def test_a_clock_that_steps_neither_ends_nor_extends_it():
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    reserved_and_cancelled(story)
    left = story.state.spared["user eve"]["low"].until - story.state.now
    story.cycle(facts.ClockStepped(jump=HOUR), after=HOUR)
    assert story.state.spared["user eve"]["low"].until - story.state.now == left


def test_whom_a_job_evicted_hours_before_it_migrated_was_not_evicted_in_vain_when_it_ends_soon_after():
    story = pool("n1")
    story.runs("low", gpus=8)
    of(story, "urgent", "eve")
    story.propose()
    started(story, 10 * HOUR)
    for node in ("n2", "n3"):
        story.node(node)
    story.actor = "ops"
    story.migrate("urgent")
    story.yields("urgent")
    assert story.job("urgent").victims == {}
    story.started("urgent")
    story.ends("urgent", 1, after=SECOND)
    assert (story.job("urgent").phase, story.state.spared, story.job("urgent").victims_in_vain) == ("failed", {}, ())


def test_a_job_that_grows_again_and_again_keeps_no_account_of_those_that_left_for_it_long_ago():
    story = pool("n1", "n2")
    of(story, "gang", "eve", min_tasks=1, elastic="live")
    story.started("gang", 0)
    for number in range(3):
        story.scale("gang", 1, 1)
        if 1 in story.members("gang"):
            story.ends("gang", 85, task=1)
        story.runs(f"low-{number}", gpus=8)
        story.wait(HOUR)
        story.scale("gang", 2, 1)
        story.propose()
        story.yields(f"low-{number}")
        story.started("gang", 1)
        assert list(story.job("gang").victims) == [f"low-{number}"]
        story.wait(HOUR)
        story.cancel(f"low-{number}")
