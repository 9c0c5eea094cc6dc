"""Whether admission rejects what the log says that it rejected: its own function, on the state before the record.

Only a signed request is kept with its rejection, and never a job's private part. So some rejections cannot be judged from the log
alone: `UNJUDGED` says why.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from bailiff_core.admission import Evidence, ReceivedRequest, Rejected, admit_received
from bailiff_core.engine import LOGIC
from bailiff_core.model.job_spec import JobSpec, Workload, runtime_label
from bailiff_core.model.message import MAX_INPUT_BYTES
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, facts
from bailiff_core.records.request import RequestBody

from .encryption import is_encryption_key
from .root_keys import is_change_signed
from .signed_requests import Fault, asked_for, request_digest, signed_request

Unjudged = Literal["not-kept", "not-in-log", "private-part", "other-logic", "earlier-records"]
UNJUDGED: dict[Unjudged, str] = {
    "not-kept": "the record keeps a digest only: the request was not validly signed, is long, or is no request of this release",
    "not-in-log": "they depend on what the log does not have: rates, rejections that one record counts, errors",
    "private-part": "they may follow from the job's private part",
    "other-logic": "another logic than this release's decided them",
    "earlier-records": "they depend on earlier records, which are not among these",
}
RUNTIMES = runtime_label("")
NOT_IN_LOG = ("too-many-requests", "nothing-lost", "internal-error")

USUAL = JobSpec(command="true")
UNUSUAL = (
    JobSpec(command="true", runtime="simulated"),
    JobSpec(command="true", runtime="other", image="other"),
    JobSpec(runtime="kubernetes", workload=Workload(api_version="-", kind="-", namespace="-", name="-", uid="-")),
    JobSpec(),
    JobSpec(command="x" * MAX_INPUT_BYTES),
)
"""Private parts that admission answers otherwise: no process, a runtime that no node has, a workload, malformed, large."""


def evidence_of(state: PoolState, body: RequestBody, digest: str | None = None) -> Evidence:
    """What the receiver of a request can check and the core cannot. digest: of a submitted job's private part."""
    match body:
        case facts.ReadJobSpec():
            return Evidence(valid_key=is_encryption_key(body.encryption_key))
        case facts.ChangeRootKey():
            return Evidence(valid_key=is_change_signed(body.change, state.root_key))
    return Evidence() if digest is None else Evidence(digest)


def why_not_judged(record: Record, rejected: facts.InputRejected) -> Unjudged | None:
    """Why the log alone cannot say whether admission rejects this; None: see `rejection_fault`."""
    if rejected.code in NOT_IN_LOG or rejected.count > 1:
        return "not-in-log"
    signed = signed_request(record)
    if signed is None or asked_for(signed) is None:
        return "not-kept"
    return None if record.engine.rpartition("/")[2] == str(LOGIC) else "other-logic"


def rejection_fault(state: PoolState, record: Record) -> tuple[Fault, str] | Unjudged | None:
    """Whether admission accepts what this record rejects.

    Args:
        state: After the records before it.
        record: One that can be judged.
    """
    rejected, signed = record.data, signed_request(record)
    assert isinstance(rejected, facts.InputRejected)
    assert signed is not None
    body = asked_for(signed)
    assert body is not None
    digest = request_digest(record, signed, record.pool)
    asked = ReceivedRequest(signed.source, signed.id, digest, signed.time, record.actor, "signed", body)
    answers = [admit_received(state, replace(asked, body=each), evidence_of(state, each)) for each in _possible(state, body)]
    said = (rejected.code, rejected.rule, rejected.job, rejected.retry_at)
    same = [isinstance(each, Rejected) and (each.code, each.rule, each.job, each.retry_at) == said for each in answers]
    if any(same):
        return None if same[0] or all(isinstance(each, Rejected) for each in answers) else "private-part"
    first = answers[0]
    if not isinstance(first, Rejected):
        right = "it is not"
    elif isinstance(body, facts.SubmitJob):
        return "private-part"
    else:
        right = f"it is {first.code}, of {first.job or 'no job'}"
    return "wrongly-rejected", f"it was rejected as {rejected.code}; by the records before it, {right}"


def _possible(state: PoolState, body: RequestBody) -> Iterator[RequestBody]:
    """The request as it may have been, the likeliest first: with every private part that admission answers otherwise."""
    if not isinstance(body, facts.SubmitJob):
        yield body
        return
    runtimes = dict.fromkeys(
        label.removeprefix(RUNTIMES) for node in state.nodes.values() for label in node.labels if label.startswith(RUNTIMES)
    )
    of_nodes = (JobSpec.model_construct(command="true", runtime=each, image="other") for each in runtimes)
    for spec in (USUAL, *UNUSUAL, *of_nodes):
        yield body.model_copy(update={"spec": spec})
