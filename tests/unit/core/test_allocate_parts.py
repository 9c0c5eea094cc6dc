"""Parts of allocate: keys of what fits alike, reasons, who waits behind a selection, surplus of a gang that is only reserved."""

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.log_builder import GIB, HOUR, Story, policy
from tests.kits.story_script import stories

from bailiff_core.actions.allocate import allocate, pending_reason
from bailiff_core.actions.fits_now import fits_without_evictions
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.state import Task
from bailiff_core.scheduling_snapshot import current_snapshot

test_allocate_parts_in_stories = stories("""
surplus of a gang that is only reserved is reserved as well
    node n1: 2 gpus; runs leaves: 2 gpus; node n2: 1 gpu; exits leaves; submit job: 2 gpus, min 1 | 1 gpu
    => JobPlaced job reserved=true; => JobGrown job reserved=true; job.reserved = 0 1
    releases leaves; => JobStarting job; job.starting = 0 1

a job that ends before the head starts may use what equal jobs without a limit may not
    rules {backfill: reserve}; node n1: 4 gpus; runs running: inference, 2 gpus, run_time_limit 1h
    submit head: interactive, 4 gpus; submit endless: 1 gpu & short: 1 gpu, run_time_limit 30m; endless is pending
    short is starting

once the head has started no job may delay the next head
    rules {backfill: reserve, protections: {preemption_delay: 1h}}; node n1: 4 gpus; runs running: inference, 2 gpus
    submit next: interactive, 4 gpus; submit head: build, 1 gpu & small: 1 gpu; head is starting; next is pending
    small is pending
""")


@pytest.fixture
def sketch() -> Sketch:
    return Sketch(a=2)


def test_a_job_that_has_all_of_its_tasks_lacks_no_bound(sketch: Sketch) -> None:
    assert pending_reason(sketch.state, sketch.running("job", "a", [0])) == "it does not fit"


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
