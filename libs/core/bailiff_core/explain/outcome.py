"""What came of a record: the first later records that settle what it left open."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.words import duration_text

from .said import NAMED, Section, Sentence, clock, few, jobs_of, seqs_of, tasks_text, unstopped, victims_of, were
from .victims import REFUSALS

Tells = Callable[[Record], str | None]
Kinds = tuple[type[Payload], ...]

GETS_ROOM: Kinds = (decisions.JobPlaced, decisions.PreemptionDecided, decisions.JobEnded)
LEAVES: Kinds = (decisions.JobRequeued, decisions.JobShrunk, decisions.JobEnded, decisions.EvictionWithdrawn)
STARTS: Kinds = (decisions.JobStartOrdered, decisions.ReservationDropped, decisions.JobEnded)
ENDS: Kinds = (decisions.JobRequeued, decisions.JobEnded)
NEXT: dict[type[Payload], tuple[Kinds, str]] = {
    facts.JobSubmitted: (GETS_ROOM, "has got no place yet"),
    facts.JobCancelled: ((decisions.JobEnded,), "has not ended yet"),
    facts.JobEvictionAsked: ((decisions.EvictionDecided, decisions.ReservationDropped, *ENDS), "still has its place"),
    facts.JobPaused: ((facts.JobUnpaused, decisions.JobEnded), "is still paused"),
    facts.JobUnpaused: (GETS_ROOM, "waits still"),
    facts.JobMigrationAsked: ((decisions.MigrationDecided, decisions.MigrationRefused, *ENDS), "has not moved yet"),
    facts.DecisionFailed: ((decisions.JobEnded,), "is still held"),
    facts.EvictionBegun: (LEAVES, "is still on its way out"),
    facts.TaskStartRefused: (ENDS, ""),
    facts.TaskVanished: (ENDS, ""),
    decisions.JobWaits: (GETS_ROOM, "waits still"),
    decisions.JobRequeued: (GETS_ROOM, "waits still"),
    decisions.ReservationDropped: (GETS_ROOM, "waits still"),
    decisions.ScheduleTimedOut: (GETS_ROOM, "waits still"),
    decisions.JobAged: (GETS_ROOM, ""),
    decisions.JobStartOrdered: (ENDS, "still has this attempt"),
    decisions.JobShrunk: ((decisions.JobGrown, *ENDS), "still goes on without"),
    decisions.EvictionDecided: (LEAVES, "is still on its way out"),
    decisions.EvictionStuck: (LEAVES, "is still on its way out"),
    decisions.JobIdle: ((*LEAVES, facts.JobUnpaused), ""),
    decisions.MigrationDecided: (LEAVES, "is still on its way out"),
}


@dataclass
class _Open:
    """One thing that is still open. unsettled: what to say where no record settles it."""

    tells: Tells
    unsettled: str = ""
    settled: Sentence | None = None


class Outcome:
    """Shown the records after the one that it is about, in order, it knows what came of it."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._open = list(_left_open(record))

    @property
    def known(self) -> bool:
        """Nothing is open any more: later records add nothing."""
        return all(each.settled is not None for each in self._open)

    def take(self, later: Record) -> None:
        """The next record of the log."""
        for each in self._open:
            text = each.tells(later) if each.settled is None else None
            if text is not None:
                after = later.time - self._record.time
                when = f" at {clock(later.time)}" + (f", {duration_text(after)} later" if after else "")
                each.settled = Sentence(f"{text}{when}.", seqs_of(later.seq))

    def section(self) -> Section | None:
        """None where the record leaves nothing open."""
        says = [each.settled or Sentence(f"{each.unsettled}.") for each in self._open if each.settled or each.unsettled]
        return Section("What came of it?", tuple(says)) if says else None


def _left_open(record: Record) -> Iterable[_Open]:
    data = record.data
    match data:
        case decisions.PreemptionRequested():
            yield _Open(_answer_to(record.seq, data.selection), "Victim selection has not answered yet")
        case facts.ProposalReceived():
            for answer in data.answers[:NAMED]:
                yield _Open(_answer_to(answer.request, data.number))
        case decisions.PreemptionDecided():
            for job in victims_of(data)[:NAMED]:
                yield _of_job(job, LEAVES, "is still on its way out")
            yield _of_job(data.asker.job, STARTS, "has not started yet")
        case decisions.PreemptionRefused():
            yield _of_job(data.asker.job, (decisions.PreemptionRequested, *GETS_ROOM), "waits still")
        case decisions.JobPlaced() | decisions.JobGrown():
            yield _of_job(data.job, STARTS if data.reserved else ENDS, "waits for its room" if data.reserved else "still has it")
        case decisions.SelectionTimedOut():
            yield _Open(lambda later: _asked_again(later, data.number), "Nobody has been asked again yet")
        case facts.TaskStarted() | facts.EvictionStaged():
            yield _Open(lambda later: _same_task(later, data, facts.TaskExited), "The task has not ended yet")
        case facts.TaskExited():
            yield _Open(lambda later: _same_task(later, data, facts.TaskReleased), "Its room is not free yet")
        case facts.DeviceQuarantined() | facts.DeviceClearRequested():
            yield _Open(lambda later: _same_device(later, data, facts.DeviceCleared), "The device is still quarantined")
        case facts.DeviceUnhealthy():
            yield _Open(lambda later: _same_device(later, data, facts.DeviceHealthy), "The device is still out of use")
        case facts.ShareExceeded():
            yield _Open(lambda later: _same_task(later, data, facts.TaskExited), "The task has not ended yet")
        case facts.NodeUnreachable() | facts.NodeLost():
            yield _Open(lambda later: _node_back(later, data.node), f"{data.node} has not been heard of since")
        case facts.NodeDrained() | decisions.DrainDue():
            yield _Open(lambda later: _undrained(later, data.node), f"{data.node} still takes nothing new")
        case facts.PolicyApplied():
            yield _Open(_policy_replaced, "It is still in force")
        case _ if data is not None and type(data) in NEXT:
            kinds, unsettled = NEXT[type(data)]
            for job in jobs_of(record):
                yield _of_job(job, kinds, unsettled)


def _of_job(job: str, kinds: Kinds, unsettled: str) -> _Open:
    return _Open(
        lambda later: _milestone(later, job) if isinstance(later.data, kinds) else None, unsettled and f"{job} {unsettled}"
    )


def _milestone(later: Record, job: str) -> str | None:
    """What the record says of this job; `None` where it is about others."""
    data = later.data
    if isinstance(data, decisions.PreemptionDecided):
        return _leave_for(data) if data.asker.job == job else None
    if getattr(data, "job", None) != job:
        return None
    match data:
        case decisions.JobPlaced():
            return f"{job} had room reserved" if data.reserved else f"{job} got a place"
        case decisions.JobGrown():
            return f"{job} got more tasks"
        case decisions.JobShrunk():
            return f"{job} went on without {tasks_text(data.tasks)}"
        case decisions.JobStartOrdered():
            return f"{job} was told to start"
        case decisions.ReservationDropped():
            return f"{job} lost its reservation ({data.reason})"
        case decisions.EvictionWithdrawn():
            return f"{job} was let stay ({unstopped(data.reason)})"
        case decisions.JobRequeued():
            return f"{job} was back in the queue ({data.outcome})"
        case decisions.JobEnded():
            return f"{job} ended ({data.outcome})"
        case decisions.EvictionDecided():
            return f"{job} was told to leave"
        case decisions.MigrationDecided():
            return f"{job} was told to move"
        case decisions.MigrationRefused():
            return f"{job} was left where it is ({unstopped(data.reason)})"
        case facts.JobUnpaused():
            return f"{job} was let go on"
        case decisions.PreemptionRequested():
            return f"{job} asked for room again"
    return None


def _answer_to(request: int, selection: int) -> Tells:
    def tells(later: Record) -> str | None:
        data = later.data
        if isinstance(data, decisions.PreemptionDecided) and data.request == request:
            return _leave_for(data)
        if isinstance(data, decisions.PreemptionRefused) and data.request == request:
            return f"Refused to {data.asker.job}, as {REFUSALS[data.reason]},"
        if isinstance(data, decisions.SelectionTimedOut) and data.number == selection:
            return "Victim selection had not answered in time, and the request lapsed"
        return None

    return tells


def _leave_for(data: decisions.PreemptionDecided) -> str:
    jobs = victims_of(data)
    if not jobs:
        return f"Nobody had to leave for {data.asker.job}, as room had appeared,"
    return f"{few(jobs)} {were(jobs)} told to leave for {data.asker.job}"


def _asked_again(later: Record, number: int) -> str | None:
    data = later.data
    if isinstance(data, decisions.PreemptionRequested) and data.selection > number:
        return f"Victim selection was asked again, as selection {data.selection},"
    return None


def _same_task(later: Record, task: facts.TaskFact, kind: type[facts.TaskFact]) -> str | None:
    data = later.data
    if not isinstance(data, kind) or (data.job, data.attempt, data.task) != (task.job, task.attempt, task.task):
        return None
    if isinstance(data, facts.TaskExited):
        return "The task ended, unseen" if data.unseen else f"The task ended with exit code {data.exit_code}"
    return "Its room was free"


def _same_device(later: Record, device: facts.DeviceFact, kind: type[facts.DeviceFact]) -> str | None:
    data = later.data
    if isinstance(data, facts.NodeJoined) and data.node == device.node:
        back = any(each.id == device.device and each.healthy for each in data.devices)
        return f"Its node joined anew with {device.device} healthy" if kind is facts.DeviceHealthy and back else None
    if not isinstance(data, kind) or (data.node, data.device) != (device.node, device.device):
        return None
    return "It was in use again" if isinstance(data, facts.DeviceHealthy) else "It was cleared"


def _node_back(later: Record, node: str) -> str | None:
    data = later.data
    if not isinstance(data, facts.NodeReachable | facts.NodeJoined | facts.NodeLost) or data.node != node:
        return None
    return f"{node} was declared lost" if isinstance(data, facts.NodeLost) else f"{node} was back"


def _undrained(later: Record, node: str) -> str | None:
    data = later.data
    if isinstance(data, facts.NodeUndrained) and data.node == node:
        return f"{node} was given back to work"
    return None


def _policy_replaced(later: Record) -> str | None:
    return "It was replaced" if isinstance(later.data, facts.PolicyApplied) else None
