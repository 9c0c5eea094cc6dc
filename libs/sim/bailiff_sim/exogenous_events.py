"""Exogenous events of a log, in log order: arrivals, machines, failures, operator requests, policies."""

from collections import Counter

from bailiff_core.humanize import count_text
from bailiff_core.model.demand import Dependency, JobDemand
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record, facts
from bailiff_core.records.payload import Fact, Payload
from bailiff_core.records.request import RECORDS

from .job_observations import Observation
from .workload import Outage, WorkloadEvent

JOB_CHANGES = {record for body, record in RECORDS.items() if issubclass(body, facts.JobChange)}
NODE_FACTS = (
    facts.NodeDrained,
    facts.NodeUndrained,
    facts.NodeReturned,
    facts.DeviceUnhealthy,
    facts.DeviceHealthy,
    facts.DeviceCleared,
)
NOT_CARRIED: dict[type[Payload], tuple[str, str]] = {
    facts.TaskCancelEvictionRefused: ("eviction", "had been cancelled too late; in a simulation every cancellation is in time"),
    facts.TaskVanished: ("task", "had been missing when its node reported again; in a simulation no task goes missing"),
}


class ExogenousEvents:
    """Collects the events of a `Workload`.

    Attributes:
        policies: Time and seq of each application.
        nodes: Those of the start.
    """

    def __init__(self) -> None:
        self.events: list[WorkloadEvent] = []
        self.policies: list[tuple[int, int, Policy]] = []
        self.nodes: list[facts.NodeJoined] = []
        self._quarantined = self._writers = 0
        self._not_carried = Counter[type[Payload]]()
        self._jobs = self._waiting = self._unknown_dependencies = 0
        self._names: dict[str, str] = {}  # of the newest job of each name
        self._boots: dict[str, str] = {}
        self._unreachable: dict[str, tuple[int, facts.NodeUnreachable]] = {}
        self._down: dict[str, int] = {}

    def note(self, record: Record, observation: Observation) -> None:
        """Adds the events of a record. `observation` must have been fed with it before."""
        fact, now = record.data, record.time
        if isinstance(fact, facts.PolicyApplied):
            self.policies.append((now, record.seq, fact.policy))
        elif isinstance(fact, facts.JobSubmitted):
            self._jobs += 1
            demand = fact.demand
            defaults = {"max_failures": demand.max_failures or 0, "elastic": demand.elastic or "live"}
            name = observation.jobs[record.seq].name
            demand = demand.model_copy(update={**defaults, "job": name, "after": self._after(demand)})
            self._names[fact.demand.job] = name
            self._add(now, fact.model_copy(update={"demand": demand}))
        elif isinstance(fact, facts.RequestFact) and type(fact) in JOB_CHANGES:
            live = observation.name_of(str(getattr(fact, "job", "")))
            if live is not None:
                self._add(now, fact.model_copy(update={"job": live}))
        elif isinstance(fact, facts.NodeJoined):
            self._joined(now, fact)
        elif isinstance(fact, NODE_FACTS):
            self._add(now, fact)
        elif isinstance(fact, facts.DeviceQuarantined):
            self._quarantined += 1
            self._add(now, fact.model_copy(update={"job": None, "attempt": None, "task": None}))
        elif isinstance(fact, facts.WriterStarted):
            self._writers += 1
        elif fact is not None and type(fact) in NOT_CARRIED:
            self._not_carried[type(fact)] += 1
        elif isinstance(fact, facts.NodeUnreachable):
            self._unreachable[fact.node] = now, fact
        elif isinstance(fact, facts.NodeReachable):
            self._add_silence(fact.node)
            self._add(now, fact)
        elif isinstance(fact, facts.NodeLost):
            self._unreachable.pop(fact.node, None)
            self._down[fact.node] = fact.last_contact

    def finish(self) -> None:
        """Adds machines that are still silent or lost at the end of the log, and sorts the events."""
        for node in list(self._unreachable):
            self._add_silence(node)
        for node, since in self._down.items():
            self._add(since, Outage(node))
        self.events.sort(key=lambda each: each.time)

    def _after(self, demand: JobDemand) -> tuple[Dependency, ...]:
        """The dependencies of a job, by the names in the workload; without those on jobs that the log does not have."""
        known = [each for each in demand.after if each.job in self._names]
        self._waiting += bool(demand.after)
        self._unknown_dependencies += len(demand.after) - len(known)
        return tuple(each.model_copy(update={"job": self._names[each.job]}) for each in known)

    def assumptions(self) -> list[str]:
        """Returns sentences: what could differ under another policy, and what is left out."""
        left_out = ((count, *NOT_CARRIED[kind]) for kind, count in self._not_carried.items())
        found = [f"{count_text(count, thing)} {sentence}" for count, thing, sentence in left_out]
        if self._quarantined:
            found.append(
                f"a GPU was quarantined {count_text(self._quarantined, 'time')}: this happens at the same times under every "
                "policy, whichever job used the GPU before"
            )
        if self._waiting:
            text = "waited for other jobs (--after): under every policy it starts only after their end there"
            found.append(f"{count_text(self._waiting, 'job')} {text}")
        if self._writers > 1:
            times = count_text(self._writers - 1, "time")
            found.append(f"the log's writer was replaced or restarted {times}; a simulation has no such pause")
        return found

    def not_simulated(self) -> list[str]:
        """Sentences for the headline: what the log has and a simulation leaves out."""
        if not self._unknown_dependencies:
            return []
        times = count_text(self._unknown_dependencies, "time")
        return [f"not simulated: a dependency (--after) on a job that the log does not have, {times}; it counts as met"]

    def _joined(self, now: int, fact: facts.NodeJoined) -> None:
        booted = self._boots.get(fact.node, fact.boot_id) != fact.boot_id
        known = fact.node in self._boots
        self._boots[fact.node] = fact.boot_id
        silent = self._unreachable.get(fact.node)
        down = self._down.pop(fact.node, None)
        if down is None and booted:
            self._unreachable.pop(fact.node, None)
            down = silent[1].last_contact if silent is not None else now
        if down is not None:
            self._add(down, Outage(fact.node, max(0, now - down)))
            return
        self._add_silence(fact.node)
        if not known and not self._jobs:
            self.nodes.append(fact)
        else:
            self._add(now, fact)

    def _add_silence(self, node: str) -> None:
        silent = self._unreachable.pop(node, None)
        if silent is not None:
            self._add(*silent)

    def _add(self, time: int, event: Fact | Outage) -> None:
        self.events.append(WorkloadEvent(time, event))
