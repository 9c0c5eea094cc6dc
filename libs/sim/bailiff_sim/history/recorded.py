"""What the old scheduler did: preemptions, GPU-hours lost to them, waiting times. Counted job by job, without keeping them."""

from array import array

from bailiff_sim.metrics import spread

from .records import HOUR, SECOND, Attempt, HistoryJob, Source
from .store import Store

NEXT_START = 120 * SECOND  # the first job that starts on a victim's node in this time, and could preempt it, likely did
MOST_PAIRS = 20


def saved(work: int, checkpoint_every: int | None) -> int:
    """Work that a checkpoint has, of an attempt that was cut off after `work`, µs."""
    return 0 if checkpoint_every is None else work // checkpoint_every * checkpoint_every


def run_time(job: HistoryJob, checkpoint_every: int | None) -> int | None:
    """Undisturbed run time: the last attempt, and what earlier ones had saved. None: no attempt has a known run time."""
    works = [attempt.work for attempt in job.attempts]
    if works[-1] is None:
        return None
    return works[-1] + sum(saved(work, checkpoint_every) for work in works[:-1] if work is not None)


def cut_off(job: HistoryJob) -> list[Attempt]:
    """Attempts that the scheduler, a machine or an operator ended."""
    return [each for each in job.attempts if each.state in ("preempted", "lost", "requeued")]


def waited(job: HistoryJob) -> int | None:
    """Time pending, also after each eviction, µs. None: the start of an attempt is unknown."""
    since, total = job.submitted, 0
    for attempt in job.attempts:
        if attempt.start is None:
            return None
        total += max(0, attempt.start - since)
        since = attempt.start if attempt.end is None else attempt.end
    return total


class Recorded:
    """Feed it each job with `note`; `figures` has the result in hours and GPU-hours."""

    def __init__(self, store: Store, source: Source, checkpoint_every: int | None) -> None:
        self._store, self._names, self._site, self._every = store, source.names, source.site, checkpoint_every
        self.jobs = self.preemptions = self.jobs_preempted = self.not_back = self.unmeasured = self.lost_nodes = self.requeued = 0
        self.rows_again = self.running = self.untimed = 0
        self._used = self._ran = self._lost = 0.0
        self.first: int | None = None
        self.last = 0
        self._waits: dict[str, array[float]] = {}
        self._victims: dict[tuple[str, str], list[float]] = {}
        self._pairs: dict[tuple[str, str, str, str, bool], int] = {}
        self.named = 0

    def note(self, job: HistoryJob) -> None:
        """Counts a job."""
        self.jobs += 1
        self.rows_again += len(job.attempts) > 1
        self.running += job.attempts[-1].state == "running"
        self.first = job.submitted if self.first is None else min(self.first, job.submitted)
        self.last = max(self.last, job.submitted, *(each.end or 0 for each in job.attempts))
        self._used += sum(each.work or 0 for each in job.attempts) * _gpus(job)
        wait = waited(job)
        if wait is None:
            self.untimed += 1
        else:
            for key in ("all", f"class {job.tier}" if job.tier else ""):
                self._waits.setdefault(key, array("d")).append(wait / HOUR)
        victims = [each for each in job.attempts if each.state == "preempted"]
        self.lost_nodes += sum(each.state == "lost" for each in job.attempts)
        self.requeued += sum(each.state == "requeued" for each in job.attempts)
        self.jobs_preempted += bool(victims)
        self.not_back += job.attempts[-1].state == "preempted"
        for attempt in victims:
            self._preemption(job, attempt)

    def _preemption(self, job: HistoryJob, attempt: Attempt) -> None:
        self.preemptions += 1
        of = self._victims.setdefault((job.project, job.tier), [0, 0, 0, 0])
        of[0] += 1
        work = attempt.work
        if work is None:
            self.unmeasured += 1
        else:
            lost = work if job.attempts[-1] is attempt else work - saved(work, self._every)
            self._ran += work * _gpus(job)
            self._lost += lost * _gpus(job)
            of[1] += work * _gpus(job)
            of[2] += lost * _gpus(job)
        self._pair(job, attempt)

    def _pair(self, job: HistoryJob, attempt: Attempt) -> None:
        by, inferred = None, False
        if attempt.preemptor:
            by = self._store.of(self._names.get(attempt.preemptor, attempt.preemptor))
            self.named += 1
        elif attempt.nodes and attempt.end is not None:
            next_jobs = self._store.started_after(job.name, attempt.end, NEXT_START, attempt.nodes)
            by, inferred = next((each for each in next_jobs if not self._site.forbids(each[1], job.tier)), None), True
        if by is not None:
            key = (*by, job.project, job.tier, inferred)
            self._pairs[key] = self._pairs.get(key, 0) + 1

    def figures(self) -> dict[str, object]:
        """All figures as JSON; durations in hours."""
        return {
            "jobs": self.jobs,
            "from": self.first,
            "to": self.last,
            "gpu_hours_used": self._used / HOUR,
            "preemptions": self.preemptions,
            "jobs_preempted": self.jobs_preempted,
            "preempted_and_not_back": self.not_back,
            "preemptions_of_unknown_length": self.unmeasured,
            "preemptors_named": self.named,
            "ended_by_a_machine": self.lost_nodes,
            "requeued_otherwise": self.requeued,
            "still_running": self.running,
            "gpu_hours_preempted": self._ran / HOUR,
            "gpu_hours_lost": self._lost / HOUR,
            "waiting": {name or "all": spread(list(values)) for name, values in sorted(self._waits.items()) if name},
            "victims": [
                {
                    "project": project,
                    "class": tier,
                    "preemptions": int(of[0]),
                    "gpu_hours_preempted": of[1] / HOUR,
                    "gpu_hours_lost": of[2] / HOUR,
                }
                for (project, tier), of in sorted(self._victims.items(), key=lambda each: (-each[1][0], each[0]))
            ],
            "pairs": [
                {
                    "preemptor_project": a,
                    "preemptor_class": b,
                    "victim_project": c,
                    "victim_class": d,
                    "inferred": inferred,
                    "preemptions": count,
                }
                for (a, b, c, d, inferred), count in sorted(self._pairs.items(), key=lambda each: (-each[1], each[0]))
            ][:MOST_PAIRS],
        }


def _gpus(job: HistoryJob) -> float:
    return job.gpus * job.gpu_milli / 1000
