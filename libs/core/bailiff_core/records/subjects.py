"""Which jobs a record is about."""

from . import decisions, facts
from .wire import Record


def victims_of(data: decisions.PreemptionDecided) -> list[str]:
    """The victims' job ids, each once, in the order of the record."""
    return list(dict.fromkeys(choice.job for choice in data.victims))


def jobs_of(record: Record) -> dict[str, None]:
    """Ids of the jobs that the record is about."""
    data = record.data
    found: dict[str, None] = {}
    job = getattr(data, "job", None)
    if isinstance(job, str) and job:
        found[job] = None
    if isinstance(data, facts.JobSubmitted):
        found[data.demand.job] = None
    if isinstance(data, decisions.PreemptionDecided | decisions.PreemptionRefused):
        found[data.preemptor.job] = None
    if isinstance(data, decisions.PreemptionDecided):
        found |= dict.fromkeys([*victims_of(data), *data.unneeded_victims, *data.cancelled_evictions])
    return found
