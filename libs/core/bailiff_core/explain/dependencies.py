"""What a job waits for before it joins the queue, in sentences."""

from collections.abc import Iterable

from bailiff_core.humanize import MAX_NAMED, first_names
from bailiff_core.model.state import Job, PoolState, begins_later

from .sentences import Sentence, clock, listed, seqs_of


def waits_for_text(state: PoolState, job: Job) -> str:
    """`waits for prep-1 to succeed and prep-2 to end, and until 12-24 08:00:00 UTC`, or as much of it as is to come."""
    succeed = [name for name, until in job.waits_for.items() if until == "succeeded"]
    end = [name for name, until in job.waits_for.items() if until != "succeeded"]
    parts = [f"{_listed(names)} to {verb}" for names, verb in ((succeed, "succeed"), (end, "end")) if names]
    until = f"until {clock(job.demand.begin)} UTC" if begins_later(state, job) else ""
    if not parts:
        return f"waits {until or 'for no job any more'}"
    return f"waits for {listed(parts)}{until and f', and {until}'}"


def _listed(names: list[str]) -> str:
    return listed(names) if len(names) <= MAX_NAMED else first_names(names)


def dependency_sentences(state: PoolState, job: Job) -> Iterable[Sentence]:
    """What it waits for, how those jobs are, and what follows if one fails."""
    yield Sentence(f"It {waits_for_text(state, job)}.", seqs_of(job.seq))
    by_phase = dict[str, list[Job]]()
    for name in job.waits_for:
        by_phase.setdefault(state.jobs[name].phase, []).append(state.jobs[name])
    for phase, others in by_phase.items():
        verb, seqs = ("is" if len(others) == 1 else "are"), (other.seq for other in others[:MAX_NAMED])
        yield Sentence(f"{_listed([other.id for other in others])} {verb} {phase}.", seqs_of(*seqs))
    if "succeeded" in job.waits_for.values():
        yield Sentence("If a job that has to succeed does not, this one is cancelled (rule dependency-failed).", ())
    yield Sentence("It is not in the queue meanwhile; its waiting time counts from when it joins the queue.", ())
