"""Forecast of a request: applies the scheduler's rules to a copy of the pool's state. Nothing is published."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_bus.messages import (
    ApplyPolicy,
    CancelJob,
    DrainNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    RequestBody,
    ResumeJob,
    ScaleJob,
    SetPriorityClass,
    SubmitJob,
    UndrainNode,
)
from bailiff_core.fold import close_cycle
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.state import PoolState
from bailiff_core.plan.advance import advance_to_next_round
from bailiff_core.plan.build import NOTHING, append_facts, request
from bailiff_core.plan.cycles import run_cycle
from bailiff_core.plan.whatif import decide_until_stable
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

PREVIEW_REQUEST = request("preview")
FACTS: dict[type[RequestBody], type[Fact]] = {
    CancelJob: facts.JobCancelled, PauseJob: facts.JobPaused, ResumeJob: facts.JobResumed, EvictJob: facts.JobEvictionRequested,
    MigrateJob: facts.JobMigrationRequested, ScaleJob: facts.JobScaled, SetPriorityClass: facts.JobPriorityClassChanged,
    DrainNode: facts.NodeDrained, UndrainNode: facts.NodeUndrained,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Forecast:
    """now: immediate decisions. then: decisions after the victims have released their resources. state: after both."""

    now: Sequence[Decision]
    then: Sequence[Decision]
    state: PoolState

    def placed(self) -> dict[str, list[str]]:
        """Nodes by job that is placed, grown, migrated or preempts others."""
        found: dict[str, list[str]] = {}
        for decision in (*self.now, *self.then):
            match decision:
                case decisions.JobPlaced() | decisions.JobGrown() | decisions.MigrationDecided():
                    found.setdefault(decision.job, []).extend(self.nodes(decision.placement))
                case decisions.PreemptionDecided():
                    found.setdefault(decision.preemptor.job, []).extend(self.nodes(decision.placement))
        return {job: list(dict.fromkeys(nodes)) for job, nodes in found.items()}

    def nodes(self, placement: Sequence[NodeShare]) -> list[str]:
        """Names of the nodes of a placement."""
        return list(dict.fromkeys(self.state.nodes[share.node].name for share in placement))


def fact_of(body: RequestBody) -> Fact:
    """The fact that admission would record for this request."""
    match body:
        case SubmitJob():
            return facts.JobSubmitted(request=PREVIEW_REQUEST, demand=body.demand, spec_digest=NOTHING)
        case ApplyPolicy():
            return facts.PolicyApplied(request=PREVIEW_REQUEST, policy=body.policy.complete(), enforce=body.enforce)
        case _:
            fields = {name: getattr(body, name) for name in type(body).model_fields}
            return FACTS[type(body)].model_validate({"request": PREVIEW_REQUEST, **fields})


def at(state: PoolState, now: int) -> PoolState:
    """A read-only copy of the state at a later time (µs), between two cycles."""
    indices = dataclasses.replace(state.indices)
    return dataclasses.replace(state, now=max(state.now, now), cycle_open=False, indices=indices)


def forecast(state: PoolState, fact: Fact) -> Forecast:
    """The forecast for this fact, assuming that all victims exit in time. `state` is only read; its cycle must not be open."""
    trial = from_snapshot(to_snapshot(state))
    since = trial.seq
    append_facts(trial, fact, close=False)
    first = decide_until_stable(trial)
    close_cycle(trial)
    advance_to_next_round(trial, since, 0)
    second = [decision for _, decision in run_cycle(trial)]
    return Forecast(first, second, trial)


def baseline(state: PoolState) -> Forecast:
    """The forecast without a request, as a baseline."""
    return forecast(state, facts.ClockAdvanced())
