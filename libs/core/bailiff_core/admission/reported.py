"""What nodes and the executor may report, by the state: admission asks before it records a report, and a replay asks again."""

from bailiff_core.model.snapshots import has_parked, is_parked
from bailiff_core.model.state import Attachment, Eviction, Job, PoolState, Task
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

PRESENT = ("starting", "running", "exited")
OF_TASKS = (
    *(facts.TaskStarted, facts.TaskStartRefused, facts.TaskProgressed, facts.TaskResumed, facts.TaskExited, facts.TaskReleased),
    *(facts.TaskVanished, facts.TaskIdle, facts.ShareExceeded, facts.EvictionStageReached),
    facts.SnapshotStageReached,
    *(facts.TaskRestored, facts.TaskRestoreFailed),
    *(facts.TaskEvictionCancelled, facts.TaskCancelEvictionRefused),
    facts.AttachGranted,
)
"""About tasks of the present attempt, from the node where they are."""


def reported_task(state: PoolState, node: str, job: str, attempt: int, task: int) -> tuple[Job, Task] | None:
    """Returns the task that a report of this node is about; None if it is not, or no longer, there."""
    found = _placed_task(state, node, job, attempt, task)
    return found if found is not None and found[1].state in PRESENT else None


def _placed_task(state: PoolState, node: str, job: str, attempt: int, task: int) -> tuple[Job, Task] | None:
    found = state.jobs.get(job)
    placed = found.task(task) if found is not None and found.attempt == attempt else None
    if found is None or placed is None or placed.node != state.node_numbers.get(node):
        return None
    return found, placed


def parked_job(state: PoolState, node: str, job: str, attempt: int, task: int) -> Job | None:
    """Returns the job whose parked task a report of this node is about; None if it is not, or no longer, parked there."""
    found, at = state.jobs.get(job), state.node_numbers.get(node)
    if found is None or at is None or found.snapshot is None or found.snapshot.attempt != attempt or not is_parked(found):
        return None
    kept = next((each for each in found.snapshot.tasks if each.task == task), None)
    return found if kept is not None and has_parked(state.nodes[at], kept) else None


def granted(state: PoolState, node: str, job: str, attempt: int, task: int, grant: int) -> Attachment | None:
    """Returns the attachment that a report of this node is about; None if no such record granted it."""
    found = state.attachments.get(grant)
    said = (node, job, attempt, task)
    return found if found is not None and said == (found.node, found.job, found.attempt, found.task) else None


def decided_evictions(state: PoolState, job: str, attempt: int, decided_by: int) -> list[Eviction]:
    """Returns what this record decided to evict of this attempt: the job, or tasks of it."""
    found = state.jobs.get(job)
    if found is None or found.attempt != attempt:
        return []
    return [eviction for eviction in every_eviction(found) if eviction.decided_seq == decided_by]


def every_eviction(job: Job) -> list[Eviction]:
    """Returns the evictions of the job and of single tasks. In `model.evictions` that of the whole job hides the others."""
    found = (job.eviction, *(task.eviction for task in job.tasks))
    return [eviction for eviction in found if eviction is not None]


def more_than_permitted(state: PoolState, node: str, devices: int) -> str:
    """Returns why the node does not join with so many devices; empty: it may."""
    most = state.device_limit(node)
    if most is None or devices <= most:
        return ""
    return f"{node} says that it has {devices} GPUs, and an operator permits at most {most}"


def contradiction(state: PoolState, fact: Fact) -> str:
    """Returns why no report says this after the records before it; empty: one may.

    A repeated report, which admission does not record, contradicts nothing.
    """
    if isinstance(fact, facts.EvictionStarted):
        if decided_evictions(state, fact.job, fact.attempt, fact.decided_by):
            return ""
        return f"there is no eviction of attempt {fact.attempt} of {fact.job} that #{fact.decided_by} decided"
    if isinstance(fact, facts.AttachReady | facts.AttachStarted | facts.AttachEnded):
        known = granted(state, fact.node, fact.job, fact.attempt, fact.task, fact.grant)
        return "" if known is not None else f"#{fact.grant} grants no attachment to task {fact.task} of {fact.job} on {fact.node}"
    if isinstance(fact, facts.NodeJoined):
        if state.enrolled and fact.node not in state.enrolled:
            return f"{fact.node} is not enrolled"
        return more_than_permitted(state, fact.node, len(fact.devices))
    if isinstance(fact, facts.ParkedTaskStageReached):
        parked = parked_job(state, fact.node, fact.job, fact.attempt, fact.task)
        return (
            "" if parked is not None else f"task {fact.task} of attempt {fact.attempt} of {fact.job} is not parked on {fact.node}"
        )
    if not isinstance(fact, OF_TASKS):
        return ""
    about = f"task {fact.task} of attempt {fact.attempt} of {fact.job} on {fact.node}"
    found = _placed_task(state, fact.node, fact.job, fact.attempt, fact.task)
    if found is None:
        return f"there is no {about}"
    begins = isinstance(fact, facts.TaskStarted | facts.TaskStartRefused)
    return f"{about} is {found[1].state}" if begins and found[1].state != "starting" else ""
