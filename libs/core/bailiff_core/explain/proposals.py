"""A proposal as a sentence, and what searching again gives instead."""

from collections.abc import Iterator, Sequence

from bailiff_core.humanize import count_text, first_names
from bailiff_core.model.placement_ranges import NodeShare
from bailiff_core.model.proposal import Excluded, Proposal, VictimChoice
from bailiff_core.victims.search_again import ProposalDifference

from .sentences import Section, Sentence, listed, seqs_of, tasks_text, without_stop
from .victims import cost_list

MAX_TEXT = 1500  # of one result: names and reasons may come from whoever sent the proposal
MAX_FIELDS = 8


def explain_searched_again(differences: Sequence[ProposalDifference], seq: int, computed_at: int, request: int) -> Section:
    """Section about searching again.

    Args:
        seq: Of the proposals.
        request: The one that the decision answers.
    """
    seqs = seqs_of(computed_at, seq)
    mine = [each for each in differences if each.problem or each.request == request]
    if not mine:
        text = f"Yes: a search on the state after #{computed_at} gives the same victims, costs, runner-up, candidates and proof."
        found = [Sentence(text, seqs)]
    else:
        found = [Sentence("No: what victim selection sent is not what its engine computes.", seqs)]
        found += [Sentence(text, seqs) for each in mine for text in difference_sentences(each)]
    if len(differences) > len(mine):
        found.append(Sentence(f"Of the same selection, {count_text(len(differences) - len(mine), 'other answer')} differ.", seqs))
    return Section("Does searching again give the same?", tuple(found))


def difference_sentences(found: ProposalDifference) -> list[str]:
    """What was proposed, what this engine computes on the same state, and in which fields they differ."""
    if found.problem:
        return [f"The proposal #{found.seq} was not found by a search on the state after #{found.computed_at}: {found.problem}."]
    about = f"request #{found.request} of {found.job}"
    sentences = [
        f"Proposed for {about}, on the state after #{found.computed_at}: {proposal_text(found.proposed)}.",
        f"Searched again on the same state: {proposal_text(found.computed)}.",
    ]
    if found.differing:
        more = f" and {len(found.differing) - MAX_FIELDS} more" if len(found.differing) > MAX_FIELDS else ""
        sentences.append(f"The results differ in {listed(found.differing[:MAX_FIELDS])}{more}.")
    return sentences


def proposal_text(proposal: Proposal | None) -> str:
    """`preempt evicts low-1 and low-2, which cost 2 GPUs of priority 50, …; proven to be the cheapest set`."""
    return "no proposal" if proposal is None else "; ".join(_parts(proposal))[:MAX_TEXT]


def _parts(proposal: Proposal) -> Iterator[str]:
    why = proposal.explanation
    if proposal.refused is not None:
        yield f"no victims ({proposal.refused}{', proven' if why.proven else ''})"
        if proposal.would_need:
            yield without_stop(proposal.would_need)
    elif not proposal.victims:
        yield "it fits without evictions"
    else:
        price = f", which cost {cost_list(why.cost)}" if why.cost is not None else ""
        names = first_names([_victim_text(choice) for choice in proposal.victims])
        yield f"{proposal.action} evicts {names}{price}"
        proof = "proven to be the cheapest set" if why.proven else "the cheapest set found, not proven"
        yield f"{proof}, {count_text(why.steps, 'step')}"
    if proposal.placement:
        yield f"placed on {_placement_text(proposal.placement)}"
    if why.runner_up:
        yield f"runner-up {first_names(why.runner_up)}"
    if why.candidates or why.excluded:
        yield f"{count_text(why.candidates, 'candidate')}{_excluded_text(why.excluded)}"


def _victim_text(choice: VictimChoice) -> str:
    moved = ", moved" if choice.moved_to else ""
    return f"{choice.job} ({tasks_text(choice.tasks)}{moved})" if choice.tasks else f"{choice.job}{' (moved)' if moved else ''}"


def _placement_text(shares: tuple[NodeShare, ...]) -> str:
    return first_names([f"node {share.node}{f' GPUs {share.devices}' if share.devices else ''}" for share in shares])


def _excluded_text(groups: tuple[Excluded, ...]) -> str:
    named = [f"{group.jobs} by {group.rule}" for group in groups]
    return f", excluded {first_names(named)}" if named else ""
