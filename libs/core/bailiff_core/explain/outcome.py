"""Reports what followed a record: the first later records that conclude what it started."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bailiff_core.humanize import duration_text
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload

from .sentences import (
    MAX_NAMED,
    Section,
    Sentence,
    clock,
    first_names,
    jobs_of,
    seqs_of,
    tasks_text,
    victims_of,
    was_or_were,
    without_stop,
)
from .victims import REFUSAL_REASONS

Conclusion = Callable[[Record], str | None]
Kinds = tuple[type[Payload], ...]

PLACED: Kinds = (decisions.JobPlaced, decisions.PreemptionDecided, decisions.JobEnded)
EVICTION_ENDS: Kinds = (decisions.JobRequeued, decisions.JobShrunk, decisions.JobEnded, decisions.EvictionCancelled)
STARTS: Kinds = (decisions.JobStarting, decisions.ReservationDropped, decisions.JobEnded)
ENDS: Kinds = (decisions.JobRequeued, decisions.JobEnded)
NEXT: dict[type[Payload], tuple[Kinds, str]] = {
    facts.JobSubmitted: (PLACED, "is not placed yet"),
    facts.JobCancelled: ((decisions.JobEnded,), "has not ended yet"),
    facts.JobEvictionRequested: ((decisions.EvictionDecided, decisions.ReservationDropped, *ENDS), "is not evicted yet"),
    facts.JobPaused: ((facts.JobResumed, decisions.JobEnded), "is still paused"),
    facts.JobResumed: (PLACED, "is still pending"),
    facts.JobMigrationRequested: ((decisions.MigrationDecided, decisions.MigrationRefused, *ENDS), "is not migrated yet"),
    facts.DecisionFailed: ((decisions.JobEnded,), "is still suspended"),
    facts.EvictionStarted: (EVICTION_ENDS, "is still being evicted"),
    facts.TaskStartRefused: (ENDS, ""),
    facts.TaskVanished: (ENDS, ""),
    decisions.JobPending: (PLACED, "is still pending"),
    decisions.JobRequeued: (PLACED, "is still pending"),
    decisions.ReservationDropped: (PLACED, "is still pending"),
    decisions.ScheduleTimedOut: (PLACED, "is still pending"),
    decisions.JobPriorityBoosted: (PLACED, ""),
    decisions.JobStarting: (ENDS, "is still in this attempt"),
    decisions.JobShrunk: ((decisions.JobGrown, *ENDS), "still runs without them"),
    decisions.EvictionDecided: (EVICTION_ENDS, "is still being evicted"),
    decisions.EvictionStuck: (EVICTION_ENDS, "is still being evicted"),
    decisions.JobIdle: ((*EVICTION_ENDS, facts.JobResumed), ""),
    decisions.MigrationDecided: (EVICTION_ENDS, "is still being evicted"),
}


@dataclass
class _Open:
    """One thing that the record started. still_open: the sentence while no record concludes it."""

    conclusion: Conclusion
    still_open: str = ""
    concluded: Sentence | None = None


class Outcome:
    """Collects what followed a record, from the later records in order."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._open = list(_open_outcomes(record))

    @property
    def known(self) -> bool:
        """Whether everything is concluded, so that later records add nothing."""
        return all(each.concluded is not None for each in self._open)

    def take(self, later: Record) -> None:
        """Process the next record of the log."""
        for each in self._open:
            text = each.conclusion(later) if each.concluded is None else None
            if text is not None:
                after = later.time - self._record.time
                when = f" at {clock(later.time)}" + (f", {duration_text(after)} later" if after else "")
                each.concluded = Sentence(f"{text}{when}.", seqs_of(later.seq))

    def section(self) -> Section | None:
        """The section about what followed; `None` if the record starts nothing."""
        sentences = [
            each.concluded or Sentence(f"{each.still_open}.") for each in self._open if each.concluded or each.still_open
        ]
        return Section("What happened next?", tuple(sentences)) if sentences else None


def _open_outcomes(record: Record) -> Iterable[_Open]:
    data = record.data
    match data:
        case decisions.PreemptionRequested():
            yield _Open(_request_outcome(record.seq, data.selection), "Victim selection has not finished yet")
        case facts.ProposalReceived():
            for proposal in data.proposals[:MAX_NAMED]:
                yield _Open(_request_outcome(proposal.request, data.selection))
        case decisions.PreemptionDecided():
            for job in victims_of(data)[:MAX_NAMED]:
                yield _job_outcome(job, EVICTION_ENDS, "is still being evicted")
            yield _job_outcome(data.preemptor.job, STARTS, "has not started yet")
        case decisions.PreemptionRefused():
            yield _job_outcome(data.preemptor.job, (decisions.PreemptionRequested, *PLACED), "is still pending")
        case decisions.JobPlaced() | decisions.JobGrown():
            yield _job_outcome(
                data.job,
                STARTS if data.reserved else ENDS,
                "still waits for its resources" if data.reserved else "is still placed",
            )
        case decisions.SelectionTimedOut():
            yield _Open(lambda later: _new_selection(later, data.selection), "No new selection has started yet")
        case facts.TaskStarted() | facts.EvictionStageReached():
            yield _Open(lambda later: _same_task(later, data, facts.TaskExited), "The task has not exited yet")
        case facts.TaskExited():
            yield _Open(lambda later: _same_task(later, data, facts.TaskReleased), "Its resources are not released yet")
        case facts.DeviceQuarantined() | facts.DeviceClearRequested():
            yield _Open(lambda later: _same_device(later, data, facts.DeviceCleared), "The device is still quarantined")
        case facts.DeviceUnhealthy():
            yield _Open(lambda later: _same_device(later, data, facts.DeviceHealthy), "The device is still unhealthy")
        case facts.ShareExceeded():
            yield _Open(lambda later: _same_task(later, data, facts.TaskExited), "The task has not exited yet")
        case facts.NodeUnreachable() | facts.NodeLost():
            yield _Open(lambda later: _node_reachable(later, data.node), f"{data.node} has not reported since")
        case facts.NodeDrained() | decisions.DrainDeadlineReached():
            yield _Open(lambda later: _undrained(later, data.node), f"{data.node} is still drained")
        case facts.PolicyApplied():
            yield _Open(_policy_replaced, "It is still in force")
        case _ if data is not None and type(data) in NEXT:
            kinds, still_open = NEXT[type(data)]
            for job in jobs_of(record):
                yield _job_outcome(job, kinds, still_open)


def _job_outcome(job: str, kinds: Kinds, still_open: str) -> _Open:
    return _Open(
        lambda later: _milestone(later, job) if isinstance(later.data, kinds) else None, still_open and f"{job} {still_open}"
    )


def _milestone(later: Record, job: str) -> str | None:
    """What the record decides about this job; `None` if it is about other jobs."""
    data = later.data
    if isinstance(data, decisions.PreemptionDecided):
        return _preempted_text(data) if data.preemptor.job == job else None
    if getattr(data, "job", None) != job:
        return None
    match data:
        case decisions.JobPlaced():
            return f"{job} got a reservation" if data.reserved else f"{job} was placed"
        case decisions.JobGrown():
            return f"{job} got more tasks"
        case decisions.JobShrunk():
            return f"{job} continued without {tasks_text(data.tasks)}"
        case decisions.JobStarting():
            return f"{job} was started"
        case decisions.ReservationDropped():
            return f"{job} lost its reservation ({data.reason})"
        case decisions.EvictionCancelled():
            return f"The eviction of {job} was cancelled ({without_stop(data.reason)})"
        case decisions.JobRequeued():
            return f"{job} was requeued ({data.outcome})"
        case decisions.JobEnded():
            return f"{job} ended ({data.outcome})"
        case decisions.EvictionDecided():
            return f"{job} was evicted"
        case decisions.MigrationDecided():
            return f"{job} was migrated"
        case decisions.MigrationRefused():
            return f"{job} was not migrated ({without_stop(data.reason)})"
        case facts.JobResumed():
            return f"{job} was resumed"
        case decisions.PreemptionRequested():
            return f"{job} requested preemption again"
    return None


def _request_outcome(request: int, selection: int) -> Conclusion:
    def conclusion(later: Record) -> str | None:
        data = later.data
        if isinstance(data, decisions.PreemptionDecided) and data.request == request:
            return _preempted_text(data)
        if isinstance(data, decisions.PreemptionRefused) and data.request == request:
            return f"Preemption for {data.preemptor.job} was refused, as {REFUSAL_REASONS[data.reason]},"
        if isinstance(data, decisions.SelectionTimedOut) and data.selection == selection:
            return "Victim selection timed out, and the request lapsed"
        return None

    return conclusion


def _preempted_text(data: decisions.PreemptionDecided) -> str:
    jobs = victims_of(data)
    if not jobs:
        return f"No eviction was needed for {data.preemptor.job}, as resources had become free,"
    return f"{first_names(jobs)} {was_or_were(jobs)} preempted by {data.preemptor.job}"


def _new_selection(later: Record, number: int) -> str | None:
    data = later.data
    if isinstance(data, decisions.PreemptionRequested) and data.selection > number:
        return f"Victim selection was started again, as selection {data.selection},"
    return None


def _same_task(later: Record, task: facts.TaskFact, kind: type[facts.TaskFact]) -> str | None:
    data = later.data
    if not isinstance(data, kind) or (data.job, data.attempt, data.task) != (task.job, task.attempt, task.task):
        return None
    if isinstance(data, facts.TaskExited):
        return "The task exited with unobserved status" if data.unobserved else f"The task exited with code {data.exit_code}"
    return "Its resources were released"


def _same_device(later: Record, device: facts.DeviceFact, kind: type[facts.DeviceFact]) -> str | None:
    data = later.data
    if isinstance(data, facts.NodeJoined) and data.node == device.node:
        healthy = any(each.id == device.device and each.healthy for each in data.devices)
        return f"Its node rejoined with {device.device} healthy" if kind is facts.DeviceHealthy and healthy else None
    if not isinstance(data, kind) or (data.node, data.device) != (device.node, device.device):
        return None
    return "It was healthy again" if isinstance(data, facts.DeviceHealthy) else "It was cleared"


def _node_reachable(later: Record, node: str) -> str | None:
    data = later.data
    if not isinstance(data, facts.NodeReachable | facts.NodeJoined | facts.NodeLost) or data.node != node:
        return None
    return f"{node} was declared lost" if isinstance(data, facts.NodeLost) else f"{node} was reachable again"


def _undrained(later: Record, node: str) -> str | None:
    data = later.data
    if isinstance(data, facts.NodeUndrained) and data.node == node:
        return f"{node} was undrained"
    return None


def _policy_replaced(later: Record) -> str | None:
    return "It was replaced" if isinstance(later.data, facts.PolicyApplied) else None
