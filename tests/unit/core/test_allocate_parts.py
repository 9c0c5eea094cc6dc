"""Parts of allocate: keys of what fits alike, reasons, who waits behind a selection, surplus of a gang that is only reserved."""

from typing import Any

import pytest
from tests.builders import Sketch, group, requested_unit
from tests.log_builder import GIB, HOUR, Story, policy
from tests.unit.core_protections.kit import rules

from bailiff_core.actions import allocate as allocate_module
from bailiff_core.actions.allocate import allocate, is_behind_selection, pending_reason, scheduling_class_of
from bailiff_core.actions.fits_now import fits_without_evictions
from bailiff_core.fold.pending_queue import enqueue
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import OpenRequest, Selection, Task
from bailiff_core.model.units import Unit
from bailiff_core.placement.gang import NoFit
from bailiff_core.placement.step_budget import StepBudget
from bailiff_core.queue.backfill import Backfill
from bailiff_core.scheduling_snapshot import current_snapshot


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a", gpus=2)
    return made


@pytest.mark.parametrize(
    ("placed", "indices", "own"),
    [
        ((), (0, 1, 2), False),
        ((), (0, 1), True),
        ((0,), (1, 2), True),
        ((7,), (0, 1, 2), True),  # a task beyond its size: the job was scaled down, and its other tasks are gone
    ],
)
def test_a_job_shares_its_key_only_as_a_whole_and_while_none_of_it_is_placed(
    sketch: Sketch, placed: tuple[int, ...], indices: tuple[int, ...], own: bool
) -> None:
    job = sketch.job("job", group(3, gpus=1))
    job.tasks = [Task(index, 0, 1 << index, "running") for index in placed]
    key = scheduling_class_of(Unit(job, indices, core=True))
    assert (key != job.scheduling_class) is own
    assert ("@job" in key) is bool(placed)


def test_the_reason_of_a_request_is_the_bound_before_the_lack_of_resources(sketch: Sketch) -> None:
    job = sketch.job("job", group(gpus=2))
    assert pending_reason(sketch.state, job) == "it does not fit"
    key = scheduling_class_of(requested_unit(job))
    sketch.state.indices.unschedulable[key] = "needs 2 free GPUs"
    assert pending_reason(sketch.state, job) == "needs 2 free GPUs"
    job.project = "p"
    sketch.state.policy = rules(projects=[{"name": "p", "quota": {"gpus": 1}, "limit": {"gpus": 1}}])
    sketch.state.indices.snapshot = None
    assert "limit" in pending_reason(sketch.state, job)


def test_a_job_that_has_all_of_its_tasks_lacks_no_bound(sketch: Sketch) -> None:
    assert pending_reason(sketch.state, sketch.running("job", "a", [0])) == "it does not fit"


@pytest.mark.parametrize(
    ("deadline", "requesting", "behind"), [(9, "first", True), (None, "first", False), (9, "job", False), (9, None, False)]
)
def test_who_waits_for_the_proposals_of_a_selection(
    sketch: Sketch, deadline: int | None, requesting: str | None, behind: bool
) -> None:
    sketch.job("first", priority=60)
    job = sketch.job("job", priority=50)
    if requesting is not None:
        sketch.state.selection = Selection(1, 1, deadline, [OpenRequest(1, requesting)])
    assert is_behind_selection(sketch.state, job) is behind


def test_the_head_waits_for_the_proposals_of_a_selection_as_others_do(sketch: Sketch) -> None:
    """Two running jobs ask for more: `first` for GPUs that the node does not have, `second` by a request that is open."""
    state = sketch.state
    state.policy = rules(preemption={"actions": ["allocate"]})
    sketch.node("b", gpus=1)
    for name, number, gpus in (("first", 0, 2), ("second", 1, 1)):
        job = sketch.at(sketch.job(name, group(gpus=1), priority=70 - number), ("a", [number]))
        job.demand = job.demand.model_copy(update={"tasks": (group(gpus=1), group(gpus=gpus)), "min_tasks": 1})
        enqueue(state, job)
    sketch.job("head", group(gpus=1))
    state.indices.retry_unschedulable, state.indices.to_schedule = False, {"first": None}
    state.selection = Selection(1, 1, 9, [OpenRequest(1, "second")])
    assert next(allocate(state), None) is None
    state.selection, state.indices.to_schedule = None, {"first": None}
    placed = next(allocate(state), None)
    assert (type(placed).__name__, placed and placed.job) == ("JobPlaced", "head")  # type: ignore[attr-defined]


def test_jobs_that_wait_for_the_head_are_not_tried_again_before_its_reservation_changes(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = sketch.state
    state.policy = rules(backfill="reserve", preemption={"actions": ["allocate"]})
    sketch.node("b", gpus=4)
    sketch.at(sketch.job("running", group(gpus=2)), ("b", [0, 1]))
    sketch.at(sketch.job("fills", group(gpus=2)), ("a", [0, 1]))
    sketch.job("head", group(gpus=4), priority=60)
    sketch.job("job", group(gpus=1))
    assert [type(decision).__name__ for decision in allocate(state)] == ["JobPending", "JobPending"]
    assert state.indices.backfill_blocked == {"job": None}
    tried: list[str] = []
    monkeypatch.setattr(allocate_module, "scheduling_class_of", lambda unit: tried.append(unit.job.id) or "key")
    assert list(allocate(state)) == []
    assert tried == []
    sketch.job("before", group(gpus=4), priority=61)
    for name in ("head", "job"):
        state.jobs[name].pending_recorded = True
    assert [type(decision).__name__ for decision in allocate(state)] == ["JobPending"]
    assert tried == ["before", "job"], "it waits for another head"


def test_jobs_that_waited_for_a_head_are_tried_again_once_there_is_no_head(sketch: Sketch) -> None:
    """The job is suspended meanwhile, and the head was cancelled: the queue has no head."""
    state = sketch.state
    job = sketch.job("job", group(gpus=1))
    job.suspended_reason = "deciding about it failed"
    state.indices.retry_unschedulable = False
    state.indices.backfill_blocked, state.indices.to_schedule = {"job": None}, {}
    state.indices.head_reservation = (current_snapshot(state).usage.position, ("head", {}, None))
    assert list(allocate(state)) == []
    assert (state.indices.backfill_blocked, state.indices.to_schedule) == ({}, {"job": None})


def test_a_job_that_does_not_fit_at_all_any_more_does_not_wait_for_the_head(sketch: Sketch) -> None:
    state = sketch.state
    sketch.at(sketch.job("running", group(gpus=2)), ("a", [0, 1]))
    head, _ = sketch.job("head", group(gpus=2), priority=60), sketch.job("job", group(gpus=1))
    snapshot = current_snapshot(state)
    reservation = Backfill(snapshot, requested_unit(head), StepBudget(1_000)).reservation()
    state.indices.backfill_blocked = {"job": None}
    state.indices.head_reservation = (snapshot.usage.position, reservation)
    assert {type(decision).__name__ for decision in allocate(state)} == {"JobPending"}
    assert state.indices.backfill_blocked == {}


def nothing_fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs for which a place is searched from now on; none is found."""
    tried: list[str] = []

    def search(_: Any, unit: Unit, __: Any) -> NoFit:
        tried.append(unit.job.id)
        return NoFit("impossible", "no")

    monkeypatch.setattr(allocate_module, "place_within_bounds", search)
    return tried


def test_a_job_that_did_not_fit_is_tried_again_only_once_something_has_changed(
    sketch: Sketch, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = nothing_fits(monkeypatch)
    sketch.job("job")
    assert [type(decision).__name__ for decision in allocate(sketch.state)] == ["JobPending"]
    sketch.state.jobs["job"].pending_recorded = True
    assert list(allocate(sketch.state)) == []
    assert tried == ["job"]
    sketch.state.indices.retry_unschedulable = True
    assert list(allocate(sketch.state)) == []
    assert tried == ["job", "job"]


def test_of_equal_jobs_that_do_not_fit_one_is_tried_for_all(sketch: Sketch, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = nothing_fits(monkeypatch)
    for name in ("first", "second"):
        sketch.job(name)
    assert [(decision.job, decision.reason) for decision in allocate(sketch.state)] == [("first", "no"), ("second", "no")]  # type: ignore[attr-defined]
    assert tried == ["first"]


@pytest.mark.parametrize("change", ["", "unreconciled", "no allocate"])
def test_nothing_starts_while_tasks_that_the_log_lost_may_run_or_without_the_action(sketch: Sketch, change: str) -> None:
    sketch.job("job")
    sketch.state.truncation_unreconciled = change == "unreconciled"
    if change == "no allocate":
        sketch.state.policy = rules(preemption={"actions": ["preempt"]})
    first = next(allocate(sketch.state), None)
    assert type(first).__name__ == ("NoneType" if change else "JobPlaced")


def test_surplus_of_a_gang_that_is_only_reserved_is_reserved_as_well(story: Story) -> None:
    story.node("n1", gpus=2)
    story.runs("leaves", gpus=2)
    story.node("n2", gpus=1)
    story.exits("leaves")
    story.submit("job", TaskGroup(gpu_milli=2000), TaskGroup(gpu_milli=1000), min_tasks=1)
    story.expect("JobPlaced", job="job", reserved=True)
    story.expect("JobGrown", job="job", reserved=True)
    assert story.members("job", "reserved") == [0, 1]
    story.releases("leaves")
    story.expect("JobStarting", job="job")
    assert story.members("job", "starting") == [0, 1]


def test_a_job_that_may_only_start_where_it_costs_its_project_too_much_is_not_started() -> None:
    """40 GiB are half of a large GPU, which its project may have, and all of a small one, which it may not. The head of the queue
    waits for both large ones.
    """
    projects = [{"name": "p", "quota": {"gpus": 0.5}, "limit": {"gpus": 0.5}}, {"name": "q", "quota": {"gpus": 8}}]
    story = Story(policy(projects=projects, backfill="reserve", preemption={"actions": ["allocate"]}))
    story.node("large", gpus=2, labels={"size": "large"})
    small = story.joined("small", gpus=1)
    story.cycle(small.model_copy(update={"devices": (small.devices[0].model_copy(update={"memory_bytes": 40 * GIB}),)}))
    story.runs("running", TaskGroup(gpu_milli=1000, node_labels={"size": "large"}), project="q", run_time_limit=HOUR)
    story.submit("head", TaskGroup(gpu_milli=2000, node_labels={"size": "large"}), project="q")
    part = TaskGroup(gpu_share_bytes=40 * GIB)
    story.cycle(*(story.submitted(name, part, project="p") for name in ("first", "second")))
    assert story.phases() == {"running": "running", "head": "pending", "first": "pending", "second": "pending"}
    story.cancel("head")
    assert story.phases()["first"] == "starting", "on half of a large one"


@pytest.mark.parametrize(
    ("backfill", "free", "starts"),
    [
        ("reserve", 0, []),
        ("reserve", 1, ["first"]),  # beside what is reserved for the head
        ("reserve", 2, ["first", "second"]),
        ("preemptible", 0, ["first", "second"]),  # there as well: they may be evicted for the head
    ],
)
def test_each_of_several_equal_jobs_starts_where_the_policy_lets_it_pass_the_head(
    backfill: str, free: int, starts: list[str]
) -> None:
    """The head needs four GPUs of one node, of which two are in use, nobody knows for how long."""
    story = Story(policy(backfill=backfill, protections={"preemption_delay": "1h"}))
    story.node("n1", gpus=4)
    story.runs("running", gpus=2, cls="inference")
    story.submit("head", gpus=4, cls="interactive")
    if free:
        story.node("n2", gpus=free)
    story.cycle(*(story.submitted(name, gpus=1) for name in ("first", "second")))
    assert [name for name in ("first", "second") if story.job(name).phase == "starting"] == starts
    pending = [decision.job for decision in story.last_decisions if type(decision).__name__ == "JobPending"]  # type: ignore[attr-defined]
    assert pending == [name for name in ("first", "second") if name not in starts], (
        "no job is recorded as pending that starts at once"
    )


def test_a_job_that_ends_before_the_head_starts_may_use_what_equal_jobs_without_a_limit_may_not() -> None:
    story = Story(policy(backfill="reserve"))
    story.node("n1", gpus=4)
    story.runs("running", gpus=2, cls="inference", run_time_limit=HOUR)
    story.submit("head", gpus=4, cls="interactive")
    story.cycle(story.submitted("endless"), story.submitted("short", run_time_limit=HOUR // 2))
    assert (story.job("endless").phase, story.job("short").phase) == ("pending", "starting")


def test_once_the_head_has_started_no_job_may_delay_the_next_head() -> None:
    """The next head was tried before and is not tried now. It needs all of the node, once nobody knows when."""
    story = Story(policy(backfill="reserve", protections={"preemption_delay": "1h"}))
    story.node("n1", gpus=4)
    story.runs("running", gpus=2, cls="inference")
    story.submit("next", gpus=4, cls="interactive")
    story.cycle(story.submitted("head", gpus=1, cls="build"), story.submitted("small", gpus=1))
    assert {name: story.job(name).phase for name in ("head", "next", "small")} == {
        "head": "starting", "next": "pending", "small": "pending",
    }  # fmt: skip


# --- whether a preemption is still needed


def fits(sketch: Sketch, name: str) -> bool:
    return fits_without_evictions(current_snapshot(sketch.state).cluster, sketch.state, sketch.state.jobs[name])


@pytest.mark.parametrize("gone", [True, False])
def test_a_reserved_job_does_not_fit_where_its_place_is_in_use_or_gone(sketch: Sketch, gone: bool) -> None:
    sketch.at(sketch.job("stays", group(gpus=2)), ("a", [0, 1]))
    sketch.at(sketch.job("job", group(gpus=2)), ("a", [0, 1]), phase="reserved")
    if gone:
        sketch.state.nodes[0].state = "unreachable"
    assert not fits(sketch, "job")


@pytest.mark.parametrize(("free", "does"), [(1, False), (2, True)])
def test_tasks_that_run_need_no_other_place_while_reserved_ones_look_for_one(sketch: Sketch, free: int, does: bool) -> None:
    sketch.node("b", gpus=free)
    sketch.node("c", gpus=2)
    sketch.running("other", "a", [1])
    sketch.at(sketch.job("leaves", group(gpus=2)), ("c", [0, 1]), phase="evicting")
    job = sketch.at(sketch.job("job", group(1, gpus=1)), ("a", [0]))
    job.demand = job.demand.model_copy(update={"tasks": (group(1, gpus=1), group(1, gpus=2)), "min_tasks": 1})
    job.tasks.append(Task(1, 2, 0b11, "reserved"))
    sketch.state.nodes[2].reserved.devices, sketch.state.nodes[2].reserved.slots = 0b11, 1
    assert fits(sketch, "job") is does
