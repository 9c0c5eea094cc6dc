"""Jobs that never run cannot evict another again and again: not by any of their owner's ways to end them and begin anew."""

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import GIB, SECOND, Story, policy

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import ENDED
from bailiff_core.records import facts

OPEN = 2
BACKOFF = 64 * SECOND
RULES = policy(preemption={"scope": "pool"}, identity={"keys": {"k": "eve"}}, restarts={"max_start_failures": 100})
WAYS = ("cancel", "refuse", "fail", "yield", "pause", "evict", "scale", "drain", "stop-at-its-limit", "let-it-be-taken")


class Owner:
    """Eve, with two jobs at a time for the one node, none of which runs for as long as the longest back-off."""

    def __init__(self) -> None:
        self.story = Story(RULES)
        self.story.node("n1")
        self.story.runs("low", gpus=8, grace=SECOND, cls="train")
        self.begun = self.story.time
        self.jobs = 0

    def settles(self) -> None:
        """Selections are answered, victims leave, and the victim runs again where there is room."""
        story = self.story
        for _ in range(8):
            while story.state.selection is not None:
                story.propose()
            evicted = [name for name in ("low", *self.open()) if story.job(name).phase == "evicting"]
            for name in evicted:
                story.yields(name, after=SECOND)
            if story.job("low").phase == "starting":
                story.started("low")
            elif not evicted:
                return

    def open(self) -> list[str]:
        """Her jobs that have not ended."""
        return [name for name, job in self.story.state.jobs.items() if name != "low" and job.phase not in ENDED]

    def submits(self) -> None:
        """One more job, under another name."""
        if len(self.open()) >= OPEN:
            return
        self.jobs += 1
        group = TaskGroup(count=1, gpu_milli=8000, memory_bytes=GIB)
        fact = self.story.submitted(f"eve-{self.jobs}", group, cls="interactive", max_failures=9, run_time_limit=2 * SECOND)
        self.story.actor = "eve"
        self.story.cycle(fact.model_copy(update={"user": "eve", "user_verified": True}))
        self.story.actor = ""

    def ends(self, way: str, ran: int) -> None:
        """Her first job that has a place loses it in this way, after this many seconds if it runs at all."""
        story = self.story
        placed = [name for name in self.open() if story.job(name).phase in ("reserved", "starting")]
        if not placed:
            return
        (name, *_), story.actor = placed, "eve"
        starting = story.job(name).phase == "starting"
        if way == "cancel":
            story.cancel(name)
        elif way == "drain":
            node = story.at(name, 0)["node"]
            story.drain(node)
            self.leave(name)
            story.undrain(node)
        elif way == "let-it-be-taken" or not starting:
            story.pause(name) if way == "pause" else story.evict(name)
        elif way == "refuse":
            story.cycle(facts.TaskStartRefused(**story.at(name, 0), reason="no such user"))
        else:
            story.started(name, after=ran * SECOND)
            if way in ("fail", "yield"):
                story.ends(name, 85 if way == "yield" else 127, after=SECOND)
            elif way == "pause":
                story.pause(name)
            elif way == "stop-at-its-limit":
                story.wait(3 * SECOND)
            else:
                story.evict(name)
        self.leave(name)
        if story.job(name).phase == "paused":
            story.resume(name)
        story.actor = ""

    def leave(self, name: str) -> None:
        """What is evicted of hers leaves at once."""
        if self.story.job(name).phase == "evicting":
            self.story.yields(name)


STEPS = st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 3), st.sampled_from((0, 1, 60, 64, 130))), max_size=30)


def of_each(way: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The example that she does this again and again."""
    return example([(way, 1, 5)] * 10)


@examples(150)
@given(STEPS)
@of_each("cancel")
@of_each("refuse")
@of_each("fail")
@of_each("yield")
def test_the_nth_eviction_by_jobs_that_do_not_run_comes_twice_as_late_each_time(steps) -> None:
    eve = Owner()
    for way, ran, wait in steps:
        eve.submits()
        eve.settles()
        eve.ends(way, ran)
        eve.story.wait(wait * SECOND)
        eve.settles()
        taken = eve.story.job("low").evictions
        elapsed, rounds = eve.story.time - eve.begun, 1
        while elapsed >= BACKOFF * (2**rounds - 1):
            rounds += 1
        assert taken <= rounds, f"{taken} evictions in {elapsed // SECOND} s"
