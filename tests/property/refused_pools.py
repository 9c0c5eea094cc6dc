"""Small random snapshots in which most waiting jobs are refused: full nodes, projects, protections, drained nodes, moves."""

from random import Random
from typing import Any

Document = dict[str, Any]


def refused_pool(random: Random, *, waiting: int = 0, drained: int = 15, protected: bool = False) -> Document:
    """Up to four nodes that are full, or nearly, and jobs that wait.

    Args:
        waiting: How many: no running job then lacks tasks. 0: one to three.
        drained: Percentage of the nodes.
        protected: By rules that end with time.
    """
    nodes = [
        {
            "name": f"n{at}",
            "gpus": random.choice((1, 2, 4, 4)),
            "cpus": 64,
            "memory": "512GiB",
            "drained": random.random() * 100 < drained,
        }
        for at in range(random.randint(1, 4))
    ]
    projects = _projects(random) if random.random() < 0.75 else []
    names = [project["name"] for project in projects]
    free = {node["name"]: node["gpus"] for node in nodes}
    jobs = [job for at in range(random.randint(2, 9)) if (job := _running(random, f"r{at}", free)) is not None]
    for job in jobs if waiting else ():
        job["tasks"] = [task for task in job["tasks"] if "node" in task]
    jobs += [_waiting(random, f"w{at}") for at in range(waiting or random.randint(1, 3))]
    for job in jobs if names else ():
        job["project"] = random.choice(names)
    policy = {"preemption": _preemption(random, names), "protections": _protections(random, 3 if protected else 1)}
    return {"nodes": nodes, "jobs": jobs, "policy": policy, "projects": projects}


def _projects(random: Random) -> list[Document]:
    found: list[Document] = []
    for at in range(random.randint(2, 4)):
        found.append({"name": f"p{at}", "quota": {"gpus": random.randint(0, 6)}})
        if at and random.random() < 0.3:
            found[-1]["parent"] = f"p{random.randrange(at)}"
    return found


def _preemption(random: Random, projects: list[str]) -> Document:
    found: Document = {}
    if random.random() < 0.7:
        found["max_migrations"] = random.choice((None, 1, 2, 3))
    if random.random() < 0.3 and projects:
        found["scope"] = "pool"
    if random.random() < 0.3:
        found["payback"] = random.choice(("5m", "20m", "3h"))
    for field in ("cap_at_fair_share", "quota_shields"):
        if random.random() < 0.2:
            found[field] = False
    return found


def _protections(random: Random, times: int) -> Document:
    found: Document = {}
    if random.random() < 0.3 * times:
        of_actions = ({"preempt": "30m"}, {"preempt": "1h", "reclaim": "20m"}, {"reclaim": "1h"}, {"consolidate": "30m"})
        found["min_runtime"] = random.choice(of_actions)
    if random.random() < 0.2 * times:
        found["eviction_cap"] = {"evictions": random.randint(1, 2), "window": "24h"}
    if random.random() < 0.1:
        found["cooldown"] = {"job": "1h"}
    if random.random() < 0.1:
        found["preemption_delay"] = "10m"
    return found


def _running(random: Random, name: str, free: dict[str, int]) -> Document | None:
    """A job on what is free of the nodes; None where it finds nothing."""
    gpus, tasks = random.choice((1, 1, 1, 2)), []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        nodes = [node for node in free if free[node] >= gpus]
        if nodes:
            node = random.choice(nodes)
            free[node] -= gpus
            tasks.append({"gpus": gpus, "node": node})
    if not tasks:
        return None
    job: Document = {
        "name": name,
        "tasks": tasks,
        "priority": random.choice((10, 20, 50, 90)),
        "submitted": f"{random.randint(1, 90)}m ago",
    }
    if len(tasks) > 1 and random.random() < 0.6:
        job["min_tasks"] = random.randint(1, len(tasks) - 1)
        job["elastic"] = random.choice(("restart", "restart", "live"))
        if random.random() < 0.4:
            job["tasks"] = [*tasks, {"gpus": gpus, "count": random.randint(1, 2)}]
    if random.random() < 0.12:
        job["on_eviction"] = "end"
    if random.random() < 0.3:
        job["last_checkpoint"] = f"{random.randint(0, 20)}m ago"
    if random.random() < 0.15 and len(tasks) > 1:
        tasks[0]["state"] = "succeeded"
    if random.random() < 0.2:
        minutes = sorted((random.randint(100, 1500) for _ in range(random.randint(1, 2))), reverse=True)
        evicted_at = [f"{each}m ago" for each in minutes]
        job |= {"evictions": len(evicted_at), "evicted_at": evicted_at, "last_eviction": evicted_at[-1]}
        job |= {"submitted": "30h ago", "last_start": f"{random.randint(1, 90)}m ago"}
    return job


def _waiting(random: Random, name: str) -> Document:
    return {
        "name": name,
        "gpus": random.choice((1, 2, 2, 3, 4)),
        "tasks": random.choice((1, 1, 2)),
        "priority": random.choice((10, 20, 50, 95, 120)),
    }
