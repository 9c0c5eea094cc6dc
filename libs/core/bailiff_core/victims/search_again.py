"""Searching again: a proposal in the log is a claim until the same engine, at the same state, computes the same."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bailiff_core.engine import LOGIC
from bailiff_core.model.document import Document
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import ProposalReceived

from .batch import compute_proposals

MAX_PENDING = 16


class ProposalDifference(Document):
    """A proposal that searching again does not reproduce.

    Attributes:
        seq: Record of the proposal.
        request: The request that it answers.
        proposed: The recorded result; None: none.
        computed: The result of searching again; None: none.
        differing: Paths of the fields that differ, such as `explanation.proven`.
        problem: Why no search can have given it, whatever its content; then nothing is compared.
    """

    seq: int
    computed_at: int
    request: int = 0
    job: str = ""
    proposed: Proposal | None = None
    computed: Proposal | None = None
    differing: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of searching again on the state after the record `seq`.

    Attributes:
        selection: The open selection; None: none was open.
        problem: Why no proposal can have been computed there.
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
            return [ProposalDifference(seq=seq, computed_at=self.seq, problem=problem)]
        return list(_differences(seq, self.seq, received.proposals, self.proposals))


def _differences(seq: int, at: int, proposed: Sequence[Proposal], computed: Iterable[Proposal]) -> Iterator[ProposalDifference]:
    again = {proposal.request: proposal for proposal in computed}
    seen: dict[int, None] = {}
    for claim in proposed:
        found = ProposalDifference(seq=seq, computed_at=at, request=claim.request, job=claim.job, proposed=claim)
        if claim.request in seen:
            yield found.model_copy(update={"problem": f"request #{claim.request} is answered twice"})
            continue
        seen[claim.request] = None
        other = again.get(claim.request)
        differing = differing_fields(claim, other) if other is not None else ()
        if differing or other is None:
            yield found.model_copy(update={"computed": other, "differing": differing})
    for request, other in again.items():
        if request not in seen:
            yield ProposalDifference(seq=seq, computed_at=at, request=request, job=other.job, computed=other)
    if list(seen) != list(again) and seen.keys() == again.keys():
        yield ProposalDifference(seq=seq, computed_at=at, problem="the proposals are not in the order in which they were found")


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
    """Searches again where its caller says so, and compares the proposals that follow. Keeps the last few results only."""

    def __init__(self) -> None:
        self._pending: dict[int, Searched] = {}
        self.checked = 0

    def search(self, state: PoolState) -> None:
        """Search on the state after the last record: a later proposal names it as the one on which it was computed."""
        self._pending[state.seq] = Searched.on(state)
        if len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]

    def compare(self, state: PoolState, seq: int, received: ProposalReceived) -> list[ProposalDifference] | None:
        """The differences of the proposals of the record `seq`, which is not folded yet; None: nothing was searched for it."""
        searched = self._pending.pop(received.computed_at, None)
        problem = _impossible(state, seq, received)
        if problem is not None:
            self.checked += 1
            return [ProposalDifference(seq=seq, computed_at=received.computed_at, problem=problem)]
        if searched is None:
            return None
        self.checked += 1
        return searched.differences(seq, received)


def _impossible(state: PoolState, seq: int, received: ProposalReceived) -> str | None:
    """Why the proposals cannot have been computed where they say so, whatever that state was."""
    if received.logic != LOGIC:
        return f"its logic is {received.logic}, and this part of the log is written by logic {LOGIC}"
    if received.computed_at >= seq:
        return f"#{received.computed_at} is not before it"
    if state.selection is None or received.computed_at < state.selection.opened_seq:
        return f"no selection was open after #{received.computed_at} that is open at #{seq}"
    return None
