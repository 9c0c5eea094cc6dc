"""A workload, independent of the policy: machines, arrivals, failures, and the behaviour of jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bailiff_core.model.demand import JobDemand
from bailiff_core.records.facts import JobSubmitted, NodeJoined, TaskFact
from bailiff_core.records.payload import Fact

End = Literal["succeeded", "failed", "cancelled"]


class TimedReport(NamedTuple):
    """A node's report about a task, `after` µs from the start of this attempt's run."""

    attempt: int
    after: int
    fact: TaskFact


@dataclass(frozen=True, slots=True)
class Outcome:
    """Behaviour of a job, unknown to policies beforehand. Durations in µs.

    Attributes:
        run_time: Undisturbed work with all of its tasks.
        checkpoint_every: Work between its own checkpoints; None: it makes none.
        save_time: Time to save after an eviction notice; None: it ignores notices.
        restart_cost: Time before work continues in each attempt after the first.
        end: How it ends after its run time: by exit code, or cancelled by its owner.
        fails: Amounts of work, repeated work included and over all attempts, at which a task fails.
        refused: (attempt, task) of starts that the node refuses.
        reports: Other reports of its nodes.
    """

    run_time: int
    checkpoint_every: int | None = None
    save_time: int | None = None
    restart_cost: int = 0
    end: End = "succeeded"
    fails: tuple[int, ...] = ()
    refused: tuple[tuple[int, int], ...] = ()
    reports: tuple[TimedReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Outage:
    """A machine fails silently. back_after: time until its agent announces itself again, µs; None: never."""

    node: str
    back_after: int | None = None


class WorkloadEvent(NamedTuple):
    """An exogenous event at `time`, µs UTC: a fact as in the log, or an outage."""

    time: int
    event: Fact | Outage


@dataclass
class Workload:
    """Input of a simulation: made from files by the trace loaders, from an audit log by `bailiff_sim.from_log`.

    Attributes:
        nodes: Machines at the start.
        events: In time order; stable within one instant.
        outcomes: By job; a job without one runs until it is ended.
        about: Further fields of the manifest, as JSON.
        deadlines: Of jobs, µs UTC.
    """

    name: str
    begin: int
    nodes: Sequence[NodeJoined]
    events: Sequence[WorkloadEvent]
    outcomes: Mapping[str, Outcome]
    about: dict[str, object] = field(default_factory=dict)
    deadlines: dict[str, int] = field(default_factory=dict)

    def demands(self) -> Iterator[tuple[int, JobDemand]]:
        """Yields the submission time (µs UTC) and the demand of each job."""
        for time, event in self.events:
            if isinstance(event, JobSubmitted):
                yield time, event.demand

    def capacity(self) -> list[tuple[int, int]]:
        """Capacity as changes: (µs UTC, thousandths of GPUs). Machines that fail still count."""
        known: dict[str, int] = {}
        found: list[tuple[int, int]] = []
        joins = [(self.begin, node) for node in self.nodes]
        joins += [(time, event) for time, event in self.events if isinstance(event, NodeJoined)]
        for time, node in joins:
            gpu_milli = 1000 * len(node.devices)
            if gpu_milli != known.get(node.node, 0):
                found.append((time, gpu_milli - known.get(node.node, 0)))
                known[node.node] = gpu_milli
        return found

    @property
    def gpus(self) -> int:
        """Number of GPUs at the start."""
        return sum(len(node.devices) for node in self.nodes)
