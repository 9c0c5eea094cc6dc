"""What the tests of placement and victim selection are made of: small pools, and one call for each question about them."""

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.kits.builders import GIB, Sketch, group, requested_unit

from bailiff_core.model.demand import JobDemand, TopologyRule
from bailiff_core.model.policy import DEFAULT_POLICY, Action, Policy
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import Job, OpenRequest
from bailiff_core.placement import ClusterResources, StepBudget
from bailiff_core.placement.task_requirements import TaskRequirements
from bailiff_core.queue.order import shares_now
from bailiff_core.scheduling_snapshot import current_snapshot
from bailiff_core.victims import Accepted, SelectionBatch, Stale, revalidate_proposal, select_batch, select_victims
from bailiff_core.victims.slot_combinations import Option
from bailiff_core.victims.trial import Problem, Solution, Trial

ROOM = GIB * 80


def need(**asked: Any) -> TaskRequirements:
    return TaskRequirements.of(group(**asked))


def pool(*sizes: int, **about: Any) -> ClusterResources:
    """Nodes a, b, … with so many GPUs."""
    sketch = Sketch()
    for name, gpus in zip("abcdefgh", sizes, strict=False):
        sketch.node(name, gpus=gpus, **about)
    return ClusterResources.of(sketch.state)


AT_MOST_ONE_WEB = {"budgets": [{"name": "web", "labels": {"app": "web"}, "max_disruptions": 1}]}
"""Protections of a policy: of the jobs in `two_full_nodes`, one may be disrupted at a time."""


def two_full_nodes() -> Sketch:
    """Two nodes of four GPUs, which `one` and `two` of project `a` hold."""
    made = Sketch()
    for node, name in (("m", "one"), ("n", "two")):
        made.node(node, gpus=4)
        job = made.running(name, node, range(4))
        job.project = "a"
        job.demand = job.demand.model_copy(update={"labels": {"app": "web"}})
    return made


def preemptor_of_another_project(sketch: Sketch) -> Job:
    """A job of project `b` that needs one of the nodes."""
    job = sketch.job("preemptor", group(gpus=4), priority=75)
    job.project = "b"
    return job


def policy(*projects: dict[str, object], **rest: object) -> Policy:
    document = {**DEFAULT_POLICY.model_dump(mode="json"), "projects": projects, **rest}
    return Policy.model_validate_json(json.dumps(document))


def ask(sketch: Sketch, preemptor: Job, action: Action = "preempt") -> Proposal:
    sketch.state.indices.snapshot = None
    answer = select_victims(
        SelectionBatch.on(current_snapshot(sketch.state)), requested_unit(preemptor), action, StepBudget(20_000)
    )
    assert answer.victims, answer.would_need
    assert isinstance(verdict(sketch, preemptor, answer), Accepted), "as nothing has changed, it holds"
    return answer


def verdict(sketch: Sketch, preemptor: Job, answer: Proposal) -> Accepted | Stale:
    sketch.state.indices.snapshot = None
    snapshot = current_snapshot(sketch.state)
    return revalidate_proposal(snapshot, shares_now(snapshot), preemptor, answer)


def why(sketch: Sketch, preemptor: Job, answer: Proposal) -> str:
    found = verdict(sketch, preemptor, answer)
    assert isinstance(found, Stale), found
    return found.reason


RACK = TopologyRule(topology="dc", required="rack")


APART = "the tasks are no longer in one domain at level 'rack'"


def racks(*names: str | None) -> Sketch:
    """One node of two GPUs per rack; `None`: without a label."""
    made = Sketch()
    made.state.policy = policy(topologies=[{"name": "dc", "levels": ["rack"]}])
    for number, rack in enumerate(names):
        made.node(f"n{number}", gpus=2, labels={"rack": rack} if rack else {})
    return made


def gang(made: Sketch, *groups, **rules: object) -> Job:
    preemptor = made.job("gang", *groups)
    preemptor.demand = JobDemand(job="gang", tasks=groups, **rules)
    return preemptor


def problem(sketch: Sketch, preemptor: Job, action: Any = "preempt") -> Problem:
    sketch.state.indices.snapshot = None
    snapshot, unit = current_snapshot(sketch.state), requested_unit(preemptor)
    batch = SelectionBatch.on(snapshot, preemptors=1)
    trial = Trial(snapshot, batch.shares, unit, action)
    return Problem(trial, unit, batch.index, {}, StepBudget(20_000), batch.knapsacks)


def victim_names(solution: Solution | None) -> list[str]:
    assert solution is not None
    return sorted(step.job.id for step in solution.victims or ())


ABOVE = 100  # lowest weight of the level above fragmentation


FRAGMENTATION: Any = SimpleNamespace(above=ABOVE, per_node=10, count=sum)


@dataclass(frozen=True)
class Step:
    """age_key: youngest first, as that of an eviction step."""

    age_key: tuple[int, str, int]
    uses: int = 0


def option(gain: int, weight: int, *ages: int) -> Option:
    """An option that evicts jobs of these ages: 0 is the youngest."""
    steps: Any = tuple(Step((age, f"j{age}", 0)) for age in ages)
    return Option(gain, (weight, len(steps), tuple(sorted(step.age_key for step in steps))), steps)


def answers(sketch: Sketch, *names: str) -> list[Proposal]:
    """The proposals for these jobs in this order, whichever was found first."""
    sketch.state.indices.snapshot = None
    proposals = select_batch(sketch.state, [OpenRequest(at, name) for at, name in enumerate(names, 1)], 20_000)
    return sorted(proposals, key=lambda proposal: proposal.request)
