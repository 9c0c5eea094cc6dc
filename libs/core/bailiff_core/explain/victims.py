"""Explanation of a preemption decision: victims, preemptor, rule, cost and runner-up; or why no job is preempted."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bailiff_core.humanize import cost_text, count_text, cpus_counted_text, exact_cost_text, first_names, gpus_text
from bailiff_core.model.placement_ranges import ranges
from bailiff_core.model.proposal import Cost, Excluded, Explanation, VictimChoice
from bailiff_core.protections import RULE_NAMED
from bailiff_core.records import Record, decisions
from bailiff_core.records.subjects import victims_of

from .counterfactual import cheaper, levels
from .pending_records import REFUSAL_REASONS
from .sentences import Sentence, clock, seqs_of, tasks_text, was_or_were, without_stop


@dataclass(frozen=True, slots=True)
class Condition:
    """Kubernetes pod condition of a victim (DisruptionTarget)."""

    type: str
    status: str
    reason: str
    message: str


def preemptor_text(preemptor: decisions.Preemptor) -> str:
    """`high (inference 125, project a)`."""
    rank = f"{preemptor.class_name} {preemptor.priority}"
    if preemptor.base_priority is not None and preemptor.base_priority != preemptor.priority:
        rank += f", {preemptor.base_priority} by its class"
    return f"{preemptor.job} ({rank}{f', project {preemptor.project}' if preemptor.project else ''})"


def rule_text(data: decisions.PreemptionDecided, choice: VictimChoice) -> str:
    """Why the action permits this preemptor to evict this victim, with the priorities or projects of both."""
    preemptor = data.preemptor
    if data.action == "reclaim":
        mine = f"project {choice.project}" if choice.project else "work without a project"
        theirs = f"project {preemptor.project}" if preemptor.project else "the preemptor"
        return f"{mine} is above its fair share and {theirs} below its own, regardless of priority"
    if data.action == "consolidate":
        return "relocating it makes the preemptor fit, and every relocated job has a new placement"
    rank = f"{choice.class_name or 'priority'} {choice.priority}"
    backfilled = "it was backfilled: it started while a job ahead of it in the queue was waiting (policy field backfill)"
    if choice.backfilled and choice.priority >= preemptor.priority:
        return backfilled
    also = f"; {backfilled}" if choice.backfilled else ""
    return f"{preemptor.class_name} {preemptor.priority} has higher priority than {rank} (rule lower-priority-only){also}"


EVICTION_CAUSES = {
    "cancelled": "it was cancelled",
    "gang-failure": "another task of its gang failed",
    "stale-gang": "its gang lacks a required task (rule stale-gang)",
    "scaled": "it was scaled down",
    "policy": "the policy in force does not admit it, and was applied with --enforce",
    "budget": "its budget of GPU-hours is exhausted (policy field budgets)",
    "reservation": "the GPUs are reserved for another project",
    "time-limit": "it reached its run-time limit",
    "paused": "it was paused",
    "requested": "its eviction was requested",
    "drain": "a node that it ran on is drained",
    "device": "a GPU that it used failed",
    "over-share": "it used more of a GPU than its share",
}
REASON_STATES_CAUSE = ("drain", "reservation", "time-limit")
REQUESTED = {"cancelled": "cancellation requested", "requested": "eviction requested", "paused": "pause requested"}
"""The causes that a person has requested, and beginnings of recorded reasons that repeat them."""
STOP_WORDS = {
    "preemption": "preempted",
    "cancelled": "cancelled",
    "paused": "paused",
    "scaled": "scaled down",
    "time-limit": "timed out",
    "migration": "migrated",
    "resize": "resized",
}


EVICTED = "evicted"
"""Where nothing in `STOP_WORDS` says it better."""


def stop_word(cause: str) -> str:
    """What happens to a job whose tasks stop for this cause of an eviction: `preempted`, `cancelled`, …; else `evicted`."""
    return STOP_WORDS.get(cause, EVICTED)


def eviction_cause_text(data: decisions.EvictionDecided, requester: str = "") -> str:
    """`its eviction was requested: wrong data`; with its requester `ada evicted it: wrong data`; `node-1 is drained (quick)`."""
    reason = data.reason.removeprefix(REQUESTED.get(data.cause, "")).removeprefix(": ")
    if requester and data.cause in REQUESTED:
        return f"{requester} {stop_word(data.cause)} it" + (f": {reason}" if reason else "")
    if data.cause in REASON_STATES_CAUSE and data.reason:
        return data.reason
    if data.cause == "scaled" and data.reason.startswith("scaled down"):
        return f"it was {data.reason}"
    return f"{EVICTION_CAUSES[data.cause]}: {reason}" if reason else EVICTION_CAUSES[data.cause]


def preemption_sentences(record: Record) -> Iterable[Sentence]:
    """Victims and preemptor, why the victims may be preempted, and why these were chosen."""
    data = record.data
    assert isinstance(data, decisions.PreemptionDecided)
    preemptor = data.preemptor
    jobs = victims_of(data)
    if not jobs:
        yield Sentence(
            f"No eviction is needed for {preemptor.job} any more: resources became free.", seqs_of(record.seq, data.request)
        )
        return
    text = (
        f"At {clock(record.time)} {first_names(jobs)} {was_or_were(jobs)} preempted by {preemptor_text(preemptor)}, "
        f"action {data.action}."
    )
    yield Sentence(text, seqs_of(record.seq, data.request))
    subject = "it" if len(jobs) == 1 else "they"
    yield Sentence(f"Why {subject} may be preempted: {rule_text(data, data.victims[0])}.", seqs_of(record.seq))
    moved = [
        f"{choice.job} ({ranges(choice.relocated_tasks)})" if choice.tasks or choice.not_relocated else choice.job
        for choice in data.victims
        if choice.moved_to
    ]
    if moved:
        yield Sentence(f"Relocated, not stopped: {first_names(moved)}.", seqs_of(record.seq))
    going_on = [choice for choice in data.new_victims if choice.tasks and not choice.restarts]
    parts = [f"{choice.job} ({choice.tasks})" for choice in going_on]
    if parts:
        yield Sentence(
            f"Only surplus tasks are evicted; the jobs keep their other tasks: {first_names(parts)}.", seqs_of(record.seq)
        )
    for choice in data.victims:
        if more := further_loss_text(choice):
            yield Sentence(f"{choice.job}: {more}.", seqs_of(record.seq))
    if data.reason:
        yield Sentence(f"{preemptor.job}: {data.reason}.", seqs_of(record.seq))
    if data.cancelled_evictions:
        yield Sentence(
            f"Evictions cancelled, as their resources are not needed: {first_names(data.cancelled_evictions)}.",
            seqs_of(record.seq),
        )
    if data.unneeded_victims:
        yield Sentence(f"Proposed, but no longer needed: {first_names(data.unneeded_victims)}.", seqs_of(record.seq))
    yield from choice_sentences(record, data)
    until = f"until it starts or ends, at the latest until {clock(data.expires)}"
    yield Sentence(f"The freed resources are reserved for {preemptor.job} {until}.", seqs_of(record.seq))


def further_loss_text(choice: VictimChoice) -> str:
    """What a victim loses besides the unsaved work of the tasks that are evicted; empty: nothing."""
    if choice.extends:
        return "it stops anyway, for an earlier decision of the same selection, which names all that it loses"
    if choice.ends:
        return "it does not come back, so all the work of its attempt is lost, saved or not"
    if not choice.restarts:
        return ""
    others = tasks_text(choice.restarts)
    if choice.tasks:
        return f"it restarts without {tasks_text(choice.tasks)}, so the work of {others} is lost, too"
    return f"the work of {others}, which ended with 0 and starts again, is part of the loss"


def choice_sentences(record: Record, data: decisions.PreemptionDecided) -> Iterable[Sentence]:
    """Cost of the chosen set, whether it is proven optimal, and the runner-up."""
    seqs, why = seqs_of(record.seq), data.explanation
    lost = sum(choice.lost_gpu_ms for choice in data.victims if not choice.reserved)
    price = cost_list(why.cost) if why.cost is not None else f"{cost_text(lost)} of work lost and restarts"
    if why.proven:
        text = f"The chosen set costs {price}. Victim selection claims that this is proven: no permitted set is cheaper."
        yield Sentence(text, seqs)
    else:
        bound = f"; no set costs less than {cost_list(why.lower_bound)}" if why.lower_bound is not None else ""
        steps = count_text(why.steps, "step")
        yield Sentence(
            f"The chosen set costs {price}. It is the cheapest set found in {steps} of search, not proven{bound}.", seqs
        )
    if why.runner_up:
        runner_up = (
            cost_list(why.runner_up_cost)
            if why.runner_up_cost is not None
            else f"{cost_text(why.runner_up_lost_gpu_ms)} of work lost and restarts"
        )
        text = f"The runner-up was {first_names(why.runner_up)}, which costs {runner_up}."
        yield Sentence(text + why_second(why.cost, why.runner_up_cost), seqs)
    yield from _candidate_sentences(record, why, data.action)
    text = (
        "Admission checked that these victims are sufficient and permitted, and computed what each of them loses. The cost of "
        "the set, the proof, the runner-up and the candidates are claims of victim selection."
    )
    yield Sentence(text, seqs)


def why_second(chosen: Cost | None, other: Cost | None) -> str:
    """The level that decided between them, as ` The first …`, if the record has both costs and they show it."""
    if chosen is None or other is None or cheaper(other, chosen):
        return ""
    differs = first_difference(chosen, other)
    return f" {DECIDES}: {differs}." if differs else f" {EQUAL}."


def _candidate_sentences(record: Record, why: Explanation, action: str) -> Iterable[Sentence]:
    """Candidates and rules, of the other actions first; each action is named if there are several."""
    seqs = seqs_of(record.seq)
    for tried in why.attempted_actions:
        ended = "gave up" if tried.refused == "gave-up" else "found no victims"
        reason = f": {without_stop(tried.would_need)}" if tried.would_need else ""
        yield Sentence(f"Action {tried.action} {ended}{reason}.", seqs)
        yield from exclusion_sentences(seqs, tried.candidates, tried.excluded, f"Under {tried.action}, ")
    yield from exclusion_sentences(seqs, why.candidates, why.excluded, f"Under {action}, " if why.attempted_actions else "")


def exclusion_sentences(seqs: tuple[int, ...], candidates: int, excluded: Sequence[Excluded], under: str) -> Iterable[Sentence]:
    """How many jobs could be victims, and how many each rule protects."""
    if candidates or excluded:
        yield Sentence(f"{under}{count_text(candidates, 'job')} could have been preempted.", seqs)
    for group in excluded:
        examples = f" ({first_names(group.examples, total=group.jobs)})" if group.examples else ""
        rule, it = f"{under}rule" if under else "Rule", "it" if group.jobs == 1 else "each"
        who = f"{count_text(group.jobs, 'job')}{examples}"
        text = f"{rule} {rule_with_field(group.rule)} protected {who}: {it} {predicate_of(group.rule)}."
        yield Sentence(text, seqs)


def refusal_sentences(record: Record) -> Iterable[Sentence]:
    """Why no job is preempted: per action that was tried the candidates, and the jobs that each rule protected."""
    data = record.data
    assert isinstance(data, decisions.PreemptionRefused)
    text = f"At {clock(record.time)} preemption for {data.preemptor.job} was refused: {REFUSAL_REASONS[data.reason]}."
    yield Sentence(text, seqs_of(record.seq, data.request))
    yield from _candidate_sentences(record, data.explanation, data.action)


def missing_sentences(record: Record) -> Iterable[Sentence]:
    """Resources or permission that the request lacked, as a sentence."""
    data = record.data
    assert isinstance(data, decisions.PreemptionRefused)
    if data.would_need:
        by = f", by {data.action}" if data.explanation.attempted_actions else ""
        yield Sentence(f"What it lacked{by}: {without_stop(data.would_need)}.", seqs_of(record.seq))


def predicate_of(rule: str) -> str:
    """Predicate for a job that the rule protects, as the end of a sentence."""
    return RULE_NAMED[rule].predicate if rule in RULE_NAMED else "is protected by it"


def rule_with_field(rule: str) -> str:
    """`scope (policy field preemption.scope)`: the rule, with the field that turns it on."""
    field = RULE_NAMED[rule].field if rule in RULE_NAMED else ""
    return f"{rule} (policy field {field})" if field else rule


def cost_list(cost: Cost) -> str:
    """`4 GPUs of priority 50, 16.0 GPU-min of work lost and restarts, 2 jobs stopped, 2 tasks`."""
    parts = [f"{gpus_text(each.gpu_milli)} of priority {each.priority}" for each in cost.classes if each.gpu_milli]
    parts += [f"of these {cpus_counted_text(cost.cpu_milli)}"] if cost.cpu_milli else []
    parts += [f"{gpus_text(cost.under_share_gpu_milli)} of projects within their share"] if cost.under_share_gpu_milli else []
    parts += [f"{count_text(cost.jobs_ended, 'job')} ended for good"] if cost.jobs_ended else []
    parts.append(f"{cost_text(cost.lost_gpu_ms)} of work lost and restarts")
    parts += [f"{count_text(cost.jobs_stopped, 'job')} stopped" if cost.jobs_stopped else "no job stopped"]
    parts += [count_text(cost.tasks, "task")]
    parts += [f"{count_text(cost.fragmented_nodes, 'node')} left partially used"] if cost.fragmented_nodes else []
    return ", ".join(parts)


DECIDES = "The first level at which they differ decides"
EQUAL = "Both cost the same; of such sets the one with the job that was submitted last is preempted"
LEVELS: dict[str, tuple[str, Callable[[int], str]]] = {
    "under_share_gpu_milli": ("GPUs of projects within their share", gpus_text),
    "jobs_ended": ("jobs ended for good", str),
    "lost_gpu_ms": ("work lost and restarts", cost_text),
    "jobs_stopped": ("jobs stopped", str),
    "tasks": ("tasks", str),
    "fragmented_nodes": ("nodes left partially used", str),
}


def first_difference(chosen: Cost, other: Cost) -> str | None:
    """`jobs stopped, 2 against 1 of the chosen set`: the first level at which they differ, if they do."""
    for name, left, right in levels(chosen, other):
        if left != right:
            what, shown = LEVELS.get(name, (f"GPUs of {name}", gpus_text))
            figures = exact_cost_text if shown(left) == shown(right) else shown  # equal when rounded
            outweighed = "" if name in LEVELS else _outweighed(chosen, other)
            return f"{what}, {figures(right)} against {figures(left)} of the chosen set{outweighed}"
    return None


def _outweighed(chosen: Cost, other: Cost) -> str:
    """That the chosen set takes more GPUs, though of a lower priority; empty: it does not."""
    more, fewer = (sum(each.gpu_milli for each in cost.classes) for cost in (chosen, other))
    if more <= fewer:
        return ""
    return f"; the chosen set takes {gpus_text(more)}, not {gpus_text(fewer)}, but priority outweighs the number of GPUs"


def condition_of(data: decisions.PreemptionDecided, choice: VictimChoice, reason: str = "") -> Condition:
    """The victim's condition in Kubernetes form.

    Args:
        reason: Why the preemptor did not fit, from its request.
    """
    which = f"{tasks_text(choice.tasks)} preempted" if choice.tasks else "preempted"
    trigger = f"; trigger: {reason}" if reason else f"; trigger: the request at #{data.request}"
    message = f"bailiff: {which} to accommodate {data.preemptor.job}, by {data.action}: {rule_text(data, choice)}{trigger}"
    return Condition("DisruptionTarget", "True", "PreemptionByScheduler", message)
