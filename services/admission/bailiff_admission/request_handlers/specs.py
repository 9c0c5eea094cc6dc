"""Handler of requests to read the private part of a job."""

from bailiff_bus.messages import ReadJobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester, job_denial
from bailiff_core.records.facts import JobSpecGranted, RequestId
from bailiff_core.records.payload import Fact
from bailiff_log.encryption import is_encryption_key

from .rejected import Rejected


def spec_granted(state: PoolState, request: RequestId, requester: Requester, read: ReadJobSpec) -> list[Fact] | Rejected:
    """A copy for the requester, if the policy's table lets them read the job's command. The job may have ended."""
    job = state.jobs.get(read.job)
    if job is None:
        return Rejected("no-such-job", f"there is no job {read.job!r}", read.job)
    denial = job_denial(state.rules, requester, "spec", job)
    if denial is not None:
        return Rejected.denied(denial, job.id)
    if not is_encryption_key(read.encryption_key):
        return Rejected("malformed", "encryption_key: nothing can be encrypted for this key", job.id)
    return [JobSpecGranted(request=request, job=job.id, encryption_key=read.encryption_key)]
