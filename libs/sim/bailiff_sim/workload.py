"""A workload, independent of the policy: machines, arrivals, failures, and the behaviour of jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bailiff_core.model.demand import JobDemand
from bailiff_core.records.facts import JobSubmitted, NodeJoined, TaskFact
from bailiff_core.records.payload import Fact

End = Literal["succeeded", "failed", "cancelled"]


class TimedReport(NamedTuple):
    """What a node says of a task so long (µs) after this attempt of its job began to run."""

    attempt: int
    after: int
    fact: TaskFact


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job behaves; no policy knows any of it beforehand. All times in µs.

    run_time: undisturbed work with all of its tasks. checkpoint_every: work between two checkpoints of its own; None: it makes
    none. save_time: how long it takes to save once it is told to leave; None: it does not listen for that. restart_cost: what
    each attempt after the first takes before work goes on. end: how it ends after its run time, by its own exit code, or
    because its owner cancels it then. fails: before that, each time that so much of its work is done or done again (all attempts
    together), a member fails. refused: attempts and members whose start the node refuses. says: what else nodes report of it.
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
    """A machine fails without a word. back_after: until its agent announces itself again, µs; None: never."""

    node: str
    back_after: int | None = None


class Happening(NamedTuple):
    """Something from outside at a moment (µs UTC): a fact as the log holds it, or a machine that fails."""

    time: int
    what: Fact | Outage


@dataclass
class Workload:
    """A trace, ready to be simulated. Loaders make it from files, `bailiff_sim.from_log` from an audit log.

    nodes: the machines that are there from the start. happenings: in order of time; their order is kept within one instant.
    outcomes: by job; one that is not named runs until somebody ends it. about: what else the manifest says of it, as JSON.
    deadlines: by when the owner of a job wants it to have ended, µs UTC.
    """

    name: str
    begin: int
    nodes: Sequence[NodeJoined]
    happenings: Sequence[Happening]
    outcomes: Mapping[str, Outcome]
    about: dict[str, object] = field(default_factory=dict)
    deadlines: dict[str, int] = field(default_factory=dict)

    def demands(self) -> Iterator[tuple[int, JobDemand]]:
        """When each job is submitted, and what it asks for."""
        for time, what in self.happenings:
            if isinstance(what, JobSubmitted):
                yield time, what.demand

    def capacity(self) -> list[tuple[int, int]]:
        """How many GPUs there are, as changes: moments, µs UTC, and thousandths of GPUs. A machine that fails counts on."""
        there: dict[str, int] = {}
        found: list[tuple[int, int]] = []
        joins = [(self.begin, node) for node in self.nodes]
        joins += [(time, what) for time, what in self.happenings if isinstance(what, NodeJoined)]
        for time, node in joins:
            gpu_milli = 1000 * len(node.devices)
            if gpu_milli != there.get(node.node, 0):
                found.append((time, gpu_milli - there.get(node.node, 0)))
                there[node.node] = gpu_milli
        return found

    @property
    def gpus(self) -> int:
        """GPUs of the machines that are there from the start."""
        return sum(len(node.devices) for node in self.nodes)
