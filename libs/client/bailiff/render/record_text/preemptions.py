"""Text of records about preemptions: requested, proposed, decided, refused."""

import re
from collections.abc import Sequence

from bailiff_core.explain.pending_records import CONCLUSIVE, REFUSAL_REASONS, missing_text
from bailiff_core.explain.victims import further_loss_text
from bailiff_core.humanize import count_text, cpus_counted_text
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.model.state import PoolState
from bailiff_core.model.work_lost import loss_text, victim_loss, victims_loss
from bailiff_core.records import decisions, facts

from .line import Statement
from .phrases import class_text, island_text, joined, members, places_text, until
from .registry import Entries

describes = Entries()
NEEDS = re.compile(r"(^|\w+: )needs ")


@describes(facts.ProposalReceived)
def _proposal_received(fact: facts.ProposalReceived, _state: PoolState) -> Statement:
    found = []
    for proposal in fact.proposals[:4]:
        outcome = proposal.refused or count_text(len(proposal.victims), "victim")
        found.append(f"#{proposal.request} {proposal.job}: {outcome}")
    if len(fact.proposals) > len(found):
        found.append(f"and {len(fact.proposals) - len(found)} more")
    return Statement("proposal", f"selection {fact.selection}", f"computed at #{fact.computed_at}; {', '.join(found)}")


@describes(facts.PreemptionAbandoned)
def _preemption_abandoned(fact: facts.PreemptionAbandoned, _state: PoolState) -> Statement:
    return Statement("preemption abandoned", f"preemption #{fact.preemption}", f"no eviction needed: {fact.reason}", "good")


@describes(decisions.PreemptionRequested)
def _preemption_requested(decision: decisions.PreemptionRequested, _state: PoolState) -> Statement:
    detail = f"({decision.class_name} {decision.priority}) {decision.reason}".rstrip()
    return Statement("preemption requested", members(decision.job, decision.tasks), detail, "preempt")


@describes(decisions.PreemptionDecided)
def _preemption_decided(decision: decisions.PreemptionDecided, state: PoolState) -> Sequence[Statement]:
    preemptor = decision.preemptor
    places, island = places_text(state, decision.placement), island_text(decision.island)
    if not decision.victims:
        more = joined(f"for {preemptor.job}: resources became free, placed on {places}", island, _not_evicted(decision))
        return [Statement("preemption decided", "no victims", more, "preempt")]
    found = []
    for choice in decision.victims:
        sides = _sides(decision, choice, state)
        action = (
            f"move to {places_text(state, choice.moved_to)}"
            if choice.moved_to
            else "drop reservation"
            if choice.reserved
            else "evict"
        )
        if choice.moved_to and not choice.relocated:
            action = f"evict, of these {action}"
        counted = f" ({cpus_counted_text(choice.cpu_milli)})" if choice.cpu_milli else ""
        loss = loss_text(victim_loss(state, choice), choice.lost_gpu_ms)
        loses = "" if choice.reserved or choice.extends else f"loses {loss}{counted}"
        who = f"{members(choice.job, choice.tasks)} → {action}"
        found.append(
            Statement(
                "preemption decided", who, joined(f"for {preemptor.job} {sides}", loses, further_loss_text(choice)), "preempt"
            )
        )
    if len(found) > 1 or island or decision.reason or decision.unneeded_victims or decision.cancelled_evictions:
        placed = f"{preemptor.job} is placed on {places}"
        summary = joined(_sum(state, decision.victims), placed, decision.reason, island, _not_evicted(decision))
        found.append(Statement("", "", summary, "preempt"))
    return found


def _sides(decision: decisions.PreemptionDecided, choice: VictimChoice, state: PoolState) -> str:
    """Why the preemptor takes precedence: by priority, or by the entitlement of the projects."""
    preemptor = decision.preemptor
    if decision.action == "reclaim":
        return f"(reclaim: {preemptor.project or 'no project'} is entitled, {choice.project or 'no project'} is over its share)"
    if decision.action == "consolidate":
        return "(consolidate: all victims are moved)"
    rank = f"{choice.class_name} {choice.priority}" if choice.class_name else class_text(state, choice.job, choice.priority)
    if choice.backfilled and choice.priority >= preemptor.priority:
        return f"({preemptor.class_name} {preemptor.priority}; {rank} was backfilled)"
    return f"({preemptor.class_name} {preemptor.priority} > {rank})"


def _sum(state: PoolState, victims: Sequence[VictimChoice]) -> str:
    jobs = dict.fromkeys(choice.job for choice in victims)
    recorded = sum(choice.lost_gpu_ms for choice in victims if not choice.reserved)
    return f"{count_text(len(jobs), 'job')} in total, loss {loss_text(victims_loss(state, victims), recorded)}"


def _not_evicted(decision: decisions.PreemptionDecided) -> str:
    dropped = f"no longer needed: {', '.join(decision.unneeded_victims)}" if decision.unneeded_victims else ""
    return joined(dropped, f"not evicted: {', '.join(decision.cancelled_evictions)}" if decision.cancelled_evictions else "")


@describes(decisions.PreemptionRefused, event=lambda _, decision, __: "NoPreemption" if decision.reason in CONCLUSIVE else "")
def _preemption_refused(decision: decisions.PreemptionRefused, _state: PoolState) -> Statement:
    needs = NEEDS.sub(r"\1", missing_text(decision))
    need = f"it would need: {needs}" if needs else ""
    why = decision.explanation
    groups = [(f"{tried.action}: ", tried.excluded) for tried in why.attempted_actions]
    groups.append((f"{decision.action}: " if groups else "", why.excluded))
    excluded = "; ".join(under + ", ".join(f"{each.jobs} {each.rule}" for each in group) for under, group in groups if group)
    more = joined(REFUSAL_REASONS[decision.reason], need, f"excluded: {excluded}" if excluded else "")
    return Statement("preemption refused", decision.preemptor.job, joined(more, until(decision.retry_at, "retries at")), "warn")


@describes(decisions.SelectionTimedOut)
def _selection_timed_out(decision: decisions.SelectionTimedOut, _state: PoolState) -> Statement:
    again = until(decision.retry_at, "retries at")
    more = joined("victim selection did not answer in time", f"failure {decision.failures}", again)
    return Statement("selection timed out", f"selection {decision.selection}", more, "warn")
