"""Whether a request has an effect, and which: a pure function of the state, the request, and what its receiver knows."""

from dataclasses import dataclass

from bailiff_core.fold.log import request_key
from bailiff_core.model.identity import Auth
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RequestBody, RequestId

from .handlers import HANDLERS, PREVIEW, Context, Evidence
from .rejected import Rejected
from .senders import not_permitted, unaccepted

DAY = 86_400_000_000  # µs


def admit(context: Context, body: RequestBody) -> Fact | Rejected:
    """Admits or rejects a request, as admission, previews, plans and simulations do.

    Args:
        context: The state, the sender, and what the receiver knows.
        body: The request.

    Returns:
        The fact to record, or why the request has no effect.
    """
    rejected = not_permitted(context.state.rules, context.requester, body.SENDER)
    if rejected is not None:
        return rejected
    handler = HANDLERS.get(type(body))
    return handler(context, body) if handler is not None else Rejected("unknown-type", f"{body.TYPE} is not a request")


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request with its identity.

    Attributes:
        time: When the sender made it, µs UTC.
        digest: Digest of its content.
    """

    source: str
    id: str
    digest: str
    time: int | None
    actor: str
    auth: Auth
    body: RequestBody

    @property
    def requester(self) -> Requester:
        """Who asks."""
        return Requester(self.actor, self.auth)

    @property
    def owner(self) -> str:
        """Whose its id is."""
        return self.actor if self.auth == "signed" else ""


def admit_received(state: PoolState, received: ReceivedRequest, evidence: Evidence = PREVIEW) -> list[Fact] | Rejected:
    """Admits or rejects a request as it was received.

    Returns:
        The fact of the request; none for a repeat; or why it is rejected.
    """
    seen = state.requests.get(request_key(received.source, received.id, received.owner))
    if seen is not None:
        if seen.digest == received.digest:
            return []
        return Rejected(
            "id-reused",
            f"the id {received.id!r} of {received.source!r} was used at #{seen.seq} for another request: use a new id",
        )
    retention = state.rules.retention.request_ids
    if received.time is not None and received.time < state.now - retention:
        return Rejected("expired", f"the request is older than the {retention // DAY} days for which ids are remembered")
    requester, vouched_by = received.requester, received.body.vouched_by
    rejected = unaccepted(state.rules, requester, vouched_by)
    if rejected is not None:
        return rejected
    request = RequestId(
        source=received.source, id=received.id, digest=received.digest, vouched_by=vouched_by, owner=received.owner
    )
    found = admit(Context(state, requester, request, evidence), received.body)
    return found if isinstance(found, Rejected) else [found]
