"""Handlers of requests about keys: who may enrol as a node, which key is revoked, which root key follows."""

from bailiff_bus.messages import ChangeRootKey, EnrolNode, RevokeKey
from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import EnrolmentPermitted, KeyRevoked, RequestId, RootKeyChanged
from bailiff_core.records.payload import Fact
from bailiff_log.root_keys import is_change_signed

from .rejected import Rejected

MAX_PERMITS, MAX_REVOKED_KEYS, MAX_ROOT_KEY_CHANGES = 1_000, 2_000, 100  # fences carry the keys and changes to every agent

KeyRequest = EnrolNode | RevokeKey | ChangeRootKey


def request_for_keys(state: PoolState, request: RequestId, body: KeyRequest) -> list[Fact] | Rejected:
    """The fact of a request about keys."""
    if not state.root_key:
        return Rejected("no-root-key", "this pool has no root key: its nodes are not enrolled and its messages are not signed")
    match body:
        case EnrolNode():
            return _permitted(state, request, body)
        case RevokeKey():
            return _revoked(state, request, body)
        case ChangeRootKey():
            return _changed(state, request, body)


def _permitted(state: PoolState, request: RequestId, body: EnrolNode) -> list[Fact] | Rejected:
    if (body.token_key is None) == (body.key is None):
        return Rejected("malformed", "expected either token_key or key")
    if body.expires < state.now:
        return Rejected("expired", "the permit would have expired already: choose a later time")
    if body.key in state.revoked_keys or body.token_key in state.revoked_keys:
        return Rejected("revoked-key", "this key was revoked: the node needs a new one")
    if len(state.permits) >= MAX_PERMITS and body.node not in state.permits:
        return Rejected("too-many", f"{MAX_PERMITS} nodes may enrol already and have not")
    return [EnrolmentPermitted(request=request, node=body.node, token_key=body.token_key, key=body.key, expires=body.expires)]


def _revoked(state: PoolState, request: RequestId, body: RevokeKey) -> list[Fact] | Rejected:
    if body.key in state.revoked_keys:
        return Rejected("already-revoked", "this key was revoked before")
    if body.key == state.root_key:
        return Rejected("root-key", "this is the pool's root key: replace it with bailiff key rotate-root")
    if len(state.revoked_keys) >= MAX_REVOKED_KEYS:
        return Rejected("too-many", f"{MAX_REVOKED_KEYS} keys are revoked: rotate the root key and certify the others anew")
    return [KeyRevoked(key=body.key, request=request, reason=body.reason)]


def _changed(state: PoolState, request: RequestId, body: ChangeRootKey) -> list[Fact] | Rejected:
    change = body.change
    if change.identity != state.identity or not is_change_signed(change, state.root_key):
        return Rejected("bad-signature", "the change is not signed with this pool's root key, or is for another pool")
    if change.key == state.root_key or change.key in state.revoked_keys:
        return Rejected("revoked-key", "the new root key is the present one, or was revoked")
    if len(state.root_key_changes) >= MAX_ROOT_KEY_CHANGES:
        return Rejected("too-many", f"the root key was changed {MAX_ROOT_KEY_CHANGES} times")
    return [RootKeyChanged(change=change, request=request)]
