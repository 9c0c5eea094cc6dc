"""A job is in the queue from the moment that its `begin`, the jobs before it and its owner allow: not before, and not later."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import HOUR, MINUTE, Story, policy

from bailiff_core.model.demand import Dependency
from bailiff_core.model.state import ENDED

STEPS = st.one_of(
    st.tuples(st.just("submit"), st.none() | st.integers(-2, 6), st.none() | st.integers(0, 9)),
    st.tuples(st.sampled_from(["end", "pause", "resume", "cancel"]), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.integers(1, 4 * 60)),
    st.tuples(st.sampled_from(["policy", "restart"])),
)


class Played:
    """A pool with a place for everybody, and what each job is allowed."""

    def __init__(self) -> None:
        self.story = Story(policy())
        self.story.node("n1", gpus=8, cpu=64)
        self.begins: dict[str, int] = {}
        self.before: dict[str, str] = {}
        self.paused: dict[str, None] = {}
        self.allowed: dict[str, int] = {}
        self.started: dict[str, int] = {}

    def step(self, kind: str, *given: Any) -> None:
        """One step; one about a job that is over, or in another phase, does nothing."""
        story = self.story
        if kind == "submit":
            self._submit(*given)
        elif kind == "wait":
            for _ in range(given[0]):
                story.wait(MINUTE)
                self.look()
        elif kind == "policy":
            story.apply_policy(policy(retention={"ended_jobs": f"{story.state.seq + 1}d"}))
        elif kind == "restart":
            story.restart()
        elif self.begins and (job := story.state.jobs[name := f"job-{given[0] % len(self.begins)}"]).phase not in ENDED:
            if kind == "end" and job.phase in ("starting", "running"):
                story.ends(name)
            elif kind == "pause" and job.phase == "waiting":
                story.pause(name)
                self.paused[name] = None
            elif kind == "resume" and name in self.paused:
                story.resume(name)
                self.paused.pop(name)
            elif kind == "cancel" and job.phase == "waiting":
                story.cancel(name)
        self.look()

    def _submit(self, hours: int | None, after: int | None) -> None:
        number = len(self.begins)
        if number > 7:
            return
        name, before = f"job-{number}", f"job-{after % number}" if number and after is not None else ""
        self.begins[name] = 0 if hours is None else self.story.time + hours * HOUR
        fields: dict[str, Any] = {} if hours is None else {"begin": self.begins[name]}
        if before:
            self.before[name] = before
            fields["after"] = (Dependency(job=before, until="ended"),)
        self.story.cycle(self.story.submitted(name, gpus=1, **fields))

    def look(self) -> None:
        """Notes from when on each job may start, and since when each has a place."""
        now, jobs = self.story.time, self.story.state.jobs
        for name, begin in self.begins.items():
            before = self.before.get(name)
            is_held = name in self.paused or jobs[name].phase == "cancelled"
            if begin <= now and not is_held and (before is None or jobs[before].phase in ENDED):
                self.allowed.setdefault(name, now)
            if jobs[name].tasks:
                self.started.setdefault(name, now)
                assert name in self.allowed, f"{name} has a place before it may"
        assert self.started == self.allowed


@examples(200)
@given(st.lists(STEPS, min_size=4, max_size=25))
def test_a_job_starts_at_the_moment_from_which_it_may(steps: list[tuple[Any, ...]]) -> None:
    played = Played()
    for kind, *given_ in steps:
        played.step(kind, *given_)
    played.story.holds()
