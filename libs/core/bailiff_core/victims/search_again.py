"""Searching again: a proposal in the log is a claim until the same engine, at the same state, computes the same."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import ProposalReceived

from .batch import compute_proposals

MAX_PENDING = 16


@dataclass(frozen=True, slots=True)
class ProposalDifference:
    """A proposal that searching again does not reproduce. seq: of its record; request: what it answers.

    proposed, computed: the two results; None: none. fields: paths of the fields that differ, such as `explanation.proven`.
    problem: why it cannot be what a search gave, whatever its content; then nothing is compared.
    """

    seq: int
    computed_at: int
    request: int = 0
    job: str = ""
    proposed: Proposal | None = None
    computed: Proposal | None = None
    fields: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of searching again on the state after the record `seq`.

    selection: the open one; None: none was open. problem: why no proposal can have been computed there.
    """

    seq: int
    selection: int | None = None
    proposals: tuple[Proposal, ...] = ()
    problem: str = ""

    @classmethod
    def on(cls, state: PoolState) -> "Searched":
        """Search on this state."""
        if state.cycle_open and state.seq != state.last_fact:
            return cls(state.seq, problem=f"#{state.seq} is within the decisions of a cycle, where nothing is searched")
        if state.selection is None or state.proposals is not None:
            return cls(state.seq)
        return cls(state.seq, state.selection.number, compute_proposals(state))

    def differences(self, seq: int, received: ProposalReceived) -> list[ProposalDifference]:
        """Every difference to the proposals of the record `seq`, computed on the same state; empty: they are reproduced."""
        problem = self.problem
        if not problem and self.selection != received.selection:
            problem = f"selection {received.selection} was not open after #{self.seq}"
        if problem:
            return [ProposalDifference(seq, self.seq, problem=problem)]
        return list(_differences(seq, self.seq, received.proposals, self.proposals))


def _differences(seq: int, at: int, proposed: Sequence[Proposal], computed: Iterable[Proposal]) -> Iterator[ProposalDifference]:
    again = {proposal.request: proposal for proposal in computed}
    seen: dict[int, None] = {}
    for claim in proposed:
        if claim.request in seen:
            problem = f"request #{claim.request} is answered twice"
            yield ProposalDifference(seq, at, claim.request, claim.job, claim, problem=problem)
            continue
        seen[claim.request] = None
        other = again.get(claim.request)
        fields = differing_fields(claim, other) if other is not None else ()
        if fields or other is None:
            yield ProposalDifference(seq, at, claim.request, claim.job, claim, other, fields)
    for request, other in again.items():
        if request not in seen:
            yield ProposalDifference(seq, at, request, other.job, None, other)


def differing_fields(proposed: Proposal, computed: Proposal) -> tuple[str, ...]:
    """Paths of the fields that differ, such as `victims` and `explanation.proven`, in the order of the model."""
    return tuple(_paths("", proposed.model_dump(), computed.model_dump()))


def _paths(path: str, left: dict[str, Any], right: dict[str, Any]) -> Iterator[str]:
    for name, value in left.items():
        other = right[name]
        if isinstance(value, dict) and isinstance(other, dict):
            yield from _paths(f"{path}{name}.", value, other)
        elif value != other:
            yield f"{path}{name}"


class ProposalCheck:
    """Searches again where it is told to, and compares the proposals that follow. Keeps the last few results only."""

    def __init__(self) -> None:
        self._pending: dict[int, Searched] = {}
        self.checked = 0

    def search(self, state: PoolState) -> None:
        """Search on the state after the last record: a later proposal names it as the one on which it was computed."""
        self._pending[state.seq] = Searched.on(state)
        if len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]

    def compare(self, seq: int, received: ProposalReceived) -> list[ProposalDifference]:
        """The differences of the proposals of the record `seq`; empty also if nothing was searched for it."""
        if received.computed_at >= seq:
            self.checked += 1
            return [ProposalDifference(seq, received.computed_at, problem=f"it names #{received.computed_at}, a later record")]
        searched = self._pending.pop(received.computed_at, None)
        if searched is None:
            return []
        self.checked += 1
        return searched.differences(seq, received)
