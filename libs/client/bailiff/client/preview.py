"""Forecast of a request: applies the scheduler's rules to a copy of the pool's state. Nothing is published."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bailiff.render.record_text.evictions import follows
from bailiff.render.record_text.phrases import members
from bailiff_core.fold import close_cycle
from bailiff_core.fold.snapshot import from_snapshot, to_snapshot
from bailiff_core.model.evictions import active_evictions
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.state import PoolState
from bailiff_core.plan.advance import advance_to_next_round
from bailiff_core.plan.build import append_facts, request
from bailiff_core.plan.cycles import run_cycle
from bailiff_core.plan.whatif import decide_until_stable
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Decision, Fact

PREVIEW_REQUEST = request("preview")


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predicted decisions.

    Attributes:
        now: Decisions that are made at once.
        then: Decisions after the victims have released their resources.
        state: The state after both.
    """

    now: Sequence[Decision]
    then: Sequence[Decision]
    state: PoolState

    def placed(self) -> dict[str, list[str]]:
        """Nodes by job that starts, possibly once others have left."""
        return self._gains(_start)

    def grown(self) -> dict[str, list[str]]:
        """Nodes of more tasks, by job that runs already."""
        return self._gains(_growth)

    def _gains(self, kind: Callable[[Decision], tuple[str, Sequence[NodeShare]] | None]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for job, placement in filter(None, map(kind, (*self.now, *self.then))):
            found.setdefault(job, []).extend(self.nodes(placement))
        return {job: list(dict.fromkeys(nodes)) for job, nodes in found.items()}

    def nodes(self, placement: Sequence[NodeShare]) -> list[str]:
        """Names of the nodes of a placement."""
        return list(dict.fromkeys(self.state.nodes[share.node].name for share in placement))


def _start(decision: Decision) -> tuple[str, Sequence[NodeShare]] | None:
    if isinstance(decision, decisions.PreemptionDecided) and not decision.tasks:
        return decision.preemptor.job, decision.placement
    return (decision.job, decision.placement) if isinstance(decision, decisions.JobPlaced) else None


def _growth(decision: Decision) -> tuple[str, Sequence[NodeShare]] | None:
    if isinstance(decision, decisions.PreemptionDecided) and decision.tasks:
        return decision.preemptor.job, decision.placement
    return (decision.job, decision.placement) if isinstance(decision, decisions.JobGrown) else None


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


def too_late(state: PoolState, preemptor: str) -> Iterator[str]:
    """Which victims leave although the preemptor no longer needs their resources, in sentences without a full stop."""
    for entry in active_evictions(state):
        if entry.eviction.preemption is not None and entry.eviction.for_job == preemptor and entry.too_late:
            victim = members(entry.job.id, entry.part)
            yield f"too late for {victim}: it was already told to stop; it {follows(entry.job)}"
