"""Small contended pools as snapshots: few devices, several projects with conflicting quotas, jobs of every kind."""

from collections.abc import Sequence
from random import Random
from typing import Any

Fields = dict[str, Any]
Waves = list[list[Fields]]

CLASSES = ("train", "train", "train", "interactive", "interactive", "inference", "build")
RIGID: tuple[Fields, ...] = ({"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"gpus": 2}, {"gpus": 3}, {"gpus": 4}, {"gpus": 5})
PARTS: tuple[Fields, ...] = (
    {"fraction": 0.5, "gpu_devices": 2},
    {"fraction": 0.5, "gpu_devices": 3},
    {"fraction": 0.4},
    {"fraction": 0.7},
    {"fraction": 0.5, "gpu_devices": 2, "tasks": 2, "min_tasks": 1},
    {"gpu_memory": "30GiB"},
)
GANGS: tuple[Fields, ...] = (
    {"gpus": 1, "tasks": 2},
    {"gpus": 2, "tasks": 2},
    {"gpus": 1, "tasks": 4, "min_tasks": 1},
    {"gpus": 1, "tasks": 4, "min_tasks": 3},
    {"gpus": 2, "tasks": 3, "min_tasks": 1},
)
KINDS = (RIGID, RIGID, RIGID + PARTS, RIGID + PARTS, RIGID + GANGS, RIGID + PARTS + GANGS)


def small_world(random: Random) -> tuple[Fields, Waves]:
    """A snapshot without jobs, and waves of jobs to submit. No protection limits how often, or how soon, a job is evicted."""
    trees: Sequence[list[str]] = ([], [], [], ["roof"], ["east", "west"])
    roofs = random.choice(trees)
    projects: list[Fields] = [{"name": roof, **_stated(random)} for roof in roofs]
    leaves = list("abcd"[: random.choice((2, 2, 3, 3, 4))])
    for name in leaves:
        parent = random.choice((None, *roofs)) if random.randrange(4) == 0 else random.choice(roofs or [None])
        projects.append({"name": name, **({"parent": parent} if parent else {}), **_stated(random)})
    memory = random.choice(("80GiB", "80GiB", "40GiB"))
    nodes = [
        {"name": f"n{number}", "gpus": random.choice((2, 3, 4, 4, 5, 8)), "gpu_memory": memory, "cpus": random.choice((4, 64))}
        for number in range(random.choice((1, 1, 1, 2, 2, 3)))
    ]
    rules = {
        "scope": random.choice(("project", "project", "pool")),
        "quota_shields": random.random() < 0.7,
        "max_migrations": random.choice((0, 0, 1, None)),
    }
    shapes, number = random.choice(KINDS), 0
    waves: Waves = []
    for _ in range(random.choice((1, 2, 3, 4))):
        wave = []
        for _ in range(random.randint(1, 4)):
            number += 1
            wave.append(_job(random, f"j{number:02}", random.choice(leaves), random.choice(shapes)))
        waves.append(wave)
    return {"nodes": nodes, "projects": projects, "policy": {"backfill": "greedy", "preemption": rules}}, waves


def tight_world(random: Random) -> tuple[Fields, Waves]:
    """One node of rigid jobs, most of them small: several small ones compete for the reservation of a large one."""
    projects: list[Fields] = [
        {"name": "a"},
        {"name": "b", "over_quota_weight": random.choice((1, 3))},
        {"name": "c", "over_quota_weight": random.choice((0, 0, 1)), "quota": {"gpus": random.choice((1, 1, 2))}},
    ]
    scope = "pool" if random.random() < 0.3 else "project"
    rules = {"scope": scope, "quota_shields": random.random() < 0.5}
    waves: Waves = []
    for number in range(random.choice((3, 4, 5))):
        wave = []
        for at in range(random.randint(1, 4)):
            kind = random.choice(("train", "train", "interactive", "interactive"))
            project, gpus = random.choice("abc"), random.choice((1, 1, 1, 2, 3, 4))
            wave.append({"name": f"j{number}{at}", "class": kind, "project": project, "gpus": gpus})
        waves.append(wave)
    nodes = [{"name": "n", "gpus": random.choice((5, 6, 6, 7))}]
    return {"nodes": nodes, "projects": projects, "policy": {"backfill": "greedy", "preemption": rules}}, waves


def memory_world(random: Random) -> tuple[Fields, Waves]:
    """Devices of several sizes, and jobs that ask for bytes of them: the same bytes are more of a smaller device."""
    projects: list[Fields] = [
        {"name": name, "quota": {"gpus": random.choice((0, 0.5, 1))}, "limit": {"gpus": random.choice((0.5, 1, 1.5, 2, 3))}}
        for name in "ab"
    ]
    nodes = [
        {"name": f"n{number}", "gpus": random.choice((1, 2, 3)), "gpu_memory": random.choice(("16GiB", "40GiB", "80GiB"))}
        for number in range(random.choice((2, 3, 4)))
    ]
    waves: Waves = []
    for number in range(random.choice((2, 3, 4))):
        wave = []
        for at in range(random.randint(1, 3)):
            size = random.choice((1, 1, 2, 3, 4))
            job = {"name": f"j{number}{at}", "class": random.choice(CLASSES), "project": random.choice("ab"), "tasks": size}
            job |= {"gpu_memory": random.choice(("4GiB", "8GiB", "10GiB", "16GiB", "20GiB")), "cpus": random.choice((0, 1))}
            wave.append(job | ({"min_tasks": 1} if size > 1 and random.randrange(2) else {}))
        waves.append(wave)
    policy = {"backfill": "greedy", "preemption": {"max_migrations": random.choice((0, 1))}}
    return {"nodes": nodes, "projects": projects, "policy": policy}, waves


def _stated(random: Random) -> Fields:
    stated: Fields = {"quota": {"gpus": random.choice((0, 0, 0, 1, 1, 2, 3, 4, -1))}}
    if random.randrange(2):
        stated["over_quota_weight"] = random.choice((0, 0, 1, 3))
    if random.randrange(5) == 0:
        stated["priority"] = random.choice((1, 2))
    if random.randrange(6) == 0:
        stated["limit"] = {"gpus": random.choice((3, 5))}
    if random.randrange(10) == 0:
        stated["quota"]["cpus"] = random.choice((2, 4))
    return stated


def _job(random: Random, name: str, project: str, shape: Fields) -> Fields:
    job = {"name": name, "class": random.choice(CLASSES), "project": project, **shape}
    if random.randrange(8) == 0:
        job["cpus"] = random.choice((1, 2, 3))
    if job["class"] in ("inference", "build") and random.randrange(3):
        job["preemptible"] = True
    return job
