"""Jobs with different reactions to a notice: each has its documented outcome, and the urgent job gets clean GPUs in time."""

import pytest
from tests.survival import BEFORE, ENOUGH_S, LATE, NOTICED, SHORT_S, Stage, Table, story
from tests.survivor import FAILS

from bailiff_core.records.facts import TaskReleased

TERM_AT_ONCE = (*NOTICED, "term_sent")  # who has never said that it listens is not waited for

# What each behaviour of tests/survivor.py is to come to, and the grace that it has, s.
TABLE: dict[str, tuple[float, Table]] = {
    "Trains": (ENOUGH_S, Table("preempted")),
    "NeverAcknowledges": (
        SHORT_S,
        Table("preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), goes_back_to=BEFORE),
    ),
    "AcknowledgesAndHangs": (
        SHORT_S,
        Table("preempted", (*NOTICED, "acknowledged", *LATE), stuck_in="acknowledged", codes=(-9,), goes_back_to=BEFORE),
    ),
    "AcknowledgesAndFails": (
        ENOUGH_S,
        Table("preempted", (*NOTICED, "acknowledged"), codes=(FAILS,), goes_back_to=BEFORE),
    ),
    "AcknowledgesAndFinishes": (
        ENOUGH_S,
        Table("preempted", (*NOTICED, "acknowledged"), codes=(0,), goes_back_to=BEFORE),
    ),
    "SavesForTooLong": (
        SHORT_S,
        Table(
            "preempted", (*NOTICED, "acknowledged", "checkpoint_started", *LATE), stuck_in="checkpoint_started", codes=(-9,),
            goes_back_to=BEFORE,
        ),
    ),
    "ForksAway": (ENOUGH_S, Table("preempted", reason="1 processes that outlived it were killed")),
    "KnowsNothing": (
        ENOUGH_S,
        Table("preempted-unclean", TERM_AT_ONCE, codes=(-15,), goes_back_to=BEFORE, says=False),
    ),
    "CatchesTerm": (ENOUGH_S, Table("preempted-unclean", TERM_AT_ONCE, codes=(143,), says=False)),
    "CatchesTermAndStays": (
        SHORT_S,
        Table("preempted-unclean", (*NOTICED, *LATE), stuck_in="noticed", codes=(-9,), goes_back_to=BEFORE, says=False),
    ),
    "CatchesTermAndYields": (ENOUGH_S, Table("preempted", TERM_AT_ONCE, says=False)),
    "CatchesTermAndFails": (
        ENOUGH_S,
        Table("failed", TERM_AT_ONCE, codes=(FAILS,), goes_back_to=BEFORE, says=False),
    ),
    "CatchesTermAndFinishes": (ENOUGH_S, Table("finished", TERM_AT_ONCE, codes=(0,), says=False)),
}  # fmt: skip
SAMPLE = {"NeverAcknowledges", "ForksAway"}


@pytest.mark.parametrize("behaviour", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in TABLE])
async def test_each_behaviour_has_its_documented_outcome(stage: Stage, behaviour: str) -> None:
    grace_s, table = TABLE[behaviour]
    async with story(stage) as run:
        await run.victim_stands(behaviour, grace_s=grace_s)
        await run.urgent_comes()
        await run.ends_well(table)
        [released] = run.facts(TaskReleased, attempt=1)
        assert {reading.memory_used > 0 for reading in released.before} == {True}, "while it ran it had the GPUs"
