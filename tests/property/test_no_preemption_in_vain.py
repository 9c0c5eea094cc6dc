"""No decision displaces anybody for a job that the same cycle, or time alone, ends."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kits.core_invariants import nobody_is_displaced_for_a_job_that_ends
from tests.kits.examples import examples
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy
from tests.property.random_stories import Chance, steps

from bailiff_core.fold.failed_starts import evicted_in_vain, is_spared, may_be_spared
from bailiff_core.lifecycle.termination import GROWTH_BACKOFF
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records import facts
from bailiff_core.records.decisions import EvictionDecided, JobPlaced, PreemptionDecided, PreemptionRequested
from bailiff_core.records.payload import Decision

STALE = st.integers(17, 200)  # s
GRACE = st.integers(1, 200)  # s
WAITED = st.integers(0, 99)  # percent of the stale grace
RULES = {"scope": "pool", "reservation_expiry": "10m", "selection_timeout": "10m"}


def until_gone(story: Story, job: str, grace: int) -> list[Decision]:
    """The eviction of the victim starts; it uses all of its grace and exits."""
    return [*story.begin(job), *story.wait(grace), *story.ends(job, 85)]


@examples(60)
@given(STALE, GRACE, WAITED)
def test_a_gang_that_gets_a_reservation_for_its_missing_member_outlasts_its_victims(stale, grace, waited):
    story = Story(policy(preemption=RULES, protections={"stale_gang": stale * SECOND}))
    for name in ("n1", "n2", "n3"):
        story.node(name)
    story.runs("low", gpus=8, grace=grace * SECOND)
    story.runs("gang", gpus=8, tasks=2, cls="interactive")
    story.lost("n3")
    story.wait(GROWTH_BACKOFF + (stale * SECOND - GROWTH_BACKOFF) * waited // 100)
    while story.state.selection is not None:
        story.propose()
    assert story.job("gang").phase == "running"
    assert story.job("low").phase == "evicting"
    made = until_gone(story, "low", grace * SECOND)
    assert not [each for each in made if isinstance(each, EvictionDecided)], "the gang is evicted while its victim leaves"
    assert [task.state for task in story.job("gang").tasks] == ["running", "starting"]


@examples(60)
@given(GRACE, st.integers(1, 400))
def test_a_job_that_reaches_its_run_time_limit_first_displaces_nobody(grace, limit):
    story = Story(policy(preemption=RULES))
    story.node("n1")
    story.runs("low", gpus=4, grace=grace * SECOND)
    story.submit("grows", gpus=4, tasks=2, min_tasks=1, cls="interactive", elastic="live", run_time_limit=limit * SECOND)
    story.started("grows")
    while story.state.selection is not None:
        story.propose()
    if story.job("low").phase == "evicting":
        made = until_gone(story, "low", grace * SECOND)
        assert not [each for each in made if isinstance(each, EvictionDecided)], "it reached its limit while its victim left"
    else:
        assert limit <= grace, "it would have had time left on the GPUs of its victim"


@pytest.mark.parametrize("shared", [False, True])
@examples(40)
@given(data=st.data())
def test_no_cycle_ends_a_job_for_which_it_displaced_another(shared, data):
    def check(story: Story) -> None:
        nobody_is_displaced_for_a_job_that_ends(story.last_decisions)

    Chance(check, shared=shared).play(data.draw(steps(30)))


def _pause(story: Story) -> None:
    if story.job("urgent").paused_seq is None:
        story.pause("urgent")
    else:
        story.resume("urgent")


def _evict(story: Story) -> None:
    if story.job("urgent").phase in ("reserved", "starting"):
        story.evict("urgent")


def _scale(story: Story) -> None:
    story.scale("urgent", 3 - story.job("urgent").size, 1)


def _change_class(story: Story) -> None:
    if story.job("urgent").phase in ("pending", "paused"):
        other = "interactive" if story.job("urgent").class_name == "inference" else "inference"
        story.cycle(facts.JobPriorityClassChanged(request=story.request(), job="urgent", priority_class=other))


def _decide(story: Story) -> None:
    while story.state.selection is not None:
        story.propose()


def _notify(story: Story) -> None:
    for name in [name for name in story.state.evicting if name != "urgent"]:
        eviction = story.job(name).eviction
        if eviction is not None and eviction.started_seq is None:
            story.begin(name)
            story.staged(name, "noticed")


def _victims_leave(story: Story) -> None:
    _notify(story)
    for name in [name for name in story.state.evicting if name != "urgent"]:
        story.ends(name, 85)


def _refuse(story: Story) -> None:
    for index in story.members("urgent", "starting"):
        story.cycle(facts.TaskStartRefused(**story.at("urgent", index), reason="no such user"))


def _leave(story: Story) -> None:
    if story.job("urgent").phase == "evicting":
        story.ends("urgent", 85)


def _others_start(story: Story) -> None:
    for name in [name for name in story.state.starting if name != "urgent"]:
        story.started(name)


def _wait(story: Story) -> None:
    story.wait(MINUTE)


BY_ITS_OWNER = [_pause, _pause, _evict, _scale, _change_class]
MEANWHILE = [_decide, _decide, _notify, _victims_leave, _victims_leave, _refuse, _leave, _others_start, _wait]


@examples(100)
@given(st.lists(st.sampled_from([*BY_ITS_OWNER, *MEANWHILE]), min_size=10, max_size=60))
@example([_decide, _notify, _pause, _victims_leave, _others_start, _pause, _decide, _victims_leave])
@example([_decide, _victims_leave, _pause, _leave, _others_start, _pause, _decide, _victims_leave])
@example([_decide, _victims_leave, _evict, _leave, _others_start, _decide, _victims_leave])
@example([_decide, _victims_leave, _refuse, _others_start, _pause, _pause, _wait, _decide, _victims_leave])
@example([_decide, _victims_leave, _refuse, _others_start, _change_class, _wait, _decide, _victims_leave])
@example([_scale, _scale, _decide, _victims_leave, _refuse, _others_start, _scale, _wait, _decide, _victims_leave])
@example([_decide, _victims_leave, _pause, _pause, _leave, _wait, _wait, _scale, _decide, _victims_leave])
def test_a_job_that_never_runs_evicts_nobody_again_before_the_time_is_over_whatever_its_owner_does(steps):
    """After an attempt that its owner took back, each victim is spared for 64 s, then for twice as long each time."""
    story = Story(policy(preemption=RULES))
    story.node("n1")
    story.node("n2")
    story.runs("low-1", gpus=8)
    story.runs("low-2", gpus=8)
    story.submit("urgent", gpus=8, tasks=1, cls="inference")
    left: dict[str, list[int]] = {"low-1": [], "low-2": []}
    for step in steps:
        step(story)
        for name, times in left.items():
            if story.job(name).evictions > len(times):
                assert not times or story.time - times[-1] >= 64 * SECOND << (len(times) - 1)
                times.append(story.time)


ACCOUNTS = ("eve", "mal", "ada")
ABOUT_THEIR_JOBS = ("submit", "submit", "cancel", "pause", "resume", "scale", "change", "ends", "fails", "exits-85", "refused")
AROUND = ("decide", "decide", "leave", "leave", "start", "wait")
about = st.tuples(st.sampled_from(ABOUT_THEIR_JOBS), st.sampled_from(ACCOUNTS), st.sampled_from(("interactive", "inference")))


def act(story: Story, what: str, account: str, cls: str) -> None:
    """An account acts on its newest open job, or submits one of this class."""
    own = [name for name, job in story.state.jobs.items() if job.user == account and job.phase not in ENDED]
    story.actor = account
    if what == "submit":
        fact = story.submitted(f"{account}-{story.state.seq}", gpus=8, cls=cls)
        story.cycle(fact.model_copy(update={"user": account, "user_verified": True}))
    elif own:
        name = own[-1]
        requests = {
            "cancel": story.cancel,
            "pause": story.pause,
            "resume": story.resume,
            "scale": lambda job: story.scale(job, 3 - story.job(job).size, 1),
            "ends": lambda job: story.job(job).phase == "running" and story.ends(job, 0),
            "fails": lambda job: story.job(job).phase == "running" and story.ends(job, 1),
            "exits-85": lambda job: story.job(job).phase == "running" and story.ends(job, 85),
        }
        if what == "change":
            story.cycle(facts.JobPriorityClassChanged(request=story.request(), job=name, priority_class=cls))
        elif what == "refused":
            for index in story.members(name, "starting"):
                if index in story.members(name, "starting"):
                    story.cycle(facts.TaskStartRefused(**story.at(name, index), reason="no such user"))
        elif what != "resume" or story.job(name).paused_seq is not None:
            requests[what](name)


def around(story: Story, what: str, until: int) -> None:
    """What services and machines do meanwhile."""
    if what == "decide":
        _decide(story)
    elif what == "wait":
        story.wait(min(5 * SECOND, until - story.time))
    elif what == "start":
        for name in list(story.state.starting):
            story.started(name)
    else:
        for name in list(story.state.evicting):
            if name in story.state.evicting and story.members(name, "starting", "running"):
                story.yields(name)


def playing() -> Story:
    """A machine with a job of nobody's, and a policy that rejects none of what these accounts do."""
    story = Story(policy(preemption=RULES, restarts={"max_start_failures": 1000}, identity={"operators": ["ops"]}))
    story.node("n1")
    story.runs("low", gpus=8)
    return story


EVICTS = [("submit", "mal", "interactive"), "decide", "leave", "start"]
IN_TURN = [*EVICTS, ("submit", "eve", "inference"), "decide", "leave"]
IN_TURN += [("cancel", "mal", ""), ("cancel", "eve", ""), "leave", "start"]
"""A job of mal evicts the victim, one of eve evicts that at once, both are cancelled, and the victim starts again."""


@examples(150)
@given(st.lists(st.one_of(about, st.sampled_from(AROUND)), min_size=20, max_size=80))
@example(IN_TURN * 8)
@example([*EVICTS, ("cancel", "mal", ""), "leave", "start"] * 8)
@example([*EVICTS, ("ends", "mal", ""), "start"] * 8)
def test_accounts_that_work_together_evict_a_job_as_often_as_each_alone_may(steps):
    """For the first 64 s, no attempt but one that succeeds is of use, and nobody may evict again: each once."""
    story = playing()
    until = story.time + 63 * SECOND
    for step in steps:
        around(story, step, until) if isinstance(step, str) else act(story, *step)
        succeeded = sum(job.phase == "succeeded" for job in story.state.jobs.values())
        assert story.job("low").evictions <= len(ACCOUNTS) + succeeded
        _finds_all_that_are_spared(story.state)
    story.holds()


def _finds_all_that_are_spared(state: PoolState) -> None:
    """The index of who left for whom, as it was kept, leads to every job that is spared."""
    for preemptor in state.jobs.values():
        found = evicted_in_vain(state, "preempt", preemptor)
        assert {job.id for job in state.active_jobs() if is_spared(state, found, job)} <= set(may_be_spared(state, found))


BY_OTHERS = ("lost", "drain", "cancel", "pause", "evict")
EVICTS_FOR_ADA = [("submit", "ada", "interactive"), "decide", "leave", "start"]


@examples(150)
@given(st.lists(st.one_of(about, st.sampled_from((*AROUND, *BY_OTHERS))), min_size=20, max_size=80))
@example([*EVICTS_FOR_ADA, ("submit", "mal", "inference"), "decide", "leave", ("cancel", "mal", ""), "start"])
@example([*EVICTS_FOR_ADA, "lost"])
@example([*EVICTS_FOR_ADA, "drain", "leave"])
@example([*EVICTS_FOR_ADA, "pause", "leave"])
def test_nothing_that_others_do_makes_the_jobs_of_an_owner_spare_anybody(steps):
    """The owner submits jobs, which run, and takes nothing back; everybody else does what they like."""
    story = playing()
    for step in steps:
        if step in ("cancel", "pause", "evict"):
            story.actor = "ops"
            for name in [name for name, job in story.state.jobs.items() if job.user == "ada" and job.phase not in ENDED]:
                getattr(story, step)(name)
        elif step in ("lost", "drain"):
            story.actor = "ops"
            story.lost("n1") if step == "lost" else story.drain("n1", "fast")
            story.node("n1")
            if step == "drain":
                story.undrain("n1")
        elif isinstance(step, str):
            around(story, step, story.time + HOUR)
        elif step[1] != "ada" or step[0] == "submit":
            act(story, *step)
        assert "user ada" not in story.state.spared
    story.holds()


PROJECTS = [
    {"name": "a", "quota": {"gpus": 8}},
    {"name": "b", "quota": {"gpus": 4}, "over_quota_weight": 2},
    {"name": "c", "over_quota_weight": 0},
]
PREEMPTS_AND_RETURNS = [("a", 1, "train")] * 2 + [("a", 4, "train")] + [("b", 4, "train")] * 2 + [("a", 4, "interactive")]
"""The last one is evicted on request, preempts the first two when it returns, and these find a place again."""
job = st.tuples(st.sampled_from("abc"), st.sampled_from((1, 2, 4, 8)), st.sampled_from(("train", "train", "interactive")))


@examples(100)
@given(jobs=st.lists(job, min_size=2, max_size=10), evicted=st.integers(0, 9), slow=st.booleans(), pool=st.booleans())
@example(jobs=PREEMPTS_AND_RETURNS, evicted=2, slow=False, pool=False)
def test_the_next_job_is_not_started_on_what_a_job_evicted_by_hand_takes_back(jobs, evicted, slow, pool):
    story = Story(policy(projects=PROJECTS, preemption={"scope": "pool" if pool else "project", "selection_timeout": "10m"}))
    story.node("n1")
    story.node("n2")
    for number, (project, gpus, cls) in enumerate(jobs):
        story.submit(f"job-{number}", gpus=gpus, project=project, cls=cls)
        at_rest(story)
    for name in story.state.queue[1:]:
        story.cancel(name)
    at_rest(story)
    running = [name for name in story.state.active if story.job(name).phase == "running"]
    name = running[evicted % len(running)]
    made = story.evict(name)
    if slow:
        made += at_rest(story, leaves=[])
    made += [*story.yields(name), *at_rest(story)]
    placed: list[str] = []
    for decision in made:
        if isinstance(decision, JobPlaced) and decision.action == "allocate":
            placed.append(decision.job)
        if isinstance(decision, PreemptionDecided) and decision.preemptor.job == name:
            started = [each.job for each in decision.victims if each.job in placed]
            assert not started, f"{name} takes back what {started} were given while it was evicted"


@examples(25)
@given(st.lists(st.lists(job, min_size=1, max_size=5), min_size=2, max_size=5), st.integers(0, 9), st.booleans())
def test_of_several_waiting_jobs_none_is_started_that_an_earlier_one_evicts_at_once(waves, evicted, pool):
    story = Story(policy(projects=PROJECTS, preemption={"scope": "pool" if pool else "project", "selection_timeout": "10m"}))
    story.node("n1")
    story.node("n2")
    for at, wave in enumerate(waves):
        submitted = [
            story.submitted(f"job-{at}-{number}", gpus=gpus, project=project, cls=cls)
            for number, (project, gpus, cls) in enumerate(wave)
        ]
        nobody_starts_in_vain([*story.cycle(*submitted, after=MINUTE), *at_rest(story)])
    running = [name for name in story.state.active if story.job(name).phase == "running"]
    nobody_starts_in_vain([*story.evict(running[evicted % len(running)]), *at_rest(story)])


def nobody_starts_in_vain(made: list[Decision]) -> None:
    """No job is started that one evicts whose request is open, or that is being evicted itself. Three cases are none of these.

    * The victim is moved: it does not wait again, its new place is reserved before it leaves the old one.
    * The rival neither requested preemption nor was it being evicted when the job was started: it had a place of its own then,
      which a job between them in the order of the pass took. To hold the job back for it would start nobody while anybody waits.
    * Another job of the rival's project was evicted since. Only that brings the project within what it may take from others, so
      no rule permitted the rival to evict the job when it was started.
    """
    started: dict[str, int] = {}
    for at, decision in enumerate(made):
        if isinstance(decision, JobPlaced) and not decision.reserved:
            started[decision.job] = at
        for victim in decision.victims if isinstance(decision, PreemptionDecided) else ():
            if victim.job not in started or victim.moved_to:
                continue
            before, since = made[: started[victim.job]], made[started[victim.job] : at]
            relieved = {each.project for other in since if isinstance(other, PreemptionDecided) for each in other.victims}
            rival, at_start = decision.preemptor, last_of(before, decision.preemptor.job)
            waited = not isinstance(at_start, (EvictionDecided, PreemptionRequested))
            assert waited or rival.project in relieved, f"{victim.job} is started, and evicted for {rival.job}"


def last_of(decisions: list[Decision], job: str) -> Decision | None:
    """The last decision about the job, or for it."""
    found = None
    for decision in decisions:
        preemptor = getattr(decision, "preemptor", None)
        if job in (getattr(decision, "job", None), preemptor.job if preemptor is not None else None):
            found = decision
    return found


def at_rest(story: Story, leaves: list[str] | None = None) -> list[Decision]:
    """Selections are answered, placed jobs start, victims (default: all) leave, until nothing is left to do at this time."""
    made: list[Decision] = []
    for _ in range(50):
        before = story.state.seq
        if story.state.selection is not None:
            made += story.propose()
        for name in list(story.state.starting):
            made += story.started(name)
        for name in list(story.state.evicting) if leaves is None else leaves:
            if name in story.state.evicting:
                made += story.yields(name)
        if story.state.seq == before:
            break
    return made


def test_a_job_that_is_paused_for_idleness_displaces_nobody_in_the_same_cycle():
    story = Story(policy(preemption=RULES, idle={"after": "1m", "action": "pause"}))
    story.node("n1")
    story.runs("low", gpus=4)
    story.submit("grows", gpus=4, tasks=2, min_tasks=1, cls="interactive", elastic="live")
    story.started("grows")
    story.cycle(facts.TaskIdle(**story.at("grows", 0), idle=True, duration=0))
    made = story.propose(after=MINUTE)
    assert not [each for each in made if isinstance(each, PreemptionDecided)]
    assert story.job("low").phase == "running"
    assert story.job("grows").phase == "evicting"


@examples(80)
@given(st.integers(2, 4), st.integers(1, 8), st.lists(st.integers(0, 5), min_size=20, max_size=40), st.booleans())
def test_a_preemptor_that_never_starts_costs_each_victim_at_most_one_eviction(nodes, gpus, chances, backfills):
    story = Story(policy(preemption=RULES, restarts={"max_start_failures": 1000}))
    for number in range(nodes):
        story.node(f"n{number}")
        story.submit(f"low{number}", gpus=8 if number % 2 else 5)
        story.submit(f"small{number}", gpus=3, cls="build" if backfills else None)
    lows = list(story.state.jobs)
    for name in lows:
        if story.job(name).phase == "starting":
            story.started(name)
    story.submit("never", gpus=gpus, tasks=2, cls="interactive")
    evicted_for_it: list[str] = []
    for chance in chances:
        while story.state.selection is not None:
            made = story.propose()
            decided = [each for each in made if isinstance(each, PreemptionDecided) and each.preemptor.job == "never"]
            evicted_for_it += [choice.job for each in decided for choice in each.victims]
        for name in lows:
            if story.job(name).phase == "evicting":
                story.begin(name)
                story.staged(name, "noticed")
                story.ends(name, 85)
        for index in story.members("never", "starting"):
            if index not in story.members("never", "starting"):
                continue
            at = story.at("never", index)
            if chance % 2:
                story.cycle(facts.TaskStartRefused(**at, reason="no"))
            else:
                story.cycle(facts.TaskExited(**at, exit_code=-9, unobserved=True), facts.TaskReleased(**at))
        for name in lows:
            if story.job(name).phase == "starting":
                story.started(name)
        story.wait((1 + 20 * chance) * SECOND)
    assert len(evicted_for_it) == len(set(evicted_for_it)), evicted_for_it
    story.holds()
