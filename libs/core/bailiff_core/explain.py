"""Why a job waits, why it had to leave, for whom, and when it is back: sentences, each with the records to check it by.

From the log alone: the folded pool, and the records about the job. Explanations in records name a few of each group;
`considered` makes the full lists again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model.answer import Cost, Explanation, VictimChoice
from .model.pool import ENDED, Job, Pool
from .model.units import next_unit
from .placement.budget import Budget
from .placement.gang import NoFit, place_unit
from .protections import RULES, start_within
from .protections.delay import may_displace_at
from .protections.no_borrowing import keeps_from_borrowing
from .queue.gates import may_reclaim, over_bounds
from .queue.order import shares_now
from .records import Record, decisions, facts
from .records.wire import time_text
from .scene import scene_of
from .words import cost_text, count_text, duration_text, gpus_text

NAMED = 5
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing that is so, and the positions of the records that show it."""

    text: str
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A question that a person would ask, and what there is to say."""

    question: str
    says: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """What people from Kubernetes look for on a victim."""

    type: str
    status: str
    reason: str
    message: str


# --- a job


def explain_job(pool: Pool, job: Job, history: Sequence[Record]) -> list[Section]:
    """Where the job stands and how it came to be there. `pool`: as it is after the last record.

    history: in order, the records about it, and the requests that decisions about it answer.
    """
    sections = [Section("Where does it stand?", (_standing(pool, job, history),))]
    if job.phase == "pending":
        sections.append(Section("Why does it wait?", tuple(_why_it_waits(pool, job, history))))
        sections.append(Section("What would free it?", tuple(_what_would_free_it(pool, job, history))))
    elif job.id in pool.queue:
        sections.append(Section("Why does it not have all of its tasks?", tuple(_as_things_are(pool, job))))
    evicted = [record for record in history if _takes(record, job.id)]
    if evicted:
        sections.append(Section("Why did it have to leave?", tuple(_why_it_left(job, evicted[-1], history))))
        sections.append(
            Section("When is it back, and what protects it then?", tuple(_coming_back(pool, job, evicted[-1], history)))
        )
    asked = [record for record in history if _asker_of(record) == job.id]
    if asked:
        sections.append(Section("Who left for it?", tuple(_decided(asked[-1]))))
    return [section for section in sections if section.says]


def _standing(pool: Pool, job: Job, history: Sequence[Record]) -> Sentence:
    rank = f"{job.class_name} {job.priority}"
    if job.priority != job.base_priority:
        rank += f", {job.base_priority} by its class"
    who = f"{job.id} ({rank}{f', project {job.project}' if job.project else ''})"
    if job.phase in ENDED:
        last = _newest(history, decisions.JobEnded)
        reason = last.data.reason if last is not None and isinstance(last.data, decisions.JobEnded) else ""
        why = f", {reason}" if job.phase == "failed" and reason else ""
        return Sentence(f"{who} ended at {clock(job.ended_at)}: {job.phase}{why}.", _seqs(last.seq if last is not None else None))
    if job.held_because is not None:
        return Sentence(f"{who} is held, because a decision about it failed: {job.held_because}.", _seqs(job.seq))
    if job.eviction is not None:
        why = f"for {job.eviction.for_job}" if job.eviction.for_job else f"({job.eviction.cause})"
        late = "; its room did not come free in time" if job.eviction.stuck else ""
        text = f"{who} is on its way out {why}, with {duration_text(job.eviction.grace)} of grace{late}."
        return Sentence(text, _seqs(job.eviction.decided_seq, job.eviction.begun_seq))
    if job.phase == "pending":
        waits = [name for name in pool.queue if name not in pool.active]
        ahead = waits.index(job.id) if job.id in waits else 0
        before = f"{count_text(ahead, 'job')} before it in the queue" if ahead else "first in the queue"
        since = max(job.submitted_at, job.last_eviction or 0)
        so_far = f" ({duration_text(pool.now - since)})" if pool.now - since >= SECOND else ""
        return Sentence(f"{who} waits since {clock(since)}{so_far}, {before}.", _seqs(job.seq))
    where = _nodes(pool, (task.node for task in job.tasks))
    if job.phase == "reserved":
        plan = pool.plans.get(job.plan) if job.plan is not None else None
        until = f" until {clock(job.reserved_until)}" if job.reserved_until else ""
        coming = f"; it starts when {_few(plan.victims)} {_have(plan.victims)} left" if plan is not None and plan.victims else ""
        return Sentence(
            f"{who} has room reserved on {where}{until}{coming}.",
            _seqs(_seq_of(history, decisions.JobPlaced, decisions.PreemptionDecided)),
        )
    running = sum(task.state == "running" for task in job.tasks)
    of = f", {running} of {job.size} tasks (at least {job.minimum})" if job.minimum < job.size else ""
    return Sentence(
        f"{who} {_runs(job)} on {where} as attempt {job.attempt}{of}.",
        _seqs(_seq_of(history, decisions.JobPlaced, decisions.PreemptionDecided)),
    )


def _runs(job: Job) -> str:
    return f"runs since {clock(job.last_start)}" if job.last_start is not None else "is starting"


def _why_it_waits(pool: Pool, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    lately = _since_it_waits(history)
    waits = _newest(lately, decisions.JobWaits)
    if waits is not None:
        assert isinstance(waits.data, decisions.JobWaits)
        yield Sentence(f"When it joined the queue: {_lowered(waits.data.reason)}.", _seqs(waits.seq))
    yield from _as_things_are(pool, job)
    if job.not_before > pool.now:
        yield Sentence(
            f"After its last attempt it is not started again before {clock(job.not_before)}.",
            _seqs(_seq_of(history, decisions.JobRequeued)),
        )
    yield from _lateness(pool, job)
    late = _newest(lately, decisions.ScheduleTimedOut)
    if late is not None:
        assert isinstance(late.data, decisions.ScheduleTimedOut)
        follows = {"report": "is only reported", "fail": "ends it", "pass": "lets smaller jobs pass it"}[late.data.then]
        text = (
            f"It waited longer than the rule schedule-timeout means it to ({duration_text(late.data.waited)}), which {follows}."
        )
        yield Sentence(text, _seqs(late.seq))
    verbs = pool.rules.preemption.verbs
    if not job.may_preempt:
        yield Sentence(
            f"Jobs of the class {job.class_name} displace nobody: its preemption policy is Never.", _seqs(pool.policy_revision)
        )
    off = [verb for verb in ("reclaim", "preempt") if verb not in verbs]
    if off:
        yield Sentence(f"The policy switches {_and(off)} off in this pool.", _seqs(pool.policy_revision))
    if pool.selection is not None:
        for request in pool.selection.requests:
            if request.job == job.id:
                yield Sentence(
                    "Victim selection has been asked who could leave for it, and has not answered yet.", _seqs(request.seq)
                )
    refused = _newest_refusal(lately)
    if refused is not None:
        yield from _refused(refused)


def _lateness(pool: Pool, job: Job) -> Iterable[Sentence]:
    """What its class promises, where the promise is not kept for this job."""
    entry, waited = pool.rules.find_class(job.class_name), start_within.waited(pool, job)
    for percent, within in start_within.promises(entry) if entry is not None else ():
        if waited is not None and waited > within:
            promise = f"{percent} of 100 jobs a start within {duration_text(within)}"
            text = f"Its class promises {promise}; it is late by {duration_text(waited - within)}."
            yield Sentence(text, _seqs(pool.policy_revision))


def _as_things_are(pool: Pool, job: Job) -> Iterable[Sentence]:
    """What keeps it from its place in the state as it is now: the rules of allocate, and the gates of the other verbs."""
    unit = next_unit(job)
    if unit is None or pool.policy is None:
        return
    scene, rules = scene_of(pool), pool.rules
    reason = keeps_from_borrowing(scene, unit) or over_bounds(scene, unit)
    if reason is None:
        mark = scene.mark()
        found = place_unit(scene.rooms, unit, Budget(rules.preemption.search_steps))
        scene.rollback(mark)
        reason = found.why if isinstance(found, NoFit) else None
    if reason is None and rules.backfill == "reserve":
        yield Sentence("As things are, there is a place, which it does not take where it would delay the first in the queue.")
    elif reason is not None:
        yield Sentence(f"As things are: {_lowered(reason)}.")
    if reason is not None and rules.projects and "reclaim" in rules.preemption.verbs:
        forbidden = may_reclaim(scene, shares_now(scene), unit)
        if forbidden is not None:
            yield Sentence(f"It may not reclaim room from other projects: {_lowered(forbidden)}.", _seqs(pool.policy_revision))
    delayed = may_displace_at(pool, job)
    if delayed > pool.now and job.may_preempt:
        yield Sentence(f"Rule preemption-delay: it displaces nobody before {clock(delayed)}.", _seqs(pool.policy_revision))


def _what_would_free_it(pool: Pool, job: Job, history: Sequence[Record]) -> Iterable[Sentence]:
    refused = _newest_refusal(_since_it_waits(history))
    if refused is not None:
        assert isinstance(refused.data, decisions.PreemptionRefused)
        if refused.data.would_need:
            yield Sentence(f"The nearest thing that would have worked: {refused.data.would_need}.", _seqs(refused.seq))
    if job.next_request_at > pool.now:
        yield Sentence(
            f"It may ask for victims again from {clock(job.next_request_at)} on.", _seqs(refused.seq if refused else None)
        )
    leaving = [name for name in pool.leaving if pool.jobs[name].eviction is not None]
    if leaving:
        yield Sentence(f"On their way out now: {_few(leaving)}; who waits is tried again as their room comes free.")
    ending = sorted(_limits(pool))
    if ending:
        until, name = ending[0]
        yield Sentence(
            f"The first job with a run-time limit to reach it is {name}, at {clock(until)}.", _seqs(pool.jobs[name].seq)
        )


def _limits(pool: Pool) -> Iterable[tuple[int, str]]:
    for job in pool.active_jobs():
        if job.demand.run_time_limit is not None and job.last_start is not None:
            yield job.last_start + job.demand.run_time_limit, job.id


def _why_it_left(job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    if isinstance(record.data, decisions.EvictionDecided):
        told = EVICTIONS[record.data.cause]
        which = f"its {_tasks(record.data.tasks)}" if record.data.tasks else "it"
        reason = f": {record.data.reason}" if record.data.reason else ""
        yield Sentence(f"At {clock(record.time)} {which} had to stop, because {told}{reason}.", _seqs(record.seq))
    else:
        assert isinstance(record.data, decisions.PreemptionDecided)
        yield from _as_victim(job.id, record, record.data, history)
    times = [each for each in history if isinstance(each.data, decisions.JobRequeued) and each.data.outcome != "failed"]
    if len(times) > 1:
        yield Sentence(f"It went back to the queue {len(times)} times in all.", tuple(each.seq for each in times))


EVICTIONS = {
    "cancelled": "somebody cancelled it",
    "gang-failure": "another task of its gang failed",
    "stale-gang": "its gang lacks a member that it needs (rule stale-gang)",
    "scaled": "it asks for fewer tasks",
    "policy": "the policy in force would not have admitted it, and was applied with --enforce",
}


def _as_victim(job: str, record: Record, data: decisions.PreemptionDecided, history: Sequence[Record]) -> Iterable[Sentence]:
    choice = next(choice for choice in data.victims if choice.job == job)
    for asked in history:
        if asked.seq == data.request and isinstance(asked.data, decisions.PreemptionRequested):
            text = f"{asked.data.job} needed room and did not fit: {_lowered(asked.data.reason)}."
            yield Sentence(text, _seqs(asked.seq))
    asker = data.asker
    which = "it was" if not choice.tasks else f"its {_tasks(choice.tasks)} {'was' if choice.tasks.isdigit() else 'were'}"
    text = f"At {clock(record.time)} {which} told to make room for {_who(asker)}, by the verb {data.verb}"
    yield Sentence(f"{text}: {rule_text(data, choice)}.", _seqs(record.seq, data.request))
    if choice.reserved:
        yield Sentence("It had not started yet, so nothing is lost: only its reservation.", _seqs(record.seq))
    else:
        yield Sentence(
            f"That loses {cost_text(choice.lost_gpu_ms)}: work since its last checkpoint, and the restart.", _seqs(record.seq)
        )
    if choice.moved:
        nodes = count_text(len(choice.moved), "node")
        yield Sentence(f"It is moved and not stopped: its new place ({nodes}) is kept for it.", _seqs(record.seq))
    yield from _choice(record, data.victims, data.explanation)


def _who(asker: decisions.Asker) -> str:
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


def _coming_back(pool: Pool, job: Job, record: Record, history: Sequence[Record]) -> Iterable[Sentence]:
    after = [each for each in history if each.seq > record.seq]
    taken_back = _newest(after, decisions.EvictionWithdrawn)
    if taken_back is not None:
        assert isinstance(taken_back.data, decisions.EvictionWithdrawn)
        yield Sentence(f"It stayed after all: {taken_back.data.reason}.", _seqs(taken_back.seq))
        return
    for each in after:
        if isinstance(each.data, decisions.JobRequeued):
            lost = f", with {cost_text(each.data.lost_gpu_ms)} lost" if each.data.lost_gpu_ms else ""
            yield Sentence(f"It was back in the queue at {clock(each.time)}, at its old place{lost}.", _seqs(each.seq))
        elif isinstance(each.data, decisions.JobShrunk):
            yield Sentence(f"It goes on without {_tasks(each.data.tasks)} since {clock(each.time)}.", _seqs(each.seq))
        elif isinstance(each.data, decisions.JobPlaced | decisions.JobGrown):
            more = "got more tasks again" if isinstance(each.data, decisions.JobGrown) else "got a place again"
            took = duration_text(each.time - record.time)
            yield Sentence(f"It {more} at {clock(each.time)}, {took} after it had to leave.", _seqs(each.seq))
        elif isinstance(each.data, decisions.JobEnded):
            yield Sentence(f"It ended ({each.data.outcome}) at {clock(each.time)}.", _seqs(each.seq))
    if job.phase in ENDED:
        return
    if job.demand.on_eviction == "end" and job.eviction is not None:
        yield Sentence("It does not come back: its owner said on_eviction: end.", _seqs(job.seq))
        return
    if job.eviction is not None:
        yield Sentence(f"It goes back to the queue, at its old place, within {duration_text(job.eviction.grace)} of being told.")
    yield from protections_of(pool, job)


def protections_of(pool: Pool, job: Job) -> Iterable[Sentence]:
    """What keeps the job from being taken again soon, by the policy in force."""
    rules, seqs = pool.rules.protections, _seqs(pool.policy_revision)
    if rules.cooldown.job:
        yield Sentence(f"Rule cooldown: once it runs again it is left alone for {duration_text(rules.cooldown.job)}.", seqs)
    for verb in ("preempt", "reclaim"):
        shielded = _min_runtime(pool, job, verb)
        if shielded:
            yield Sentence(f"Rule min-runtime: {verb} leaves it alone for {duration_text(shielded)} after each start.", seqs)
    cap = rules.eviction_cap
    if cap is not None:
        lately = sum(moment > pool.now - cap.window for moment in job.evicted_at)
        text = f"Rule eviction-cap: {lately} of at most {cap.evictions} evictions within {duration_text(cap.window)} are used."
        yield Sentence(text, seqs)
    if rules.ageing is not None:
        when = [f"{rules.ageing.evictions} evictions"] if rules.ageing.evictions is not None else []
        when += [f"waiting {duration_text(rules.ageing.waiting)}"] if rules.ageing.waiting is not None else []
        yield Sentence(f"Rule ageing: after {' or '.join(when)} it counts {rules.ageing.boost} more.", seqs)
    if not job.preemptible:
        yield Sentence("It is not preemptible, so that no verb takes it again.", seqs)


def _min_runtime(pool: Pool, job: Job, verb: str) -> int:
    """As stated nearest above the job; reclaim may look from further up, which depends on who asks."""
    projects = {project.name: project for project in pool.rules.projects}
    name: str | None = job.project
    while name in projects:
        stated: int | None = getattr(projects[name].min_runtime, verb)
        if stated is not None:
            return stated
        name = projects[name].parent
    return getattr(pool.rules.protections.min_runtime, verb) or 0


# --- a record


def explain_record(record: Record) -> list[Section]:
    """What one decision says of itself. Empty for records that decide nothing about victims."""
    match record.data:
        case decisions.PreemptionDecided():
            return [Section("Who leaves, for whom, and why these?", tuple(_decided(record)))]
        case decisions.PreemptionRefused():
            return [Section("Why does nobody leave?", (*_refused(record), *_would_need(record, record.data)))]
        case decisions.PreemptionRequested() as asked:
            by = _and(list(asked.verbs or (asked.verb,)))
            text = f"{asked.job} ({asked.class_name} {asked.priority}) asks for room by {by}: {_lowered(asked.reason)}."
            return [Section("Who needs room?", (Sentence(text, _seqs(record.seq)),))]
        case decisions.JobWaits() as waits:
            return [Section("Why does it wait?", (Sentence(f"{waits.job}: {waits.reason}.", _seqs(record.seq)),))]
        case decisions.EvictionDecided() as evicted:
            reason = f": {evicted.reason}" if evicted.reason else ""
            text = f"{evicted.job} has to stop, because {EVICTIONS[evicted.cause]}{reason}."
            return [Section("Why does it have to leave?", (Sentence(text, _seqs(record.seq)),))]
    return []


def _decided(record: Record) -> Iterable[Sentence]:
    data = record.data
    assert isinstance(data, decisions.PreemptionDecided)
    asker = data.asker
    jobs = list(dict.fromkeys(choice.job for choice in data.victims))
    if not jobs:
        yield Sentence(f"Nobody has to leave for {asker.job} any more: room appeared.", _seqs(record.seq, data.request))
        return
    text = f"At {clock(record.time)} {_few(jobs)} {_were(jobs)} told to leave for {_who(asker)}, by the verb {data.verb}."
    yield Sentence(text, _seqs(record.seq, data.request))
    yield Sentence(f"Why they may be taken: {rule_text(data, data.victims[0])}.", _seqs(record.seq))
    moved = [choice.job for choice in data.victims if choice.moved]
    if moved:
        yield Sentence(f"Moved, not stopped: {_few(moved)}.", _seqs(record.seq))
    parts = [f"{choice.job} ({choice.tasks})" for choice in data.victims if choice.tasks]
    if parts:
        yield Sentence(f"Only surplus tasks leave, and the jobs go on: {_few(parts)}.", _seqs(record.seq))
    if data.spared:
        yield Sentence(f"Spared, as their room is not needed: {_few(data.spared)}.", _seqs(record.seq))
    if data.dropped:
        yield Sentence(f"Proposed, and not needed any more: {_few(data.dropped)}.", _seqs(record.seq))
    yield from _choice(record, data.victims, data.explanation)
    yield Sentence(f"The freed room is {asker.job}'s until it starts, goes away, or {clock(data.expires)}.", _seqs(record.seq))


def _choice(record: Record, victims: Sequence[VictimChoice], why: Explanation) -> Iterable[Sentence]:
    """The price, whether it is proven, and what would have been second."""
    seqs = _seqs(record.seq)
    lost = sum(choice.lost_gpu_ms for choice in victims if not choice.reserved)
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
        yield Sentence(f"Second best would have been {_few(why.runner_up)}, which costs {second}.", seqs)
    yield from _considered(record, why)


def _considered(record: Record, why: Explanation) -> Iterable[Sentence]:
    if why.candidates or why.excluded:
        yield Sentence(f"{count_text(why.candidates, 'job')} could have been taken.", _seqs(record.seq))
    for group in why.excluded:
        some = f" ({_few(group.examples, group.jobs)})" if group.examples else ""
        text = f"Rule {group.rule} shielded {count_text(group.jobs, 'job')}{some}: each {says_of(group.rule)}."
        yield Sentence(text, _seqs(record.seq))


REFUSALS = {
    "impossible": "no set of jobs that may be taken makes room for it, and that is proven",
    "gave-up": "the search used up its steps without an answer; that is not a proof that there is none",
    "stale": "the answer was out of date when it came",
    "not-needed": "it did not need room any more",
}


def _refused(record: Record) -> Iterable[Sentence]:
    data = record.data
    assert isinstance(data, decisions.PreemptionRefused)
    text = f"At {clock(record.time)} nobody was made to leave for {data.asker.job}: {REFUSALS[data.reason]}."
    yield Sentence(text, _seqs(record.seq, data.request))
    yield from _considered(record, data.explanation)


def _would_need(record: Record, data: decisions.PreemptionRefused) -> Iterable[Sentence]:
    if data.would_need:
        yield Sentence(f"The nearest thing that would have worked: {data.would_need}.", _seqs(record.seq))
    if data.retry_at is not None:
        yield Sentence(f"It asks again from {clock(data.retry_at)} on.", _seqs(record.seq))


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
    parts += [f"{count_text(cost.broken_nodes, 'node')} left broken"] if cost.broken_nodes else []
    return ", ".join(parts)


def condition_of(data: decisions.PreemptionDecided, choice: VictimChoice, reason: str = "") -> Condition:
    """The victim's condition as Kubernetes has it. `reason`: why the asker did not fit, from its request."""
    which = "it leaves" if not choice.tasks else f"{_tasks(choice.tasks)} {'leaves' if choice.tasks.isdigit() else 'leave'}"
    trigger = f"; trigger: {reason}" if reason else f"; trigger: the request at #{data.request}"
    message = f"bailiff: {which} to accommodate {data.asker.job}, by {data.verb}: {rule_text(data, choice)}{trigger}"
    return Condition("DisruptionTarget", "True", "PreemptionByScheduler", message)


# --- small things


def about(record: Record) -> dict[str, None]:
    """The jobs that the record is about."""
    data = record.data
    found: dict[str, None] = {}
    job = getattr(data, "job", None)
    if isinstance(job, str):
        found[job] = None
    if isinstance(data, facts.JobSubmitted):
        found[data.demand.job] = None
    if isinstance(data, decisions.PreemptionDecided | decisions.PreemptionRefused):
        found[data.asker.job] = None
    if isinstance(data, decisions.PreemptionDecided):
        found |= dict.fromkeys([*(choice.job for choice in data.victims), *data.dropped, *data.spared])
    return found


def clock(moment: int | None) -> str:
    """Day and time, UTC: `11-21 12:04:31`."""
    return time_text(moment or 0)[5:19].replace("T", " ")


def _takes(record: Record, job: str) -> bool:
    data = record.data
    if isinstance(data, decisions.EvictionDecided):
        return data.job == job
    return isinstance(data, decisions.PreemptionDecided) and any(choice.job == job for choice in data.victims)


def _asker_of(record: Record) -> str | None:
    return record.data.asker.job if isinstance(record.data, decisions.PreemptionDecided) else None


def _since_it_waits(history: Sequence[Record]) -> Sequence[Record]:
    """Records since the job last joined the queue."""
    for at in reversed(range(len(history))):
        if isinstance(history[at].data, facts.JobSubmitted | decisions.JobRequeued | decisions.ReservationDropped):
            return history[at:]
    return history


def _seq_of(history: Sequence[Record], *kinds: type[object]) -> int | None:
    last = _newest(history, *kinds)
    return last.seq if last is not None else None


def _newest(history: Sequence[Record], *kinds: type[object]) -> Record | None:
    return next((record for record in reversed(history) if isinstance(record.data, kinds)), None)


def _newest_refusal(history: Sequence[Record]) -> Record | None:
    """The newest one that says something about the pool, else the newest: an answer that came too late says nothing."""
    refusals = [record for record in history if isinstance(record.data, decisions.PreemptionRefused)]
    told = [record for record in refusals if getattr(record.data, "reason", "") in ("impossible", "gave-up")]
    return next(reversed(told or refusals), None)


def _seqs(*seqs: int | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(seq for seq in seqs if seq is not None))


def _nodes(pool: Pool, found: Iterable[int]) -> str:
    return _few([pool.nodes[number].name for number in dict.fromkeys(found) if number in pool.nodes]) or "no node"


def _few(names: Sequence[str], total: int | None = None) -> str:
    more = (len(names) if total is None else total) - len(names[:NAMED])
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _were(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _tasks(ranges: str) -> str:
    return f"task {ranges}" if ranges.isdigit() else f"tasks {ranges}"


def _lowered(text: str) -> str:
    return text.rstrip(".")
