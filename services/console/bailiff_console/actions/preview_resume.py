"""Previews of resume, scale and set (priority class)."""

from collections.abc import Iterator

from bailiff.client.preview import Forecast, baseline, fact_of, forecast
from bailiff_bus.messages import RequestBody, ScaleJob, SetPriorityClass
from bailiff_core.humanize import count_text, duration_text
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import decisions

from .preview_text import Preview, first_of, jobs_ahead, listed, newly_placed, row, starting, victims


def preview_resume(state: PoolState, job: Job, body: RequestBody) -> Preview:
    if job.paused_seq is None:
        return Preview(errors=[f"{job.id} is {job.phase} and not paused"])
    predicted = forecast(state, fact_of(body))
    step = max((task.checkpoint_step for task in job.tasks if task.checkpoint_step is not None), default=job.step)
    on = f"from its last checkpoint (step {step})" if step is not None else "from its last checkpoint, if there is one"
    found = Preview([f"{job.id} is requeued at its previous position; once placed, it continues {on}."])
    found.sentences += _would_start(job.id, predicted)
    found.affected = list(victims(state, predicted))
    return found


def preview_scale(state: PoolState, job: Job, body: RequestBody) -> Preview:
    assert isinstance(body, ScaleJob)
    groups = job.demand.tasks
    if body.group >= len(groups):
        return Preview(errors=[f"{job.id} has {count_text(len(groups), 'task group')}: no group {body.group}"])
    size = job.size - groups[body.group].count + body.tasks
    if size > 10_000:
        return Preview(errors=[f"a job has at most 10000 tasks; this one would have {size}"])
    if body.min_tasks is not None and body.min_tasks > size:
        return Preview(errors=[f"min_tasks is {body.min_tasks}, but the job would have only {count_text(size, 'task')}"])
    if job.demand.sub_groups:
        return Preview(errors=[f"{job.id} has sub-groups and cannot be scaled: cancel it and submit it with the new size"])
    predicted = forecast(state, fact_of(body))
    found = Preview([f"{job.id} is scaled from {job.size} to {count_text(size, 'task')}."])
    for decision in predicted.now:
        if isinstance(decision, decisions.EvictionDecided) and decision.job == job.id:
            evicted = list(numbers(decision.tasks)) or [task.index for task in job.tasks]
            found.sentences.append(
                f"Its {count_text(len(evicted), 'task')} {ranges(evicted)} {'is' if len(evicted) == 1 else 'are'} evicted "
                f"with a grace period of {duration_text(decision.grace)}; the others continue."
            )
            found.affected.append(row(state, job, "shrinks", tasks=evicted))
    gained = newly_placed(predicted, baseline(state), "")
    own = gained.pop(job.id, None)
    if own:
        found.sentences.append(f"More of its tasks start on {first_of(own)}.")
    elif size > job.size:
        found.sentences.append("The new tasks start when resources are free; none are free now.")
    if gained:
        found.sentences.append(
            f"As a result {listed(f'{name} ({first_of(nodes)})' for name, nodes in gained.items())} can start."
        )
    found.affected += starting(predicted.state, gained)
    return found


def preview_set_class(state: PoolState, job: Job, body: RequestBody) -> Preview:
    assert isinstance(body, SetPriorityClass)
    entry = state.rules.find_class(body.priority_class)
    if entry is None:
        known = ", ".join(each.name for each in state.rules.priority_classes)
        return Preview(errors=[f"no priority class {body.priority_class!r}; the policy has {known}"])
    if job.phase not in ("pending", "paused"):
        return Preview(errors=[f"{job.id} is {job.phase}: its priority class can only be changed while it is pending or paused"])
    predicted = forecast(state, fact_of(body))
    found = Preview(
        [f"{job.id} gets priority class {entry.name} (priority {entry.value}) instead of {job.class_name} ({job.base_priority})."]
    )
    found.sentences += _would_start(job.id, predicted)
    found.affected = list(victims(state, predicted))
    return found


def _would_start(job: str, predicted: Forecast) -> Iterator[str]:
    for decision in predicted.now:
        if isinstance(decision, decisions.PreemptionDecided) and decision.preemptor.job == job:
            preempted = listed(dict.fromkeys(choice.job for choice in decision.victims))
            on = first_of(predicted.nodes(decision.placement))
            yield f"Now it would preempt {preempted} and start on {on} when their resources are released."
            return
    nodes = predicted.placed().get(job)
    if nodes:
        yield f"Now it would start at once on {first_of(nodes)}."
        return
    reason = next((each.reason for each in predicted.now if isinstance(each, decisions.JobPending) and each.job == job), "")
    yield f"Now it would be pending{jobs_ahead(predicted.state, job)}{f': {reason}' if reason else ''}."
