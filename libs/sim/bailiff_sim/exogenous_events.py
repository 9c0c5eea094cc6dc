"""Exogenous events of a log, in log order: arrivals, machines, failures, operator requests, policies."""

from collections import Counter

from bailiff_core.humanize import count_text
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record, facts
from bailiff_core.records.payload import Fact, Payload

from .job_observations import Observation
from .workload import Happening, Outage

BY_HAND = (
    facts.JobCancelled, facts.JobScaled, facts.JobPriorityClassChanged, facts.JobEvictionRequested, facts.JobPaused,
    facts.JobResumed,
    facts.JobMigrationRequested,
)  # fmt: skip
MACHINES = (
    facts.NodeDrained, facts.NodeUndrained, facts.NodeReturned, facts.DeviceUnhealthy, facts.DeviceHealthy, facts.DeviceCleared,
)  # fmt: skip
NOT_CARRIED: dict[type[Payload], tuple[str, str]] = {
    facts.TaskCancelEvictionRefused: ("notice", "had been taken back too late: in a simulation none is"),
    facts.TaskVanished: ("task", "had gone when the node was heard again: in a simulation it is there"),
}


class ExogenousEvents:
    """happenings: for a `Workload`. policies: when each was applied, by which record. nodes: that were there from the start."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []
        self.policies: list[tuple[int, int, Policy]] = []
        self.nodes: list[facts.NodeJoined] = []
        self._set_aside = self._writers = 0
        self._not_carried = Counter[type[Payload]]()
        self._jobs = 0
        self._boots: dict[str, str] = {}
        self._silent: dict[str, tuple[int, facts.NodeUnreachable]] = {}
        self._down: dict[str, int] = {}

    def note(self, record: Record, observation: Observation) -> None:
        """What this record brings; the observation has seen it already."""
        fact, now = record.data, record.time
        if isinstance(fact, facts.PolicyApplied):
            self.policies.append((now, record.seq, fact.policy))
        elif isinstance(fact, facts.JobSubmitted):
            self._jobs += 1
            demand = fact.demand
            meant = {"max_failures": demand.max_failures or 0, "elastic": demand.elastic or "live"}
            demand = demand.model_copy(update={**meant, "job": observation.jobs[record.seq].name})
            self._add(now, fact.model_copy(update={"demand": demand}))
        elif isinstance(fact, BY_HAND):
            live = observation.name_of(fact.job)
            if live is not None:
                self._add(now, fact.model_copy(update={"job": live}))
        elif isinstance(fact, facts.NodeJoined):
            self._joined(now, fact)
        elif isinstance(fact, MACHINES):
            self._add(now, fact)
        elif isinstance(fact, facts.DeviceQuarantined):
            self._set_aside += 1
            self._add(now, fact.model_copy(update={"job": None, "attempt": None, "task": None}))
        elif isinstance(fact, facts.WriterStarted):
            self._writers += 1
        elif fact is not None and type(fact) in NOT_CARRIED:
            self._not_carried[type(fact)] += 1
        elif isinstance(fact, facts.NodeUnreachable):
            self._silent[fact.node] = now, fact
        elif isinstance(fact, facts.NodeReachable):
            self._was_silent(fact.node)
            self._add(now, fact)
        elif isinstance(fact, facts.NodeLost):
            self._silent.pop(fact.node, None)
            self._down[fact.node] = fact.last_contact

    def finish(self) -> None:
        """Machines that are still silent or lost when the log ends."""
        for node in list(self._silent):
            self._was_silent(node)
        for node, since in self._down.items():
            self._add(since, Outage(node))
        self.happenings.sort(key=lambda each: each.time)

    def assumptions(self) -> list[str]:
        """What of it may be otherwise under another policy, and what is left out, as sentences."""
        left_out = ((count, *NOT_CARRIED[kind]) for kind, count in self._not_carried.items())
        said = [f"{count_text(count, thing)} {sentence}" for count, thing, sentence in left_out]
        if self._set_aside:
            said.append(
                f"a GPU was set aside (quarantined) {count_text(self._set_aside, 'time')}: it is so at the same moments under "
                "every policy, whoever stood there before"
            )
        if self._writers > 1:
            again = count_text(self._writers - 1, "time")
            said.append(f"the log's writer was replaced or started again {again}: in a simulation it never waits")
        return said

    def _joined(self, now: int, fact: facts.NodeJoined) -> None:
        booted = self._boots.get(fact.node, fact.boot_id) != fact.boot_id
        known = fact.node in self._boots
        self._boots[fact.node] = fact.boot_id
        silent = self._silent.get(fact.node)
        down = self._down.pop(fact.node, None)
        if down is None and booted:
            self._silent.pop(fact.node, None)
            down = silent[1].last_contact if silent is not None else now
        if down is not None:
            self._add(down, Outage(fact.node, max(0, now - down)))
            return
        self._was_silent(fact.node)
        if not known and not self._jobs:
            self.nodes.append(fact)
        else:
            self._add(now, fact)

    def _was_silent(self, node: str) -> None:
        silent = self._silent.pop(node, None)
        if silent is not None:
            self._add(*silent)

    def _add(self, time: int, what: Fact | Outage) -> None:
        self.happenings.append(Happening(time, what))
