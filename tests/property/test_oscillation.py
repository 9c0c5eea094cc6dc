"""Without arrivals a pool comes to rest: no two jobs evict each other in turn, none moves or changes its size again and again.

Random pools with every feature at once are left in the middle of what they do. From then on nothing arrives, fails or ends:
agents start what starts and stop what is evicted, victim selection answers, and time passes. Requests for victims may be
repeated for ever; whatever stops, moves or resizes a job may not.
"""

from collections import Counter
from random import Random
from types import ModuleType

import pytest
from tests.kits.examples import share
from tests.kits.log_builder import Story
from tests.property import crowded_worlds, rich_worlds
from tests.property.rich_stories import Rich

from bailiff_core.decision_cycle import wake_at
from bailiff_core.model.evictions import active_evictions
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

ROUNDS = 600
CALM = 40  # rounds in a row in which nothing stops, moves or grows
DISPLACED = (decisions.PreemptionDecided, decisions.MigrationDecided, decisions.EvictionDecided, decisions.JobGrown)


class Quiet:
    """A pool to which nothing comes any more."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.seen: Counter[str] = Counter()

    def comes_to_rest(self) -> bool:
        """Whether nothing stops, moves or grows for a long time."""
        calm = 0
        for _ in range(ROUNDS):
            made = self._round()
            moving = self._note(made)
            calm = 0 if moving or self.story.state.evicting or self.story.state.starting else calm + 1
            if calm > CALM:
                return True
        return False

    def _note(self, made: list[Decision]) -> bool:
        moving = False
        for each in made:
            if isinstance(each, DISPLACED):
                moving = True
                names = [v.job for v in each.victims] if isinstance(each, decisions.PreemptionDecided) else [each.job]
                self.seen.update(f"{type(each).NAME} {name}" for name in names)
        return moving

    def _round(self) -> list[Decision]:
        """What agents and victim selection have to do; without that, time passes until something is due."""
        story = self.story
        given = list(self._agents())
        if given:
            return story.cycle(*given)
        if story.state.selection is not None and story.state.proposals is None:
            return story.propose()
        wake = wake_at(story.state)
        return story.cycle(facts.ClockAdvanced(), after=max(0, wake - story.time) if wake is not None else 0)

    def _agents(self) -> list[Fact]:
        story, state = self.story, self.story.state
        begun = [
            facts.EvictionStarted(job=entry.job.id, attempt=entry.job.attempt, decided_by=entry.eviction.decided_seq)
            for entry in active_evictions(state)
            if entry.eviction.started_seq is None
        ]
        if begun:
            return list(begun)
        found: list[Fact] = []
        for job in state.active_jobs():
            for task in job.tasks:
                at = story.at(job.id, task.index)
                evictions = [each for each in (job.eviction, task.eviction) if each is not None]
                if task.state == "exited":
                    found.append(facts.TaskReleased(**at))
                elif task.state == "starting" and not evictions:
                    found.append(facts.TaskStarted(**at))
                elif task.state in ("starting", "running") and any(each.cancel_seq is not None for each in evictions):
                    if not task.eviction_cancelled:
                        found.append(facts.TaskEvictionCancelled(**at))
                elif task.state == "starting" and evictions:
                    found.append(facts.TaskStartRefused(**at, reason="it was evicted before it was started"))
                elif task.state == "running" and evictions:
                    found += [facts.TaskExited(**at, exit_code=85), facts.TaskReleased(**at)]
        return found


@pytest.mark.parametrize("worlds", [rich_worlds, crowded_worlds])
def test_a_pool_to_which_nothing_comes_comes_to_rest(worlds: ModuleType) -> None:
    seen: Counter[str] = Counter()
    for seed in range(share(24)):
        rich = Rich(Random(seed), lambda _: None, worlds)
        rich.play(25)
        quiet = Quiet(rich.story)
        assert quiet.comes_to_rest(), (seed, quiet.seen.most_common(8))
        seen.update(name.split()[0] for name in quiet.seen.elements())
    assert all(seen[each.NAME] for each in DISPLACED), seen
