"""Pools with every feature at once, made from a seed: policy, projects, machines and jobs.

All amounts and durations are small multiples of a few units, so that what is compared is often equal.
"""

from random import Random
from typing import Any

from tests.kits.log_builder import GIB, policy
from tests.kits.mig import devices

from bailiff_core.model.demand import Dependency, SubGroup, TaskGroup, TopologyRule
from bailiff_core.model.policy import ACTIONS, DEFAULT_POLICY, Policy
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.records import facts

SECOND = 1_000_000
DURATIONS = (0, 5, 10, 20, 30, 60, 300, 3600)
LEVELS = ("zone", "rack")
CLASSES = ("train", "train", "train", "night", "interactive", "interactive", "build", "inference")
LEAVES = ("red-a", "red-b", "blue-a", "blue-b", "guest")
MACHINES = (
    *("4xH100-80GB", "2xH100-80GB", "3xA100-40GB", "8xH100-80GB", "4xH100-80GB/nvlink2", "8xH100-80GB/nvlink4"),
    *("1xH100-80GB,2xH100-80GB:3g.40gb", "2xH100-80GB:1g.10gb,1xH100-80GB:3g.40gb", "2xA100-40GB,2xH100-80GB"),
)
Fields = dict[str, Any]


class Draw:
    """Values drawn from one source of chance. rare: the chance in percent of what most pools have none of; differs by world."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rare = random.choice((2, 8, 8, 20))

    def of(self, *values: Any) -> Any:
        """One of the values."""
        return self.random.choice(values)

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.random.randrange(100) < percent

    def time(self, least: int = 0) -> int:
        """A duration of the grid, in µs."""
        return self.of(*(seconds for seconds in DURATIONS if seconds >= least)) * SECOND

    def some(self, percent: int, **fields: Any) -> Fields:
        """Each field with this chance."""
        return {name: value for name, value in fields.items() if self.chance(percent)}


def rules(draw: Draw) -> Policy:
    """A policy with every part drawn."""
    of, time = draw.of, draw.time
    return policy(
        priority_classes=classes(draw),
        projects=projects(draw) if draw.chance(75) else [],
        topologies=[{"name": "hall", "levels": LEVELS}],
        packing=of("binpack", "binpack", "spread"),
        placement=of("any", "any", "prefer nvlink"),
        backfill=of("greedy", "reserve", "reserve", "preemptible"),
        preemption={
            "actions": of(*[ACTIONS] * 4, ("allocate", "preempt"), ("allocate", "reclaim")),
            "scope": of(None, "pool", "pool", "project"),
            "quota_shields": draw.chance(60),
            "cap_at_fair_share": draw.chance(60),
            "max_migrations": of(0, 1, 2, None),
            "selection_timeout": time(5),
            "selection_backoff": time(5),
            "reservation_expiry": time(20),
            "search_steps": of(20_000, 20_000, 400, 60),
            "restart_cost": time(),
            "max_counted_loss": time(60),
            "cpus_per_gpu": of(1, 2, 4),
        },
        eviction={"grace": time(10), "short_grace": time(), "stuck_after": time(5), **draw.some(30, kill_after=time())},
        restarts={"backoff": time(), "max_backoff": time(10), "grow_after": time(), "max_yields": of(0, 1, 2)},
        devices={"over_share": of("warn", "evict"), "mig_weights": draw.some(40, **{"3g.40gb": 500, "1g.10gb": 100})},
        idle={"after": time(10), "action": of("warn", "pause")} if draw.chance(40) else {},
        retention={"ended_jobs": time(60), "request_ids": time(60)} if draw.chance(30) else {},
        protections=protections(draw),
    )


def classes(draw: Draw) -> list[Fields]:
    classes: list[Fields] = [entry.model_dump() for entry in DEFAULT_POLICY.priority_classes]
    classes.append({"name": "night", "value": draw.of(40, 50, 60), "preemptible": True, "preemption_policy": "Never"})
    for entry in classes:
        if draw.chance(20):
            entry |= {"grace": draw.time(5), "kill_after": draw.time()}
        if entry["name"] == "inference":
            entry |= {"immediate": draw.chance(50), "immediate_grace": draw.time()}
        if draw.chance(30):
            entry["start_slo"] = {"p95": draw.time(5), "p99": draw.time(5)}
    return classes


def projects(draw: Draw) -> list[Fields]:
    parents = {"red": "lab", "blue": "lab", "red-a": "red", "red-b": "red", "blue-a": "blue", "blue-b": "blue"}
    return [
        {"name": name, "created": draw.of(0, 1, 2), **({"parent": parents[name]} if name in parents else {}), **_share(draw)}
        for name in ("lab", "red", "blue", *LEAVES)
    ]


def _share(draw: Draw) -> Fields:
    of, least = draw.of, {"preempt": draw.time(), "reclaim": draw.time()}
    quota = {"gpus": of(0, 1, 2, 3, 4, 8, -1), **draw.some(draw.rare, cpus=of(0, 4, 8), memory=f"{of(8, 16, 64)}GiB")}
    return {
        "quota": quota,
        **draw.some(
            draw.rare, limit={"gpus": of(2, 3, 4, 6), **draw.some(30, cpus=of(4, 8))}, priority=of(-1, 1, 2), min_runtime=least
        ),
        **draw.some(50, over_quota_weight=of(0, 1, 2, 3)),
    }


def protections(draw: Draw) -> Fields:
    of, time = draw.of, draw.time
    return {
        "stale_gang": of(None, 0, 10 * SECOND, 30 * SECOND),
        **draw.some(
            2 * draw.rare,
            min_runtime={"preempt": time(), "reclaim": time()},
            eviction_cap={"evictions": of(1, 2), "window": time(30)},
            cooldown={"job": time(), "project": time()},
            preemption_delay=time(),
            excluded=[{"team": "x"}],
            ageing={"boost": of(10, 25, 30, 60), "evictions": of(None, 1, 2), "waiting": of(None, time(10))},
            budgets=[
                {"name": "few", "labels": {"team": "y"}, "max_disruptions": of(0, 1)},
                {"name": "all", "max_disruptions": of(1, 2, 3)},
            ],
            schedule_timeout={"after": time(20), "action": of("report", "fail", "pass")},
        ),
    }


def machine(draw: Draw, joined: facts.NodeJoined) -> facts.NodeJoined:
    """What joins as that node, with devices, labels and amounts drawn. Some have no GPUs, some little else."""
    labels = draw.some(90, zone=draw.of("z1", "z2"), rack=draw.of("r1", "r2", "r3")) | draw.some(30, disk="fast")
    inventory = () if draw.chance(draw.rare) else devices(draw.of(*MACHINES), joined.node)
    if draw.chance(draw.rare):
        inventory = tuple(each.model_copy(update={"healthy": draw.chance(70)}) for each in inventory)
    return joined.model_copy(
        update={
            "devices": inventory,
            "labels": labels,
            "cpu_milli": 1000 * draw.of(4, 8, 16, 64, 64),
            "memory_bytes": GIB * draw.of(32, 64, 1000, 1000),
            "max_tasks": draw.of(3, 8, 100, 100),
            "checkpoint_store": draw.of(None, "store", "store"),
        }
    )


def demand(draw: Draw, state: PoolState) -> Fields:
    """A job that may be submitted to that pool: its groups and its other fields, as in `Story.submitted`."""
    of, time = draw.of, draw.time
    groups = [_group(draw) for _ in range(of(1, 1, 1, 1, 2))]
    size, named = sum(group.count for group in groups), {project.name for project in state.rules.projects}
    fields: Fields = {
        "groups": groups,
        "cls": of(*CLASSES),
        "max_failures": of(0, 1, 3),
        "elastic": of("live", "restart"),
        **({"project": of(*LEAVES)} if named else {}),
        **draw.some(
            draw.rare,
            grace=time(),
            kill_after=time(),
            run_time_limit=time(60),
            preemption_delay=time(),
            restart_backoff=time(),
            on_eviction="end",
            on_term="finish",
            on_failure="end",
            pack=of("binpack", "spread"),
            placement=of("any", "prefer nvlink"),
            stale_grace=of("never", 0, time()),
            preemptible=draw.chance(50),
        ),
        **draw.some(40, labels={"team": of("x", "y", "y", "z", "z")}),
    }
    if draw.chance(draw.rare):
        fields |= {"groups": _in_sub_groups(draw), "sub_groups": _tree(draw)}
    elif size > 1 and draw.chance(60):
        fields["min_tasks"] = draw.random.randint(1, size)
    if draw.chance(2 * draw.rare):
        fields["topology"] = topology(draw)
    others = [job for job in state.jobs.values() if job.phase not in ENDED or job.phase == "succeeded"]
    if others and draw.chance(draw.rare):
        fields["after"] = (Dependency(job=of(*others).id, until=of("succeeded", "ended")),)
    return fields


def _group(draw: Draw) -> TaskGroup:
    of = draw.of
    gpus = of(
        *[{"gpu_milli": 1000}] * 6,
        *[{"gpu_milli": 2000}] * 4,
        {"gpu_milli": 3000},
        {"gpu_milli": 4000},
        {"gpu_milli": 8000},
        {},
        {"gpu_share_milli": 500},
        {"gpu_share_milli": of(250, 300, 700)},
        {"gpu_share_bytes": of(10, 20, 40) * GIB},
        {"gpu_share_milli": 500, "gpu_devices": 2},
        {"mig_profile": "3g.40gb"},
        {"mig_profile": "1g.10gb", "gpu_devices": of(1, 2)},
    )
    rest = draw.some(
        draw.rare // 2,
        gpu_models=of(("H100-80GB",), ("A100-40GB",)),
        node_labels={"disk": "fast"},
        nodes=of(("n0",), ("n0", "n1")),
        order=of(0, 1),
    )
    amounts = (
        draw.some(40, cpu_milli=1000 * of(1, 2, 4), memory_bytes=GIB * of(8, 16)) if gpus else {"cpu_milli": 1000 * of(1, 2, 4)}
    )
    return TaskGroup(count=of(1, 1, 1, 2, 2, 3, 4), **gpus, **rest, **amounts)


def topology(draw: Draw) -> TopologyRule:
    return TopologyRule(topology="hall", **draw.some(60, required=draw.of(*LEVELS), preferred=draw.of(*LEVELS)))


def _in_sub_groups(draw: Draw) -> list[TaskGroup]:
    return [TaskGroup(count=2, gpu_milli=1000, sub_group=name) for name in ("a", "b")] + (
        [TaskGroup(count=1, cpu_milli=1000)] if draw.chance(50) else []
    )


def _tree(draw: Draw) -> tuple[SubGroup, ...]:
    root = [{"name": "all", "min_groups": draw.of(None, 1, 2)}] if draw.chance(50) else []
    above = {"parent": "all"} if root else {}
    leaf = [{"name": name, "min_tasks": draw.of(None, 0, 1, 2), **above} for name in ("a", "b")]
    return tuple(SubGroup(**entry, **draw.some(40, topology=topology(draw))) for entry in [*root, *leaf])


def scaled(draw: Draw, job: Job) -> Fields | None:
    """Another number of tasks that the job may get, as admission permits it; None if there is none."""
    if job.demand.sub_groups or job.cancelled:
        return None
    pending = job.phase in ("waiting", "pending", "paused")
    group = draw.random.randrange(len(job.demand.tasks)) if pending else len(job.demand.tasks) - 1
    tasks = draw.random.randint(1, 5)
    size = job.size - job.demand.tasks[group].count + tasks
    least = draw.of(None, draw.random.randint(1, size if pending else max(1, min(size, job.minimum))))
    wanted = job.minimum if least is None else least
    placed = sum(task.index < size and task.eviction is None for task in job.tasks)
    if pending:
        refused = least is None and job.demand.min_tasks is not None and size < job.minimum
    else:
        refused = wanted > min(size, job.minimum) or (size < job.size and placed < wanted)
    return None if refused else {"group": group, "tasks": tasks, "min_tasks": least}
