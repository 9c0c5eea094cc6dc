"""Builds a workload from an audit log: its arrivals, machines, failures, operator requests and job durations.

    observed = from_log(records)
    Simulation(observed.workload, policy, delays=observed.delays).run()

What the log has is used as recorded. The rest is assumed; `assumptions` lists it with the number of jobs concerned.
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
from .workload import Outcome, Workload, WorkloadEvent


@dataclass
class FromLog:
    """A log as a workload, with the recorded statistics. policies: (time, seq, policy) of each application, in log order.

    recorded: statistics until `end`, computed as those of a simulation. begin, end: µs UTC. seqs: job names by the seq of the
    submission; a name that was submitted again gets a suffix. not_simulated: sentences for the headline. scheduler: the one
    that recorded it, if it was not Bailiff.
    """

    workload: Workload
    delays: Delays
    policies: Sequence[tuple[int, int, Policy]]
    recorded: RunStats
    begin: int
    end: int
    seqs: dict[int, str]
    assumptions: list[str]
    not_simulated: Sequence[str] = ()
    scheduler: str = ""

    def under(self, policy: Policy | None, since: int | None = None) -> tuple[Policy, Workload]:
        """Returns the initial policy and the workload: the log's own, or with `policy` in force from `since` (µs) on."""
        changes = self.policies[1:]
        if policy is not None:
            changes = [each for each in changes if since is not None and each[0] < since]
            if since is not None and since > self.begin:
                changes = [*changes, (since, -1, policy)]
        first = policy if policy is not None and (since is None or since <= self.begin) else self.policies[0][2]
        applied = [WorkloadEvent(time, facts.PolicyApplied(policy=new.complete())) for time, _, new in changes]
        merged = sorted([*applied, *self.workload.events], key=lambda each: each.time)
        source = self.workload
        return first, Workload(source.name, source.begin, source.nodes, merged, source.outcomes, source.about)


def from_log(records: Iterable[Record], name: str = "log", to: int | None = None) -> FromLog:
    """Returns the workload of a log that starts with its first record. Raises `ValueError` if no job was submitted.

    to: end of the recorded statistics, µs UTC; run times are still measured from later records.
    """
    observation, exogenous, recorded = Observation(), ExogenousEvents(), None
    for record in records:
        if recorded is None and to is not None and record.time > to:
            recorded, end = deepcopy(observation.finish()), to
        observation.feed(record)
        exogenous.note(record, observation)
    if not observation.jobs:
        raise ValueError("the log has no submitted job, so there is nothing to simulate")
    if recorded is None:
        recorded, end = observation.finish(), observation.state.now
    exogenous.finish()
    seen = list(observation.jobs.values())
    outcomes, assumptions = _outcomes(seen)
    for job, stats in recorded.jobs.items():
        stats.run_time = outcomes[job].run_time
    measured = _delays(observation)
    workload = Workload(name, observation.begin, exogenous.nodes, exogenous.events, outcomes, {"from": "log"})
    seqs = {seq: each.name for seq, each in observation.jobs.items()}
    return FromLog(
        workload,
        measured,
        exogenous.policies,
        recorded,
        observation.begin,
        end,
        seqs,
        [*assumptions, *exogenous.assumptions(), *_delay_assumptions(measured)],
        exogenous.not_simulated(),
    )


def _outcomes(seen: Sequence[JobObservation]) -> tuple[dict[str, Outcome], list[str]]:
    save_times = _SaveTimes(seen)
    found, counts = {}, Counter[str]()
    for job in seen:
        counts["unfinished" if job.outcome is None else "cancelled" if job.cancelled else "known"] += 1
        counts["never evicted"] += not job.evicted
        counts["refused"] += bool(job.refused)
        counts["reported"] += bool(job.reports)
        counts["early reports"] += bool(job.early_reports)
        every = _interval(job.saved_at)
        known = job.outcome in ("succeeded", "failed") and not job.cancelled
        found[job.name] = Outcome(
            run_time=job.work.done if known else 1 << 62,
            checkpoint_every=every,
            save_time=save_times.save_time(job),
            end="failed" if job.outcome == "failed" else "succeeded",
            fails=tuple(job.fails),
            refused=tuple(job.refused),
            reports=tuple(job.reports),
        )
    sentences = {
        "unfinished": "had not ended when the log ends, at unknown run times: simulated as running to the end of the simulation",
        "cancelled": "had been cancelled by a person: cancelled at the same time in the simulation, whatever the progress",
        "refused": "had a start refused by a node: the same attempt is refused under every policy, on any node",
        "reported": "had idle GPUs, or exceeded a GPU share: this is reported equally long after the same attempt started to "
        "run, and the policy decides what follows",
        "early reports": "had idle GPUs before all tasks ran: these reports are left out",
        "never evicted": "had never been evicted: such a job is assumed to save as most jobs of its class did",
    }
    return found, [f"{count_text(counts[kind], 'job')} {sentence}" for kind, sentence in sentences.items() if counts[kind]]


class _SaveTimes:
    """Save times of evicted jobs, per class and over all classes."""

    def __init__(self, seen: Sequence[JobObservation]) -> None:
        self._by_class: dict[str, tuple[int, list[int]]] = {}
        for job in seen:
            for key in ("", job.class_name):
                evicted, saves = self._by_class.get(key, (0, []))
                self._by_class[key] = evicted + job.evicted, [*saves, *job.saves]

    def save_time(self, job: JobObservation) -> int | None:
        """Time from the eviction notice to the checkpoint, µs; None if the job saves none."""
        if job.evicted:
            return median_low(job.saves) if job.saves else None
        evicted, saves = self._by_class[job.class_name]
        if not evicted:
            evicted, saves = self._by_class[""]
        return median_low(saves) if 2 * len(saves) > evicted else None


def _interval(saved_at: Sequence[int]) -> int | None:
    """Median work between the job's own checkpoints, µs. Jobs do not report every checkpoint, so this is an upper bound."""
    steps = [later - sooner for sooner, later in zip([0, *saved_at], saved_at, strict=False) if later > sooner]
    return median_low(steps) if steps else None


def _delays(observation: Observation) -> Delays:
    """Returns the measured delays, and their medians for what was not measured."""
    usual: dict[str, int] = {}
    for kind in ("start", "release", "selection", "exit"):
        seen = [took for (of, _, _), took in observation.took.items() if of == kind]
        usual[kind] = median_low(seen) if seen else 0
    return Delays(**usual, measured=observation.took)


def _delay_assumptions(delays: Delays) -> list[str]:
    start, release, selection, exits = (
        nearest_text(each) for each in (delays.start, delays.release, delays.selection, delays.exit)
    )
    usual = f"a start {start}, an exit without saving {exits}, a release {release}, a selection {selection}"
    return [
        f"what did not happen in the log takes the median time of what did (medians): {usual}",
        "a job runs at the same speed on every placement, and a restart costs only the work that is repeated",
    ]
