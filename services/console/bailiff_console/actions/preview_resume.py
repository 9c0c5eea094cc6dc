"""Previews of resume, scale and set (priority class)."""

from collections.abc import Iterator

from bailiff.client.preview import Forecast, baseline, forecast
from bailiff_core.humanize import count_text, duration_text
from bailiff_core.model.placement_ranges import numbers, ranges
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import decisions
from bailiff_core.records.facts import RequestBody, ScaleJob, SetPriorityClass
from bailiff_core.records.payload import Fact
from bailiff_core.views import effect_on

from .preview_text import Preview, first_of, gains, jobs_ahead, listed, row, victims


def preview_resume(state: PoolState, job: Job, _: RequestBody, fact: Fact) -> Preview:
    predicted = forecast(state, fact)
    step = max((task.checkpoint_step for task in job.tasks if task.checkpoint_step is not None), default=job.step)
    on = f"from its last checkpoint (step {step})" if step is not None else "from its last checkpoint, if there is one"
    found = Preview([f"{job.id} is requeued at its previous position; once placed, it continues {on}."])
    found.sentences += _would_start(job.id, predicted)
    found.affected = list(victims(state, predicted))
    return found


def preview_scale(state: PoolState, job: Job, body: RequestBody, fact: Fact) -> Preview:
    assert isinstance(body, ScaleJob)
    size = job.size - job.demand.tasks[body.group].count + body.tasks
    predicted = forecast(state, fact)
    found = Preview([f"{job.id} is scaled from {job.size} to {count_text(size, 'task')}."])
    for decision in predicted.now:
        if isinstance(decision, decisions.EvictionDecided) and decision.job == job.id:
            others = "then the others restart" if job.demand.elastic == "restart" else "the others continue"
            evicted = list(numbers(decision.tasks)) or [task.index for task in job.tasks]
            found.sentences.append(
                f"Its {count_text(len(evicted), 'task')} {ranges(evicted)} {'is' if len(evicted) == 1 else 'are'} evicted "
                f"with a grace period of {duration_text(decision.grace)}; {others}."
            )
            found.affected.append(row(state, job, effect_on(job, whole=False), tasks=evicted))
    gained = gains(predicted, baseline(state), job.id)
    own = predicted.grown().get(job.id) or predicted.placed().get(job.id)
    if own:
        found.sentences.append(f"More of its tasks start on {first_of(own)}.")
    elif size > job.size:
        found.sentences.append("The new tasks start when resources are free; none are free now.")
    if gained:
        found.sentences.append(f"As a result {gained.text()}.")
    found.affected += gained.rows(predicted.state)
    return found


def preview_set_priority_class(state: PoolState, job: Job, body: RequestBody, fact: Fact) -> Preview:
    assert isinstance(body, SetPriorityClass)
    entry = state.rules.find_class(body.priority_class)
    assert entry is not None  # admitted
    predicted = forecast(state, fact)
    found = Preview(
        [f"{job.id} gets priority class {entry.name} (priority {entry.value}) instead of {job.class_name} ({job.base_priority})."]
    )
    found.sentences += _would_start(job.id, predicted)
    found.affected = list(victims(state, predicted))
    return found


def preview_change(state: PoolState, job: Job, body: RequestBody, fact: Fact) -> Preview:
    """For requests without sentences of their own."""
    predicted = forecast(state, fact)
    return Preview([f"{job.id}: {body.VERB}.", *_would_start(job.id, predicted)], list(victims(state, predicted)))


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
