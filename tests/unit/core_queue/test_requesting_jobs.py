"""Which pending jobs request a preemption, by which action, and who is not started for it."""

from typing import Any

import pytest
from tests.kits.builders import requested_unit
from tests.kits.log_builder import Story, policy
from tests.kits.pools import Bench

from bailiff_core.actions import requesting as requesting_module
from bailiff_core.actions.possible_victims import PossibleVictims, possible_actions
from bailiff_core.actions.preempt import request_preemptions
from bailiff_core.actions.requesting import MAX_SELECTION_TIMEOUTS, RequestingJobs, requesting_units
from bailiff_core.model.state import Job, OpenRequest, Selection
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot

# --- nobody is started whom a job that requests preemption may evict at once: who requests, and who may be evicted for it


def pool(**preemption: Any) -> Bench:
    """A job of low priority has all GPUs; the preemptor, of priority 75, waits for one of them."""
    bench = Bench(preemption={"scope": "pool", "actions": ["allocate", "preempt"], **preemption})
    bench.running("x", gpus=8, priority=10)
    bench.state.indices.snapshot = None
    return bench


def rival(bench: Bench, priority: int = 50, requesting: RequestingJobs | None = None, **about: Any) -> str | None:
    """For whom a job of this priority is not started."""
    name = f"low-{len(bench.state.jobs)}"
    job = bench.waiting(name, priority=priority, **about)
    unit = requested_unit(job)
    found = (requesting or RequestingJobs(bench.state)).may_evict(unit)
    return None if found is None else found.id


def select(bench: Bench, *jobs: Job, deadline: int | None = 9) -> None:
    """An open selection for these jobs."""
    bench.state.selection = Selection(1, 1, deadline, [OpenRequest(number, job.id) for number, job in enumerate(jobs)])


@pytest.mark.parametrize(("priority", "found"), [(50, "preemptor"), (74, "preemptor"), (75, None), (80, None)])
def test_a_job_of_lower_priority_than_one_that_requests_is_not_started(priority: int, found: str | None) -> None:
    assert rival(pool(), priority) == found


def test_a_class_that_never_preempts_keeps_nobody_from_starting_as_long_as_another_action_is_meant() -> None:
    """It requests the GPUs of backfilled jobs, which other jobs are not."""
    bench = pool()
    bench.preemptor.may_preempt = False
    requesting = RequestingJobs(bench.state)
    requesting._requesting = {"preemptor": ("preempt",)}
    assert rival(bench, requesting=requesting) is None
    bench.preemptor.may_preempt = True
    assert rival(bench, requesting=requesting) == "preemptor"


@pytest.mark.parametrize(
    ("failures", "actions", "found"),
    [
        (0, ["allocate", "preempt"], "preemptor"),
        (MAX_SELECTION_TIMEOUTS - 1, ["allocate", "preempt"], "preemptor"),
        (MAX_SELECTION_TIMEOUTS, ["allocate", "preempt"], None),  # no proposal is expected in time
        (0, ["allocate"], None),
    ],
)
def test_nobody_waits_for_requests_that_nobody_answers(failures: int, actions: list[str], found: str | None) -> None:
    bench = pool(actions=actions)
    bench.state.selection_failures = failures
    assert rival(bench) == found


@pytest.mark.parametrize(("deadline", "found"), [(9, "preemptor"), (None, None)])
def test_while_a_selection_is_open_its_jobs_are_those_that_request(deadline: int | None, found: str | None) -> None:
    bench = pool()
    bench.waiting("another", priority=90)
    select(bench, bench.preemptor, deadline=deadline)
    assert rival(bench) == found


def test_a_job_of_the_selection_that_has_its_place_by_now_requests_nothing() -> None:
    bench = pool()
    placed = bench.running("placed", gpus=0, priority=90)
    select(bench, placed, bench.preemptor)
    assert rival(bench) == "preemptor"


@pytest.mark.parametrize(
    ("about", "found"),
    [
        ({}, "late"),
        ({"blocked": True}, None),  # it would fit, but for the head of the queue
        ({"selection": True}, None),  # its request has to wait
        ({"backoff": 1}, None),
        ({"backoff": 0}, "late"),
        ({"unseen": True}, None),  # nobody looked at the jobs yet: it will be among them
    ],
)
def test_a_job_that_the_pass_finds_no_place_for_requests_as_well(about: dict[str, Any], found: str | None) -> None:
    """Its place was free when the pass began, so it was not among those that request."""
    bench = pool()
    bench.preemptor.next_request_at = bench.state.now + 1
    late = bench.waiting("late", priority=70)
    late.next_request_at = bench.state.now + 1
    requesting = RequestingJobs(bench.state)
    if not about.get("unseen"):
        assert rival(bench, requesting=requesting) is None
    late.next_request_at = bench.state.now + about.get("backoff", 0)
    if about.get("blocked"):
        bench.state.indices.backfill_blocked["late"] = None
    if about.get("selection"):
        select(bench, bench.preemptor)
    requesting.did_not_fit(requested_unit(late))
    if about.get("unseen"):
        late.next_request_at = bench.state.now + 1
    assert rival(bench, requesting=requesting) == found


@pytest.mark.parametrize(
    ("later", "victims", "actions"),
    [
        (0, True, [("preemptor", ("preempt",))]),
        (1, True, []),  # it is not the head: its backoff counts
        (0, False, []),
    ],
)
def test_who_requests_at_all(later: int, victims: bool, actions: Any) -> None:
    bench = pool()
    bench.preemptor.next_request_at = bench.state.now + later
    bench.state.jobs["x"].priority = 10 if victims else 80
    bench.state.indices.snapshot = None
    found = requesting_units(bench.state, PossibleVictims(bench.state), 9)
    assert [(unit.job.id, tried) for unit, tried in found] == actions


@pytest.mark.parametrize(
    ("about", "requests"),
    [
        ({}, True),
        ({"truncation_unreconciled": True}, False),  # jobs that the log lost may still run there
        ({"selection": Selection(1, 1, None, [OpenRequest(1, "preemptor")])}, False),
    ],
)
def test_when_a_selection_is_opened(about: dict[str, Any], requests: bool) -> None:
    bench = pool()
    for name, value in about.items():
        setattr(bench.state, name, value)
    found = [each.job for each in request_preemptions(bench.state)]  # type: ignore[attr-defined]
    assert found == (["preemptor"] if requests else [])


PROJECTS = ({"name": "ours", "quota": {"gpus": 8}}, {"name": "theirs", "quota": {"gpus": 0}})


@pytest.mark.parametrize(
    ("about", "actions"),
    [
        ({}, ("reclaim", "preempt")),
        ({"may_preempt": False}, ("reclaim",)),
        ({"later": 1}, ("preempt",)),  # the backfilled jobs leave for it whatever its backoff; for others it has to wait
        ({"later": 1, "preemptible": False, "quota": 0}, None),  # its project may not have the GPUs
    ],
)
def test_the_head_requests_the_gpus_of_backfilled_jobs_besides_what_it_may_request_anyway(
    monkeypatch: pytest.MonkeyPatch, about: dict[str, Any], actions: tuple[str, ...] | None
) -> None:
    projects = [{**PROJECTS[0], "quota": {"gpus": about.get("quota", 8)}}, PROJECTS[1]]
    bench = Bench(preemption={"scope": "pool", "actions": ["allocate", "reclaim", "preempt"]}, projects=projects)
    bench.running("x", gpus=8, priority=10, project="theirs")
    head = bench.preemptor
    head.next_request_at = bench.state.now + about.get("later", 0)
    head.may_preempt, head.preemptible = about.get("may_preempt", True), about.get("preemptible", True)
    bench.state.indices.snapshot = None
    monkeypatch.setattr(requesting_module, "_head_with_backfilled_victims", lambda _: head)
    found = requesting_units(bench.state, PossibleVictims(bench.state), 9)
    assert [(unit.job.id, tried) for unit, tried in found] == ([("preemptor", actions)] if actions else [])


def test_a_job_that_the_pass_has_placed_keeps_nobody_from_starting() -> None:
    """Both fit. The first one to be placed might preempt the second, if it needed to."""
    story = Story(
        policy(
            backfill="greedy",
            preemption={"scope": "pool", "actions": ["allocate", "preempt"], "cap_at_fair_share": False},
            projects=[{"name": name, "quota": {"gpus": 8}} for name in "abc"],
        )
    )
    story.node("n1", gpus=8)
    story.runs("x", gpus=6, project="c", cls="train")
    first = story.submitted("first", gpus=1, project="a", cls="interactive")
    made = story.cycle(first, story.submitted("second", gpus=1, project="b", cls="train"))
    assert [(type(each).__name__, each.job) for each in made] == [("JobPlaced", "first"), ("JobPlaced", "second")]


# --- which pending jobs request a preemption now, how many, and when the head of the queue does before its backoff is over


@pytest.fixture
def bench() -> Bench:
    """A job of low priority has all GPUs; the preemptor and two others wait."""
    made = Bench(preemption={"scope": "pool", "actions": ["allocate", "preempt"]})
    made.running("x", gpus=8, priority=10)
    for name, priority in (("first", 90), ("second", 80)):
        made.waiting(name, gpus=2, priority=priority)
    made.state.indices.snapshot = None
    return made


def found(bench: Bench, limit: int = 9, besides: tuple[str, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    units = requesting_units(bench.state, PossibleVictims(bench.state), limit, besides)
    return [(unit.job.id, actions) for unit, actions in units]


@pytest.mark.parametrize("later", [-1, 1])
def test_a_job_that_may_not_request_yet_does_not_count_for_the_place_of_its_project(later: int) -> None:
    """With the four GPUs of `large`, project a would use more than project b with the two of `b1`."""
    bench = Bench(
        projects=[{"name": name} for name in "ab"],
        preemption={"scope": "pool", "actions": ["allocate", "preempt"], "cap_at_fair_share": False},
    )
    del bench.state.jobs["preemptor"]
    bench.state.queue.clear()
    bench.running("x", gpus=8, priority=10, project="b")
    bench.state.jobs["x"].project = ""
    large = bench.waiting("large", gpus=4, priority=90, project="a")
    bench.waiting("b1", gpus=2, priority=80, project="b")
    bench.waiting("a1", gpus=1, priority=80, project="a")
    large.next_request_at = bench.state.now + later
    bench.state.indices.snapshot = None
    order = [name for name, _ in found(bench)]
    assert order == (["b1", "large", "a1"] if later < 0 else ["a1", "b1"])


# --- cheap tests before victims are searched: which jobs may ask for a preemption, and by which action it might succeed


PROJECTS_POSSIBLE_VICTIMS = ({"name": "ours", "quota": {"gpus": 4}}, {"name": "theirs", "quota": {"gpus": 4}})


def victims_of(*projects: dict[str, Any], migrations: int = 0, scope: str = "pool", **preemption: Any) -> Bench:
    rules = {"scope": scope, "max_migrations": migrations, "quota_shields": False, **preemption}
    return Bench(projects=projects, preemption=rules)


def victims(bench: Bench) -> PossibleVictims:
    bench.state.indices.snapshot = None
    return PossibleVictims(bench.state)


# --- which actions are worth a request


def possible(bench: Bench, gpus: int = 1) -> tuple[str, ...]:
    job = bench.waiting(f"asks-{gpus}", priority=75, project="ours", gpus=gpus)
    found = victims(bench)
    snapshot = current_snapshot(bench.state)
    return possible_actions(snapshot, shares_now(snapshot), requested_unit(job), found)


def test_a_request_names_the_actions_that_may_succeed_in_their_order() -> None:
    bench = victims_of(*PROJECTS_POSSIBLE_VICTIMS, migrations=1)
    bench.running("x", project="theirs", gpus=6)
    assert possible(bench) == ("consolidate", "reclaim", "preempt")


def test_consolidation_is_left_out_where_too_little_is_free_in_total() -> None:
    bench = victims_of(*PROJECTS_POSSIBLE_VICTIMS, migrations=1)
    bench.running("x", project="theirs", gpus=6)
    assert possible(bench, gpus=3) == ("reclaim", "preempt")
    bench = victims_of(*PROJECTS_POSSIBLE_VICTIMS)
    bench.running("x", project="theirs", gpus=6)
    assert possible(bench, gpus=2) == ("reclaim", "preempt"), "the policy moves no job"


def test_reclaim_is_left_out_for_a_project_beyond_its_share() -> None:
    bench = victims_of(*PROJECTS_POSSIBLE_VICTIMS, migrations=1)
    bench.running("x", project="theirs", gpus=2)
    bench.waiting("more", project="theirs", gpus=2)
    assert possible(bench, gpus=5) == ("consolidate", "preempt")


def test_a_job_that_nothing_can_help_does_not_change_whose_request_is_first() -> None:
    """Its class never preempts. With its eight GPUs its project would be behind the other one."""
    bench = victims_of(*PROJECTS_POSSIBLE_VICTIMS, actions=("allocate", "preempt"))
    bench.running("x", gpus=8, priority=10)
    hopeless = bench.waiting("hopeless", project="ours", gpus=8, priority=75)
    hopeless.may_preempt = False
    bench.waiting("other", project="theirs", gpus=2, priority=60)
    bench.preemptor.priority = 50
    found = requesting_units(bench.state, victims(bench), 9)
    assert [unit.job.id for unit, _ in found] == ["preemptor", "other"]
