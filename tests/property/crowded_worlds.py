"""Pools that are short of GPUs, made from a seed, for the histories of `rich_stories`: jobs that fit, with run-time limits, and a
policy with which most may be evicted, also those that are backfilled. What `rich_worlds` draws rarely is rare here as well.
"""

from tests.kits.log_builder import GIB, policy
from tests.kits.mig import devices
from tests.property.rich_worlds import LEAVES, LEVELS, SECOND, Draw, Fields, classes, projects, protections, topology

from bailiff_core.model.demand import TaskGroup
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts

CLASSES = ("train", "train", "night", "interactive", "interactive", "build", "inference")
MACHINES = (
    *("4xH100-80GB", "4xH100-80GB", "2xH100-80GB", "8xH100-80GB/nvlink4", "4xH100-80GB/nvlink2", "2xA100-40GB,2xH100-80GB"),
    "1xH100-80GB,2xH100-80GB:3g.40gb",
)


def rules(draw: Draw) -> Policy:
    """A policy under which few rules protect running jobs."""
    of, time = draw.of, draw.time
    return policy(
        priority_classes=classes(draw),
        projects=projects(draw) if draw.chance(60) else [],
        topologies=[{"name": "hall", "levels": LEVELS}],
        packing=of("binpack", "binpack", "spread"),
        placement=of("any", "prefer nvlink"),
        backfill=of("greedy", "reserve", "preemptible", "preemptible"),
        preemption={
            "scope": of("pool", "pool", "project"),
            "quota_shields": draw.chance(30),
            "cap_at_fair_share": draw.chance(50),
            "max_migrations": of(1, 2, None),
            "selection_timeout": time(20),
            "selection_backoff": of(5, 5, 20) * SECOND,
            "reservation_expiry": time(60),
            "restart_cost": time(),
            "max_counted_loss": time(60),
            "cpus_per_gpu": of(1, 2, 4),
        },
        eviction={"grace": time(10), "stuck_after": time(30)},
        restarts={"backoff": of(0, 0, 5) * SECOND, "max_backoff": time(10), "grow_after": time(), "max_yields": of(0, 1, 2)},
        protections=protections(draw) if draw.chance(40) else {},
    )


def machine(draw: Draw, joined: facts.NodeJoined) -> facts.NodeJoined:
    """What joins as that node: nearly all jobs fit on it."""
    return joined.model_copy(
        update={
            "devices": devices(draw.of(*MACHINES), joined.node),
            "cpu_milli": 1000 * draw.of(16, 64),
            "memory_bytes": GIB * 1000,
            "labels": {"zone": draw.of("z1", "z2"), "rack": draw.of("r1", "r2", "r3"), "disk": "fast"},
            "max_tasks": draw.of(8, 100),
            "checkpoint_store": draw.of(None, "store"),
        }
    )


def demand(draw: Draw, state: PoolState) -> Fields:
    """A job that may be submitted to that pool: small, often elastic, often of limited run time."""
    of = draw.of
    gpus: Fields = of(
        *[{"gpu_milli": 1000}] * 6,
        *[{"gpu_milli": 2000}] * 4,
        {"gpu_milli": 3000},
        {"gpu_milli": 4000},
        {},
        {"gpu_share_milli": 500},
        {"gpu_share_milli": of(250, 300, 700)},
        {"mig_profile": "3g.40gb"},
    )
    cpus = {"cpu_milli": 1000 * of(1, 2, 4)}
    groups = [TaskGroup(count=of(1, 1, 1, 2, 2, 3, 4), **gpus, **(cpus if not gpus or draw.chance(30) else {}))]
    if draw.chance(15):
        groups.append(TaskGroup(count=of(1, 2), gpu_milli=of(1000, 2000)))
    size = sum(group.count for group in groups)
    fields: Fields = {
        "groups": groups,
        "cls": of(*CLASSES),
        "max_failures": of(0, 1, 3),
        "elastic": of("live", "restart"),
        **({"project": of(*LEAVES)} if state.rules.projects else {}),
        **draw.some(40, labels={"team": of("x", "y", "z")}, run_time_limit=of(30, 60, 300) * SECOND),
        **draw.some(draw.rare, grace=draw.time(), placement=of("any", "prefer nvlink"), pack=of("binpack", "spread")),
    }
    if draw.chance(draw.rare // 2):
        fields["topology"] = topology(draw)
    if size > 1 and draw.chance(60):
        fields["min_tasks"] = draw.random.randint(1, size)
    return fields
