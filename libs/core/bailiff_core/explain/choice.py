"""Why this one and not that one, and who would be next, in sentences."""

from collections.abc import Iterable

from bailiff_core.instead import ABSENT, Instead, Next, cheaper
from bailiff_core.model.answer import Cost
from bailiff_core.words import count_text

from .said import Section, Sentence, few, listed, unstopped
from .victims import DECIDES, EQUAL, cost_list, first_difference, says_of

MOST_LISTED = 4


def explain_instead(found: Instead, seq: int) -> Section:
    """seq: of the decision."""
    question = f"What would have been without {found.other}?" if found.chosen else f"Why not {found.other}?"
    return Section(question, tuple(_instead(found, (seq,))))


def _instead(found: Instead, seqs: tuple[int, ...]) -> Iterable[Sentence]:
    if found.rule == ABSENT:
        yield Sentence(f"{found.other} held no room then, so that it had none to give.", seqs)
        return
    if found.rule:
        yield Sentence(f"Rule {found.rule} shielded {found.other} from the verb {found.verb}: it {says_of(found.rule)}.", seqs)
        return
    if found.chosen:
        yield Sentence(f"{found.other} is one of those that were told to leave.", seqs)
    else:
        yield Sentence(f"No rule shielded {found.other}: it could have been taken by the verb {found.verb}.", seqs)
    how = "" if found.proven else "; that is the cheapest that the search found, not proven"
    if found.cost is None:
        condition = f"without {found.other}" if found.chosen else f"with {found.other} among those who leave"
        why = f": {unstopped(found.why)}" if found.why else ""
        yield Sentence(f"Searched again {condition}, there is no set that makes room{why}.", seqs)
        return
    if found.chosen and not found.jobs:
        yield Sentence(f"Searched again without {found.other}, nobody has to leave.", seqs)
        return
    condition = f"Without {found.other}" if found.chosen else f"With {found.other}"
    them = listed(found.jobs) if len(found.jobs) < MOST_LISTED else f"{count_text(len(found.jobs), 'job')} ({few(found.jobs)})"
    yield Sentence(f"{condition}, searched again, {them} would leave: that costs {cost_list(found.cost)}{how}.", seqs)
    if found.needless:
        yield Sentence("All of the chosen ones would have had to leave all the same, so its own loss is for nothing.", seqs)
    if found.chosen_cost is not None:
        yield _compared(found.chosen_cost, found.cost, seqs)


def _compared(chosen: Cost, other: Cost, seqs: tuple[int, ...]) -> Sentence:
    """The first level at which they differ decides."""
    differs = first_difference(chosen, other)
    if differs is None:
        return Sentence(f"{EQUAL}.", seqs)
    if cheaper(other, chosen):
        return Sentence(f"On its own it is cheaper in {differs}: something other than the cost spoke against it.", seqs)
    return Sentence(f"That is dearer. {DECIDES}: {differs}.", seqs)


def explain_next(found: Next, asker: str, seq: int) -> Section:
    """seq: of the record after which it was looked for."""
    return Section(f"Who would be next, if another job like {asker} came?", tuple(_next(found, (seq,))))


def _next(found: Next, seqs: tuple[int, ...]) -> Iterable[Sentence]:
    if found.why or (not found.jobs and found.verb != "allocate"):
        sure = ", and that is proven" if found.proven else ""
        yield Sentence(f"Nobody could be made to leave for it{sure}: {unstopped(found.why)}.", seqs)
    elif not found.jobs:
        yield Sentence("Nobody: it would find room.", seqs)
    else:
        sure = "proven to be the cheapest" if found.proven else "the cheapest that the search found"
        price = f", at {cost_list(found.cost)}" if found.cost is not None else ""
        yield Sentence(f"{few(found.jobs)}, by the verb {found.verb}{price}: {sure}.", seqs)
