"""Whatever others queue or hold: a project that rounding leaves without a GPU has its turn within hours."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples
from tests.kits.log_builder import HOUR, SECOND, Story, policy

from bailiff_core.model.demand import TaskGroup

STEP = 300 * SECOND
WHOLE = TaskGroup(count=1, gpu_milli=1000)
SIZES = st.sampled_from([1000, 900, 600, 500, 400, 300, 250, 110, 100])


def part(milli: int) -> TaskGroup:
    return WHOLE if milli == 1000 else TaskGroup(count=1, gpu_milli=milli, gpu_share_milli=milli)


def settle(story: Story, stuck: str = "") -> None:
    """Victims yield at once, and what may start starts, but for `stuck`."""
    for _ in range(4):
        while story.state.selection is not None:
            story.propose()
        for name, job in list(story.state.jobs.items()):
            if job.phase == "evicting":
                story.yields(name)
        for name, job in list(story.state.jobs.items()):
            if job.phase == "starting" and name != stuck:
                story.started(name)


def times_with_a_gpu(story: Story, hours: int, stuck: str = "") -> dict[str, int]:
    """By job, for how long it has its tasks, µs."""
    found: dict[str, int] = {}
    for _ in range(hours * HOUR // STEP):
        story.wait(STEP)
        settle(story, stuck)
        for name, job in story.state.jobs.items():
            found[name] = found.get(name, 0) + (STEP if job.tasks else 0)
    return found


def one_gpu(*names: str) -> Story:
    story = Story(policy(projects=[{"name": name} for name in names]))
    story.node("n1", gpus=1)
    return story


@examples(40)
@given(st.one_of(st.just([1000]), st.lists(SIZES, min_size=1, max_size=5)), st.lists(SIZES, max_size=5), st.integers(1, 3))
def test_each_project_has_its_turn_whatever_another_holds_and_queues(held: list[int], queued: list[int], others: int) -> None:
    story = one_gpu("old", *(f"young{number}" for number in range(others)))
    for number, milli in enumerate(held):
        story.cycle(story.submitted(f"held{number}", part(milli), project="old"))
    settle(story)
    for number in range(others):
        story.submit(f"y{number}", gpus=1, project=f"young{number}")
    for number, milli in enumerate(queued):
        story.cycle(story.submitted(f"queued{number}", part(milli), project="old"))
    if sum(held) + sum(queued) <= 1000 // (others + 1):
        return  # no more than its part
    had = times_with_a_gpu(story, others + 1)
    assert all(had[f"y{number}"] for number in range(others)), had


def test_a_job_that_never_starts_has_no_more_than_its_turn() -> None:
    story = one_gpu("old", "young")
    story.submit("stuck", gpus=1, project="old")
    story.submit("y", gpus=1, project="young")
    assert times_with_a_gpu(story, 8, stuck="stuck") == {"stuck": 4 * HOUR, "y": 4 * HOUR}


def test_a_project_that_waits_for_long_graces_has_its_turn_all_the_same() -> None:
    """The turn of `young` begins after an hour, its victim takes 50 minutes: from then on `young` has an hour."""
    story = one_gpu("old", "young")
    story.submit("o", gpus=1, project="old", grace=HOUR)
    story.started("o")
    story.submit("y", gpus=1, project="young")
    while story.job("o").phase != "evicting":
        story.wait(STEP)
        while story.state.selection is not None:
            story.propose()
    story.wait(HOUR - 2 * STEP)
    story.yields("o")
    assert story.job("y").phase == "starting"
    assert times_with_a_gpu(story, 1) == {"o": 0, "y": HOUR}
