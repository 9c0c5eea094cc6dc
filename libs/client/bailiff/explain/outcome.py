"""What followed a record: the first later records that conclude what it started, in their own words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bailiff.render.record_text.lines import sentence
from bailiff_core.explain import Section, Sentence
from bailiff_core.explain.sentences import clock, shrunk_together
from bailiff_core.humanize import MAX_NAMED, duration_text
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts
from bailiff_core.records.payload import Payload
from bailiff_core.records.subjects import jobs_of, victims_of

Kinds = tuple[type[Payload], ...]
About = tuple[object, ...]
"""What a record is about: `("job", name)`, `("task", job, attempt, task)`, `("device", node, id)`, `("node", name)`, …"""

PLACED: Kinds = (decisions.JobPlaced, decisions.PreemptionDecided, decisions.JobEnded)
EVICTION_ENDS: Kinds = (
    decisions.JobRequeued,
    decisions.JobShrunk,
    decisions.JobEnded,
    decisions.EvictionCancelled,
    facts.TaskEvictionCancelled,
    facts.TaskCancelEvictionRefused,
)
STARTS: Kinds = (decisions.JobStarting, decisions.ReservationDropped, decisions.JobEnded)
ENDS: Kinds = (decisions.JobRequeued, decisions.JobEnded)
ANSWERS: Kinds = (decisions.PreemptionDecided, decisions.PreemptionRefused, decisions.SelectionTimedOut)
NEXT: Mapping[type[Payload], tuple[Kinds, str]] = {
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
    facts.TaskStarted: ((facts.TaskExited,), "The task has not exited yet"),
    facts.EvictionStageReached: ((facts.TaskExited,), "The task has not exited yet"),
    facts.ShareExceeded: ((facts.TaskExited,), "The task has not exited yet"),
    facts.TaskExited: ((facts.TaskReleased,), "Its resources are not released yet"),
    facts.DeviceQuarantined: ((facts.DeviceCleared,), "The device is still quarantined"),
    facts.DeviceClearRequested: ((facts.DeviceCleared,), "The device is still quarantined"),
    facts.DeviceUnhealthy: ((facts.DeviceHealthy, facts.NodeJoined), "The device is still unhealthy"),
    facts.NodeUnreachable: ((facts.NodeReachable, facts.NodeJoined, facts.NodeLost), "has not reported since"),
    facts.NodeLost: ((facts.NodeReachable, facts.NodeJoined), "has not reported since"),
    facts.NodeDrained: ((facts.NodeUndrained,), "is still drained"),
    facts.PolicyApplied: ((facts.PolicyApplied,), "It is still in force"),
    decisions.MaintenanceBegan: ((decisions.MaintenanceEnded, facts.NodeUndrained), "is still in maintenance"),
    decisions.DrainDeadlineReached: ((facts.NodeUndrained,), "is still drained"),
    decisions.JobPending: (PLACED, "is still pending"),
    decisions.JobRequeued: (PLACED, "is still pending"),
    decisions.ReservationDropped: (PLACED, "is still pending"),
    decisions.ScheduleTimedOut: (PLACED, "is still pending"),
    decisions.JobPriorityBoosted: (PLACED, ""),
    decisions.JobStarting: (ENDS, "is still in this attempt"),
    decisions.JobShrunk: ((decisions.JobGrown, *ENDS), "still runs without them"),
    decisions.EvictionDecided: (EVICTION_ENDS, "is still being evicted"),
    decisions.GraceShortened: (EVICTION_ENDS, "is still being evicted"),
    decisions.EvictionStuck: (EVICTION_ENDS, "is still being evicted"),
    decisions.JobIdle: ((*EVICTION_ENDS, facts.JobResumed), ""),
    decisions.MigrationDecided: (EVICTION_ENDS, "is still being evicted"),
    decisions.SelectionTimedOut: ((decisions.PreemptionRequested,), "No new selection has started yet"),
}
"""By type: the records that conclude it if they are about the same, and the sentence until one does, without its subject."""


@dataclass
class _Open:
    """One thing that the record started. still_open: the sentence while no record concludes it; empty: none.

    leaving: of a job that only shrinks, the evicted tasks that are not gone yet. concluding: several for such a job, whose tasks
    release their resources one by one.
    """

    about: tuple[About, ...]
    kinds: Kinds
    still_open: str
    leaving: set[int] = field(default_factory=set)
    concluding: list[Record] = field(default_factory=list)
    concluded: bool = False

    def take(self, later: Record) -> None:
        """A later record of one of the kinds."""
        self.concluding.append(later)
        if isinstance(later.data, decisions.JobShrunk):
            self.leaving.difference_update(numbers(later.data.tasks))
            self.concluded = not self.leaving
        elif isinstance(later.data, decisions.EvictionCancelled):
            self.concluded = not later.data.notified  # else its nodes have the last word
        else:
            self.concluded = not isinstance(later.data, facts.TaskCancelEvictionRefused)


class Outcome:
    """Collects what followed a record, from the later records in order."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._open = list(_open_outcomes(record))

    @property
    def known(self) -> bool:
        """Whether everything is concluded, so that later records add nothing."""
        return all(each.concluded for each in self._open)

    def take(self, later: Record) -> None:
        """Process the next record of the log."""
        found = dict.fromkeys(_about(later))
        for each in self._open:
            if not each.concluded and isinstance(later.data, each.kinds) and any(about in found for about in each.about):
                each.take(later)

    def section(self, state: PoolState) -> Section | None:
        """The section about what followed; None if the record starts nothing.

        Args:
            state: A state with the names of the nodes.
        """
        sentences = []
        for each in self._open:
            for found, seqs in shrunk_together(each.concluding):
                after = found.time - self._record.time
                when = f"At {clock(found.time)}" + (f", {duration_text(after)} later" if after else "")
                sentences.append(Sentence(f"{when}: {sentence(found, state)}", seqs))
            if each.still_open and not each.concluding:
                sentences.append(Sentence(f"{each.still_open}."))
        return Section("What happened next?", tuple(sentences)) if sentences else None


def _open_outcomes(record: Record) -> Iterator[_Open]:
    data = record.data
    match data:
        case decisions.PreemptionRequested():
            answered = (("request", record.seq), ("timeout", data.selection))
            yield _Open(answered, ANSWERS, "Victim selection has not finished yet")
        case facts.ProposalReceived():
            for proposal in data.proposals[:MAX_NAMED]:
                yield _Open((("request", proposal.request), ("timeout", data.selection)), ANSWERS, "")
        case decisions.PreemptionDecided():
            for job in victims_of(data)[:MAX_NAMED]:
                choices = [choice for choice in data.victims if choice.job == job]
                yield _Open((("job", job),), EVICTION_ENDS, f"{job} is still being evicted", _tasks_of(*choices))
            yield _Open((("job", data.preemptor.job),), STARTS, f"{data.preemptor.job} has not started yet")
        case decisions.PreemptionRefused():
            job = data.preemptor.job
            yield _Open((("job", job),), (decisions.PreemptionRequested, *PLACED), f"{job} is still pending")
        case decisions.JobPlaced() | decisions.JobGrown():
            waits = f"{data.job} still waits for its resources"
            yield _Open((("job", data.job),), *((STARTS, waits) if data.reserved else (ENDS, f"{data.job} is still placed")))
        case _ if data is not None and type(data) in NEXT:
            kinds, still_open = NEXT[type(data)]
            for about in _about(record)[:1]:
                subject = "" if still_open[:1].isupper() or not still_open else f"{about[1]} "
                yield _Open((about,), kinds, f"{subject}{still_open}", _tasks_of(data))


def _tasks_of(*evictions: object) -> set[int]:
    """The tasks that these evict; none for whole jobs, or if they evict nothing."""
    if not all(isinstance(each, decisions.EvictionDecided | VictimChoice) for each in evictions):
        return set()
    return {index for each in evictions for index in numbers(getattr(each, "tasks", ""))}


def _about(record: Record) -> list[About]:
    """What the record is about, most precisely first."""
    data = record.data
    match data:
        case facts.TaskStartRefused() | facts.TaskVanished():
            return [("job", data.job)]
        case facts.TaskEvictionCancelled() | facts.TaskCancelEvictionRefused():
            return [("task", data.job, data.attempt, data.task), ("job", data.job)]
        case facts.TaskFact():
            return [("task", data.job, data.attempt, data.task)]
        case facts.DeviceFact():
            return [("device", data.node, data.device)]
        case facts.NodeJoined():
            return [("node", data.node), *(("device", data.node, each.id) for each in data.devices if each.healthy)]
        case facts.PolicyApplied():
            return [("policy",)]
        case decisions.SelectionTimedOut():
            return [("selection",), ("timeout", data.selection)]
        case decisions.PreemptionRequested():
            return [("selection",), ("job", data.job)]
        case decisions.PreemptionDecided() | decisions.PreemptionRefused():
            return [("job", data.preemptor.job), ("request", data.request)]
    node = getattr(data, "node", None)
    return [("job", job) for job in jobs_of(record)] or ([("node", node)] if node else [])
