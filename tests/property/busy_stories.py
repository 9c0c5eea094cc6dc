"""Histories of a contended pool, where the head of the queue is pending and others are backfilled: limits, gangs, ends."""

from collections.abc import Callable, Iterable, Sequence

from hypothesis import strategies as st
from tests.kits.log_builder import HOUR, MINUTE, Story, policy
from tests.property.random_stories import Step

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts
from bailiff_core.victims.batch import select_batch

SHAPES = ((1, 1), (1, 1), (1, 2), (1, 4), (2, 4), (4, 4), (3, 2), (6, 1), (1, 3), (1, 0))
LIMITS = (None, 10 * MINUTE, HOUR, None, 2 * HOUR, 5 * HOUR, None, 20 * MINUTE)
CLASSES = ("train", "train", "train", "train", "interactive")
RULES = policy(
    preemption={"actions": ["allocate", "preempt"]}, protections={"schedule_timeout": {"after": "6h", "action": "pass"}}
)


def busy_steps(most: int) -> st.SearchStrategy[list[Step]]:
    """Steps of such a history."""
    return st.lists(st.tuples(st.integers(0, 15), st.integers(0, 9), st.integers(0, 7)), min_size=most // 2, max_size=most)


class Busy:
    """Four nodes of four GPUs. check: called with the story after every cycle."""

    def __init__(self, check: Callable[[Story], None] | None = None) -> None:
        self.story = Story(RULES)
        self.check = check
        self.jobs = 0
        for name in "abcd":
            self.story.node(name, gpus=4, cpu=16)

    @property
    def state(self) -> PoolState:
        """The present state."""
        return self.story.state

    def play(self, steps: Iterable[Step]) -> Story:
        """Run all steps; returns the story."""
        for step in steps:
            self._do(*step)
            if self.check is not None:
                self.check(self.story)
        return self.story

    def _do(self, what: int, a: int, b: int) -> None:
        story, pool = self.story, self.state
        if what < 6:
            self._submit(a, b)
        elif what < 9:
            self._each([name for name in pool.starting if a % 2 or b % 2], story.started)
        elif what < 11:
            running = [name for name in pool.active if pool.jobs[name].phase == "running"]
            self._each(running[a % max(1, len(running)) :][: 1 + b % 2], story.ends)
        elif what < 13:
            story.cycle(facts.ClockAdvanced(), after=(1 + a) * 7 * MINUTE)
        elif what < 14:
            self._silence("abcd"[a % 4])
        else:
            self._answered()
            self._each(list(pool.evicting), lambda name: story.ends(name, code=85))

    def _submit(self, a: int, b: int) -> None:
        self.jobs += 1
        count, gpus = SHAPES[a % len(SHAPES)]
        shape = TaskGroup(count=count, gpu_milli=gpus * 1000, cpu_milli=1000 * (b % 3))
        limit, cls = LIMITS[b % len(LIMITS)], CLASSES[(a + b) % len(CLASSES)]
        self.story.submit(f"job-{self.jobs}", shape, cls=cls, run_time_limit=None if limit is None else f"{limit // MINUTE}m")

    def _each(self, names: Sequence[str], do: Callable[[str], object]) -> None:
        for name in names:
            if name in self.state.active:
                do(name)

    def _silence(self, name: str) -> None:
        node = self.state.nodes[self.state.node_numbers[name]]
        if node.state == "ready":
            self.story.silent(name)
        else:
            self.story.reachable(name)

    def _answered(self) -> None:
        if self.state.selection is not None:
            self.story.propose(proposals=select_batch(self.state, self.state.selection.requests, 2_000))
