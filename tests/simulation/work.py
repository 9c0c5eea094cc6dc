"""Requests to the pool: random jobs, cancellations, malformed requests, a client that repeats requests; and an operator."""

import asyncio
import json
import re
from dataclasses import dataclass
from random import Random

from tests.kits.memory_bus import MemoryBus

from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import BusUnavailable, Headers
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import (
    Cooldown,
    EvictionRules,
    NodeRules,
    Policy,
    PreemptionRules,
    PriorityClass,
    Project,
    Protections,
)
from bailiff_core.model.resource_vector import Bounds, Weights
from bailiff_core.model.snapshot_offer import SnapshotOffer
from bailiff_core.model.snapshots import not_saved
from bailiff_core.records import job_requests
from bailiff_core.records.node_requests import DrainNode, ReturnNode, UndrainNode
from bailiff_core.records.pool_requests import AcceptTruncation, RevokeKey
from bailiff_core.records.request import RequestBody
from bailiff_log.signatures import sign
from bailiff_node_agent.settings import NodeDeclaration
from bailiff_node_agent.snapshots import DRIVER

GIB, CPU = 1 << 30, "c" * 64
SECOND = 1_000_000
START = 1_800_000_000_000_000  # µs UTC: when every run begins
MOST_JOBS = 24
PROJECTS = ("red", "blue")


@dataclass(frozen=True)
class Post:
    """One message to `bailiff.requests`, sent at `at` (virtual s)."""

    at: float
    headers: Headers
    value: bytes

    @property
    def about(self) -> str:
        """The job named in its id, else the id itself."""
        name = dict(self.headers).get("ce_id", b"").decode(errors="replace")
        return name.partition("job-")[2] or name

    def __str__(self) -> str:
        kind = dict(self.headers).get("ce_type", b"nonsense").decode(errors="replace").split(".")
        return f"{self.at:7.2f} {kind[1] if len(kind) > 1 else kind[0]} {self.value.decode(errors='replace')}"


def random_nodes(random: Random, pool: str) -> list[NodeDeclaration]:
    """One to four machines, small ones more often."""
    nodes = []
    for number in range(random.choice([1, 2, 2, 3, 4])):
        gpus = random.choice([0, 1, 2, 2, 4, 4, 8])
        declared = {
            "name": f"node-{number}",
            "pool": pool,
            "gpus": f"{gpus}x{random.choice(['H100-80GB', 'H100-80GB', 'A100-40GB'])}" if gpus else "0",
            "cpu_milli": random.choice([4, 8, 16]) * 1000,
            "memory_bytes": random.choice([16, 64]) * GIB,
            "max_tasks": random.choice([3, 1000]),
            "machine_id": f"machine-{number}",
        }
        nodes.append(NodeDeclaration.model_validate(declared))
    return nodes


def random_policy(random: Random) -> Policy:
    """A policy with short times, so that they pass within a run. Half of the pools have projects."""
    return Policy(
        projects=random_projects(random) if random.randrange(2) else (),
        backfill=random.choice(["reserve", "greedy", "preemptible"]),
        protections=Protections(cooldown=Cooldown(job=random.choice([0, 3 * SECOND]), project=random.choice([0, 5 * SECOND]))),
        priority_classes=(
            PriorityClass(name="inference", value=125, preemptible=False),
            PriorityClass(name="patient", value=110, preemptible=True, preemption_policy="Never"),
            PriorityClass(name="interactive", value=75, preemptible=True, grace=random.choice([1, 3]) * SECOND),
            PriorityClass(name="train", value=50, preemptible=True, global_default=True),
        ),
        preemption=PreemptionRules(
            reservation_expiry=random.choice([5, 20, 60]) * SECOND,
            selection_timeout=random.choice([1, 5]) * SECOND,
            search_steps=random.choice([5, 20_000]),
            max_migrations=random.choice([0, 1, None]),
            scope=random.choice([None, "pool", "project"]),
        ),
        eviction=EvictionRules(grace=random.choice([1, 5]) * SECOND, stuck_after=random.choice([2, 10]) * SECOND),
        nodes=NodeRules(
            unreachable_after=random.choice([6, 10]) * SECOND,
            lease=random.choice([20, 40]) * SECOND,
            lost_margin=45 * SECOND,
            silent_share_percent=random.choice([20, 60]),
        ),
    )


def random_projects(random: Random) -> tuple[Project, ...]:
    """Two projects, with or without a common parent, and one for jobs without a project."""
    roof = random.choice([None, "roof"])
    quotas = random.choice([(1, 1), (2, 2), (4, 0), (0, 0)])
    named = [
        Project(
            name=name,
            parent=roof,
            quota=Bounds(gpu_milli=1000 * quota),
            over_quota_weight=Weights(gpu=random.choice([0, 1, 3])),
            limit=Bounds(gpu_milli=random.choice([None, None, 6000])),
        )
        for name, quota in zip(PROJECTS, quotas, strict=True)
    ]
    above = [Project(name=roof, quota=Bounds(gpu_milli=4000))] if roof is not None else []
    return (*above, *named, Project(name="default"))


def random_requests(random: Random, pool: str, nodes: list[NodeDeclaration], length: float, projects: bool) -> list[Post]:
    """Jobs and other requests, in order of time."""
    posts: list[Post] = []
    rush = random.choice([0.2, 0.5, 1.0])
    for number in range(random.choice([6, 12, 18, MOST_JOBS])):
        at = random.uniform(0.0, length * 0.8 * rush)
        job = f"job-{number}"
        submit = job_requests.SubmitJob(demand=_demand(random, job, nodes, projects), spec=_spec(random, number))
        submit = _saved(Random(f"saved/{at}"), submit)
        posts += _posted(random, pool, at, f"submit-{job}", submit)
        if random.randrange(4) == 0:
            scale = job_requests.ScaleJob(job=job, tasks=random.choice([1, 2, 3, 5]), min_tasks=random.choice([None, None, 1]))
            posts += _posted(random, pool, at + random.uniform(0.1, 25.0), f"scale-{job}", scale)
        if random.randrange(8) == 0:
            change = job_requests.SetPriorityClass(job=job, priority_class=random.choice(["inference", "interactive", "train"]))
            posts += _posted(random, pool, at + random.uniform(0.1, 10.0), f"set-{job}", change)
        if random.randrange(6) == 0:
            cancel = job_requests.CancelJob(job=job)
            posts += _posted(random, pool, at + random.uniform(-1.0, 25.0), f"cancel-{job}", cancel)
    posts += [_malformed(random, pool, random.uniform(0.0, length)) for _ in range(random.choice([0, 1, 4]))]
    posts += _operator_requests(Random(f"{[post.at for post in posts]}"), pool, nodes, length)
    return sorted(posts, key=lambda post: post.at)


def _operator_requests(random: Random, pool: str, nodes: list[NodeDeclaration], length: float) -> list[Post]:
    """Operator requests that evict, pause or migrate jobs and drain nodes; most of them are reverted later."""
    posts: list[Post] = []
    names = [node.name for node in nodes]
    for number in range(random.choice([0, 0, 2, 6, 12])):
        at, job = random.uniform(0.0, length), f"job-{random.randrange(MOST_JOBS)}"
        node = random.choice(names)
        back: RequestBody | None = None
        match random.randrange(5):
            case 0:
                requested: RequestBody = job_requests.EvictJob(job=job, reason="by an operator")
            case 1 | 2:
                requested, back = job_requests.PauseJob(job=job), job_requests.ResumeJob(job=job)
            case 3:
                requested = job_requests.MigrateJob(job=job, node=random.choice([None, node]))
            case _:
                deadline = random.choice([None, 0, 3 * SECOND, 10 * SECOND])
                mode = random.choice(["graceful", "quick", "fast"])
                requested = DrainNode.model_validate({"node": node, "mode": mode, "deadline": deadline})
                back = UndrainNode(node=node)
        posts += _posted(random, pool, at, f"operator-requests-{number}-{job}", requested)
        if back is not None and random.randrange(4):
            posts += _posted(random, pool, at + random.uniform(0.0, 15.0), f"take-back-{number}-{job}", back)
    return posts


def clean_up(pool: str, at: float, nodes: list[str]) -> list[Post]:
    """Final requests: resume and undrain everything, return silent nodes, cancel jobs that can never start."""
    requested = [UndrainNode(node=node) for node in nodes] + [
        job_requests.ResumeJob(job=f"job-{number}") for number in range(MOST_JOBS)
    ]
    back = [_post(pool, at, f"in-the-end-{number}", body) for number, body in enumerate(requested)]
    never = [f"job-{number}" for number in range(MOST_JOBS) if _lacks_secret(number)]
    cancels = [_post(pool, at, f"in-the-end-{job}", job_requests.CancelJob(job=job)) for job in never]
    return [_post(pool, at, "return-nodes", ReturnNode()), *back, *cancels]


def revoke(pool: str, key: str, root: bytes) -> Post:
    """The request that revokes this key, signed with the root key."""
    body, about = RevokeKey(key=key, reason="stolen"), {"source": "/people", "id": f"revoke-{key}", "pool": pool}
    keyid, sig = sign(root, body, **about, time_us=START)
    return Post(0.0, *wrap(body, **about, time_us=START, keyid=keyid, sig=sig))


def offers_of(node: str) -> tuple[SnapshotOffer, ...]:
    """All nodes but the third save tasks."""
    why_not = "it is simulated so" if node.endswith("2") else ""
    return (SnapshotOffer(driver=DRIVER, version="4.2", why_not=why_not, bytes_per_s=GIB, cpu=CPU),)


def _saved(random: Random, submit: job_requests.SubmitJob) -> job_requests.SubmitJob:
    """Who saves its work; where its node does, what comes of it. By chance of its own: other requests stay as they were."""
    mode = random.choice([None, "snapshot", "snapshot", "snapshot", "auto", "none"])
    if mode == "snapshot" and not_saved(submit.demand):
        mode = "auto"
    outcome = f"{random.choice(['works', 'works', 'works', 'fails', 'killed', 'lost'])}:{random.choice([0.1, 0.1, 1, 7])}"
    spec = submit.spec.model_copy(update={"env": {**submit.spec.env, "BAILIFF_SIM_SNAPSHOT": outcome}})
    return submit.model_copy(update={"demand": submit.demand.model_copy(update={"checkpoint": mode}), "spec": spec})


def _lacks_secret(number: int) -> bool:
    return number % 12 == 11


def _demand(random: Random, job: str, nodes: list[NodeDeclaration], projects: bool) -> JobDemand:
    most = max((int(node.gpus.partition("x")[0]) for node in nodes), default=0)
    groups = []
    for _ in range(random.choice([1, 1, 1, 2])):
        gpus = random.choice([0, 1, 1, 2, most // 2, most])
        part = random.choice([None, None, None, 250, 500, 700]) if gpus == 1 and most else None
        memory = random.choice([None, 20 * GIB]) if part == 700 else None
        groups.append(
            TaskGroup(
                count=random.choice([1, 1, 2, 3, 4] if gpus < 2 else [1, 1, 1, 1, 2]),
                gpu_milli=1000 * min(gpus, most if random.randrange(20) else 9) if part is None else 0,
                gpu_share_milli=part if memory is None else None,
                gpu_share_bytes=memory,
                gpu_devices=random.choice([None, None, min(2, most)]) if part is not None else None,
                cpu_milli=random.choice([0, 500, 1000, 3000]),
                memory_bytes=random.choice([0, 1, 1, 8]) * GIB,
                gpu_models=random.choice([(), (), (), (), (), (), ("H100-80GB",)]),
            )
        )
    size = sum(group.count for group in groups)
    return JobDemand(
        job=job,
        tasks=tuple(groups),
        min_tasks=random.choice([None, None, 1, max(1, size - 1)]),
        project=random.choice([None, *PROJECTS]) if projects else None,
        run_time_limit=random.choice([None, None, None, 4 * SECOND, 20 * SECOND]),
        pack=random.choice([None, None, "spread"]),
        priority_class=random.choice(["inference", "patient", "interactive", "interactive", "train", "train", None]),
        preemptible=random.choice([None, None, None, False]),
        grace=random.choice([None, None, 0, 2 * SECOND, 8 * SECOND]),
        on_eviction=random.choice(["requeue", "requeue", "requeue", "end"]),
        max_failures=random.choice([0, 1, 3]),
    )


def _spec(random: Random, number: int = 0) -> JobSpec:
    env = {
        "BAILIFF_SIM_RUN_FOR": str(random.choice([0, 0.5, 5, 15, 30, 60])),
        "BAILIFF_SIM_ON_TERM": random.choice(["exit", "exit", "ignore", "exit:0:0.5", "exit:85:1", "exit:3:2", "exit:143:0.2"]),
        "BAILIFF_SIM_ON_NOTICE": random.choice(["ignore", "ignore", "exit", "exit:85:1.5", "exit:0:1"]),
    }
    if random.randrange(3) == 0:  # it uses the job library
        checkpoints = random.choice(["10:0.2", "2:2", "1:30"])
        env = {"BAILIFF_SIM_RUN_FOR": env["BAILIFF_SIM_RUN_FOR"], "BAILIFF_SIM_CHECKPOINTS": checkpoints}
    secrets = {"TOKEN": "missing"} if _lacks_secret(number) else {}
    return JobSpec(command=("train",), env=env, secrets=secrets, runtime="simulated")


def _posted(random: Random, pool: str, at: float, request: str, body: RequestBody) -> list[Post]:
    """The request once, repeated by a client, or followed by another request with the same id."""
    posts = [_post(pool, max(0.0, at), request, body)]
    roll = random.randrange(12)
    if roll < 2:
        posts.append(_post(pool, max(0.0, at) + random.choice([0.0, 0.01, 7.0]), request, body))
    if roll == 3:
        posts.append(_post(pool, max(0.0, at) + 1.0, request, job_requests.CancelJob(job="no-such-job")))
    return posts


def _post(pool: str, at: float, request: str, body: RequestBody) -> Post:
    return Post(at, *wrap(body, source="/people", id=request, pool=pool, time_us=START))


def _malformed(random: Random, pool: str, at: float) -> Post:
    headers, value = wrap(job_requests.CancelJob(job="some"), source="/people", id=f"nonsense-{at}", pool=pool, time_us=START)
    match random.randrange(7):
        case 0:
            return Post(at, (), random.randbytes(20))
        case 1:
            return Post(at, headers, b"{")
        case 2:
            return Post(at, headers, json.dumps({"job": "X" * 100}).encode())
        case 3:
            return Post(at, tuple((name, b"nowhere" if name == "ce_pool" else text) for name, text in headers), value)
        case 4:
            return Post(at, tuple((name, b"what.is.this" if name == "ce_type" else text) for name, text in headers), value)
        case 5:
            huge = job_requests.SubmitJob(
                demand=JobDemand(job="huge", tasks=(TaskGroup(count=1000, gpu_milli=64_000),)), spec=_spec(random)
            )
            return _post(pool, at, f"huge-{at}", huge)
    return Post(at, tuple(header for header in headers if header[0] != "ce_id"), value)


async def client(bus: MemoryBus, posts: list[Post]) -> None:
    """Send each request at its time, in order; an unacknowledged one is sent again with the same id."""
    loop = asyncio.get_running_loop()
    producer = None
    for post in posts:
        await asyncio.sleep(max(0.0, post.at - loop.time()))
        while True:
            try:
                producer = producer or await bus.producer()
                await (await producer.send(topics.REQUESTS.name, post.value, key=b"pool-a", headers=post.headers))
                break
            except BusUnavailable:
                producer = None
                await asyncio.sleep(0.3)


async def operator(bus: MemoryBus, pool: str, random: Random) -> None:
    """Read the alarms, and accept each truncation of the log some time after its alarm."""
    read = [0] * len(bus.cluster.partitions(topics.ALARMS.name))
    while True:
        await asyncio.sleep(1.0)
        for partition in range(len(read)):
            for message in bus.cluster.messages(topics.ALARMS.name, partition)[read[partition] :]:
                read[partition] += 1
                body = unwrap(message, accept=(Alarm,)).body
                if isinstance(body, Alarm) and body.code == "log-truncated":
                    await asyncio.sleep(random.choice([0.2, 2.0, 8.0]))
                    found = re.search(r"#(\d+) of epoch (\d+)", body.text)
                    assert found, body.text
                    accept = AcceptTruncation(epoch=int(found[2]), seq=int(found[1]), reason="the disk was replaced")
                    await client(bus, [_post(pool, 0.0, f"accept-{partition}-{message.offset}", accept)])
