"""A preemption that is interrupted at each of its stages."""

import itertools
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.kits.system import Watch

from bailiff_core.records import facts
from bailiff_core.records.decisions import JobEnded, JobPlaced, JobStarting, PreemptionDecided, PreemptionRequested
from bailiff_core.records.payload import Payload

TRAINING = [f"kept-{n}" for n in range(8)]
_stories = itertools.count(1)


@dataclass(frozen=True)
class Story:
    """One urgent job, and the end of the log when it was submitted."""

    urgent: str
    began: int


Shows = Callable[[Payload, Story], bool]


def of_urgent(kind: type[Payload]) -> Shows:
    return lambda data, story: isinstance(data, kind) and getattr(data, "job", "") == story.urgent


def of_a_victim(kind: type[Payload], **expected: object) -> Shows:
    return lambda data, _: (
        isinstance(data, kind)
        and getattr(data, "job", "") in TRAINING
        and all(getattr(data, name) == value for name, value in expected.items())
    )


# The record that shows each stage.
STAGES: dict[str, Shows] = {
    "submitted": lambda data, story: isinstance(data, facts.JobSubmitted) and data.demand.job == story.urgent,
    "requested": of_urgent(PreemptionRequested),
    "proposed": lambda data, _: isinstance(data, facts.ProposalReceived),
    "decided": lambda data, story: isinstance(data, PreemptionDecided) and data.preemptor.job == story.urgent,
    "begun": of_a_victim(facts.EvictionStarted),
    "noticed": of_a_victim(facts.EvictionStageReached, stage="noticed"),
    "term sent": of_a_victim(facts.EvictionStageReached, stage="term_sent"),
    "exited": of_a_victim(facts.TaskExited),
    "released": of_a_victim(facts.TaskReleased),
    "start ordered": of_urgent(JobStarting),
    "urgent runs": of_urgent(facts.TaskStarted),
    "urgent exits": of_urgent(facts.TaskExited),
    "urgent ended": of_urgent(JobEnded),
    "victims placed again": of_a_victim(JobPlaced),
    "victims run again": of_a_victim(facts.TaskStarted),
}


async def begin(pool: Watch) -> Story:
    """Start eight training jobs, and submit an urgent one."""
    for name in TRAINING:
        if name not in pool.state.jobs:
            await pool.submit(name)
    await pool.until_running(*TRAINING)
    story = Story(f"urgent-{next(_stories)}", pool.state.seq)
    await pool.submit(story.urgent, pool.until_signalled(), gpus=4, kind="inference")
    return story


async def until_shown(pool: Watch, shows: Shows, story: Story, when_running: Callable[[], None]) -> None:
    """Follow the log up to the record that shows the stage. The urgent job ends once it runs."""
    at = len(pool.entries)
    started_seen = False

    def shown(_: object) -> bool:
        nonlocal at, started_seen
        while at < len(pool.entries):
            record = pool.entries[at].record
            at += 1
            assert record.data is not None
            if record.seq > story.began and shows(record.data, story):
                return True
            if not started_seen and of_urgent(facts.TaskStarted)(record.data, story):
                started_seen = True
                when_running()
        return False

    await pool.until("the stage is shown", shown)


async def ends_well(pool: Watch, story: Story) -> None:
    """The urgent job succeeds, the victims run again, each attempt ran once, and the log verifies and replays."""
    pool.let_finish(story.urgent)
    await pool.until_ended(story.urgent)
    await pool.until_running(*TRAINING)
    for name in TRAINING:
        await pool.noted(name, pool.job(name).attempt)
    pool.assert_started_once(*TRAINING, story.urgent)
    decisions = [data for data in pool.facts(PreemptionDecided) if data.preemptor.job == story.urgent]
    assert decisions, "the urgent job was placed without a decision"
    assert all(len(decision.victims) == 4 for decision in decisions[:1])
    exits = [entry.record.data for entry in pool.entries if entry.record.seq > story.began]
    codes = {data.job: data.exit_code for data in exits if isinstance(data, facts.TaskExited) and data.job in TRAINING}
    assert set(codes.values()) == {-signal.SIGTERM}, f"a victim was killed without TERM: {codes}"
    assert len(pool.facts(JobEnded, job=story.urgent)) == 1
    await pool.verify(orphans=True)
