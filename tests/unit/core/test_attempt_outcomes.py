"""What ended an attempt decides its outcome and counters, not its exit code: each cause, moment, signal and code, as records."""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from tests.kits.examples import one_in
from tests.kits.log_builder import Story
from tests.kits.story_script import play, stories

from bailiff_core.records import facts


class Counters(NamedTuple):
    """What a job has counted. capped: evictions that count for `eviction_cap`; cooldown: one follows; waits: it backs off."""

    failures: int = 0
    losses: int = 0
    yields: int = 0
    evictions: int = 0
    capped: int = 0
    cooldown: bool = False
    waits: bool = False


def counters(story: Story) -> Counters:
    job = story.job("job")
    counted = (job.failures, job.losses, job.yields, job.evictions, len(job.eviction_times))
    return Counters(*counted, job.last_eviction is not None, job.not_before > story.time)


FAILED, LOST, YIELDED = Counters(failures=1, waits=True), Counters(losses=1, waits=True), Counters(yields=1, waits=True)
EVICTED = Counters(evictions=1, capped=1, cooldown=True)
NOT_CAPPED = EVICTED._replace(capped=0)
BY_OWNER = Counters(cooldown=True)

# --- how a task ends, and when

MOMENTS: dict[str, str] = {
    "running": "",
    "decided": "EVICT",
    "started": "EVICT; begin job",
    "noticed": "EVICT; begin job; staged job noticed",
    "acknowledged": "EVICT; begin job; staged job noticed; staged job acknowledged",
    "TERM": "EVICT; begin job; staged job noticed; staged job term_sent",
    "TERM alone": "EVICT; begin job; staged job term_sent",
    "KILL": "EVICT; begin job; staged job noticed; staged job term_sent; staged job kill_sent",
}
TOLD = ("noticed", "acknowledged", "TERM", "TERM alone", "KILL")
EXITS: dict[str, str] = {
    **{str(code): f"ends job code={code}" for code in (0, 1, 2, 3, 85, 127, 130, 137, 143, 255, -9, -11, -15)},
    "0 and done": "report TaskExited job exit_code=0 done=true; releases job",
    "unobserved": "report TaskExited job exit_code=-9 unobserved=true; releases job",
    "vanished": "vanished job 0",
    "node lost": "lost n1",
    "1 on a broken device": "breaks n1 0; ends job code=1",
}
UNKNOWN = ("unobserved", "vanished", "node lost")
PREEMPT = "submit high: inference, 4 gpus; propose"


def expected(moment: str, end: str) -> str:
    """The outcome, in the table's own words."""
    if end == "0 and done" or (end == "0" and moment not in TOLD):
        return "finished"
    if moment in TOLD:
        return "preempted" if moment == "acknowledged" or end in ("0", "85") else "preempted-unclean"
    if end == "85":
        return "yielded" if moment == "running" else "preempted"
    return "lost" if end in UNKNOWN or end == "1 on a broken device" else "failed"


def end_of(story: Story) -> tuple[str, str]:
    """Outcome and cause of the first attempt, as recorded."""
    for kind in ("JobRequeued", "JobEnded"):
        for found in story.decisions(kind):
            if found.job == "job":
                return found.outcome, getattr(found, "cause", "")
    raise AssertionError("the attempt is not over")


@pytest.mark.parametrize(
    ("moment", "end"),
    one_in(7, (each for each in product(MOMENTS, EXITS) if each[0] not in ("running", "decided") or "device" not in each[1])),
)
def test_a_preempted_job_is_counted_by_what_ended_it(moment: str, end: str) -> None:
    story = play("node n1: 4 gpus; runs job: 4 gpus, max_failures 5; +1m", MOMENTS[moment].replace("EVICT", PREEMPT), EXITS[end])
    outcome = expected(moment, end)
    if outcome == "finished":
        assert end_of(story) == ("succeeded", "")
        return
    preempted = outcome.startswith("preempted")
    assert end_of(story) == (outcome, "preemption" if preempted else "exit")
    by_outcome = {"failed": FAILED, "lost": LOST, "yielded": YIELDED}
    assert counters(story) == (EVICTED if preempted else by_outcome[outcome])


@pytest.mark.parametrize(("on_term", "end"), one_in(5, product(("restart", "finish"), EXITS)))
def test_exit_0_after_the_notice_is_the_end_only_with_on_term_finish(on_term: str, end: str) -> None:
    """`max_failures 0` and `on_failure end`: neither a code nor a loss after TERM ends the job."""
    job = f"runs job: 4 gpus, max_failures 0, on_failure end, on_term {on_term}"
    story = play(f"node n1: 4 gpus; {job}; {PREEMPT}; begin job; staged job term_sent", EXITS[end])
    if end == "0 and done" or (end, on_term) == ("0", "finish"):
        assert end_of(story) == ("succeeded", "")
    else:
        assert end_of(story)[1] == "preemption"
        assert counters(story) == EVICTED


# --- why it was evicted

EVICTIONS: dict[str, tuple[str, Counters]] = {  # and what an attempt counts that left after its notice
    "preemption": (f"node n1: 4 gpus; runs job: JOB; {PREEMPT}", EVICTED),
    "policy": ("rules {projects: [{name: a}]}; node n1: 4 gpus; runs job: JOB, project a; enforce a: limit 0", EVICTED),
    "requested": ("node n1: 4 gpus; runs job: JOB; evict job", EVICTED),
    "drain": ("node n1: 4 gpus; runs job: JOB; drain n1 quick", EVICTED),
    "device": ("node n1: 4 gpus; runs job: JOB; breaks n1 0", NOT_CAPPED),
    "paused": ("node n1: 4 gpus; runs job: JOB; pause job", BY_OWNER),
    "migration": ("node n1: 4 gpus; runs job: JOB; node n2: 4 gpus; migrate job", BY_OWNER),
}
ENDS_OF_EVICTED = ("0", "1", "130", "137", "85", "143", "-15", "vanished", "node lost")


@pytest.mark.parametrize(
    ("cause", "stage", "end"), one_in(7, product(EVICTIONS, ("noticed", "term_sent", "kill_sent"), ENDS_OF_EVICTED))
)
def test_after_the_notice_every_end_counts_as_the_eviction(cause: str, stage: str, end: str) -> None:
    setup, counted = EVICTIONS[cause]
    story = play(setup.replace("JOB", "4 gpus, max_failures 0"), f"begin job; staged job {stage}", EXITS[end])
    outcome = "preempted" if end in ("0", "85") else "preempted-unclean"
    assert end_of(story) == (outcome, cause)
    assert counters(story) == counted


@pytest.mark.parametrize("end", ["1", "130", "137", "143", "-15"])
@pytest.mark.parametrize("cause", [cause for cause in EVICTIONS if cause != "device"])
def test_before_the_notice_a_failure_is_a_failure_and_no_eviction(cause: str, end: str) -> None:
    setup, _ = EVICTIONS[cause]
    story = play(setup.replace("JOB", "4 gpus, max_failures 1"), "begin job", EXITS[end])
    assert end_of(story) == ("failed", cause if EVICTIONS[cause][1] == BY_OWNER else "exit")
    assert counters(story)[:6] == FAILED[:6]


@pytest.mark.parametrize("end", ENDS_OF_EVICTED)
@pytest.mark.parametrize(
    ("command", "ended"), [("cancel job", "cancelled"), (f"{PREEMPT}; begin job; staged job noticed; cancel job", "cancelled")]
)
def test_a_cancelled_job_is_cancelled_whatever_its_exit_code(command: str, ended: str, end: str) -> None:
    begin = "begin job; " if command == "cancel job" else ""
    story = play(f"node n1: 4 gpus; runs job: 4 gpus; {command}; {begin}staged job term_sent", EXITS[end])
    assert end_of(story) == (ended, "")


@pytest.mark.parametrize("end", ENDS_OF_EVICTED)
def test_a_job_beyond_its_time_limit_timed_out_whatever_its_exit_code(end: str) -> None:
    limited = "node n1: 4 gpus; runs job: 4 gpus, run_time_limit 1h; wait 1h; begin job; staged job term_sent"
    assert end_of(play(limited, EXITS[end])) == ("timed-out", "")


@pytest.mark.parametrize("end", ENDS_OF_EVICTED)
def test_on_eviction_end_ends_it_as_evicted_whatever_its_exit_code(end: str) -> None:
    ends = f"node n1: 4 gpus; runs job: 4 gpus, on_eviction end; {PREEMPT}; begin job; staged job term_sent"
    assert end_of(play(ends, EXITS[end])) == ("evicted", "preemption")


@pytest.mark.parametrize("end", ["code=1", "code=130", "code=137", "code=143", "code=-9", "code=85"])
@pytest.mark.parametrize("order", ["told, ended", "ended, told", "told, ended, told too", "ended, told, gone"])
@pytest.mark.parametrize(("stage", "first"), [*product(("noticed", "term_sent"), (0, 1))])
def test_which_node_of_a_gang_reports_first_does_not_matter(stage: str, first: int, order: str, end: str) -> None:
    """One node tells its task to stop; the other's task ends without a notice, by the lost connection: in any order on record."""
    second = 1 - first
    told, ended = f"staged gang {stage} task={first}", f"exits gang {end} task={second}; releases gang task={second}"
    left = f"ends gang code=143 task={first}"
    steps = {
        "told, ended": (told, ended, left),
        "ended, told": (ended, told, left),
        "told, ended, told too": (told, f"exits gang {end} task={second}; staged gang {stage} task={second}", left),
        "ended, told, gone": (ended, told, f"vanished gang {first}"),
    }[order]
    gang = "node n1: 4 gpus; node n2: 4 gpus; runs gang: 2 x 4 gpus, max_failures 0; submit high: inference, 2 x 4 gpus; propose"
    after = f"releases gang task={second}" if "too" in order else ""
    story = play(gang, "begin gang", *steps, after)
    (requeued,) = story.decisions("JobRequeued")
    assert (requeued.outcome, requeued.cause, requeued.not_before) == ("preempted-unclean", "preemption", 0)
    job = story.job("gang")
    assert (job.evictions, job.failures, job.losses, job.yields, len(job.eviction_times)) == (1, 0, 0, 0, 1)


# --- gangs: codes and moments differ; cancelled evictions; parts of elastic jobs

test_gangs_in_stories = stories("""
given a gang is preempted
    node n1: 4 gpus; node n2: 4 gpus; runs gang: 2 x 4 gpus, max_failures 0; +1m; submit high: inference, 2 x 4 gpus; propose
    begin gang

given an elastic job loses a task
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic restart, max_failures 0; submit high: inference, 1 gpu; propose
    begin wide; staged wide term_sent task=3

members that answer TERM with different codes are preempted
    a gang is preempted; staged gang noticed; staged gang term_sent; ends gang code=85 task=0; ends gang code=1 task=1
    => JobRequeued gang outcome=preempted-unclean cause=preemption not_before=0; gang.evictions = 1; gang.failures = 0

a member that falls before its own notice falls because of its gang's
    a gang is preempted; staged gang noticed task=0; ends gang code=1 task=1; ends gang code=143 task=0
    => JobRequeued gang outcome=preempted-unclean cause=preemption; gang.evictions = 1; gang.failures = 0

a member that is lost with its node after the notice of its gang is preempted
    a gang is preempted; staged gang term_sent task=0; lost n2; ends gang code=85 task=0
    => JobRequeued gang outcome=preempted-unclean cause=preemption; gang.evictions = 1; gang.losses = 0

a member that fails before its gang's eviction has started has failed, and so has the gang
    node n1: 4 gpus; node n2: 4 gpus; runs gang: 2 x 4 gpus, max_failures 0; +1m; submit high: inference, 2 x 4 gpus; propose
    ends gang code=1 task=1; begin gang; staged gang term_sent task=0; ends gang code=143 task=0
    => JobEnded gang outcome=failed reason="task 1 ended with exit code 1"

a member whose end is on record before the other node's notice may have fallen because of it
    a gang is preempted; ends gang code=1 task=1; staged gang term_sent task=0; ends gang code=143 task=0
    => JobRequeued gang outcome=preempted-unclean cause=preemption; gang.evictions = 1; gang.failures = 0

members that all end before any notice have failed
    a gang is preempted; ends gang code=1 task=1; ends gang code=1 task=0
    => JobEnded gang outcome=failed reason="task 0 ended with exit code 1"

a member that fails on a node that reports its notices later has failed: a node reports in order
    node n1: 8 gpus; runs gang: 2 x 4 gpus, max_failures 0; +1m; submit high: inference, 2 x 4 gpus; propose; begin gang
    ends gang code=1 task=1; staged gang term_sent task=0; ends gang code=143 task=0
    => JobEnded gang outcome=failed reason="task 1 ended with exit code 1"

a member that fails while the eviction is called off, and nobody was told, has failed
    a gang is preempted; cancel high; ends gang code=1 task=1; eviction_cancelled gang task=0
    => EvictionDecided gang cause=gang-failure; begin gang; staged gang term_sent task=0; ends gang code=1 task=0
    => JobEnded gang outcome=failed reason="task 1 ended with exit code 1"

surplus tasks on two nodes that leave together do not break their gang
    node n1: 2 gpus; node n2: 2 gpus; runs wide: 4 x 1 gpu, min 1, max_failures 0, elastic live
    submit high: inference, 3 x 1 gpu; propose; begin wide; staged wide term_sent task=1; ends wide code=1 task=2
    staged wide term_sent task=3; ends wide code=1 task=3; ends wide code=1 task=1
    => JobShrunk wide tasks=1-3 outcome=preempted-unclean cause=preemption; wide.failures = 0; wide.running = 0

a member that has finished before the others were told comes back with them
    a gang is preempted; ends gang task=1; staged gang term_sent task=0; ends gang code=1 task=0
    => JobRequeued gang outcome=preempted-unclean cause=preemption

a gang all of whose members were done has succeeded
    a gang is preempted; staged gang noticed task=0; ends gang task=1; report TaskExited gang task=0 exit_code=0 done=true
    releases gang task=0; => JobEnded gang outcome=succeeded

a gang that was stopped because a member failed has failed, whatever the others answer
    node n1: 4 gpus; runs gang: 2 x 2 gpus, max_failures 0; ends gang code=3 task=0; => EvictionDecided gang cause=gang-failure
    begin gang; staged gang term_sent; ends gang code=1 task=1; => JobEnded gang outcome=failed exit_codes.0=3

a gang that was stopped because a node was lost has failed in nothing
    node n1: 2 gpus; node n2: 2 gpus; runs gang: 2 x 2 gpus, max_failures 0; lost n2; begin gang; staged gang term_sent
    ends gang code=1; => JobRequeued gang outcome=lost cause=gang-failure; gang.losses = 1; gang.failures = 0

a gang that was stopped because a device broke has failed in nothing
    node n1: 4 gpus; runs gang: 2 x 2 gpus, max_failures 0; breaks n1 0; begin gang; staged gang term_sent; ends gang code=1
    => JobRequeued gang outcome=preempted-unclean cause=device; gang.evictions = 1; gang.failures = 0

a surplus task that answers TERM with 1 leaves, and the job goes on
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic live; submit high: inference, 1 gpu; propose; begin wide
    staged wide term_sent task=3; ends wide code=1 task=3; => JobShrunk wide tasks=3 outcome=preempted-unclean cause=preemption
    wide.evictions = 0; wide.failures = 0; wide.running = 0 1 2

tasks that fall with a surplus task take their job along, and it has not failed
    an elastic job loses a task; ends wide code=1 task=0; => nothing
    staged wide term_sent; ends wide code=1; => JobRequeued wide outcome=preempted-unclean cause=preemption not_before=0
    wide.evictions = 1; wide.eviction_times != nothing; wide.failures = 0

so does a job that ends when evicted: it was not evicted
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, elastic restart, on_eviction end; submit high: inference, 1 gpu; propose
    begin wide; staged wide term_sent task=3; ends wide code=1 task=0; begin wide; staged wide term_sent; ends wide code=1
    => JobRequeued wide outcome=preempted-unclean cause=preemption without=3

where the others can go on, their failure is their own
    node n1: 4 gpus; runs wide: 4 x 1 gpu, min 2, max_failures 0, elastic live; submit high: inference, 1 gpu; propose
    begin wide; staged wide term_sent task=3; ends wide code=1 task=0; begin wide; staged wide term_sent; ends wide code=1
    => JobEnded wide outcome=failed reason="task 0 ended with exit code 1"

a task that was evicted before it was started has failed in nothing
    node n1: 4 gpus; submit job: 4 gpus, max_failures 0, on_failure end; submit high: inference, 4 gpus; propose; begin job
    report TaskStartRefused job reason="it was evicted before it was started"; => JobRequeued job outcome=preempted-unclean
    job.evictions = 1; job.losses = 0
""")


test_cancelled_evictions_in_stories = stories("""
given cancelled after the notice
    node n1: 4 gpus; runs low: 4 gpus, max_failures 1; submit high: inference, 4 gpus; propose; begin low; staged low noticed
    cancel high; => EvictionCancelled low notified=true

a victim that exits before its node has confirmed left because of its notice
    cancelled after the notice; ends low code=1; => JobRequeued low outcome=preempted-unclean cause=preemption
    low.evictions = 1; low.failures = 0

a victim that fails after its node has confirmed has failed
    cancelled after the notice; eviction_cancelled low; low is running; ends low code=1
    => JobRequeued low outcome=failed cause=exit; low.evictions = 0; low.failures = 1; low.eviction_times = nothing

a victim that was already told to terminate is preempted
    cancelled after the notice; cancel_eviction_refused low; staged low term_sent; ends low code=1
    => JobRequeued low outcome=preempted-unclean cause=preemption; low.evictions = 1; low.failures = 0

a member that exits before its node has confirmed stops the others, and the gang has not failed
    node n1: 4 gpus; runs gang: 2 x 2 gpus, max_failures 0; submit high: inference, 4 gpus; propose; begin gang
    staged gang noticed; cancel high; ends gang code=1 task=1; eviction_cancelled gang task=0
    => EvictionDecided gang cause=gang-failure; begin gang; staged gang term_sent; ends gang code=1
    => JobRequeued gang outcome=preempted-unclean cause=gang-failure; gang.evictions = 1; gang.failures = 0
""")


# --- the moment is that of the exit's record


def reported(*given: Callable[[Story], facts.TaskFact]) -> Story:
    """A job whose eviction has started, and these reports of its node in this order."""
    story = play(f"node n1: 4 gpus; runs job: 4 gpus, max_failures 1; {PREEMPT}; begin job")
    for each in given:
        story.cycle(each(story))
    story.releases("job")
    story.holds()
    return story


def exit_1(story: Story) -> facts.TaskFact:
    return facts.TaskExited(**story.at("job", 0), exit_code=1)


def notice(story: Story) -> facts.TaskFact:
    about: dict[str, Any] = {**story.at("job", 0), "stage": "noticed"}
    return facts.EvictionStageReached(**about)


def test_the_order_of_the_node_s_reports_decides_whether_it_had_its_notice() -> None:
    """Not the record `EvictionStarted`: after it, nodes are told one by one."""
    assert end_of(reported(notice, exit_1)) == ("preempted-unclean", "preemption")
    assert end_of(reported(exit_1, notice)) == ("failed", "exit")
