"""Jobs that wait for others, in random histories: none starts too early, waits for nothing, or is kept when it must end."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import MINUTE, Story, policy
from tests.property.incremental import afresh, deciding

from bailiff_core.model.demand import Dependency
from bailiff_core.model.state import ENDED, PoolState
from bailiff_core.records import facts

RULES = policy(retention={"ended_jobs": "30m"}, backfill="reserve")
Step = tuple[int, int, int]
STEPS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 15), st.integers(0, 15)), min_size=10, max_size=40)


class Waiting:
    """Jobs on four GPUs, most of which wait for earlier ones."""

    def __init__(self) -> None:
        self.story = Story(RULES)
        self.story.node("n1", gpus=4)
        self.needs: dict[str, tuple[Dependency, ...]] = {}
        self.ended: dict[str, str] = {}
        self.count = 0

    def play(self, steps: list[Step]) -> Story:
        for what, a, b in steps:
            self._do(what, a, b)
            self._check(self.story.state)
        return self.story

    def _do(self, what: int, a: int, b: int) -> None:
        story, jobs = self.story, list(self.story.state.jobs.values())
        living = [job.id for job in jobs if job.phase not in ENDED]
        running = [job.id for job in jobs if job.phase == "running"]
        if what < 4 or not living:
            self._submit(a, b)
        elif what < 6:
            for name in list(story.state.starting):
                story.started(name)
        elif what < 9 and running:
            story.ends(running[a % len(running)], code=int(b % 3 == 0))
        elif what == 9:
            story.cancel(living[a % len(living)])
        elif what == 10:
            (story.pause if b % 2 else story.resume)(living[a % len(living)])
        else:
            story.cycle(facts.ClockAdvanced(), after=(1 + b) * 5 * MINUTE)

    def _submit(self, a: int, b: int) -> None:
        self.count += 1
        name, known = f"job-{self.count}", list(self.story.state.jobs)
        chosen = dict.fromkeys(known[at % len(known)] for at in (a, b, a + b)[: b % 4]) if known else {}
        after = tuple(Dependency(job=each, until="ended" if (a + at) % 3 == 0 else "succeeded") for at, each in enumerate(chosen))
        self.needs[name] = after
        self.story.cycle(self.story.submitted(name, gpus=1 + a % 4, max_failures=0, after=after))

    def _check(self, state: PoolState) -> None:
        for job in state.jobs.values():
            if job.phase in ENDED:
                self.ended[job.id] = job.phase
        for job in state.jobs.values():
            outcomes = {each: self.ended.get(each.job) for each in self.needs[job.id]}
            unmet = [each for each, outcome in outcomes.items() if outcome is None]
            failed = [
                each for each, outcome in outcomes.items() if each.until == "succeeded" and outcome in ("failed", "cancelled")
            ]
            if job.attempt:
                assert not unmet, f"{job.id} was placed before {unmet}"
                assert not failed, f"{job.id} was placed although {failed} did not succeed"
            elif failed:
                assert job.phase in ("failed", "cancelled"), job
            assert (job.phase == "waiting") == (job.phase not in ENDED and bool(unmet)), job
            assert set(job.waits_for) == ({each.job for each in unmet} if job.phase == "waiting" else set())
            assert (job.id in state.queue) <= (job.phase != "waiting")
        waiting = {(other, job.id) for job in state.jobs.values() for other in job.waits_for}
        assert {(other, name) for other, names in state.dependents.items() for name in names} == waiting


@examples(25)
@given(STEPS)
def test_no_job_is_placed_before_its_dependencies_and_a_full_cycle_decides_the_same(steps: list[Step]) -> None:
    with deciding(afresh):
        story = Waiting().play(steps)
    story.holds()
