"""Requests of a test, played by all services without faults on a node with eight GPUs."""

from dataclasses import replace
from typing import Any

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_core.fold import apply
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.request import RequestBody
from bailiff_node_agent.settings import NodeDeclaration

from .plan import POOL, plan_of
from .work import START, Post
from .world import run

SECOND = 1_000_000
POLICY = Policy(
    priority_classes=(
        PriorityClass(name="inference", value=125, preemptible=False),
        PriorityClass(name="train", value=50, preemptible=True, global_default=True),
    )
)


def submit(at: float, job: str, gpus: int, reaction: str = "exit", cls: str = "train", **fields: Any) -> Post:
    """A job that runs for 200 s unless it is stopped. reaction: what it does then, as `BAILIFF_SIM_ON_TERM` says it."""
    group = TaskGroup(count=fields.pop("tasks", 1), gpu_milli=gpus * 1000)
    run_for, more = fields.pop("run_for", 200), fields.pop("env", {})
    demand = JobDemand(job=job, tasks=(group,), priority_class=cls, **fields)
    env = {"BAILIFF_SIM_RUN_FOR": str(run_for), "BAILIFF_SIM_ON_TERM": reaction, **more}
    return post(at, SubmitJob(demand=demand, spec=JobSpec(command=("true",), env=env, runtime="simulated")), job)


def post(at: float, body: RequestBody, name: str) -> Post:
    """A request."""
    return Post(at, *wrap(body, source="/people", id=name, pool=POOL, time_us=START))


class Played:
    """The log of a node with eight GPUs and one replica of each service."""

    def __init__(self, *posts: Post) -> None:
        node = NodeDeclaration(name="node-0", pool=POOL, gpus="8xH100-80GB", cpu_milli=8000, memory_bytes=64 << 30)
        services = ("admission-0", "selection-0", "executor-0")
        plan = replace(
            plan_of(0),
            nodes=(node,),
            policy=POLICY,
            replicas=services,
            posts=posts,
            events=(),
            bad=0,
            slow=0,
            partitions=dict.fromkeys(topics.TOPICS, 1),
            skews=dict.fromkeys((*services, "node-0"), 0),
            digest_every=10_000,
            max_cycle_inputs=200,
            undecidable=(),
        )
        outcome = run(plan)
        assert outcome.violation is None, outcome.story(last=80)
        self.records: list[Record] = [decode(Wire(message.headers, message.value)) for message in outcome.partition]
        self.state = PoolState()
        for record in self.records:
            apply(self.state, record)

    def job(self, name: str) -> Job:
        """The job as it is in the end."""
        return self.state.jobs[name]

    def of(self, kind: type, job: str) -> list[Any]:
        """The job's records of this kind, without those after the clean-up of the run."""
        return [
            record.data for record in self.records if isinstance(record.data, kind) and getattr(record.data, "job", "") == job
        ]

    def times(self, kind: type, job: str) -> list[int]:
        """Their times, in seconds."""
        return [record.time // SECOND for record in self.records if isinstance(record.data, kind) and record.data.job == job]
