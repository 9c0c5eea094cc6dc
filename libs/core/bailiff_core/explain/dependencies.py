"""What a job waits for, in sentences."""

from collections.abc import Iterable

from bailiff_core.model.state import Job, PoolState

from .sentences import Sentence, listed, seqs_of


def waits_for_text(job: Job) -> str:
    """`waits for prep-1 to succeed and prep-2 to end`."""
    parts = [f"{name} to {'succeed' if until == 'succeeded' else 'end'}" for name, until in job.waits_for.items()]
    return f"waits for {listed(parts)}" if parts else "waits for no job any more"


def dependency_sentences(state: PoolState, job: Job) -> Iterable[Sentence]:
    """What it waits for, how those jobs are, and what follows if one fails."""
    yield Sentence(f"It {waits_for_text(job)}.", seqs_of(job.seq))
    for name in job.waits_for:
        other = state.jobs[name]
        yield Sentence(f"{name} is {other.phase}.", seqs_of(other.seq))
    if "succeeded" in job.waits_for.values():
        yield Sentence("If a job that has to succeed does not, this one is cancelled (rule dependency-failed).", ())
    yield Sentence("It is not in the queue meanwhile; its waiting time counts from when it joins the queue.", ())
