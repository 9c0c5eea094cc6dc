"""Whatever others queue or hold: a project that rounding leaves without a GPU has its turn within hours, and with a half-life
each has its part of the time."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.examples import examples, share
from tests.kits.log_builder import DAY, HOUR, SECOND, Story, folded, policy, replayed
from tests.property import rich_worlds
from tests.property.rich_facts import Draw
from tests.property.rich_stories import Rich

from bailiff_core.fold.past_use import average_use
from bailiff_core.fold.snapshot import from_snapshot, state_digest, to_snapshot
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.policy import FairnessRules, Policy
from bailiff_core.model.project_tree import tree_of
from bailiff_core.model.state import PoolState
from bailiff_core.model.work_lost import allocated_gpu_milli

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


def hourly_gpus(gpus: int, weights: Sequence[int], quota: int, days: int) -> list[list[int]]:
    """What projects that always want all GPUs have, hour by hour, with a half-life of a day."""
    names = [f"p{number}" for number in range(len(weights))]
    projects = [{"name": name, "over_quota_weight": weight} for name, weight in zip(names, weights, strict=True)]
    projects[-1]["quota"] = {"gpus": quota}
    story = Story(policy(projects=projects, fairness={"half_life": "1d"}))
    story.node("n1", gpus=gpus)
    for number in range(gpus):
        for name in names:
            story.submit(f"{name}-{number}", gpus=1, project=name)
    settle(story)
    found = []
    for _ in range(24 * days):
        story.wait(HOUR)
        settle(story)
        running = [job.project for job in story.state.jobs.values() if job.tasks]
        found.append([running.count(name) for name in names])
        assert running.count(names[-1]) >= quota
    assert replayed(story.wires).difference is None
    return found


@pytest.mark.parametrize(
    ("gpus", "weights", "quota"),
    [
        (1, (2, 1), 0),
        (4, (1, 1), 1),
        *(
            pytest.param(*pool, marks=pytest.mark.long)
            for pool in [(1, (1, 1), 0), (4, (2, 1), 0), (2, (1, 1), 0), (5, (1, 1, 2), 0)]
        ),
    ],
)
def test_projects_that_always_want_everything_have_their_part_of_the_time(gpus: int, weights: Sequence[int], quota: int) -> None:
    """Beyond the quota of the last one, within 5 % of the GPUs; at most so many evictions as there are turns of an hour."""
    hours = hourly_gpus(gpus, weights, quota, days=3)
    had = [sum(column) for column in zip(*hours, strict=True)]
    had[-1] -= quota * len(hours)
    for amount, weight in zip(had, weights, strict=True):
        assert abs(amount / sum(had) - weight / sum(weights)) < 0.05, had
    lost = [sum(max(0, a - b) for a, b in zip(before, after, strict=True)) for before, after in pairwise(hours)]
    assert max(lost) <= 1
    if gpus % sum(weights) == 0 and not quota:
        assert not any(lost[1:])


@pytest.mark.parametrize("fairness", [{}, {"half_life": "1d"}])
def test_where_quotas_exceed_what_there_is_each_has_its_turn_with_a_half_life_too(fairness: dict[str, str]) -> None:
    """What is within quotas is no past use, so that past use cannot tell whose turn it is."""
    story = Story(policy(projects=[{"name": name, "quota": {"gpus": 1}} for name in "oy"], fairness=fairness))
    story.node("n1", gpus=1)
    for name in "oy":
        story.submit(f"{name}-1", gpus=1, project=name)
    settle(story)
    had = ""
    for _ in range(8):
        had += "".join(str(job.project) for job in story.state.jobs.values() if job.tasks)
        story.wait(HOUR)
        settle(story)
    assert had == "oyoyoyoy"
    assert replayed(story.wires).difference is None


def test_jobs_that_need_the_whole_pool_take_turns_as_in_the_text() -> None:
    story = Story(policy(projects=[{"name": "a"}, {"name": "b"}], fairness={"half_life": "1d"}))
    story.node("n1", gpus=4)
    for name in ("a", "b"):
        story.submit(name, gpus=4, project=name)
        settle(story)
    has = []
    for _ in range(4 * 18):
        story.wait(HOUR)
        settle(story)
        has += [name for name, job in story.state.jobs.items() if job.tasks]
    assert [len(list(hours)) for _, hours in groupby(has)] == [6, 13, 13, 13, 13, 13, 1]


def days_of_the_whole_pool(gpus: int, others: int, days: int) -> list[bool]:
    """Whether the one job of a project that needs all GPUs has them, hour by hour, beside projects with queues of small ones."""
    names = [f"p{number}" for number in range(others)]
    story = Story(policy(projects=[{"name": name} for name in ("whole", *names)], fairness={"half_life": "1d"}))
    story.node("n1", gpus=gpus)
    for number in range(gpus):
        for name in names:
            story.submit(f"{name}-{number}", gpus=1, project=name)
    settle(story)
    story.submit("all", gpus=gpus, project="whole")
    found = []
    for _ in range(24 * days):
        story.wait(HOUR)
        settle(story)
        found.append(bool(story.job("all").tasks))
    assert replayed(story.wires).difference is None
    return found


@pytest.mark.parametrize(
    ("gpus", "others"), [(3, 3), *(pytest.param(*pool, marks=pytest.mark.long) for pool in [(4, 1), (4, 4), (2, 3), (8, 5)])]
)
def test_with_a_half_life_a_job_of_the_whole_pool_has_its_turn_beside_small_ones(gpus: int, others: int) -> None:
    had = days_of_the_whole_pool(gpus, others, days=7)
    assert any(had[:48]), "it waited for two days"
    assert not all(had[48:])
    assert abs(sum(had) / len(had) - 1 / (others + 1)) < 0.15, sum(had) / len(had)


def worlds_with_a_half_life() -> SimpleNamespace:
    def rules(draw: Draw) -> Policy:
        fairness = FairnessRules(half_life=draw.of(DAY, DAY, 7 * DAY, None))
        return rich_worlds.rules(draw).model_copy(update={"fairness": fairness})

    return SimpleNamespace(**vars(rich_worlds) | {"rules": rules})


def held_now(state: PoolState) -> dict[str, int]:
    """By project, counted anew."""
    tree, found = tree_of(state), dict[str, int]()
    for job in state.jobs.values():
        for task in job.tasks:
            if task.state not in ("reserved", "released"):
                for name in tree.branches[tree.leaf_of(job.project)].path[:-1]:
                    found[name] = found.get(name, 0) + allocated_gpu_milli(state, job, (task,))
    return {name: amount for name, amount in found.items() if amount}


def test_past_use_follows_every_history_and_is_folded_alike() -> None:
    """What is held is as counted anew, averages stay below the most that was held, and the bytes alone give the same state."""
    used = 0
    for seed in range(share(30)):
        most = dict[str, int]()

        def look(story: Story, most: dict[str, int] = most) -> None:
            state, held = story.state, held_now(story.state)
            if state.past_use is None:
                assert state.rules.fairness.half_life is None
                return
            assert {name: use.held for name, use in state.past_use.projects.items() if use.held} == held
            for name in state.past_use.projects:
                most[name] = max(most.get(name, 0), held.get(name, 0))
                assert 0 <= average_use(state, name) <= most[name]

        rich = Rich(Random(seed), look, worlds_with_a_half_life())
        rich.play(40)
        state = rich.story.state
        used += sum(average_use(state, name) > 0 for name in (state.past_use.projects if state.past_use else ()))
        again = folded(rich.story.wires)
        assert (again.past_use, again.share_turns) == (state.past_use, state.share_turns)
        assert state_digest(from_snapshot(to_snapshot(state))) == state_digest(state)
    assert used
