"""The registry of the functions that admit requests, one per type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from bailiff_core.model.state import ENDED, Job, PoolState
from bailiff_core.permissions import Requester, job_denial
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RECORDS, RequestBody, RequestId

from .rejected import Rejected

NO_DIGEST = "0" * 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the receiver of a request has found out, and the state does not have. The defaults are those of a preview.

    Attributes:
        spec_digest: Digest of the private part of a submitted job.
        valid_key: Whether the key in the request is one, and the change of a root key is signed.
        missing: Epoch and seq of the alarm `log-truncated`, while the writer waits for an operator.
    """

    spec_digest: str = NO_DIGEST
    valid_key: bool = True
    missing: tuple[int, int] | None = None


PREVIEW = Evidence()
PERMITTED = Requester("", permitted=True)
"""The sender in simulations and plans: whoever it is may send the request."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a request is judged on: the state, its sender, and what its receiver knows.

    Attributes:
        request: The request's id, for the record.
    """

    state: PoolState
    requester: Requester
    request: RequestId
    evidence: Evidence = PREVIEW

    def record(self, body: RequestBody, **changed: object) -> Fact:
        """The record that says what the request says, but for what is changed."""
        return RECORDS[type(body)].saying(body, request=self.request, **changed)


Handler = TypeVar("Handler", bound=Callable[..., Fact | Rejected])
HANDLERS: dict[type[RequestBody], Callable[[Context, Any], Fact | Rejected]] = {}


def admits(*bodies: type[RequestBody]) -> Callable[[Handler], Handler]:
    """Registers what admits these requests, as `(context, body)`; the sender is permitted then."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(bodies, handler))
        return handler

    return register


def admits_job(body: type[RequestBody], *, ended: bool = False) -> Callable[[Handler], Handler]:
    """As `admits`, for a request about a job, as `(context, job, body)`.

    Args:
        ended: Also about one that has ended.
    """

    def register(handler: Handler) -> Handler:
        def handle(context: Context, body: Any) -> Fact | Rejected:
            job = permitted_job(context, body, ended=ended)
            return job if isinstance(job, Rejected) else handler(context, job, body)

        HANDLERS[body] = handle
        return handler

    return register


def permitted_job(context: Context, body: Any, *, ended: bool = False) -> Job | Rejected:
    """The job; rejected if it does not exist, has ended, or the requester may not do this to it."""
    job = context.state.jobs.get(body.job)
    if job is None:
        return Rejected("no-such-job", f"there is no job {body.job!r}", body.job)
    if job.phase in ENDED and not ended:
        return Rejected("already-ended", f"job {job.id!r} has ended already ({job.phase})", job.id)
    denial = job_denial(context.state.rules, context.requester, body.SENDER, job)
    return job if denial is None else Rejected.denied(denial, job.id)
