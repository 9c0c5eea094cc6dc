"""Admits what a workload asks for, as admission does: what it rejects becomes `InputRejected`."""

from bailiff_core.admission import PERMITTED, Context, Rejected, admit
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact

DEFAULT_PROJECT = "default"
NO_DIGEST = "0" * 64
ANY_SPEC = JobSpec(command="true", runtime="simulated")  # what ran is in no record


class Intake:
    """Takes exogenous facts into the log of a simulation. refused: reason per rejected job."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self.refused: dict[str, str] = {}

    def take(self, fact: Fact) -> Fact:
        """Returns the fact as it enters the log: completed, or replaced by `InputRejected`."""
        if isinstance(fact, facts.NodeJoined):
            known = self._state.node_numbers.get(fact.node)
            return fact.model_copy(update={"number": len(self._state.nodes) if known is None else known})
        if isinstance(fact, facts.JobSubmitted):
            asked = self._with_what_exists(fact.demand)
            in_some_project = asked.model_copy(update={"project": asked.project or next(iter(self._projects()), None)})
            body: facts.RequestBody = facts.SubmitJob(demand=in_some_project, spec=ANY_SPEC)
        elif isinstance(fact, facts.RequestFact) and not _is_cordon(fact):
            body = facts.body_of(fact)
        else:
            return fact
        found = admit(Context(self._state, PERMITTED, fact.request), body)
        if isinstance(found, Rejected):
            if isinstance(fact, facts.JobSubmitted):
                self.refused[fact.demand.job] = found.text
            return facts.InputRejected(
                topic="bailiff.requests",
                partition=0,
                offset=0,
                digest=NO_DIGEST,
                code=found.code,
                reason=found.text,
                job=found.job,
            )
        if isinstance(fact, facts.JobSubmitted) and isinstance(found, facts.JobSubmitted):
            demand = found.demand.model_copy(update={"after": fact.demand.after, "project": asked.project})
            return fact.model_copy(update={"demand": demand})  # its user and digest are those of the record
        return found

    def _with_what_exists(self, demand: JobDemand) -> JobDemand:
        """Another policy may have other projects, and reject jobs: unknown projects are `default`, such dependencies are met.

        A job without a project keeps none, as one that was accepted before there were projects.
        """
        names, project = self._projects(), demand.project
        if project not in names:
            project = DEFAULT_PROJECT if DEFAULT_PROJECT in names else project if names else None
        after = tuple(each for each in demand.after if each.job in self._state.jobs or each.job == demand.job)
        return demand.model_copy(update={"project": project, "after": after})

    def _projects(self) -> list[str]:
        return [each.name for each in self._state.rules.projects]


def _is_cordon(fact: facts.RequestFact) -> bool:
    """Whether the report of a node caused it: that Kubernetes has cordoned it, or does not any more."""
    return isinstance(fact, facts.NodeDrained | facts.NodeUndrained) and fact.request.source == f"node/{fact.node}"
