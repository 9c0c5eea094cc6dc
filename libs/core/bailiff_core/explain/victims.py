"""A decision about victims in sentences: who leaves for whom by which rule, at what price, or why nobody does."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bailiff_core.instead import cheaper, levels
from bailiff_core.model.answer import Cost, Excluded, Explanation, VictimChoice
from bailiff_core.model.places import ranges
from bailiff_core.protections import RULES
from bailiff_core.records import Record, decisions
from bailiff_core.words import cost_text, count_text, gpus_text, thousandths_text

from .said import Sentence, clock, few, seqs_of, tasks_text, unstopped, victims_of, were


@dataclass(frozen=True, slots=True)
class Condition:
    """What people from Kubernetes look for on a victim."""

    type: str
    status: str
    reason: str
    message: str


def who_text(asker: decisions.Asker) -> str:
    """`high (inference 125, project a)`."""
    rank = f"{asker.class_name} {asker.priority}"
    if asker.base_priority is not None and asker.base_priority != asker.priority:
        rank += f", {asker.base_priority} by its class"
    return f"{asker.job} ({rank}{f', project {asker.project}' if asker.project else ''})"


def rule_text(data: decisions.PreemptionDecided, choice: VictimChoice) -> str:
    """Why the verb lets this asker take this victim, with both sides' figures."""
    asker = data.asker
    if data.verb == "reclaim":
        mine = f"project {choice.project}" if choice.project else "work without a project"
        theirs = f"project {asker.project}" if asker.project else "the asker's side"
        return f"{mine} holds more than its share and {theirs} less than its own, whatever their priorities"
    if data.verb == "consolidate":
        return "moving it makes room in one piece, and everybody that is moved has a new place"
    rank = f"{choice.class_name or 'priority'} {choice.priority}"
    return f"{asker.class_name} {asker.priority} goes before {rank} (rule lower-priority-only)"


EVICTIONS = {
    "cancelled": "somebody cancelled it",
    "gang-failure": "another task of its gang failed",
    "stale-gang": "its gang lacks a member that it needs (rule stale-gang)",
    "scaled": "it asks for fewer tasks",
    "policy": "the policy in force would not have admitted it, and was applied with --enforce",
    "time-limit": "it has run for as long as it may",
    "paused": "somebody paused it",
    "asked": "somebody asked for it",
    "drain": "a node that it stood on is being emptied",
    "device": "a GPU broke under it",
    "over-share": "it uses more of a GPU than its share",
}


def decided(record: Record) -> Iterable[Sentence]:
    """Who leaves, for whom, why they may be taken and why these."""
    data = record.data
    assert isinstance(data, decisions.PreemptionDecided)
    asker = data.asker
    jobs = victims_of(data)
    if not jobs:
        yield Sentence(f"Nobody has to leave for {asker.job} any more: room appeared.", seqs_of(record.seq, data.request))
        return
    text = f"At {clock(record.time)} {few(jobs)} {were(jobs)} told to leave for {who_text(asker)}, by the verb {data.verb}."
    yield Sentence(text, seqs_of(record.seq, data.request))
    them = "it" if len(jobs) == 1 else "they"
    yield Sentence(f"Why {them} may be taken: {rule_text(data, data.victims[0])}.", seqs_of(record.seq))
    moved = [f"{choice.job} ({ranges(choice.movers)})" if choice.tasks else choice.job for choice in data.victims if choice.moved]
    if moved:
        yield Sentence(f"Moved, not stopped: {few(moved)}.", seqs_of(record.seq))
    parts = [f"{choice.job} ({choice.tasks})" for choice in data.victims if choice.tasks]
    if parts:
        yield Sentence(f"Only surplus tasks leave, and the jobs go on: {few(parts)}.", seqs_of(record.seq))
    if data.spared:
        yield Sentence(f"Spared, as their room is not needed: {few(data.spared)}.", seqs_of(record.seq))
    if data.dropped:
        yield Sentence(f"Proposed, and not needed any more: {few(data.dropped)}.", seqs_of(record.seq))
    yield from choice_sentences(record, data)
    kept = f"The freed room is kept for {asker.job} until it starts or goes away, at the latest to {clock(data.expires)}."
    yield Sentence(kept, seqs_of(record.seq))


def choice_sentences(record: Record, data: decisions.PreemptionDecided) -> Iterable[Sentence]:
    """The price, whether it is proven, and what would have been second."""
    seqs, why = seqs_of(record.seq), data.explanation
    lost = sum(choice.lost_gpu_ms for choice in data.victims if not choice.reserved)
    price = cost_list(why.cost) if why.cost is not None else f"{cost_text(lost)} of work lost"
    if why.proven:
        yield Sentence(f"The chosen set costs {price}. That is proven: no permitted set is cheaper.", seqs)
    else:
        bound = f"; no set costs less than {cost_list(why.at_least)}" if why.at_least is not None else ""
        steps = count_text(why.steps, "step")
        yield Sentence(f"The chosen set costs {price}. It is the cheapest that {steps} of search found, not proven{bound}.", seqs)
    if why.runner_up:
        second = (
            cost_list(why.runner_up_cost) if why.runner_up_cost is not None else f"{cost_text(why.runner_up_lost_gpu_ms)} lost"
        )
        text = f"Second best would have been {few(why.runner_up)}, which costs {second}."
        yield Sentence(text + _why_second(why.cost, why.runner_up_cost), seqs)
    yield from _considered(record, why, data.verb)


def _why_second(chosen: Cost | None, other: Cost | None) -> str:
    """What decided between them, where the record has both costs and the levels that it keeps say it."""
    if chosen is None or other is None or cheaper(other, chosen):
        return ""
    differs = first_difference(chosen, other)
    return f" {DECIDES}: {differs}." if differs else f" {EQUAL}."


def _considered(record: Record, why: Explanation, verb: str) -> Iterable[Sentence]:
    """The candidates and the rules, of the other verbs first; each verb is named where there are several."""
    seqs = seqs_of(record.seq)
    for tried in why.tried:
        ended = "gave up" if tried.refused == "gave-up" else "found nobody"
        said = f": {unstopped(tried.would_need)}" if tried.would_need else ""
        yield Sentence(f"The verb {tried.verb} {ended}{said}.", seqs)
        yield from _left_out(seqs, tried.candidates, tried.excluded, f"Under {tried.verb}, ")
    yield from _left_out(seqs, why.candidates, why.excluded, f"Under {verb}, " if why.tried else "")


def _left_out(seqs: tuple[int, ...], candidates: int, excluded: Sequence[Excluded], under: str) -> Iterable[Sentence]:
    if candidates or excluded:
        yield Sentence(f"{under}{count_text(candidates, 'job')} could have been taken.", seqs)
    for group in excluded:
        some = f" ({few(group.examples, group.jobs)})" if group.examples else ""
        rule = f"{under}rule" if under else "Rule"
        text = f"{rule} {group.rule} shielded {count_text(group.jobs, 'job')}{some}: each {says_of(group.rule)}."
        yield Sentence(text, seqs)


REFUSALS = {
    "impossible": "no set of jobs that may be taken makes room for it, and that is proven",
    "gave-up": "the search used up its steps without an answer; that is not a proof that there is none",
    "stale": "the answer was out of date when it came",
    "not-needed": "nobody needed to, as there was room for it or it did not wait any more",
}


def refused(record: Record) -> Iterable[Sentence]:
    """Why nobody leaves: what each verb that was tried could have taken, and whom each rule kept from it."""
    data = record.data
    assert isinstance(data, decisions.PreemptionRefused)
    text = f"At {clock(record.time)} nobody was made to leave for {data.asker.job}: {REFUSALS[data.reason]}."
    yield Sentence(text, seqs_of(record.seq, data.request))
    yield from _considered(record, data.explanation, data.verb)


def needs(record: Record) -> Iterable[Sentence]:
    """What would have had to be otherwise for somebody to leave."""
    data = record.data
    assert isinstance(data, decisions.PreemptionRefused)
    if data.would_need:
        by = f", by {data.verb}" if data.explanation.tried else ""
        yield Sentence(f"The nearest thing that would have worked{by}: {unstopped(data.would_need)}.", seqs_of(record.seq))


def needs_text(data: decisions.PreemptionRefused) -> str:
    """What each verb that was tried lacks, the last one first; the verbs are named where there are several."""
    tried = data.explanation.tried
    if not tried:
        return data.would_need
    all_of_them = [(data.verb, data.would_need), *((each.verb, each.would_need) for each in reversed(tried))]
    return "; ".join(f"{verb}: {need}" for verb, need in all_of_them if need)


def says_of(rule: str) -> str:
    """What a rule says of a job that it shields, as the end of a sentence."""
    return next((known.says for known in RULES if known.name == rule), "is shielded by it")


def cost_list(cost: Cost) -> str:
    """`4 GPUs of priority 50, 16.0 GPU-min of work lost, 2 jobs stopped, 2 tasks`."""
    parts = [f"{gpus_text(each.gpu_milli)} of priority {each.priority}" for each in cost.classes if each.gpu_milli]
    parts += [f"{gpus_text(cost.under_share_gpu_milli)} of projects within their share"] if cost.under_share_gpu_milli else []
    parts.append(f"{cost_text(cost.lost_gpu_ms)} of work lost")
    parts += [f"{count_text(cost.jobs_stopped, 'job')} stopped" if cost.jobs_stopped else "no job stopped"]
    parts += [count_text(cost.tasks, "task")]
    parts += [f"{count_text(cost.broken_nodes, 'gap')} left on nodes that others use"] if cost.broken_nodes else []
    return ", ".join(parts)


DECIDES = "The first level at which they differ decides"
EQUAL = "Both cost the same; of such sets the one with the job that was submitted last leaves"
LEVELS: dict[str, tuple[str, Callable[[int], str]]] = {
    "under_share_gpu_milli": ("GPUs of projects within their share", gpus_text),
    "lost_gpu_ms": ("work lost", cost_text),
    "jobs_stopped": ("jobs stopped", str),
    "tasks": ("tasks", str),
    "broken_nodes": ("gaps left on nodes that others use", str),
}


def first_difference(chosen: Cost, other: Cost) -> str | None:
    """`work lost, 14.0 GPU-min against 4.0 GPU-min of the chosen set`: the first level at which they differ, if they do."""
    for name, left, right in levels(chosen, other):
        if left != right:
            what, shown = LEVELS.get(name, (f"GPUs of {name}", gpus_text))
            if shown(left) == shown(right):  # alike when rounded
                return f"{what}, {thousandths_text(right)} GPU-s against {thousandths_text(left)} GPU-s of the chosen set"
            return f"{what}, {shown(right)} against {shown(left)} of the chosen set"
    return None


def condition_of(data: decisions.PreemptionDecided, choice: VictimChoice, reason: str = "") -> Condition:
    """The victim's condition as Kubernetes has it. `reason`: why the asker did not fit, from its request."""
    which = "it leaves" if not choice.tasks else f"{tasks_text(choice.tasks)} {'leaves' if choice.tasks.isdigit() else 'leave'}"
    trigger = f"; trigger: {reason}" if reason else f"; trigger: the request at #{data.request}"
    message = f"bailiff: {which} to accommodate {data.asker.job}, by {data.verb}: {rule_text(data, choice)}{trigger}"
    return Condition("DisruptionTarget", "True", "PreemptionByScheduler", message)
