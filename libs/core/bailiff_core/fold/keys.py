"""Records about keys: the pool's root key, and keys that were revoked."""

from bailiff_core.model.state import PoolState
from bailiff_core.records import facts

from .log import remember
from .registry import folds


@folds(facts.KeyRevoked)
def key_revoked(state: PoolState, fact: facts.KeyRevoked) -> None:
    """Remembers the key for ever."""
    state.revoked_keys.setdefault(fact.key)
    if fact.request is not None:
        remember(state, fact.request)


@folds(facts.RootKeyChanged)
def root_key_changed(state: PoolState, fact: facts.RootKeyChanged) -> None:
    """Replaces the root key."""
    state.root_key = fact.change.key
    if fact.request is not None:
        remember(state, fact.request)
