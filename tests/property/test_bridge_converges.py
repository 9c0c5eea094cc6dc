"""The bridge may be stopped after any action and started again: it arrives at the same state as one that was not."""

import copy
import re
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bridge_kit import World
from tests.bridge_objects import POOL, job_object, plain_pod

from bailiff_kubernetes import names
from bailiff_kubernetes_bridge.actions import Action
from bailiff_kubernetes_bridge.evaluation import Evaluation
from bailiff_kubernetes_bridge.log_changes import LogChanges
from bailiff_kubernetes_bridge.memo import Memo
from bailiff_kubernetes_bridge.messages import PoolView

NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["job", "group", "suspend", "resume", "scale", "delete", "cancel", "pause", "start", "evict", "finish", "class"]
        ),
        st.sampled_from(NAMES),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=12,
)
PREFIXES = st.lists(st.integers(1, 3), min_size=3, max_size=20)


def act(world: World, what: str, name: str, number: int) -> None:
    """Something that a user or an agent does; nothing, where it is not possible now."""
    item = world.objects.get(name)
    jobs = [job for job in world.jobs() if job.demand.labels.get("kubernetes/name") == name]
    job = max(jobs, key=lambda each: each.seq) if jobs else None
    is_open = job is not None and job.ended_at is None and not job.cancelled
    match what:
        case "job" if item is None:
            world.add(job_object(name, pods=number, gpus=4, annotations={names.MIN_TASKS: "1"} if number == 3 else {}))
        case "group" if not any(key.startswith(f"{name}-g") for key in world.pods):
            pods = [plain_pod(f"{name}-g{n}", f"{name}-g", size=3, gpus=number) for n in range(3)]
            for pod in pods:
                pod["metadata"]["uid"] += str(world.story.state.seq)
            world.add(*pods)
        case "suspend" | "resume" if item is not None:
            world.change(name, suspend=what == "suspend")
        case "scale" if item is not None:
            world.change(name, parallelism=number, completions=number)
        case "delete" if item is not None:
            world.delete(name)
        case "class" if item is not None:
            item["metadata"]["labels"][names.PRIORITY_CLASS] = ("build", "train", "inference", "build")[number - 1]
            world._touch(item)
        case "cancel" if is_open:
            world.story.cancel(job.id)
        case "pause" if is_open:
            world.story.pause(job.id)
        case "start" if is_open:
            world.story.started(job.id)
        case "evict" if is_open and job.eviction is not None:
            world.evicted(name)
        case "finish" if (
            is_open and any(task.index == 0 and task.state == "running" for task in job.tasks) and job.eviction is None
        ):
            hashed = [pod["metadata"]["labels"].get(names.TASK_HASH) for pod in world.pods_of(f"{name}-0")]
            if any(hashed) and job.task(0) is not None:
                world.finish(name, 0)


def outcome(world: World) -> object:
    """Everything that people see, without the numbers of records."""
    pods = [
        (name, pod["metadata"]["annotations"].get(names.TASK), bool(pod["spec"]["schedulingGates"]), pod["spec"].get("nodeName"))
        for name, pod in sorted(world.pods.items())
    ]
    texts = [
        re.sub(r"#\d+", "#", item["metadata"]["annotations"].get("bailiff.io/status", "")) for item in world.objects.values()
    ]
    suspended = [(name, item["spec"].get("suspend", False)) for name, item in sorted(world.objects.items())]
    jobs = [(job.id, job.phase, job.attempt, job.size, job.minimum, job.class_name, job.cancelled) for job in world.jobs()]
    return pods, texts, suspended, jobs


@settings(max_examples=30, deadline=None)
@given(steps=STEPS, prefixes=PREFIXES)
def test_it_converges_from_any_prefix(steps, prefixes):
    whole = World()
    for what, name, number in steps:
        act(whole, what, name, number)
        interrupted = copy.deepcopy(whole)
        whole.settle()
        for length in prefixes:
            interrupted.step(interrupted.due()[:length])
        interrupted.settle()
        assert outcome(interrupted) == outcome(whole)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS)
def test_two_bridges_do_no_harm(steps):
    """A second bridge carries out what it computed before the first one acted: nothing changes by it."""
    world = World()
    for what, name, number in steps:
        act(world, what, name, number)
        late = world.due()
        world.settle()
        before = outcome(world)
        world.step(late)
        world.settle()
        assert outcome(world) == before


class Log:
    """A pool's log for an `Evaluation`: it gets records as they come."""

    name = POOL

    def __init__(self, world: World) -> None:
        self._world, self._read, self._rejected, self._changes = world, 0, 0, LogChanges(everything=True)

    def view(self) -> PoolView:
        return self._world.pool_view()

    def take_changes(self) -> LogChanges:
        records, rejected = self._world.story.records, len(self._world.rejected)
        for record in records[self._read :]:
            self._changes.note(record.data)
        self._changes.everything |= rejected != self._rejected  # a record of its own, which the kit does not write
        self._read, self._rejected = len(records), rejected
        changes, self._changes = self._changes, LogChanges()
        return changes


class Due(dict):
    """In place of the queue: what is due by scope."""

    def put(self, scope: tuple[str, str], actions: Iterable[Action]) -> None:
        self[scope] = [*actions]


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, prefixes=PREFIXES)
def test_what_has_changed_is_all_that_needs_to_be_looked_at(steps, prefixes):
    """The rounds of the bridge find the same as an evaluation of everything, whatever was carried out of it before."""
    world, due, memo = World(), Due(), Memo()
    evaluation = Evaluation(Log(world), world.rules, due, now=lambda: 0.0)
    evaluation.round(world.view(memo), [])
    looked = []
    evaluate = evaluation._evaluate
    evaluation._evaluate = lambda uid, view: (looked.append(uid), evaluate(uid, view))
    for what, name, number in steps:
        act(world, what, name, number)
        for length in prefixes:
            evaluation.round(world.view(memo), [])
            found = [action for actions in due.values() for action in actions]
            everything = world.due()
            assert sorted(map(repr, found)) == sorted(map(repr, everything))
            looked.clear()
            evaluation.round(world.view(memo), [])
            assert looked == [], "nothing has changed"
            world.step(everything[:length])
