"""What a request would bring about, tried on a copy of the pool by the rules that will decide it. Nothing is asked for."""

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
    ScaleJob,
    SetJob,
    SubmitJob,
    UndrainNode,
    UnpauseJob,
)
from bailiff_core.fold import close_turn
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.places import NodeShare
from bailiff_core.model.pool import Pool
from bailiff_core.plan.between import to_next_round
from bailiff_core.plan.build import NOTHING, happens, request
from bailiff_core.plan.passes import one_pass
from bailiff_core.plan.whatif import until_at_rest
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

ASKED = request("foreseen")
FACTS: dict[type[RequestBody], type[Fact]] = {
    CancelJob: facts.JobCancelled, PauseJob: facts.JobPaused, UnpauseJob: facts.JobUnpaused, EvictJob: facts.JobEvictionAsked,
    MigrateJob: facts.JobMigrationAsked, ScaleJob: facts.JobScaled, SetJob: facts.JobReclassified,
    DrainNode: facts.NodeDrained, UndrainNode: facts.NodeUndrained,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Foreseen:
    """now: what is decided at once. then: what more, when those who were told to leave are gone. pool: after all of it."""

    now: Sequence[Decision]
    then: Sequence[Decision]
    pool: Pool

    def placed(self) -> dict[str, list[str]]:
        """Jobs that get a place, or more of one, with its nodes; who displaces others for it included."""
        found: dict[str, list[str]] = {}
        for decision in (*self.now, *self.then):
            match decision:
                case decisions.JobPlaced() | decisions.JobGrown() | decisions.MigrationDecided():
                    found.setdefault(decision.job, []).extend(self.nodes(decision.placement))
                case decisions.PreemptionDecided():
                    found.setdefault(decision.asker.job, []).extend(self.nodes(decision.placement))
        return {job: list(dict.fromkeys(nodes)) for job, nodes in found.items()}

    def nodes(self, placement: Sequence[NodeShare]) -> list[str]:
        """Names of the nodes of a place."""
        return list(dict.fromkeys(self.pool.nodes[share.node].name for share in placement))


def fact_of(body: RequestBody) -> Fact:
    """What admission would write of this request if it accepted it."""
    match body:
        case SubmitJob():
            return facts.JobSubmitted(request=ASKED, demand=body.demand, spec_digest=NOTHING)
        case ApplyPolicy():
            return facts.PolicyApplied(request=ASKED, policy=body.policy.complete(), enforce=body.enforce)
        case _:
            fields = {name: getattr(body, name) for name in type(body).model_fields}
            return FACTS[type(body)].model_validate({"request": ASKED, **fields})


def at(pool: Pool, now: int) -> Pool:
    """The same pool, a moment later and between two turns. Only to be read."""
    return dataclasses.replace(pool, now=max(pool.now, now), turn_open=False)


def foreseen(pool: Pool, fact: Fact) -> Foreseen:
    """What becomes of it, with all that leave leaving as they are told. `pool` is only read; its turn must not be open."""
    trial = from_snapshot(to_snapshot(pool))
    since = trial.seq
    happens(trial, fact, close=False)
    first = until_at_rest(trial)
    close_turn(trial)
    to_next_round(trial, since, 0)
    second = [decision for _, decision in one_pass(trial)]
    return Foreseen(first, second, trial)


def anyway(pool: Pool) -> Foreseen:
    """What would be decided next if nobody asked for anything."""
    return foreseen(pool, facts.ClockAdvanced())
