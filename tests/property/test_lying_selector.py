"""A victim selection that lies in one field at a time: each lie is refused, or found by searching again.

The honest answer of the same world passes every check of admission and is reproduced.
"""

from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError
from tests.kits.core_invariants import victims_may_go
from tests.kits.examples import share
from tests.kits.log_builder import Story, folded, replayed
from tests.property.decided import _step
from tests.property.random_stories import Chance

from bailiff_admission.request_handlers.proposals import facts_of_proposal
from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.admission.rejected import Rejected
from bailiff_core.engine import LOGIC
from bailiff_core.model.proposal import Proposal
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.victims.batch import compute_proposals
from bailiff_core.victims.search_again import Searched

MOST_LIES, MOST_MOMENTS = 10, 6
Path = tuple[str | int, ...]


def worlds(random: Random, *, shared: bool) -> Iterator[Story]:
    """The same history at each moment at which a selection is open and not answered."""
    chance, answered = Chance(lambda _: None, shared=shared), 0
    for _ in range(120):
        chance.cycle([_step(random) for _ in range(random.randint(1, 3))])
        state = chance.story.state
        if state.selection is None or state.proposals is not None or state.selection.number == answered:
            continue
        answered = state.selection.number
        yield chance.story


def honest_batch(story: Story) -> ProposalBatch:
    state = folded(story.wires)
    assert state.selection is not None
    proposals = compute_proposals(state)
    return ProposalBatch(selection=state.selection.number, computed_at=state.seq, logic=LOGIC, proposals=proposals)


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all values that are not containers, and of all lists."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    elif isinstance(value, list):
        yield path
        for number, each in enumerate(value):
            yield from leaves(each, (*path, number))
    else:
        yield path


def false_value(random: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice([value + 1, max(0, value - 1) if value else 7, 2**53 - 1])
    if isinstance(value, str):
        return random.choice(["preempt", "reclaim", "0", "job-1", f"{value}0", ""])
    if isinstance(value, list):
        return random.choice([value[1:], value * 2, value[::-1]]) if value else value
    return random.choice([{}, "impossible", "gave-up"])  # instead of null


def lies(random: Random, honest: ProposalBatch) -> Iterator[tuple[Path, ProposalBatch | None]]:
    """Batches that differ from the honest one in one field; None: the message is no proposal at all."""
    data = {"proposals": [proposal.model_dump(mode="json") for proposal in honest.proposals]}
    paths = list(leaves(data))
    for path in random.sample(paths, min(MOST_LIES, len(paths))):
        changed = deepcopy(data)
        inside: Any = changed
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = false_value(random, inside[path[-1]])
        if changed == data:
            continue
        try:
            proposals = tuple(Proposal.model_validate(each, strict=False) for each in changed["proposals"])
        except ValidationError:
            yield path, None
            continue
        if proposals != honest.proposals:
            yield path, honest.model_copy(update={"proposals": proposals})


@pytest.mark.parametrize("seed", range(share(8)))
def test_each_lie_is_refused_or_found(seed: int) -> None:
    random = Random(seed)
    accepted = refused = 0
    for story in islice(worlds(random, shared=bool(seed % 2)), MOST_MOMENTS):
        before = folded(story.wires)
        searched, honest = Searched.on(before), honest_batch(story)
        for path, lie in [((), honest), *lies(random, honest)]:
            found = facts_of_proposal(story.state, lie) if lie is not None else Rejected("bad-field", "")
            if isinstance(found, Rejected):
                assert lie is not honest, found
                refused += 1
                continue
            (received,) = found
            assert isinstance(received, ProposalReceived)
            assert bool(searched.differences(story.state.seq + 1, received)) == (lie is not honest), (path, lie)
            other = story.resumed(len(story.wires))
            other.restart()
            other.cycle(received)
            victims_may_go(before, other.last_decisions)
            accepted += 1
    assert accepted
    assert refused


@pytest.mark.parametrize("seed", range(2))
def test_replay_finds_the_lie_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    story = next(worlds(random, shared=True))
    for _path, lie in lies(random, honest_batch(story)):
        found = facts_of_proposal(story.state, lie) if lie is not None else Rejected("bad-field", "")
        if not isinstance(found, Rejected):
            story.cycle(*found)
            break
    replay = replayed(story.wires)
    assert replay.difference is None
    assert replay.not_reproduced == 1
    assert replay.proposal_differences[0].seq == story.records[-1 - len(story.last_decisions)].seq
