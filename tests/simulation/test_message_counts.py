"""How many records and messages a preemption costs: exact, so that one more of either is noticed."""

from collections import Counter
from dataclasses import replace

import pytest

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import Policy, PriorityClass
from bailiff_core.records import Wire, decode
from bailiff_core.records.job_requests import SubmitJob
from bailiff_node_agent.settings import NodeDeclaration

from .plan import POOL, plan_of
from .work import START, Post
from .world import Outcome, run


def _submit(at: float, job: str, priority_class: str, **env: str) -> Post:
    demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),), priority_class=priority_class)
    spec = JobSpec(command=("true",), env=env, runtime="simulated")
    return Post(at, *wrap(SubmitJob(demand=demand, spec=spec), source="/people", id=job, pool=POOL, time_us=START))


def _run(*posts: Post) -> Outcome:
    """One node with one GPU, one replica of each service, no faults."""
    node = NodeDeclaration(name="node-0", pool=POOL, gpus="1xH100-80GB", cpu_milli=8000, memory_bytes=64 << 30)
    plan = replace(
        plan_of(0),
        nodes=(node,),
        policy=POLICY,
        replicas=("admission-0", "selection-0", "executor-0"),
        posts=posts,
        events=(),
        bad=0,
        slow=0,
        partitions=dict.fromkeys(topics.TOPICS, 1),
        skews={"admission-0": 0, "selection-0": 0, "executor-0": 0, "node-0": 0},
        digest_every=10_000,
        max_cycle_inputs=200,
        undecidable=(),
    )
    outcome = run(plan)
    assert outcome.violation is None, outcome.story()
    return outcome


POLICY = Policy(
    priority_classes=(
        PriorityClass(name="inference", value=125, preemptible=False),
        PriorityClass(name="train", value=50, preemptible=True, global_default=True),
    )
)
LOW = _submit(1.0, "job-low", "train", BAILIFF_SIM_RUN_FOR="30", BAILIFF_SIM_ON_NOTICE="exit")


@pytest.fixture(scope="module")
def idle() -> Outcome:
    return _run()


@pytest.fixture(scope="module")
def alone() -> Outcome:
    return _run(LOW)


@pytest.fixture(scope="module")
def preempted() -> Outcome:
    return _run(LOW, _submit(5.0, "job-high", "inference", BAILIFF_SIM_RUN_FOR="2"))


def _more(outcome: Outcome, than: Outcome) -> dict[str, int]:
    """By topic, the messages that one run has and the other has not."""
    counts = {topic: count - than.messages[topic] for topic, count in outcome.messages.items()}
    return {topic: count for topic, count in counts.items() if count}


def _cycles(outcome: Outcome) -> int:
    """Decision cycles: each is one append, which the broker flushes."""
    return sum(decode(Wire(message.headers, message.value)).cycle_end for message in outcome.partition)


def test_a_plain_job_costs_six_records_and_one_command(alone: Outcome, idle: Outcome) -> None:
    assert alone.checker.kinds - idle.checker.kinds == Counter(
        ["JobSubmitted", "JobPlaced", "TaskStarted", "TaskExited", "TaskReleased", "JobEnded"]
    )
    more = _more(alone, idle)
    assert more[topics.AUDIT.name] == 6
    assert more[topics.NODE_COMMANDS.name] == 1
    assert more[topics.JOB_SPECS.name] == 1


def test_a_preemption_costs_these_records_and_messages(alone: Outcome, preempted: Outcome) -> None:
    """All of it: the other job's whole life, the preemption, and the victim's second attempt."""
    assert preempted.checker.kinds - alone.checker.kinds == Counter(
        {
            **dict.fromkeys(["JobSubmitted", "JobPlaced", "JobRequeued", "JobEnded"], 1),
            **dict.fromkeys(["PreemptionRequested", "ProposalReceived", "PreemptionDecided", "EvictionStarted"], 1),
            **dict.fromkeys(["TaskStarted", "TaskExited", "TaskReleased", "JobPending", "JobStarting"], 2),
            "EvictionStageReached": 2,
        }
    )
    assert _more(preempted, alone) == {
        topics.REQUESTS.name: 1,
        topics.AUDIT.name: 20,
        topics.JOB_SPECS.name: 1,
        topics.PROPOSALS.name: 1,
        topics.EVICTION_PROGRESS.name: 1,
        topics.NODE_COMMANDS.name: 3,  # evict, and two starts
        topics.NODE_REPORTS.name: 8,  # started, noticed, TERM, exited, released; started, exited, released
    }


def test_a_preemption_costs_at_most_so_many_flushed_appends(alone: Outcome, preempted: Outcome) -> None:
    """Fewer where records fall into one decision cycle."""
    assert 10 <= _cycles(preempted) - _cycles(alone) <= 15
