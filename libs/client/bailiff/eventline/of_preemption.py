"""Lines about preemptions: asked for, answered, decided, refused."""

from collections.abc import Sequence

from bailiff_core.explain import needs_text
from bailiff_core.model.answer import VictimChoice
from bailiff_core.model.pool import Pool
from bailiff_core.records import decisions, facts
from bailiff_core.words import cost_text, count_text

from .line import Said
from .tellers import Tellers
from .words import class_text, joined, members, places_text, until

tells = Tellers()


@tells(facts.ProposalReceived)
def _proposal_received(fact: facts.ProposalReceived, _pool: Pool) -> Said:
    found = [
        f"#{answer.request} {answer.job}: {answer.refused or f'{len(answer.victims)} to leave'}" for answer in fact.answers[:4]
    ]
    if len(fact.answers) > len(found):
        found.append(f"and {len(fact.answers) - len(found)} more")
    return Said("proposal", f"selection {fact.number}", f"computed at #{fact.computed_at}; {', '.join(found)}")


@tells(facts.PlanGivenUp)
def _plan_given_up(fact: facts.PlanGivenUp, _pool: Pool) -> Said:
    return Said("plan given up", f"plan #{fact.plan}", f"nobody needs to leave: {fact.reason}", "good")


@tells(decisions.PreemptionRequested)
def _preemption_requested(decision: decisions.PreemptionRequested, _pool: Pool) -> Said:
    rank = f"{decision.class_name} {decision.priority}"
    return Said("preemption asked", members(decision.job, decision.tasks), f"({rank}) {decision.reason}", "preempt")


@tells(decisions.PreemptionDecided)
def _preemption_decided(decision: decisions.PreemptionDecided, pool: Pool) -> Sequence[Said]:
    asker = decision.asker
    places = places_text(pool, decision.placement)
    if not decision.victims:
        more = joined(f"for {asker.job}: room appeared, it takes {places}", _left_alone(decision))
        return [Said("preemption decided", "nobody leaves", more, "preempt")]
    told = []
    for choice in decision.victims:
        sides = _sides(decision, choice, pool)
        action = f"move to {places_text(pool, choice.moved)}" if choice.moved else "un-reserve" if choice.reserved else "evict"
        if choice.moved and not choice.goes_on:
            action = f"evict, of these {action}"
        loses = "" if choice.reserved else f"loses {cost_text(choice.lost_gpu_ms)}"
        who = f"{members(choice.job, choice.tasks)} → {action}"
        told.append(Said("preemption decided", who, joined(f"for {asker.job} {sides}", loses), "preempt"))
    if len(told) > 1 or decision.dropped or decision.spared:
        told.append(Said("", "", joined(_sum(decision.victims), f"{asker.job} gets {places}", _left_alone(decision)), "preempt"))
    return told


def _sides(decision: decisions.PreemptionDecided, choice: VictimChoice, pool: Pool) -> str:
    """Why this side yields to that one: by priority, or by what their projects are due."""
    asker = decision.asker
    if decision.verb == "reclaim":
        return f"(reclaim: {asker.project or 'no project'} is due it, {choice.project or 'no project'} is over its share)"
    if decision.verb == "consolidate":
        return "(consolidate: nobody stops for good)"
    rank = f"{choice.class_name} {choice.priority}" if choice.class_name else class_text(pool, choice.job, choice.priority)
    return f"({asker.class_name} {asker.priority} > {rank})"


def _sum(victims: Sequence[VictimChoice]) -> str:
    lost = sum(choice.lost_gpu_ms for choice in victims if not choice.reserved)
    jobs = dict.fromkeys(choice.job for choice in victims)
    return f"{count_text(len(jobs), 'job')} in all, {cost_text(lost)} lost"


def _left_alone(decision: decisions.PreemptionDecided) -> str:
    dropped = f"not needed any more: {', '.join(decision.dropped)}" if decision.dropped else ""
    return joined(dropped, f"spared: {', '.join(decision.spared)}" if decision.spared else "")


REFUSALS = {
    "impossible": "no set of jobs that may be evicted makes room",
    "gave-up": "the search used up its steps",
    "stale": "the answer was out of date",
    "not-needed": "nobody needs to leave for it",
}


@tells(decisions.PreemptionRefused)
def _preemption_refused(decision: decisions.PreemptionRefused, _pool: Pool) -> Said:
    need = f"it would need: {needs}" if (needs := needs_text(decision)) else ""
    why = decision.explanation
    groups = [(f"{tried.verb}: ", tried.excluded) for tried in why.tried]
    groups.append((f"{decision.verb}: " if groups else "", why.excluded))
    excluded = "; ".join(under + ", ".join(f"{each.jobs} {each.rule}" for each in group) for under, group in groups if group)
    more = joined(REFUSALS[decision.reason], need, f"left out: {excluded}" if excluded else "")
    return Said("preemption refused", decision.asker.job, joined(more, until(decision.retry_at, "asks again")), "warn")


@tells(decisions.SelectionTimedOut)
def _selection_timed_out(decision: decisions.SelectionTimedOut, _pool: Pool) -> Said:
    again = until(decision.retry_at, "asked again")
    more = joined("victim selection did not answer in time", f"failure {decision.failures}", again)
    return Said("selection timed out", f"selection {decision.number}", more, "warn")
