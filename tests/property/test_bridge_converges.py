"""The bridge may be stopped after any action and started again: it arrives at the same state as one that was not."""

import copy
import re

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.bridge import World
from tests.kits.bridge_objects import budget_object, job_object, plain_pod, replicas_object
from tests.kits.bridge_rounds import Rounds
from tests.kits.examples import examples

from bailiff_kubernetes import names

NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("job", "group", "suspend", "resume", "scale", "delete", "cancel", "pause", "start", "evict", "finish", "class"),
                *("serve", "budget", "lose", "serving"),
            ]
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
        case "serve" if f"{name}-r" not in world.objects:
            world.add(replicas_object("StatefulSet" if name == "c" else "ReplicaSet", f"{name}-r", number, gpus=4))
        case "serve":
            world.change(f"{name}-r", replicas=number - 1)
        case "budget":
            world.budgets = [budget_object(f"{name}-r", minAvailable=number)]
        case "lose" if world.pods_of(f"{name}-r"):
            world.delete_pod(world.pods_of(f"{name}-r")[-1]["metadata"]["name"])
            world.controllers()
        case "serving":
            for job in world.jobs():
                if job.demand.labels["kubernetes/name"] == f"{name}-r" and any(task.state == "starting" for task in job.tasks):
                    world.story.started(job.id)
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
        (
            name,
            (pod["metadata"].get("annotations") or {}).get(names.TASK),
            bool(pod["spec"]["schedulingGates"]),
            pod["spec"].get("nodeName"),
        )
        for name, pod in sorted(world.pods.items())
    ]
    texts = [
        re.sub(r"#\d+", "#", item["metadata"]["annotations"].get("bailiff.io/status", "")) for item in world.objects.values()
    ]
    suspended = [(name, item["spec"].get("suspend", False)) for name, item in sorted(world.objects.items())]
    jobs = [(job.id, job.phase, job.attempt, job.size, job.minimum, job.class_name, job.cancelled) for job in world.jobs()]
    shown = [(name, {**item["status"], "message": ""}) for name, item in sorted(world.shown.items())]
    return pods, texts, suspended, jobs, shown


@examples(30)
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


@examples(20)
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


@examples(40)
@given(steps=STEPS, prefixes=PREFIXES)
def test_what_has_changed_is_all_that_needs_to_be_looked_at(steps, prefixes):
    """The rounds of the bridge find the same as an evaluation of everything, whatever was carried out of it before."""
    world = World()
    rounds = Rounds(world)
    for what, name, number in steps:
        act(world, what, name, number)
        for length in prefixes:
            rounds.round()
            everything = world.due()
            assert sorted(map(repr, rounds.due())) == sorted(map(repr, everything))
            assert rounds.round() == set(), "nothing has changed"
            world.step(everything[:length])
