"""What records may have changed for the bridge: one job, the nodes, nothing, or anything."""

from dataclasses import dataclass, field

from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Payload

QUIET: tuple[type[Payload], ...] = (
    facts.ClockAdvanced,
    facts.ClockStepped,
    facts.InputsAdvanced,
    facts.StateDigest,
    facts.ProposalReceived,
    facts.DeviceFact,
    decisions.SelectionTimedOut,
)
"""The bridge shows and does nothing that depends on them alone."""


@dataclass
class LogChanges:
    """jobs: those that may have changed. nodes: whether a node may have. submitted: whether there are new jobs. everything: look
    at all workloads."""

    jobs: set[str] = field(default_factory=set)
    nodes: bool = False
    submitted: bool = False
    everything: bool = False

    def note(self, data: Payload | None) -> None:
        """A record; None: of a type that changes nothing. A type that is not known here may have changed anything."""
        match data:
            case facts.JobSubmitted(demand=demand):
                self.jobs.add(demand.job)
                self.submitted = True
            case decisions.PreemptionDecided(preemptor=preemptor, victims=victims, cancelled_evictions=cancelled):
                self.jobs.update((preemptor.job, *(victim.job for victim in victims), *cancelled))
            case decisions.PreemptionRefused(preemptor=preemptor):
                self.jobs.add(preemptor.job)
            case _ if data is None or isinstance(data, QUIET):
                return
            case _ if isinstance(job := getattr(data, "job", None), str):
                self.jobs.add(job)
            case _ if isinstance(data, facts.NodesSilent) or hasattr(data, "node"):
                self.nodes = True
            case _:
                self.everything = True
