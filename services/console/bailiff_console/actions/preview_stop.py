"""Previews of requests that stop a job's tasks, or let its nodes save it: pause, evict, cancel, migrate, checkpoint."""

from collections.abc import Iterator, Sequence

from bailiff.client.preview import Forecast, baseline, forecast, too_late
from bailiff_core.humanize import cost_text, duration_text, gpus_text
from bailiff_core.model.evictions import active_evictions
from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.units import allocated_tasks
from bailiff_core.model.work_lost import allocated_gpu_milli, ends_for_good, eviction_loss
from bailiff_core.records import decisions
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RequestBody
from bailiff_core.views import effect_on, nodes_of

from .preview_text import Gains, Preview, first_of, gains, jobs_ahead, row

ACTIVE = ("starting", "running")


def preview_pause(state: PoolState, job: Job, _: RequestBody, fact: Fact) -> Preview:
    back = f"{job.id} stays paused until it is resumed; then it is requeued at its previous position."
    if job.phase not in (*ACTIVE, "reserved"):
        return Preview([f"{job.id} has no resources: it is removed from the queue; no work is lost.", back])
    return _stopped(state, job, forecast(state, fact), [back])


def preview_evict(state: PoolState, job: Job, _: RequestBody, fact: Fact) -> Preview:
    predicted = forecast(state, fact)
    return _stopped(state, job, predicted, [_requeued(job, predicted)], returns=not ends_for_good(job, whole=True))


def _requeued(job: Job, predicted: Forecast) -> str:
    if ends_for_good(job, whole=True):
        return f"{job.id} ends: it was submitted with on_eviction: end."
    nodes = predicted.placed().get(job.id)
    if nodes:
        return f"It is requeued and would start again at once on {first_of(nodes)}."
    return f"It is requeued at its previous position{jobs_ahead(predicted.state, job.id)}."


def preview_cancel(state: PoolState, job: Job, _: RequestBody, fact: Fact) -> Preview:
    if job.cancelled:
        return Preview([f"{job.id} is cancelled already."])
    end = f"{job.id} ends. Its records stay in the log."
    if job.phase not in (*ACTIVE, "reserved", "evicting"):
        return Preview([f"{job.id} has no resources: it is removed from the queue at once; no work is lost.", end])
    return _stopped(state, job, forecast(state, fact), [end])


def _stopped(state: PoolState, job: Job, predicted: Forecast, after: Sequence[str], *, returns: bool = True) -> Preview:
    """The preview for a job whose tasks stop: the eviction, the work lost, and the jobs that get the resources.

    returns: it starts again from its checkpoint, or may.
    """
    found, rows = Preview(), []
    if job.phase == "reserved":
        found.sentences.append(f"{job.id} has not started yet: it loses its reservation, and no work.")
    elif job.eviction is not None:
        found.sentences.append(f"{job.id} is evicting already.")
    else:
        found.sentences += _eviction(state, job, returns=returns)
        rows.append(row(state, job, "evicted" if returns else effect_on(job, whole=True)))
    gained = gains(predicted, baseline(state), job.id)
    spared = list(_victims_of(state, job, predicted))
    found.sentences += [*spared, *_released(state, job, gained, spared=bool(spared)), *after]
    found.affected = [*rows, *gained.rows(predicted.state)]
    return found


def _victims_of(state: PoolState, preemptor: Job, predicted: Forecast) -> Iterator[str]:
    """What becomes of those that are evicted for it, if their resources are not needed any more."""
    yield from (f"{text[:1].upper()}{text[1:]}." for text in too_late(state, preemptor.id))
    late = {entry.job.id for entry in active_evictions(state) if entry.too_late}
    for decision in predicted.now:
        if isinstance(decision, decisions.EvictionCancelled) and decision.job not in late:
            if decision.notified:
                yield f"{decision.job} keeps running, if its nodes can still withdraw the eviction notice."
            else:
                yield f"{decision.job} keeps running: its eviction is cancelled."


def _eviction(state: PoolState, job: Job, *, returns: bool = True) -> Iterator[str]:
    nodes = list(dict.fromkeys(state.nodes[task.node].name for task in job.tasks))
    how = "an eviction notice" if _attached(job) else "the signal TERM"
    grace = duration_text(grace_of(state, job))
    yield f"{job.id} gets {how} on {first_of(nodes)}. Grace period: {grace}; then its tasks are killed."
    yield _loss(state, job, returns=returns)


def _attached(job: Job) -> bool:
    """Whether all its tasks receive eviction notices."""
    return bool(job.tasks) and all(task.attached for task in job.tasks)


def _loss(state: PoolState, job: Job, *, returns: bool) -> str:
    """The work lost without a checkpoint, and whether the job saves one."""
    lost = cost_text(eviction_loss(state, job, allocated_tasks(job), whole=True, moved=returns).work)
    if not returns:
        return f"All the work of its attempt is lost, up to {lost}: no checkpoint is of use to a job that does not start again."
    since = job.last_checkpoint if job.last_checkpoint is not None else job.last_start
    ago = f" {duration_text(max(0, state.now - since))} ago" if since is not None else ""
    what = f"the work since its last checkpoint{ago}" if job.last_checkpoint is not None else f"the work since its start{ago}"
    known = "" if job.last_checkpoint is not None else " It has no known checkpoint."
    if _attached(job):
        return (
            f"It receives eviction notices, so it saves a checkpoint first. If that fails, it loses {what}: up to {lost}.{known}"
        )
    return f"It does not receive eviction notices: it loses {what}, up to {lost}.{known}"


def _released(state: PoolState, job: Job, gained: Gains, *, spared: bool) -> Iterator[str]:
    """spared: others have the resources that are reserved for it."""
    gpus = gpus_text(allocated_gpu_milli(state, job, job.tasks))
    if gained:
        yield f"With its resources ({gpus}), {gained.text()}."
    elif job.eviction is not None and job.eviction.for_job:
        yield f"Its resources ({gpus}) are reserved for {job.eviction.for_job} already."
    elif job.tasks and not spared:
        yield f"No other job starts as a result: {gpus} become free."


def preview_migrate(state: PoolState, job: Job, _: RequestBody, fact: Fact) -> Preview:
    predicted = forecast(state, fact)
    for decision in predicted.now:
        if isinstance(decision, decisions.MigrationRefused) and decision.job == job.id:
            return Preview(errors=[f"{job.id} cannot migrate: {decision.reason}"])
        if isinstance(decision, decisions.MigrationDecided) and decision.job == job.id:
            to = predicted.nodes(decision.placement)
            found = Preview(
                [f"Resources are reserved for {job.id} on {first_of(to)}; no job is preempted.", *_eviction(state, job)]
            )
            found.sentences.append(f"Then it starts on {first_of(to)} from its last checkpoint.")
            found.affected = [row(state, job, "migrates", nodes_of(predicted.state, decision.placement))]
            return found
    return Preview(errors=[f"{job.id} cannot migrate"])


def preview_checkpoint(state: PoolState, job: Job, _: RequestBody, fact: Fact) -> Preview:  # noqa: ARG001
    nodes = first_of(sorted({state.nodes[task.node].name for task in job.tasks}))
    return Preview(
        [
            f"{nodes} saves the memory and files of {job.id}: it stands still meanwhile, and then goes on.",
            "If it is evicted, or its node is lost, it continues from there, unless it has saved a newer checkpoint.",
        ]
    )
