"""A new policy evicts no job, unless it was applied with enforcement; then reservations go first."""

from typing import Any

import pytest
from tests.kits.builders import Sketch, group
from tests.kits.claims import complete
from tests.kits.log_builder import policy as rules
from tests.kits.story_script import stories

from bailiff_core.lifecycle.enforcement import enforcement
from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.gpu_shares import task_resources
from bailiff_core.model.resource_vector import ResourceVector
from bailiff_core.model.resources import add
from bailiff_core.model.state import Job, Task
from bailiff_core.records import facts
from bailiff_core.scheduling_snapshot import current_snapshot

# --- a new policy evicts no job, unless it was applied with enforcement


test_enforcement_in_stories = stories("""
given the teams
    rules {projects: [{name: lab, quota: {gpus: 16}}, {name: a, parent: lab, quota: {gpus: 8}}, {name: b, parent: lab}]}
    node n1

given low moves to n2 for high
    the teams; runs low: 4 gpus, in a; submit high: interactive, 8 gpus, in a; node n2: 4 gpus; propose
    low.reservation != nothing

a policy without enforcement evicts no job, nor in a later cycle
    the teams; runs x: 4 gpus, in a; policy a: limit 0; x is running; submit y: 1 gpu, in b; x is running; y is starting

jobs within the new policy keep running
    the teams; runs x: 4 gpus, in a; enforce a: limit 4; x is running

over a limit lower priority is evicted first, and then the younger job
    the teams; runs old: 2 gpus, in a; runs study: interactive, 2 gpus, in a; runs young: 2 gpus, in a; runs theirs: 2 gpus, in b
    enforce a: limit 4
    => EvictionDecided young cause=policy reason="the policy is enforced: project a uses 6 of its limit of 4 GPUs"
    old is running; study is running; theirs is running; yields young; young is pending

a limit above counts all that lies below it
    the teams; runs x: 4 gpus, in a; runs y: 4 gpus, in b; enforce lab: limit 4; x is running; y is evicting

a job whose eviction proves unnecessary keeps running
    the teams; runs large: interactive, 4 gpus, in a; runs small: 1 gpu, in a; enforce a: limit 1; large is evicting
    small is running

of two jobs of which one may keep running it is the one of higher priority
    the teams; runs large: interactive, 4 gpus, in a; runs study: interactive, 2 gpus, in a; runs batch: 2 gpus, in a
    enforce a: limit 3; large is evicting; study is running; batch is evicting

surplus is evicted one by one before any core
    the teams; runs elastic: interactive, 4 x 1 gpu, min 1, in a; enforce a: limit 2; => EvictionDecided elastic tasks=2-3
    elastic is running

jobs that are not preemptible are evicted only where they are over quota themselves
    the teams; runs batch: 4 gpus, in a; runs serve: inference, 2 gpus, in a; runs build: build, 2 gpus, in a; enforce a: quota 2
    => EvictionDecided build cause=policy reason~"project a uses 4 of its quota for work that is not preemptible of 2 GPUs"
    batch is running; serve is running

a reservation is dropped before any running job is evicted
    the teams; runs done: 4 gpus, in b; runs stays: 4 gpus, in a; submit waits: interactive, 4 gpus, in a; exits done
    waits is reserved
    enforce a: limit 4; => ReservationDropped waits reason=policy; stays is running

enforcement runs once, and later jobs are checked by admission
    the teams; runs x: 4 gpus, in a; enforce a: limit 0; enforcing = false; yields x; decided EvictionDecided: x

the reservation of a relocated job is dropped before anything else
    low moves to n2 for high; enforce a: limit 8; => ReservationDropped low reason=policy tasks=-; low.reservation = nothing
    n2.reserved.devices = 0; high is reserved

a reservation within the limit is kept
    low moves to n2 for high; enforce a: limit 12; low.reservation != nothing

the reservation of surplus is dropped while its job continues
    the teams; runs low: 4 x 2 gpus, min 1, in a; submit high: interactive, 4 gpus, in a; node n2: 2 gpus; node n3: 2 gpus
    propose; low is running
    enforce a: limit 8; => ReservationDropped low reason=policy tasks=2-3; low.reservation = nothing; low.running = 0 1 2 3
""")


def projects(**limits):
    """Team a with these bounds, team b without any; both below lab."""
    return [
        {"name": "lab", "quota": {"gpus": 16}, **limits.get("lab", {})},
        {"name": "a", "parent": "lab", "quota": {"gpus": 8}, **limits.get("a", {})},
        {"name": "b", "parent": "lab", "quota": {"gpus": 8}},
    ]


def enforced(story, enforce=True, **limits):
    policy = rules(projects=projects(**limits), preemption={"actions": ["allocate"]})
    return story.cycle(facts.PolicyApplied(policy=complete(policy), request=story.request(), enforce=enforce))


@pytest.fixture
def story(tell):
    story = tell(rules(projects=projects(), preemption={"actions": ["allocate"]}))
    story.node("n1")
    return story


def leaving(story) -> list[str]:
    return [name for name, phase in story.phases().items() if phase == "evicting"]


def test_enforcement_interrupted_by_a_dead_writer_is_continued(story):
    for name in ("x", "y"):
        story.runs(name, gpus=4, project="a")
    enforced(story, a={"limit": {"gpus": 0}})
    decided = [number for number, record in enumerate(story.records) if type(record.data).__name__ == "EvictionDecided"]
    assert len(decided) == 2
    other = story.resumed(decided[0] + 1)
    other.restart()
    assert leaving(other) == ["x", "y"]
    other.holds()


# --- what an enforced policy takes from whom, decision by decision: reservations first, and never what is of no use


NOTHING_ELSE = {"quota": {"gpus": 8}}


@pytest.fixture
def sketch() -> Sketch:
    made = Sketch()
    made.node("a")
    made.node("b")
    return made


def bounded(
    sketch: Sketch, department: Any = None, project: Any = None, *, enforce: bool = True, other: int = 0, beside: Any = None
) -> list[tuple[str, str, str]]:
    """Kind, job and tasks of each decision once the department `dept`, and its projects, have these bounds."""
    projects = [{"name": "dept", **NOTHING_ELSE, **(department or {})}]
    projects += [
        {"name": "p", "parent": "dept", **NOTHING_ELSE, **(project or {})},
        {"name": "other", "parent": "dept", "quota": {"gpus": other}, **(beside or {})},
    ]
    sketch.state.policy, sketch.state.enforcing = rules(projects=projects), enforce
    sketch.state.indices.snapshot = None
    return [(type(each).__name__, each.job, each.tasks) for each in enforcement(sketch.state)]  # type: ignore[attr-defined]


def runs(sketch: Sketch, name: str, need: TaskGroup, priority: int, project: str = "p", phase: Any = "running") -> Job:
    """A job of one task on the next free devices of node a."""
    job = sketch.job(name, need, priority=priority)
    job.project = project
    used = sum(len(other.tasks) and other.tasks[0].devices.bit_count() for other in sketch.state.jobs.values())
    return sketch.at(job, ("a", range(used, used + need.gpu_milli // 1000)), phase=phase)


def moves(sketch: Sketch, name: str, need: TaskGroup, priority: int, project: str = "p") -> Job:
    """The same, which is being evicted from there, and has the same reserved on node b."""
    job = runs(sketch, name, need, priority, project, phase="evicting")
    job.reservation = [Task(0, 1, job.tasks[0].devices, "reserved")]
    add(sketch.state.nodes[1].reserved, *task_resources(sketch.state.nodes[1], need, job.tasks[0].devices))
    return job


@pytest.mark.parametrize("has", [runs, moves])
def test_a_policy_that_is_not_enforced_takes_nothing(sketch: Sketch, has: Any) -> None:
    has(sketch, "job", group(gpus=2), 50)
    bounds = {"limit": {"gpus": 1}}
    assert bounded(sketch, project=bounds, enforce=False) == []
    assert len(bounded(sketch, project=bounds)) == 1


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_thousandth_of_a_cpu_is_something(sketch: Sketch, has: Any, kind: str) -> None:
    has(sketch, "job", group(cpu_milli=1), 50)
    assert bounded(sketch, project={"limit": {"cpus": 0}}) == [(kind, "job", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_job_without_gpus_keeps_its_cpus_while_gpus_are_taken(sketch: Sketch, has: Any, kind: str) -> None:
    """For the department's limit `middle` and `large` are taken. Then `middle` would fit again, but not beside `cpus`, whose
    project has only one CPU: that job was never in excess, so it stays.
    """
    has(sketch, "cpus", group(cpu=1), 10)
    has(sketch, "middle", group(gpus=1, cpu=1), 20)
    has(sketch, "large", group(gpus=2), 30, "other")
    has(sketch, "top", group(gpus=1), 40, "other")
    found = bounded(sketch, {"limit": {"gpus": 2}}, {"limit": {"cpus": 1}})
    assert sorted(found) == [(kind, "large", ""), (kind, "middle", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_preemptible_job_is_not_taken_for_the_quota_of_work_that_is_not_preemptible(
    sketch: Sketch, has: Any, kind: str
) -> None:
    """As above: without `middle` and `large` the department is within its quota again, and `cheap` was never in the way."""
    has(sketch, "cheap", group(gpus=1, cpu=1), 10)
    for name, need, priority, project in (
        ("middle", group(gpus=1, cpu=1), 20, "p"),
        ("large", group(gpus=2), 30, "other"),
        ("top", group(gpus=1), 40, "other"),
    ):
        has(sketch, name, need, priority, project).preemptible = False
    found = bounded(sketch, {"quota": {"gpus": 2, "cpus": 9}}, {"quota": {"gpus": 8, "cpus": 9}, "limit": {"cpus": 1}}, other=8)
    assert sorted(found) == [(kind, "large", ""), (kind, "middle", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_a_job_of_another_project_does_not_go_for_the_limit_of_a_project(sketch: Sketch, has: Any, kind: str) -> None:
    """`p` needs only `cheap` to go. For the GPUs of `other`, of which `large` alone has too many, `dear` is of no use."""
    has(sketch, "cheap", group(cpu=8), 10)
    has(sketch, "dear", group(gpus=1, cpu=8), 20)
    has(sketch, "large", group(gpus=2), 30, "other")
    found = bounded(sketch, project={"limit": {"cpus": 8}}, beside={"limit": {"gpus": 1}})
    assert sorted(found) == [(kind, "cheap", ""), (kind, "large", "")]


def test_a_reservation_that_goes_for_the_department_counts_once_for_its_project(sketch: Sketch) -> None:
    moves(sketch, "first", group(gpus=1), 10)
    moves(sketch, "second", group(gpus=1), 20)
    found = bounded(sketch, {"limit": {"gpus": 1}}, {"limit": {"gpus": 0}})
    assert sorted(found) == [("ReservationDropped", "first", ""), ("ReservationDropped", "second", "")]


def elastic(sketch: Sketch, *groups: TaskGroup, minimum: int, phase: Any = "running") -> Job:
    """Tasks of one GPU each, or of none, on node a."""
    job = sketch.job("elastic", *groups)
    job.project, job.demand = "p", job.demand.model_copy(update={"min_tasks": minimum})
    devices = iter(range(8))
    return sketch.at(job, *(("a", [next(devices)] if need.gpu_milli else []) for need in job.groups()), phase=phase)


def test_surplus_without_gpus_goes_with_the_gpus_above_it(sketch: Sketch) -> None:
    elastic(sketch, group(2, gpus=1), group(1, cpu=1), minimum=1)
    assert bounded(sketch, project={"limit": {"gpus": 1}}) == [("EvictionDecided", "elastic", "1-2")]


def test_of_a_job_that_runs_only_what_is_reserved_goes_where_that_is_enough(sketch: Sketch) -> None:
    job = elastic(sketch, group(3, gpus=1), minimum=1)
    job.reservation = [Task(index, 1, 1 << index, "reserved") for index in (1, 2)]
    assert bounded(sketch, project={"limit": {"gpus": 3}}) == [("ReservationDropped", "elastic", "1-2")]


def test_what_has_not_started_goes_first_whatever_its_priority(sketch: Sketch) -> None:
    runs(sketch, "low", group(gpus=1), 10)
    runs(sketch, "reserved", group(gpus=1), 50, phase="reserved")
    assert bounded(sketch, project={"limit": {"gpus": 1}}) == [("ReservationDropped", "reserved", "")]


def test_of_a_reserved_job_surplus_alone_may_go(sketch: Sketch) -> None:
    elastic(sketch, group(3, gpus=1), minimum=1, phase="reserved")
    assert bounded(sketch, project={"limit": {"gpus": 2}}) == [("EvictionDecided", "elastic", "2")]
    assert bounded(sketch, project={"limit": {"gpus": 0}}) == [("ReservationDropped", "elastic", "")]


@pytest.mark.parametrize(("has", "kind"), [(runs, "EvictionDecided"), (moves, "ReservationDropped")])
def test_of_what_would_be_too_much_the_most_valuable_job_that_may_stay_stays(sketch: Sketch, has: Any, kind: str) -> None:
    """All three go until the limit holds. Then `high` does not fit, `middle` does, and beside it `low` does not."""
    for name, gpus, priority in (("low", 2, 10), ("middle", 1, 20), ("high", 3, 30)):
        has(sketch, name, group(gpus=gpus), priority)
    assert sorted(bounded(sketch, project={"limit": {"gpus": 2}})) == [(kind, "high", ""), (kind, "low", "")]


@pytest.mark.parametrize("has", [runs, moves])
def test_of_equal_jobs_the_later_ones_go_in_the_order_in_which_they_were_submitted(sketch: Sketch, has: Any) -> None:
    for name in ("c", "b", "a"):
        has(sketch, name, group(gpus=1), 50)
    assert [job for _, job, _ in bounded(sketch, project={"limit": {"gpus": 1}})] == ["b", "a"]


def test_beside_a_job_that_goes_whole_a_lesser_one_may_stay(sketch: Sketch) -> None:
    runs(sketch, "cheap", group(gpus=2), 10)
    job = elastic(sketch, group(1, gpus=1), group(1, gpus=1), minimum=1)
    job.demand = job.demand.model_copy(update={"tasks": (group(1, gpus=3), group(1, gpus=1))})
    assert bounded(sketch, project={"limit": {"gpus": 2}}) == [("EvictionDecided", "elastic", "")]


@pytest.mark.parametrize("has", [runs, moves])
def test_what_is_tried_leaves_the_use_of_the_projects_as_it_is(sketch: Sketch, has: Any) -> None:
    has(sketch, "job", group(gpus=2), 50)
    assert len(bounded(sketch, project={"limit": {"gpus": 1}})) == 1
    assert current_snapshot(sketch.state).usage.allocated("p") == ResourceVector(2000)


@pytest.mark.parametrize(
    ("need", "limit", "reason"),
    [
        (group(gpus=1, cpu=2), {"gpus": 1, "cpus": 1}, "project p uses 2 of its limit of 1 CPUs"),
        (group(gpus=2, cpu=2), {"gpus": 1, "cpus": 1}, "project p uses 2 of its limit of 1 GPUs"),
        (group(memory_bytes=2**30), {"memory": 2**30 - 1}, "project p uses 1 of its limit of 0.999 GiB of memory"),
    ],
    ids=("CPUs", "GPUs first", "a byte"),
)
def test_the_reason_names_the_first_resource_of_which_there_is_too_much(
    sketch: Sketch, need: TaskGroup, limit: Any, reason: str
) -> None:
    runs(sketch, "job", need, 50)
    bounded(sketch, project={"limit": limit})
    assert [each.reason for each in enforcement(sketch.state)] == [f"the policy is enforced: {reason}"]  # type: ignore[attr-defined]
