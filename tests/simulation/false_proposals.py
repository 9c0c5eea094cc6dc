"""False answers of victim selection: an honest one, changed in one place, or one that nobody asked for."""

from random import Random
from typing import Any

from pydantic import ValidationError

from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.engine import LOGIC
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.proposal import Proposal
from bailiff_core.model.state import PoolState
from bailiff_victim_selection.selector import proposal_batch


def proposal(state: PoolState, random: Random) -> ProposalBatch:
    """A batch for the open selection if there is one."""
    if state.selection is None or state.cycle_open:
        return _unasked(state, random)
    honest = proposal_batch(state)
    if random.randrange(6) == 0:
        return honest.model_copy(update={"proposals": ()})
    if random.randrange(6) == 0:
        return honest.model_copy(update={"computed_at": random.choice((0, state.seq + 1, MAX_INTEGER))})
    if random.randrange(6) == 0:
        refused = (Proposal(request=each.request, job=each.job, refused="impossible") for each in honest.proposals)
        return honest.model_copy(update={"proposals": tuple(refused)})
    return honest.model_copy(update={"proposals": tuple(_changed(each, random) for each in honest.proposals)})


def _unasked(state: PoolState, random: Random) -> ProposalBatch:
    jobs = list(state.jobs)
    made = Proposal(request=state.seq, job=random.choice([*jobs, "nowhere"]), refused="impossible")
    number = random.choice((0, 1, 10**6, MAX_INTEGER))
    return ProposalBatch(selection=number, computed_at=state.seq, logic=random.choice((LOGIC, LOGIC, 0)), proposals=(made,))


def _changed(honest: Proposal, random: Random) -> Proposal:
    """One value somewhere in it is another one."""
    for _ in range(5):
        data = honest.model_dump(mode="json")
        _change(data, random)
        try:
            return Proposal.model_validate(data, strict=False)
        except ValidationError:
            continue
    return honest.model_copy(update={"victims": ()})


def _change(inside: Any, random: Random) -> None:
    while True:
        places = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        if not places:
            return
        place = random.choice(places)
        if isinstance(inside[place], dict | list) and inside[place] and random.randrange(3):
            inside = inside[place]
            continue
        inside[place] = _other(inside[place], random)
        return


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((value + 1, 0, MAX_INTEGER))
    if isinstance(value, str):
        return random.choice(("preempt", "reclaim", "0", "0-7", "job-1", "job-2", ""))
    if isinstance(value, list):
        return random.choice((value[1:], value[::-1], []))
    return random.choice(("impossible", "gave-up", None))
