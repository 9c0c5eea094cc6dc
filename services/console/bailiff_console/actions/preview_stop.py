"""Previews of requests that stop a job's tasks: pause, evict, cancel, migrate."""

from collections.abc import Iterator, Sequence

from bailiff.client.preview import Forecast, baseline, fact_of, forecast
from bailiff.render.serializers.nodes import node_state
from bailiff_bus.messages import MigrateJob, RequestBody
from bailiff_core.humanize import cost_text, duration_text, gpus_text
from bailiff_core.model.grace import grace_of
from bailiff_core.model.state import Job, PoolState
from bailiff_core.model.work_lost import allocated_gpu_milli, counted_gpu_milli, lost_gpu_ms
from bailiff_core.records import decisions

from .preview_text import Preview, first_of, jobs_ahead, listed, newly_placed, node_of, row, starting

ACTIVE = ("starting", "running")


def preview_pause(state: PoolState, job: Job, body: RequestBody) -> Preview:
    if job.paused_seq is not None:
        return Preview(errors=[f"{job.id} is paused already (#{job.paused_seq})"])
    back = f"{job.id} stays paused until it is resumed; then it is requeued at its previous position."
    if job.phase not in (*ACTIVE, "reserved"):
        return Preview([f"{job.id} has no resources: it is removed from the queue; no work is lost.", back])
    return _stopped(state, job, forecast(state, fact_of(body)), [back])


def preview_evict(state: PoolState, job: Job, body: RequestBody) -> Preview:
    if job.phase not in (*ACTIVE, "reserved"):
        return Preview(errors=[f"{job.id} is {job.phase}: it has no resources to be evicted from"])
    predicted = forecast(state, fact_of(body))
    return _stopped(state, job, predicted, [_requeued(job, predicted)])


def _requeued(job: Job, predicted: Forecast) -> str:
    if job.demand.on_eviction == "end":
        return f"{job.id} ends: it was submitted with on_eviction: end."
    nodes = predicted.placed().get(job.id)
    if nodes:
        return f"It is requeued and would start again at once on {first_of(nodes)}."
    return f"It is requeued at its previous position{jobs_ahead(predicted.state, job.id)}."


def preview_cancel(state: PoolState, job: Job, body: RequestBody) -> Preview:
    if job.cancelled:
        return Preview(errors=[f"{job.id} is cancelled already"])
    end = f"{job.id} ends. Its records stay in the log."
    if job.phase not in (*ACTIVE, "reserved", "evicting"):
        return Preview([f"{job.id} has no resources: it is removed from the queue at once; no work is lost.", end])
    return _stopped(state, job, forecast(state, fact_of(body)), [end])


def _stopped(state: PoolState, job: Job, predicted: Forecast, after: Sequence[str]) -> Preview:
    """The preview for a job whose tasks stop: the eviction, the work lost, and the jobs that get the resources."""
    found, rows = Preview(), []
    if job.phase == "reserved":
        found.sentences.append(f"{job.id} has not started yet: it loses its reservation, and no work.")
    elif job.eviction is not None:
        found.sentences.append(f"{job.id} is evicting already.")
    else:
        found.sentences += _eviction(state, job)
        rows.append(row(state, job, "evicted"))
    gained = newly_placed(predicted, baseline(state), job.id)
    found.sentences += [*_released(state, job, gained), *after]
    found.affected = [*rows, *starting(predicted.state, gained)]
    return found


def _eviction(state: PoolState, job: Job) -> Iterator[str]:
    nodes = list(dict.fromkeys(state.nodes[task.node].name for task in job.tasks))
    how = "an eviction notice" if _attached(job) else "the signal TERM"
    grace = duration_text(grace_of(state, job))
    yield f"{job.id} gets {how} on {first_of(nodes)}. Grace period: {grace}; then its tasks are killed."
    yield _loss(state, job)


def _attached(job: Job) -> bool:
    """Whether all its tasks receive eviction notices."""
    return bool(job.tasks) and all(task.attached for task in job.tasks)


def _loss(state: PoolState, job: Job) -> str:
    """The work lost without a checkpoint, and whether the job saves one."""
    lost = cost_text(lost_gpu_ms(state, job, counted_gpu_milli(state, job, job.tasks)))
    since = job.last_checkpoint if job.last_checkpoint is not None else job.last_start
    ago = f" {duration_text(max(0, state.now - since))} ago" if since is not None else ""
    what = f"the work since its last checkpoint{ago}" if job.last_checkpoint is not None else f"the work since its start{ago}"
    known = "" if job.last_checkpoint is not None else " It has no known checkpoint."
    if _attached(job):
        return (
            f"It receives eviction notices, so it saves a checkpoint first. If that fails, it loses {what}: up to {lost}.{known}"
        )
    return f"It does not receive eviction notices: it loses {what}, up to {lost}.{known}"


def _released(state: PoolState, job: Job, gained: dict[str, list[str]]) -> Iterator[str]:
    gpus = gpus_text(allocated_gpu_milli(state, job, job.tasks))
    if gained:
        yield f"With its resources ({gpus}), {listed(f'{name} ({first_of(nodes)})' for name, nodes in gained.items())} can start."
    elif job.tasks:
        yield f"No other job starts as a result: {gpus} become free."


def preview_migrate(state: PoolState, job: Job, body: RequestBody) -> Preview:
    assert isinstance(body, MigrateJob)
    if body.node is not None:
        node = node_of(state, body.node)
        if not node.schedulable:
            return Preview(errors=[f"node {node.name} is {node_state(node)} and not schedulable: choose another node"])
    if job.phase not in ACTIVE:
        return Preview(errors=[f"{job.id} is {job.phase}: only running jobs can migrate"])
    if job.suspended_reason is not None:
        return Preview(errors=[f"{job.id} is suspended because a decision about it failed: cancel it"])
    predicted = forecast(state, fact_of(body))
    for decision in predicted.now:
        if isinstance(decision, decisions.MigrationRefused) and decision.job == job.id:
            return Preview(errors=[f"{job.id} cannot migrate: {decision.reason}"])
        if isinstance(decision, decisions.MigrationDecided) and decision.job == job.id:
            to = predicted.nodes(decision.placement)
            found = Preview(
                [f"Resources are reserved for {job.id} on {first_of(to)}; no job is preempted.", *_eviction(state, job)]
            )
            found.sentences.append(f"Then it starts on {first_of(to)} from its last checkpoint.")
            found.affected = [row(state, job, "migrates", to)]
            return found
    return Preview(errors=[f"{job.id} cannot migrate"])
