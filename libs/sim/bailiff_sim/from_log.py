"""Builds a workload from an audit log: its arrivals, machines, failures, operator requests and job durations.

    observed = from_log(records)
    Simulation(observed.workload, policy, delays=observed.delays).run()

What the log shows is taken as it is. What it cannot show is assumed, and `assumptions` says what and for how many jobs.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import median_low

from bailiff_core.humanize import count_text, nearest_text
from bailiff_core.model.policy import Policy
from bailiff_core.records import Record, facts

from .exogenous_events import ExogenousEvents
from .job_observations import JobObservation, Observation
from .run_stats import RunStats
from .timeline import Delays
from .workload import Happening, Outcome, Workload


@dataclass
class FromLog:
    """A log as a workload, and what really happened. policies: whenever one was applied, with its time and seq, the first first.

    recorded: figures of what happened until `end`, kept by the simulation's rules. begin, end: µs UTC. seqs: names of jobs
    here by the seq of their submission; a name that came again is another one here.
    """

    workload: Workload
    delays: Delays
    policies: Sequence[tuple[int, int, Policy]]
    recorded: RunStats
    begin: int
    end: int
    seqs: dict[int, str]
    assumptions: list[str]

    def under(self, policy: Policy | None, since: int | None = None) -> tuple[Policy, Workload]:
        """The first policy and the workload under which to simulate: those of the log, or from `since` (µs) on this one."""
        changes = self.policies[1:]
        if policy is not None:
            changes = [each for each in changes if since is not None and each[0] < since]
            if since is not None and since > self.begin:
                changes = [*changes, (since, -1, policy)]
        first = policy if policy is not None and (since is None or since <= self.begin) else self.policies[0][2]
        applied = [Happening(time, facts.PolicyApplied(policy=new.complete())) for time, _, new in changes]
        merged = sorted([*applied, *self.workload.happenings], key=lambda each: each.time)
        about = self.workload
        return first, Workload(about.name, about.begin, about.nodes, merged, about.outcomes, about.about)


def from_log(records: Iterable[Record], name: str = "log", to: int | None = None) -> FromLog:
    """The workload of a log, which begins with its first record. Raises `ValueError` where there is nothing to simulate.

    to: figures of what happened end there (µs UTC); how long jobs took is known from what comes after, too.
    """
    observation, events, recorded = Observation(), ExogenousEvents(), None
    for record in records:
        if recorded is None and to is not None and record.time > to:
            recorded, end = deepcopy(observation.finish()), to
        observation.feed(record)
        events.note(record, observation)
    if not observation.jobs:
        raise ValueError("no job was submitted in it, so there is nothing to decide under another policy")
    if recorded is None:
        recorded, end = observation.finish(), observation.state.now
    events.finish()
    seen = list(observation.jobs.values())
    outcomes, assumptions = _outcomes(seen)
    for job, figures in recorded.jobs.items():
        figures.run_time = outcomes[job].run_time
    measured = _delays(observation)
    workload = Workload(name, observation.begin, events.nodes, events.happenings, outcomes, {"from": "log"})
    seqs = {seq: each.name for seq, each in observation.jobs.items()}
    return FromLog(
        workload, measured, events.policies, recorded, observation.begin, end, seqs,
        [*assumptions, *events.assumptions(), *_about(measured)],
    )  # fmt: skip


def _outcomes(seen: Sequence[JobObservation]) -> tuple[dict[str, Outcome], list[str]]:
    habits = _SaveTimes(seen)
    found, counts = {}, Counter[str]()
    for job in seen:
        counts["unfinished" if job.outcome is None else "cancelled" if job.cancelled else "known"] += 1
        counts["never told"] += not job.told
        counts["refused"] += bool(job.refused)
        counts["said"] += bool(job.reports)
        counts["too soon"] += bool(job.too_soon)
        every = _interval(job.saved_at)
        known = job.outcome in ("succeeded", "failed") and not job.cancelled
        found[job.name] = Outcome(
            run_time=job.work.done if known else 1 << 62,
            checkpoint_every=every,
            save_time=habits.save_time(job),
            end="failed" if job.outcome == "failed" else "succeeded",
            fails=tuple(job.fails),
            refused=tuple(job.refused),
            reports=tuple(job.reports),
        )
    sentences = {
        "unfinished": "had not ended when the log ends: how long such a job takes is not known, so it runs on to the end",
        "cancelled": "had been cancelled by a person: that happens at the same moment, however far the job is then",
        "refused": "had a start refused by a node: the same attempt is refused under every policy, on whichever node",
        "said": "had idle GPUs, or used more than the share of one that was asked for: nodes say so as long after the "
        "same attempt began to run, and what follows from it is the policy's",
        "too soon": "had idle GPUs before all tasks ran: that is left out",
        "never told": "had never been told to leave: such a job is taken to save as most of its class did",
    }
    return found, [f"{count_text(counts[what], 'job')} {sentence}" for what, sentence in sentences.items() if counts[what]]


class _SaveTimes:
    """How jobs that were told to leave did: by class, and all together."""

    def __init__(self, seen: Sequence[JobObservation]) -> None:
        self._of: dict[str, tuple[int, list[int]]] = {}
        for job in seen:
            for key in ("", job.class_name):
                told, saves = self._of.get(key, (0, []))
                self._of[key] = told + job.told, [*saves, *job.saves]

    def save_time(self, job: JobObservation) -> int | None:
        """From the notice to the checkpoint, µs; None: it makes none."""
        if job.told:
            return median_low(job.saves) if job.saves else None
        told, saves = self._of[job.class_name]
        if not told:
            told, saves = self._of[""]
        return median_low(saves) if 2 * len(saves) > told else None


def _interval(saved_at: Sequence[int]) -> int | None:
    """Between checkpoints of its own, in work; what is reported is not every one, so this is at most too long."""
    steps = [later - sooner for sooner, later in zip([0, *saved_at], saved_at, strict=False) if later > sooner]
    return median_low(steps) if steps else None


def _delays(observation: Observation) -> Delays:
    """Each as it was seen, and the median for those that were not."""
    usual: dict[str, int] = {}
    for what in ("start", "release", "selection", "leave"):
        seen = [took for (kind, _, _), took in observation.took.items() if kind == what]
        usual[what] = median_low(seen) if seen else 0
    return Delays(**usual, seen=observation.took)


def _about(delays: Delays) -> list[str]:
    start, release, selection, leave = (
        nearest_text(each) for each in (delays.start, delays.release, delays.selection, delays.leave)
    )
    usual = f"a start {start}, an exit without saving {leave}, a release {release}, a selection {selection}"
    return [
        f"what did not happen in the log takes as long as it usually did there (medians): {usual}",
        "a job works at the same speed wherever it stands, and a restart costs nothing beyond the work that is done again",
    ]
