"""Small random pools of elastic jobs, most of which restart to change their size, as snapshots of `bailiff plan`."""

from random import Random
from typing import Any

from tests.kits.snapshots import snapshot

from bailiff_core.plan import Planning, Snapshot

PAYBACKS = {None: None, "20m": 20, "1h": 60, "3h": 180}
"""Of the policy, in minutes."""
BIG = {"cpus": 64, "memory": "512GiB"}


def elastic_pool(random: Random, payback: str | None) -> dict[str, Any]:
    """Running jobs that may grow, shrink or move, and a few that wait."""
    scattered = random.random() < 0.3  # so that a task of two GPUs fits where others move
    sizes = (2,) if scattered else (1, 2, 2, 4)
    nodes = [{"name": f"n{at}", "gpus": random.choice(sizes), **BIG} for at in range(random.randint(2, 4))]
    free: dict[str, int] = {str(node["name"]): int(str(node["gpus"])) for node in nodes}
    projects = [f"p{at}" for at in range(0 if scattered else random.choice((0, 2, 3)))]
    jobs = []
    for at in range(random.randint(2, 7)):
        gpus: int = (1 if at else 2) if scattered else random.choice((1, 1, 2))
        tasks: list[dict[str, Any]] = []
        for _ in range(1 if scattered else random.choice((1, 1, 2, 3))):
            fitting = [name for name, left in free.items() if left >= gpus]
            if fitting:
                node = random.choice(fitting)
                free[node] -= gpus
                tasks.append({"gpus": gpus, "node": node})
        if tasks:
            jobs.append({**_running(random, f"r{at}", gpus, tasks), **({"priority": 50} if scattered else {})})
    jobs += [
        {
            "name": f"w{at}",
            "gpus": random.choice((1, 1, 2)),
            "tasks": random.choice((1, 1, 2)),
            "priority": random.choice(PRIORITIES),
        }
        for at in range(0 if scattered else random.randint(0, 3))
    ]
    if projects:
        jobs = [{**job, "project": random.choice(projects)} for job in jobs]
    preemption = {"max_migrations": random.choice((None, None, 1, 2)), "payback": payback}
    if random.random() < 0.3:
        preemption["scope"] = "pool"
    return {
        "nodes": nodes,
        "jobs": jobs,
        "policy": {"preemption": preemption},
        "projects": [{"name": name, "quota": {"gpus": random.randint(0, 6)}} for name in projects],
    }


def shrinking_pool(random: Random) -> dict[str, Any]:
    """A full pool of running jobs, and several that take of them in one selection."""
    document = elastic_pool(random, None)
    waiting = [
        {"name": f"u{at}", "gpus": random.choice((1, 1, 2)), "priority": random.choice((90, 120, 130))}
        for at in range(random.randint(2, 4))
    ]
    names = [project["name"] for project in document["projects"]]
    jobs = [*document["jobs"], *waiting]
    return {**document, "jobs": [{"project": random.choice(names), **job} for job in jobs] if names else jobs}


PRIORITIES = (10, 20, 50, 90, 120)


def _running(random: Random, name: str, gpus: int, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    job: dict[str, Any] = {"name": name, "priority": random.choice(PRIORITIES), "submitted": f"{random.randint(6, 70)}m ago"}
    missing = random.choice((0, 1, 1, 2))
    if len(tasks) > 1 or missing:
        job["min_tasks"] = random.randint(1, len(tasks))
        job["elastic"] = random.choice(("restart", "restart", "live"))
    if random.random() < 0.3:
        job["last_checkpoint"] = f"{random.randint(0, 20)}m ago"
    if random.random() < 0.15:
        job["on_eviction"] = "end"
    if random.random() < 0.15 and len(tasks) > 1:
        tasks[0]["state"] = "succeeded"
    return {**job, "tasks": [*tasks, *([{"gpus": gpus, "count": missing}] if missing else [])]}


def planned(document: dict[str, Any]) -> Planning:
    """The pool, before its first cycle."""
    found: Snapshot = snapshot(document)
    return Planning(found)
