"""Jobs with different reactions to a notice: each has its documented outcome, and the urgent job gets clean GPUs in time."""

import pytest
from tests.kits.survival import BEFORE, ENOUGH_S, LATE, NOTICED, SHORT_S, Expected, Stage, story
from tests.kits.survivor import FAILS

from bailiff_core.records.facts import TaskReleased

TERM_AT_ONCE = (*NOTICED, "term_sent")  # a job that has not sent `hello` gets TERM at once

# Expected outcome of each behaviour of tests/kits/survivor.py, and its grace, s.
OUTCOMES: dict[str, tuple[float, Expected]] = {
    "Trains": (ENOUGH_S, Expected("preempted")),
    "NeverAcknowledges": (
        SHORT_S,
        Expected("preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), resumes_at=BEFORE),
    ),
    "AcknowledgesAndHangs": (
        SHORT_S,
        Expected("preempted", (*NOTICED, "acknowledged", *LATE), stuck_in="acknowledged", codes=(-9,), resumes_at=BEFORE),
    ),
    "AcknowledgesAndFails": (ENOUGH_S, Expected("preempted", (*NOTICED, "acknowledged"), codes=(FAILS,), resumes_at=BEFORE)),
    "AcknowledgesAndFinishes": (ENOUGH_S, Expected("preempted", (*NOTICED, "acknowledged"), codes=(0,), resumes_at=BEFORE)),
    "SavesForTooLong": (
        SHORT_S,
        Expected(
            "preempted",
            (*NOTICED, "acknowledged", "checkpoint_started", *LATE),
            stuck_in="checkpoint_started",
            codes=(-9,),
            resumes_at=BEFORE,
        ),
    ),
    "ForksAway": (ENOUGH_S, Expected("preempted", reason="1 processes that outlived it were killed")),
    "PlainScript": (ENOUGH_S, Expected("preempted-unclean", TERM_AT_ONCE, codes=(-15,), resumes_at=BEFORE, reports_resume=False)),
    "CatchesTerm": (ENOUGH_S, Expected("preempted-unclean", TERM_AT_ONCE, codes=(143,), reports_resume=False)),
    "CatchesTermAndHangs": (
        SHORT_S,
        Expected(
            "preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), resumes_at=BEFORE, reports_resume=False
        ),
    ),
    "CatchesTermAndYields": (ENOUGH_S, Expected("preempted", TERM_AT_ONCE, reports_resume=False)),
    "CatchesTermAndFails": (
        ENOUGH_S,
        Expected("preempted-unclean", TERM_AT_ONCE, codes=(FAILS,), resumes_at=BEFORE, reports_resume=False),
    ),
    # as `trap 'exit 0' TERM` in a shell script
    "CatchesTermAndFinishes": (
        ENOUGH_S,
        Expected("preempted", TERM_AT_ONCE, codes=(0,), resumes_at=BEFORE, reports_resume=False),
    ),
}
SAMPLE = {"NeverAcknowledges", "ForksAway", "CatchesTermAndFinishes"}


@pytest.mark.parametrize("behaviour", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in OUTCOMES])
async def test_each_behaviour_has_its_documented_outcome(stage: Stage, behaviour: str) -> None:
    grace_s, expected = OUTCOMES[behaviour]
    async with story(stage) as run:
        await run.start_victim(behaviour, grace_s=grace_s)
        await run.submit_urgent()
        await run.check_urgent_and_victim(expected)
        [released] = run.facts(TaskReleased, attempt=1)
        assert {reading.memory_used > 0 for reading in released.before} == {True}, "its GPU memory was not in use while it ran"


@pytest.mark.long
async def test_a_job_that_finishes_on_term_says_so_in_its_job_file(stage: Stage) -> None:
    async with story(stage) as run:
        await run.start_victim("CatchesTermAndFinishes", on_term="finish")
        await run.submit_urgent()
        await run.check_urgent_and_victim(Expected("finished", TERM_AT_ONCE, codes=(0,), reports_resume=False))
