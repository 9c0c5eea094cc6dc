"""Whose turn a request waits for: found before it is decided, from its signature, or its source where nobody signed."""

from bailiff_bus.envelope import InvalidMessage, ReceivedMessage
from bailiff_bus.port import Message
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester, keys_denial, sender_name
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.request import RequestBody
from bailiff_log.keys import known_keys
from bailiff_log.signatures import Identity, verify

from .turns import KNOWN, OPERATORS, UNKNOWN, User


def sender_of(state: PoolState, message: Message) -> User:
    """The user who takes a turn for this request.

    A signed request is its key holder's, or that of the user whom a holder signs in, or a bridge submits for. One without a valid
    signature counts as its source's: a key that is merely named gives no turn of its holder's. All that an operator signs goes
    first, its submissions too: what it does to a job must not pass the submission. Those alone count in its rates.
    """
    received = ReceivedMessage(message)
    if not received.is_signed:
        return User(UNKNOWN, received.source)
    try:
        envelope = received.envelope((RequestBody,))
        identity = verify(envelope, known_keys(state))
    except InvalidMessage:
        return User(UNKNOWN, received.source)
    requester, body = Requester(identity.actor, identity.auth), envelope.body
    assert isinstance(body, RequestBody)
    sender = proven_sender(state, identity, body)
    assert sender is not None
    is_own = sender == sender_name(state.rules, requester)  # not what a bridge submits for somebody
    if is_own and keys_denial(state.rules, requester) is None:
        return User(OPERATORS, sender, paced=isinstance(body, SubmitJob))
    return User(KNOWN, sender)


def proven_sender(state: PoolState, identity: Identity, body: RequestBody) -> str | None:
    """The user as whom the sender of a signed request counts; None for every other request."""
    if identity.auth != "signed":
        return None
    user = body.demand.user if isinstance(body, SubmitJob) else None
    return sender_name(state.rules, Requester(identity.actor, identity.auth), user)
