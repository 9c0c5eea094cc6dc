"""What reports of nodes and of the executor may still say: admission asks before it records them, replay asks again."""

from bailiff_core.model.state import Eviction, Job, PoolState, Task
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

PRESENT = ("starting", "running", "exited")
STATES: dict[type[Fact], tuple[str, ...]] = {
    facts.TaskStarted: ("starting",),
    facts.TaskStartRefused: ("starting",),
    facts.TaskProgressed: ("starting", "running"),
    facts.TaskResumed: ("starting", "running"),
    facts.TaskRestored: ("starting", "running"),
    facts.TaskRestoreFailed: ("starting", "running"),
    facts.TaskExited: ("starting", "running"),
    facts.ShareExceeded: ("running",),
    facts.TaskIdle: ("running",),
    facts.TaskReleased: PRESENT,
    facts.TaskVanished: PRESENT,
    facts.EvictionStageReached: PRESENT,
    facts.TaskEvictionCancelled: PRESENT,
    facts.TaskCancelEvictionRefused: PRESENT,
}
"""The states of a task in which a report of this kind is news."""


def reported_task(state: PoolState, node: str, job: str, attempt: int, task: int) -> tuple[Job, Task] | None:
    """Returns the task that a report of this node is about; None if it is not, or no longer, there."""
    found = state.jobs.get(job)
    placed = found.task(task) if found is not None and found.attempt == attempt else None
    if found is None or placed is None or placed.node != state.node_numbers.get(node) or placed.state not in PRESENT:
        return None
    return found, placed


def waits_for_start(state: PoolState, job: str, attempt: int, decided_by: int) -> bool:
    """Whether an eviction that this record decided has not been started."""
    found = state.jobs.get(job)
    if found is None or found.attempt != attempt:
        return False
    waiting = (each for each in evictions_of(found) if each.decided_seq == decided_by)
    return any(eviction.started_seq is None and eviction.cancel_seq is None for eviction in waiting)


def evictions_of(job: Job) -> list[Eviction]:
    """Returns the evictions of the job and of single tasks."""
    found = (job.eviction, *(task.eviction for task in job.tasks))
    return [eviction for eviction in found if eviction is not None]


def outdated(state: PoolState, fact: Fact) -> str:
    """Returns why no report says this after the records before it; empty: one may."""
    if isinstance(fact, facts.EvictionStarted):
        if waits_for_start(state, fact.job, fact.attempt, fact.decided_by):
            return ""
        return f"no eviction of attempt {fact.attempt} of {fact.job} that #{fact.decided_by} decided waits to be started"
    states = STATES.get(type(fact))
    if states is None or not isinstance(fact, facts.TaskFact):
        return ""
    about = f"task {fact.task} of attempt {fact.attempt} of {fact.job} on {fact.node}"
    found = reported_task(state, fact.node, fact.job, fact.attempt, fact.task)
    if found is None:
        return f"there is no {about}"
    return "" if found[1].state in states else f"{about} is {found[1].state}"
