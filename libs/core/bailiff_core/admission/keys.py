"""Admits requests about keys: who may enrol as a node, which key is revoked, which root key follows."""

from bailiff_core.model.state import PoolState
from bailiff_core.records.facts import ChangeRootKey, EnrolNode, RevokeKey
from bailiff_core.records.payload import Fact

from .handlers import Context, admits
from .rejected import Rejected

MAX_PERMITS, MAX_REVOKED_KEYS, MAX_ROOT_KEY_CHANGES = 1_000, 2_000, 100  # fences carry the keys and changes to every agent


@admits(EnrolNode, RevokeKey, ChangeRootKey)
def about_keys(context: Context, body: EnrolNode | RevokeKey | ChangeRootKey) -> Fact | Rejected:
    """In a pool with a root key."""
    if not context.state.root_key:
        return Rejected("no-root-key", "this pool has no root key: its nodes are not enrolled and its messages are not signed")
    match body:
        case EnrolNode():
            problem = _enrolment_problem(context.state, body)
        case RevokeKey():
            problem = _revocation_problem(context.state, body)
        case ChangeRootKey():
            problem = _change_problem(context, body)
    return problem or context.record(body)


def _enrolment_problem(state: PoolState, body: EnrolNode) -> Rejected | None:
    if (body.token_key is None) == (body.key is None):
        return Rejected("malformed", "expected either token_key or key")
    if body.expires < state.now:
        return Rejected("expired", "the permit would have expired already: choose a later time")
    if body.key in state.revoked_keys or body.token_key in state.revoked_keys:
        return Rejected("revoked-key", "this key was revoked: the node needs a new one")
    waiting = sum(permit.expires >= state.now for permit in state.permits.values())
    if waiting >= MAX_PERMITS and body.node not in state.permits:
        return Rejected("too-many", f"{MAX_PERMITS} nodes may enrol already and have not")
    return None


def _revocation_problem(state: PoolState, body: RevokeKey) -> Rejected | None:
    if body.key in state.revoked_keys:
        return Rejected("already-revoked", "this key was revoked before")
    if body.key == state.root_key:
        return Rejected("root-key", "this is the pool's root key: replace it with bailiff key rotate-root")
    if len(state.revoked_keys) >= MAX_REVOKED_KEYS:
        return Rejected("too-many", f"{MAX_REVOKED_KEYS} keys are revoked: rotate the root key and certify the others anew")
    return None


def _change_problem(context: Context, body: ChangeRootKey) -> Rejected | None:
    state, change = context.state, body.change
    if change.identity != state.identity or not context.evidence.valid_key:
        return Rejected("bad-signature", "the change is not signed with this pool's root key, or is for another pool")
    if change.key == state.root_key or change.key in state.revoked_keys:
        return Rejected("revoked-key", "the new root key is the present one, or was revoked")
    if len(state.root_key_changes) >= MAX_ROOT_KEY_CHANGES:
        return Rejected("too-many", f"the root key was changed {MAX_ROOT_KEY_CHANGES} times")
    return None
