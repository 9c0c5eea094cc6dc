"""Validates exogenous facts as admission validates requests; invalid ones become `InputRejected`."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.document import Name
from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.model.units import next_unit
from bailiff_core.placement.feasibility import could_ever_fit
from bailiff_core.quota.quota_checks import never_within_bounds
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.scheduling_snapshot import current_snapshot

DEFAULT_PROJECT = "default"
NO_DIGEST = "0" * 64
JOB_REQUESTS = (
    facts.JobCancelled, facts.JobScaled, facts.JobPriorityClassChanged, facts.JobEvictionRequested, facts.JobPaused,
    facts.JobResumed,
    facts.JobMigrationRequested,
)  # fmt: skip


class Intake:
    """Validates exogenous facts against the current state. refused: reason per rejected job."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self.refused: dict[str, str] = {}

    def take(self, fact: Fact) -> Fact:
        """Returns the fact as it enters the log: completed, or replaced by `InputRejected`."""
        if isinstance(fact, facts.JobSubmitted):
            return self._submitted(fact)
        if isinstance(fact, JOB_REQUESTS):
            job = self._state.jobs.get(fact.job)
            if job is None or job.phase in ENDED:
                return rejected("unknown-job", f"there is no job {fact.job!r}", fact.job)
        if isinstance(fact, facts.NodeJoined):
            known = self._state.node_numbers.get(fact.node)
            return fact.model_copy(update={"number": len(self._state.nodes) if known is None else known})
        return fact

    def _submitted(self, fact: facts.JobSubmitted) -> Fact:
        state, demand = self._state, fact.demand
        rules = state.rules
        changed: dict[str, object] = {}
        if demand.max_failures is None:
            changed["max_failures"] = rules.restarts.max_failures
        if demand.elastic is None:
            changed["elastic"] = "restart"
        names = rules.projects
        if not names:
            changed |= {"project": None} if demand.project is not None else {}
        elif all(demand.project != each.name for each in names) and any(each.name == DEFAULT_PROJECT for each in names):
            changed["project"] = DEFAULT_PROJECT
        demand = demand.model_copy(update=changed) if changed else demand
        problem = self._problem(demand)
        if problem is not None:
            self.refused[demand.job] = problem
            return rejected("refused", problem, demand.job)
        return fact.model_copy(update={"demand": demand}) if changed else fact

    def _problem(self, demand: JobDemand) -> str | None:
        state = self._state
        if demand.job in state.jobs:
            return f"there is a job {demand.job!r} already"
        entry = state.rules.find_class(demand.priority_class)
        if entry is None:
            return f"there is no priority class {demand.priority_class!r}"
        if state.rules.projects and all(demand.project != each.name for each in state.rules.projects):
            return f"there is no project {demand.project!r}, and none called {DEFAULT_PROJECT!r}"
        if state.nodes and (obstacle := could_ever_fit(state, demand)) is not None:
            return obstacle
        preemptible = entry.preemptible if demand.preemptible is None else demand.preemptible
        job = Job(demand.job, 0, 0, demand, entry.name, entry.value, preemptible, True, "", project=demand.project or "")
        unit = next_unit(job)
        return (
            never_within_bounds(current_snapshot(state), unit) if unit is not None else "none of its tasks could ever be placed"
        )


def rejected(code: str, reason: str, job: Name) -> facts.InputRejected:
    """Returns the record of an input without effect."""
    return facts.InputRejected(
        topic="bailiff.requests", partition=0, offset=0, digest=NO_DIGEST, code=code, reason=reason[:2000], job=job
    )
