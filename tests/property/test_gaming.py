"""A job that games progress, checkpoints and grace, beside an honest one, for a simulated month: its gain is bounded."""

from random import Random

import pytest
from tests.kits.log_builder import HOUR, MINUTE, SECOND, Story, policy

from bailiff_core.model.document import TEN_YEARS
from bailiff_core.model.grace import grace_of
from bailiff_core.records import facts

DAY = 24 * HOUR
GREEDY = {"grace": TEN_YEARS, "preemptible": False, "stale_grace": "never", "preemption_delay": 0, "labels": {"tier": "gold"}}
RULES = policy(
    claims={"grace": "10m", "non_preemptible": False, "protective_labels": False}, protections={"excluded": [{"tier": "gold"}]}
)
HONEST, GAMER = "honest", "gamer"
MOST_MORE_EVICTIONS = 12
"""How many more evictions than the gamer the honest job has at most, however long it takes: then the gamer is not believed."""


class Month:
    """Two jobs of four GPUs on eight; six times a day an urgent job takes four or all of them for an hour.

    forges: whether the gamer says at the end of its grace that it has saved, which its next start cannot read; else it is killed.
    """

    def __init__(self, seed: int, *, forges: bool) -> None:
        self.random, self.story, self.forges = Random(seed), Story(RULES), forges
        self.evictions, self.held = dict.fromkeys((HONEST, GAMER), 0), 0
        self.story.node("n1", gpus=8)
        self.story.runs(HONEST, gpus=4, grace=5 * MINUTE)
        self.story.runs(GAMER, gpus=4, **GREEDY)

    def day(self) -> None:
        """Six urgent jobs, at random times."""
        for number in range(6):
            self._works(self.random.randrange(1, 3 * 60) * MINUTE)
            self._urgent(f"urgent-{self.story.state.seq}-{number}", self.random.choice([4, 4, 4, 8]))

    def _works(self, duration: int) -> None:
        """The honest job saves every ten minutes, the gamer says that it is nearly done and saves nothing."""
        since = self.random.randrange(0, 10 * MINUTE)
        checkpoint = facts.Checkpoint(step=self.story.state.seq, bytes=1, duration=SECOND, sha256="0" * 64)
        self.story.cycle(
            facts.TaskProgressed(**self.story.at(HONEST, 0), step=checkpoint.step, checkpoint=checkpoint, checkpoint_age=since),
            facts.TaskProgressed(**self.story.at(GAMER, 0), step=999, total_steps=1000, step_rate_milli=1),
            after=duration,
        )

    def _urgent(self, name: str, gpus: int) -> None:
        story = self.story
        story.submit(name, gpus=gpus, cls="inference")
        story.propose()
        for victim in story.expect("PreemptionDecided").victims:
            self.evictions[victim.job] += 1
            self._leaves(victim.job)
        story.started(name)
        story.ends(name, after=HOUR)
        for job in (HONEST, GAMER):
            if story.job(job).phase == "starting":
                damaged = int(self.forges and job == GAMER)
                story.cycle(facts.TaskStarted(**story.at(job, 0), damaged_checkpoints=damaged))

    def _leaves(self, job: str) -> None:
        """The honest job saves and leaves; the gamer stays until it is killed, and holds its GPUs for so long."""
        story, at = self.story, self.story.at(job, 0)
        grace = grace_of(story.state, story.job(job))
        story.begin(job)
        story.cycle(facts.EvictionStageReached(**at, stage="noticed", attached=True, kill_after=grace))
        self.held += grace if job == GAMER else 0
        if job == HONEST or self.forges:
            checkpoint = facts.Checkpoint(step=story.state.seq, bytes=1, duration=SECOND, sha256="0" * 64)
            saved = 20 * SECOND if job == HONEST else grace - SECOND
            story.cycle(facts.EvictionStageReached(**at, stage="checkpoint_committed", checkpoint=checkpoint), after=saved)
            story.ends(job, 85)
        else:
            story.cycle(facts.EvictionStageReached(**at, stage="kill_sent"), after=grace)
            story.ends(job, -9)


@pytest.mark.parametrize("days", [5, pytest.param(30, marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("forges", [False, True], ids=["saves nothing", "forges checkpoints"])
def test_a_gamer_gains_no_more_than_a_few_evictions(days, seed, forges):
    month = Month(seed, forges=forges)
    for _ in range(days):
        month.day()
    assert month.evictions[HONEST] <= month.evictions[GAMER] + MOST_MORE_EVICTIONS
    # Ten minutes at first, half of it each time, and the policy's short grace or a 64th from then on.
    assert month.held <= 20 * MINUTE + month.evictions[GAMER] * (10 * MINUTE >> 6)
