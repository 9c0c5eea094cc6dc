"""Previews of what makes a job leave its place: pause, evict, cancel, migrate."""

from collections.abc import Iterator, Sequence

from bailiff.foreseen import Foreseen, anyway, fact_of, foreseen
from bailiff.present.nodes import node_state
from bailiff_bus.messages import MigrateJob, RequestBody
from bailiff_core.lifecycle.attempts import grace_of
from bailiff_core.model.loss import held_gpu_milli, lost_gpu_ms
from bailiff_core.model.pool import Job, Pool
from bailiff_core.records import decisions
from bailiff_core.words import cost_text, duration_text, gpus_text

from .telling import Preview, ahead, listed, news, node_of, row, some, starting

RUNS = ("starting", "running")


def paused(pool: Pool, job: Job, body: RequestBody) -> Preview:
    if job.paused_seq is not None:
        return Preview(faults=[f"{job.id} is paused already, since #{job.paused_seq}"])
    back = f"{job.id} is set aside until somebody resumes it. Then it waits in the queue again, at its old place."
    if job.phase not in (*RUNS, "reserved"):
        return Preview([f"{job.id} has no place now: it leaves the queue, and nobody loses work.", back])
    found = foreseen(pool, fact_of(body))
    return _left(pool, job, found, [back])


def evicted(pool: Pool, job: Job, body: RequestBody) -> Preview:
    if job.phase not in (*RUNS, "reserved"):
        return Preview(faults=[f"{job.id} is {job.phase}: there is no place that it could leave"])
    found = foreseen(pool, fact_of(body))
    return _left(pool, job, found, [_back_in_queue(job, found)])


def _back_in_queue(job: Job, found: Foreseen) -> str:
    if job.demand.on_eviction == "end":
        return f"{job.id} ends for good: its owner said on_eviction: end."
    nodes = found.placed().get(job.id)
    if nodes:
        return f"It goes back to the queue, and as things are starts again at once, on {some(nodes)}."
    return f"It goes back to the queue, at its old place{ahead(found.pool, job.id)}."


def cancelled(pool: Pool, job: Job, body: RequestBody) -> Preview:
    if job.cancelled:
        return Preview(faults=[f"{job.id} is cancelled already"])
    end = f"{job.id} ends for good. What is on record about it stays."
    if job.phase not in (*RUNS, "reserved", "evicting"):
        return Preview([f"{job.id} has no place now: it leaves the queue at once, and nobody loses work.", end])
    return _left(pool, job, foreseen(pool, fact_of(body)), [end])


def _left(pool: Pool, job: Job, found: Foreseen, after: Sequence[str]) -> Preview:
    """A job that gives its place up: how, what that loses, who gets the room."""
    said, rows = Preview(), []
    if job.phase == "reserved":
        said.sentences.append(f"{job.id} has not started yet: it loses the place that is promised to it, and no work.")
    elif job.eviction is not None:
        said.sentences.append(f"{job.id} is leaving its place already.")
    else:
        said.sentences += _stops(pool, job)
        rows.append(row(pool, job, "leaves"))
    got = news(found, anyway(pool), job.id)
    said.sentences += [*_room(pool, job, got), *after]
    said.affected = [*rows, *starting(found.pool, got)]
    return said


def _stops(pool: Pool, job: Job) -> Iterator[str]:
    nodes = list(dict.fromkeys(pool.nodes[task.node].name for task in job.tasks))
    yield (
        f"{job.id} is told to save its state and to leave {some(nodes)}. It has {duration_text(grace_of(pool, job))}; "
        "what still runs then is killed."
    )
    yield _loss(pool, job)


def _loss(pool: Pool, job: Job) -> str:
    """What it loses if it does not save now, and whether it does."""
    lost = cost_text(lost_gpu_ms(pool, job, held_gpu_milli(pool, job, job.tasks)))
    since = job.last_checkpoint if job.last_checkpoint is not None else job.last_start
    ago = f" {duration_text(max(0, pool.now - since))} ago" if since is not None else ""
    what = (
        f"what it did since its last checkpoint{ago}" if job.last_checkpoint is not None else f"what it did since its start{ago}"
    )
    known = "" if job.last_checkpoint is not None else " No checkpoint of it is known."
    if job.tasks and all(task.attached for task in job.tasks):
        return f"It listens for notices, so it saves first. If it cannot, it loses {what}: {lost} at most.{known}"
    return f"It does not listen for notices: it loses {what}, {lost} at most.{known}"


def _room(pool: Pool, job: Job, got: dict[str, list[str]]) -> Iterator[str]:
    gpus = gpus_text(held_gpu_milli(pool, job, job.tasks))
    if got:
        yield f"Its room ({gpus}) lets {listed(f'{name} ({some(nodes)})' for name, nodes in got.items())} start."
    elif job.tasks:
        yield f"As things are nobody starts because of that: {gpus} become free."


def migrated(pool: Pool, job: Job, body: RequestBody) -> Preview:
    assert isinstance(body, MigrateJob)
    if body.node is not None:
        node = node_of(pool, body.node)
        if not node.takes_work:
            return Preview(faults=[f"node {node.name} is {node_state(node)} and takes no work: choose another one"])
    if job.phase not in RUNS:
        return Preview(faults=[f"{job.id} is {job.phase}: only a job that runs can move"])
    if job.held_because is not None:
        return Preview(faults=[f"{job.id} is held, because a decision about it failed: cancel it"])
    found = foreseen(pool, fact_of(body))
    for decision in found.now:
        if isinstance(decision, decisions.MigrationRefused) and decision.job == job.id:
            return Preview(faults=[f"{job.id} stays where it is: {decision.reason}"])
        if isinstance(decision, decisions.MigrationDecided) and decision.job == job.id:
            to = found.nodes(decision.placement)
            said = Preview([f"A place is kept for {job.id} on {some(to)}; nobody is displaced for it.", *_stops(pool, job)])
            said.sentences.append(f"Then it starts on {some(to)}, from its last checkpoint.")
            said.affected = [row(pool, job, "moves", to)]
            return said
    return Preview(faults=[f"{job.id} stays where it is"])
