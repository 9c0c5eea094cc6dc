"""Explanations of counterfactuals: why this victim and not that one, and which jobs would be preempted next."""

from collections.abc import Iterable

from bailiff_core.humanize import count_text, first_names
from bailiff_core.model.proposal import Cost

from .counterfactual import ABSENT, Counterfactual, NextVictims, cheaper
from .sentences import Section, Sentence, listed, without_stop
from .victims import DECIDES, EQUAL, cost_list, first_difference, predicate_of

MAX_JOBS_LISTED = 4


def explain_counterfactual(found: Counterfactual, seq: int) -> Section:
    """Section about one counterfactual."""
    question = f"What would have happened without {found.other}?" if found.chosen else f"Why not {found.other}?"
    return Section(question, tuple(_counterfactual_sentences(found, (seq,))))


def _counterfactual_sentences(found: Counterfactual, seqs: tuple[int, ...]) -> Iterable[Sentence]:
    if found.rule == ABSENT:
        yield Sentence(f"{found.other} had no resources allocated at that time.", seqs)
        return
    if found.rule:
        yield Sentence(f"Rule {found.rule} protected {found.other} from {found.action}: it {predicate_of(found.rule)}.", seqs)
        return
    if found.chosen:
        yield Sentence(f"{found.other} is one of the victims.", seqs)
    else:
        yield Sentence(f"No rule protected {found.other}: it was a candidate for {found.action}.", seqs)
    proof = "" if found.proven else "; that is the cheapest set found, not proven"
    if found.cost is None:
        condition = f"without {found.other}" if found.chosen else f"with {found.other} as a victim"
        why = f": {without_stop(found.why)}" if found.why else ""
        yield Sentence(f"Searched again {condition}, no set of victims is sufficient{why}.", seqs)
        return
    if found.chosen and not found.jobs:
        yield Sentence(f"Searched again without {found.other}, no eviction is needed.", seqs)
        return
    condition = f"Without {found.other}" if found.chosen else f"With {found.other}"
    names = (
        listed(found.jobs)
        if len(found.jobs) < MAX_JOBS_LISTED
        else f"{count_text(len(found.jobs), 'job')} ({first_names(found.jobs)})"
    )
    yield Sentence(f"{condition}, searched again, {names} would be preempted: that costs {cost_list(found.cost)}{proof}.", seqs)
    if found.needless:
        yield Sentence("All chosen victims would still be needed, so its eviction would gain nothing.", seqs)
    if found.chosen_cost is not None:
        yield _comparison(found.chosen_cost, found.cost, seqs)


def _comparison(chosen: Cost, other: Cost, seqs: tuple[int, ...]) -> Sentence:
    """Compares the costs: the first level at which they differ decides."""
    differs = first_difference(chosen, other)
    if differs is None:
        return Sentence(f"{EQUAL}.", seqs)
    if cheaper(other, chosen):
        return Sentence(f"That is cheaper in {differs}, but was not permitted for a reason other than cost.", seqs)
    return Sentence(f"That is more expensive. {DECIDES}: {differs}.", seqs)


def explain_next_victims(found: NextVictims, preemptor: str, seq: int) -> Section:
    """Section about the next victims.

    Args:
        seq: Of the record after which they were searched.
    """
    return Section(f"Which jobs would another job like {preemptor} preempt?", tuple(_next_victims_sentences(found, (seq,))))


def _next_victims_sentences(found: NextVictims, seqs: tuple[int, ...]) -> Iterable[Sentence]:
    if found.why or (not found.jobs and found.action != "allocate"):
        proof = ", and that is proven" if found.proven else ""
        yield Sentence(f"No victims were found for it{proof}: {without_stop(found.why)}.", seqs)
    elif not found.jobs:
        yield Sentence("None: it would fit without evictions.", seqs)
    else:
        proof = "proven to be the cheapest set" if found.proven else "the cheapest set found, not proven"
        price = f", at {cost_list(found.cost)}" if found.cost is not None else ""
        yield Sentence(f"{first_names(found.jobs)}, action {found.action}{price}: {proof}.", seqs)
