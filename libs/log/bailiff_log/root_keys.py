"""Changes of a pool's root key: signed with the root key before it, over `["bailiff-root-key-1", identity, key]`."""

from collections.abc import Iterable

from bailiff_core.model.certificate import RootKeyChange

from .keys import is_signed, key_id, sign_fields
from .log_signatures import ROOT_KEY_TAG


def change_root_key(old_private_key: bytes, identity: str, new_private_key: bytes) -> RootKeyChange:
    """The change from one root key to the next. identity: hash of the log's first record."""
    key = key_id(new_private_key)
    return RootKeyChange(identity=identity, key=key, signature=sign_fields(old_private_key, [ROOT_KEY_TAG, identity, key]))


def is_change_signed(change: RootKeyChange, root_key: str) -> bool:
    """Whether this root key signed the change."""
    return is_signed(root_key, change.signature, [ROOT_KEY_TAG, change.identity, change.key])


def root_key_after(root_key: str, changes: Iterable[RootKeyChange]) -> str:
    """The root key after all changes that continue from this one, in order; the others are skipped."""
    for change in changes:
        if is_change_signed(change, root_key):
            root_key = change.key
    return root_key
