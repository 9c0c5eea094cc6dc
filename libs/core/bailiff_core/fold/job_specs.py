"""Who was granted to read which job's private part. It decides nothing."""

from bailiff_core.model.state import PoolState
from bailiff_core.records import facts

from .log import remember
from .registry import folds


@folds(facts.JobSpecGranted)
def job_spec_granted(state: PoolState, fact: facts.JobSpecGranted) -> None:
    """Only the request is remembered."""
    remember(state, fact.request)
