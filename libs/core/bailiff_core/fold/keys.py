"""Records about keys: the pool's root key, and keys that were revoked."""

from bailiff_core.model.state import PoolState
from bailiff_core.records import LogKeys, facts

from .log import remember
from .registry import folds


@folds(facts.KeyRevoked)
def key_revoked(state: PoolState, fact: facts.KeyRevoked) -> None:
    """Remembers the key for ever."""
    state.revoked_keys.pop(fact.key, None)
    state.revoked_keys[fact.key] = None
    if fact.request is not None:
        remember(state, fact.request)


@folds(facts.RootKeyChanged)
def root_key_changed(state: PoolState, fact: facts.RootKeyChanged) -> None:
    """Replaces the root key."""
    state.root_key = fact.change.key
    if fact.request is not None:
        remember(state, fact.request)


def log_keys(state: PoolState) -> LogKeys | None:
    """Returns the keys of the log up to `state.seq`; None if it is not signed."""
    if not state.root_key:
        return None
    return LogKeys(state.root_key, state.writer_key, state.writer_until, tuple(state.revoked_keys))
