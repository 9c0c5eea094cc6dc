"""Checks that a batch of proposals can be the result of a search: what no honest search sends is rejected.

Whether the places exist after the evictions, whether each victim may be evicted under the action, and what each of them loses,
admission recomputes on its present state when it decides (`bailiff_core.victims.revalidate`). Whether the set is the cheapest,
it cannot know: that is the proposer's claim, which the auditor and every replay search again.
"""

from collections.abc import Callable, Iterator

from bailiff_bus.messages.proposals import ProposalBatch
from bailiff_core.actions.requesting import MAX_SELECTION_REQUESTS
from bailiff_core.model.placement_ranges import count_of
from bailiff_core.model.proposal import Excluded, Proposal
from bailiff_core.model.state import Selection
from bailiff_core.protections import RULES

MAX_TASKS_NAMED = 1_000_000  # in all ranges of a batch: more take long to expand
RULE_NAMES = frozenset(rule.name for rule in RULES)
Check = Callable[[Proposal], str | None]


def invalid_batch(selection: Selection, batch: ProposalBatch) -> str | None:
    """Why no search sends this batch for the open selection, as a sentence; None if it may be its result."""
    if batch.computed_at < selection.opened_seq:
        return f"computed at #{batch.computed_at}, but selection {selection.number} was opened at #{selection.opened_seq}"
    if len(batch.proposals) > MAX_SELECTION_REQUESTS:
        return f"{len(batch.proposals)} proposals, but a selection has at most {MAX_SELECTION_REQUESTS} requests"
    jobs = {request.seq: request.job for request in selection.requests}
    seen: dict[int, None] = {}
    for proposal in batch.proposals:
        about = f"request #{proposal.request}"
        if proposal.request in seen:
            return f"{about} is answered twice"
        seen[proposal.request] = None
        if not selection.opened_seq <= proposal.request <= batch.computed_at:
            return f"{about} is not of selection {selection.number}"
        if jobs.get(proposal.request, proposal.job) != proposal.job:
            return f"{about} is of job {jobs[proposal.request]!r}, not of {proposal.job!r}"
        problem = next((why for check in CHECKS if (why := check(proposal)) is not None), None)
        if problem is not None:
            return f"{about}: {problem}"
    return _too_many_tasks(batch)


def contradictory_outcome(proposal: Proposal) -> str | None:
    """Victims and a place come with success, and a reason comes without."""
    if proposal.refused is not None and (proposal.victims or proposal.placement):
        return "it has a refusal, and victims or a place"
    if proposal.refused is None and not proposal.placement:
        return "it has neither a place nor a refusal"
    if proposal.action == "allocate" and proposal.victims:
        return "action allocate has no victims"
    return None


def unknown_victims(proposal: Proposal) -> str | None:
    """A victim is named once, and is another job."""
    names = [choice.job for choice in proposal.victims]
    if len(set(names)) < len(names):
        return "a victim is named twice"
    return "the preemptor is among its victims" if proposal.job in names else None


def unfounded_proof(proposal: Proposal) -> str | None:
    """A search that was not finished proves nothing."""
    why = proposal.explanation
    if why.proven and why.lower_bound is not None:
        return "a proven result has no lower bound: that is of a search that was not finished"
    if why.proven and proposal.victims and why.cost is None:
        return "proven, but without the cost"
    searched = why.candidates or why.excluded or why.steps
    if proposal.refused == "impossible" and searched and not why.proven:
        return "impossible, but not proven: the search was not finished"
    return None


def contradictory_costs(proposal: Proposal) -> str | None:
    """The cost of the set is the sum over its victims."""
    cost = proposal.explanation.cost
    if cost is None:
        return None
    if not proposal.victims:
        return "a cost without victims"
    lost = sum(choice.lost_gpu_ms for choice in proposal.victims)
    if cost.lost_gpu_ms != lost:
        return f"its victims lose {lost} GPU-ms, its cost says {cost.lost_gpu_ms}"
    if cost.cpu_milli != sum(choice.cpu_milli for choice in proposal.victims):
        return "its cost and its victims name different CPUs"
    return None


def unknown_rules(proposal: Proposal) -> str | None:
    """Candidates are excluded by rules that exist, each rule once per action."""
    why = proposal.explanation
    tried = [entry.action for entry in why.attempted_actions]
    if len(set(tried)) < len(tried) or proposal.action in tried:
        return "an action was tried twice"
    for groups in (why.excluded, *(entry.excluded for entry in why.attempted_actions)):
        problem = _invalid_groups(groups)
        if problem is not None:
            return problem
    return None


CHECKS: tuple[Check, ...] = (contradictory_outcome, unknown_victims, unfounded_proof, contradictory_costs, unknown_rules)


def _invalid_groups(groups: tuple[Excluded, ...]) -> str | None:
    seen: dict[str, None] = {}
    for group in groups:
        if group.rule not in RULE_NAMES:
            return f"there is no rule {group.rule[:60]!r}"
        if group.rule in seen:
            return f"rule {group.rule!r} is listed twice"
        if group.jobs < max(1, len(group.examples)):
            return f"rule {group.rule!r} has more examples than jobs"
        seen[group.rule] = None
    return None


def _too_many_tasks(batch: ProposalBatch) -> str | None:
    try:
        total = sum(count_of(text) for text in _ranges(batch))
    except ValueError as error:
        return str(error)
    return f"{total} tasks and devices are named, the limit is {MAX_TASKS_NAMED}" if total > MAX_TASKS_NAMED else None


def _ranges(batch: ProposalBatch) -> Iterator[str]:
    for proposal in batch.proposals:
        yield proposal.tasks
        for share in (*proposal.placement, *(share for choice in proposal.victims for share in choice.moved_to)):
            yield share.tasks
            yield share.devices
        for choice in proposal.victims:
            yield choice.tasks
            yield choice.not_relocated
