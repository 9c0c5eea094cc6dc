"""Records about keys: the pool's root key, keys that were revoked, and those of the nodes."""

from bailiff_core.model.state import EnrolledNode, EnrolmentPermit, PoolState, WaitingNode
from bailiff_core.records import LogKeys, facts

from .log import remember
from .registry import folds

MAX_WAITING_NODES = 100
MAX_LIMITS = 10_000
"""Of names that no node has, and nobody may enrol under now, so many keep the limit of their devices: the newest."""


@folds(facts.KeyRevoked)
def key_revoked(state: PoolState, fact: facts.KeyRevoked) -> None:
    """Remembers the key for ever. A node with this key is not enrolled any more; the limit of its devices stays."""
    state.revoked_keys.pop(fact.key, None)
    state.revoked_keys[fact.key] = None
    for name, node in state.enrolled.items():
        if node.key == fact.key and node.max_devices is not None:
            state.permits.setdefault(name, EnrolmentPermit(state.seq, None, None, 0, node.max_devices))
    _forget_limits(state)
    state.enrolled = {name: node for name, node in state.enrolled.items() if node.key != fact.key}
    remember(state, fact.request)


@folds(facts.RootKeyChanged)
def root_key_changed(state: PoolState, fact: facts.RootKeyChanged) -> None:
    """Replaces the root key."""
    state.root_key = fact.change.key
    state.root_key_changes.append(fact.change)
    remember(state, fact.request)


def log_keys(state: PoolState) -> LogKeys | None:
    """Returns the keys of the log up to `state.seq`; None if it is not signed."""
    if not state.root_key:
        return None
    return LogKeys(state.root_key, state.writer_key, state.writer_until, tuple(state.revoked_keys))


@folds(facts.EnrolmentPermitted)
def enrolment_permitted(state: PoolState, fact: facts.EnrolmentPermitted) -> None:
    """Replaces an earlier permit for this name. Expired permits are dropped, unless they limit devices.

    A limit counts at once, and until an operator states another one, or 10,000 others are newer.
    """
    most = fact.max_devices if fact.max_devices is not None else state.device_limit(fact.node)
    kept = {name: each for name, each in state.permits.items() if each.expires >= state.now or each.max_devices is not None}
    kept.pop(fact.node, None)
    state.permits = kept | {fact.node: EnrolmentPermit(state.seq, fact.token_key, fact.key, fact.expires, most)}
    _forget_limits(state)
    if fact.node in state.enrolled:
        state.enrolled[fact.node].max_devices = most
    remember(state, fact.request)


def _forget_limits(state: PoolState) -> None:
    """Drops the oldest expired permits, which only limit devices."""
    expired = [name for name, each in state.permits.items() if each.expires < state.now]
    for name in expired[: max(0, len(expired) - MAX_LIMITS)]:
        del state.permits[name]


@folds(facts.NodeWaiting)
def node_waiting(state: PoolState, fact: facts.NodeWaiting) -> None:
    """Keeps the newest of them, for operators to see: whoever can write reports can invent names."""
    state.waiting_nodes.pop(fact.node, None)
    state.waiting_nodes[fact.node] = WaitingNode(fact.key, state.now)
    while len(state.waiting_nodes) > MAX_WAITING_NODES:
        del state.waiting_nodes[next(iter(state.waiting_nodes))]


@folds(facts.NodeEnrolled)
def node_enrolled(state: PoolState, fact: facts.NodeEnrolled) -> None:
    """The node's keys, in place of earlier ones. The permit is used up."""
    state.enrolled[fact.node] = EnrolledNode(fact.key, fact.encryption_key, max_devices=state.device_limit(fact.node))
    if fact.permitted_by is not None:
        state.permits.pop(fact.node, None)
    state.waiting_nodes.pop(fact.node, None)
