"""Which facts from outside a pool can take, as admission judges requests: the rest becomes `InputRejected`."""

from bailiff_core.model.demand import JobDemand
from bailiff_core.model.document import Name
from bailiff_core.model.pool import ENDED, Job, Pool
from bailiff_core.model.units import next_unit
from bailiff_core.placement.ever import could_ever_fit
from bailiff_core.queue.gates import never_within_bounds
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.scene import scene_of

DEFAULT_PROJECT = "default"
NO_DIGEST = "0" * 64
ABOUT_A_JOB = (
    facts.JobCancelled, facts.JobScaled, facts.JobReclassified, facts.JobEvictionAsked, facts.JobPaused, facts.JobUnpaused,
    facts.JobMigrationAsked,
)  # fmt: skip


class Intake:
    """Judges what comes from outside on the state as it is. refused: jobs that were not accepted, each with a sentence."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.refused: dict[str, str] = {}

    def take(self, fact: Fact) -> Fact:
        """The fact as it enters the log."""
        if isinstance(fact, facts.JobSubmitted):
            return self._submitted(fact)
        if isinstance(fact, ABOUT_A_JOB):
            job = self._pool.jobs.get(fact.job)
            if job is None or job.phase in ENDED:
                return rejected("unknown-job", f"there is no job {fact.job!r}", fact.job)
        if isinstance(fact, facts.NodeJoined):
            known = self._pool.node_numbers.get(fact.node)
            return fact.model_copy(update={"number": len(self._pool.nodes) if known is None else known})
        return fact

    def _submitted(self, fact: facts.JobSubmitted) -> Fact:
        pool, demand = self._pool, fact.demand
        rules = pool.rules
        changed: dict[str, object] = {}
        if demand.max_failures is None:
            changed["max_failures"] = rules.restarts.max_failures
        if demand.elastic is None:
            changed["elastic"] = "restart"
        names = rules.projects
        if not names:
            changed["project"] = None
        elif all(demand.project != each.name for each in names) and any(each.name == DEFAULT_PROJECT for each in names):
            changed["project"] = DEFAULT_PROJECT
        demand = demand.model_copy(update=changed)
        problem = self._problem(demand)
        if problem is not None:
            self.refused[demand.job] = problem
            return rejected("refused", problem, demand.job)
        return fact.model_copy(update={"demand": demand})

    def _problem(self, demand: JobDemand) -> str | None:
        pool = self._pool
        if demand.job in pool.jobs:
            return f"there is a job {demand.job!r} already"
        entry = pool.rules.find_class(demand.priority_class)
        if entry is None:
            return f"there is no priority class {demand.priority_class!r}"
        if pool.rules.projects and all(demand.project != each.name for each in pool.rules.projects):
            return f"there is no project {demand.project!r}, and none called {DEFAULT_PROJECT!r}"
        if pool.nodes and (obstacle := could_ever_fit(pool, demand)) is not None:
            return obstacle
        preemptible = entry.preemptible if demand.preemptible is None else demand.preemptible
        job = Job(demand.job, 0, 0, demand, entry.name, entry.value, preemptible, True, "", project=demand.project or "")
        unit = next_unit(job)
        return never_within_bounds(scene_of(pool), unit) if unit is not None else "none of its tasks could ever be placed"


def rejected(code: str, reason: str, job: Name) -> facts.InputRejected:
    """The record of an input without effect."""
    return facts.InputRejected(
        topic="bailiff.requests", partition=0, offset=0, digest=NO_DIGEST, code=code, reason=reason[:2000], job=job
    )
