"""Previews of what lets a job go on otherwise: resume, another size, another class."""

from collections.abc import Iterator

from bailiff.foreseen import Foreseen, anyway, fact_of, foreseen
from bailiff_bus.messages import RequestBody, ScaleJob, SetJob
from bailiff_core.model.places import numbers, ranges
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import decisions
from bailiff_core.words import count_text, duration_text

from .telling import Preview, ahead, listed, news, row, some, starting, victims


def resumed(pool: Pool, job: Job, body: RequestBody) -> Preview:
    if job.paused_seq is None:
        return Preview(faults=[f"{job.id} is {job.phase} and not paused"])
    found = foreseen(pool, fact_of(body))
    step = max((task.checkpoint_step for task in job.tasks if task.checkpoint_step is not None), default=job.step)
    on = f"from its last checkpoint (step {step})" if step is not None else "from its last checkpoint, if it has one"
    said = Preview([f"{job.id} goes back to the queue, at its old place, and goes on {on} once it has room."])
    said.sentences += _would_start(job.id, found)
    said.affected = list(victims(pool, found))
    return said


def scaled(pool: Pool, job: Job, body: RequestBody) -> Preview:
    assert isinstance(body, ScaleJob)
    groups = job.demand.tasks
    if body.group >= len(groups):
        return Preview(faults=[f"{job.id} has {count_text(len(groups), 'task group')}: there is no group {body.group}"])
    size = job.size - groups[body.group].count + body.tasks
    if size > 10_000:
        return Preview(faults=[f"a job holds at most 10000 tasks, this one would have {size}"])
    if body.min_tasks is not None and body.min_tasks > size:
        return Preview(faults=[f"min_tasks is {body.min_tasks}, but the job would have only {count_text(size, 'task')}"])
    if job.demand.sub_groups:
        return Preview(faults=[f"{job.id} has sub-groups: submit it anew with the tasks that it should have"])
    found = foreseen(pool, fact_of(body))
    said = Preview([f"{job.id} is to have {count_text(size, 'task')}; it has asked for {job.size} until now."])
    for decision in found.now:
        if isinstance(decision, decisions.EvictionDecided) and decision.job == job.id:
            gone = list(numbers(decision.tasks)) or [task.index for task in job.tasks]
            said.sentences.append(
                f"Its {count_text(len(gone), 'task')} {ranges(gone)} {'is' if len(gone) == 1 else 'are'} told to leave, "
                f"with {duration_text(decision.grace)}; the others go on."
            )
            said.affected.append(row(pool, job, "shrinks", tasks=gone))
    got = news(found, anyway(pool), "")
    mine = got.pop(job.id, None)
    if mine:
        said.sentences.append(f"More of its tasks start on {some(mine)}.")
    elif size > job.size:
        said.sentences.append("The new tasks start as there is room for them; as things are there is none.")
    if got:
        said.sentences.append(f"{listed(f'{name} ({some(nodes)})' for name, nodes in got.items())} can start because of that.")
    said.affected += starting(found.pool, got)
    return said


def reclassed(pool: Pool, job: Job, body: RequestBody) -> Preview:
    assert isinstance(body, SetJob)
    entry = pool.rules.find_class(body.priority_class)
    if entry is None:
        known = ", ".join(each.name for each in pool.rules.priority_classes)
        return Preview(faults=[f"there is no priority class {body.priority_class!r}; the policy has {known}"])
    if job.phase not in ("pending", "paused"):
        return Preview(faults=[f"{job.id} is {job.phase}: its class can only be changed while it waits"])
    found = foreseen(pool, fact_of(body))
    said = Preview(
        [f"{job.id} waits as {entry.name} (priority {entry.value}) instead of {job.class_name} ({job.base_priority})."]
    )
    said.sentences += _would_start(job.id, found)
    said.affected = list(victims(pool, found))
    return said


def _would_start(job: str, found: Foreseen) -> Iterator[str]:
    for decision in found.now:
        if isinstance(decision, decisions.PreemptionDecided) and decision.asker.job == job:
            leave = listed(dict.fromkeys(choice.job for choice in decision.victims))
            on = some(found.nodes(decision.placement))
            yield f"As things are it displaces {leave}, and starts on {on} when they have left."
            return
    nodes = found.placed().get(job)
    if nodes:
        yield f"As things are it starts at once, on {some(nodes)}."
        return
    why = next((each.reason for each in found.now if isinstance(each, decisions.JobWaits) and each.job == job), "")
    yield f"As things are it waits{ahead(found.pool, job)}{f': {why}' if why else ''}."
