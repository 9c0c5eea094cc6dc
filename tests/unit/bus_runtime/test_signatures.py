"""A signature covers one request at one time, by the owner of the key in the policy."""

from typing import Any

import pytest
from tests.unit.bus_runtime.kit import NOON, submit, wrapped

from bailiff_bus.envelope import Envelope, InvalidMessage, unwrap
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.signatures import Identity, sign, verify

PRIVATE = bytes(range(32))
OTHER = bytes(32)
KEYS = {key_id(PRIVATE): "console", key_id(OTHER): "mallory"}
PARTS: dict[str, Any] = {"source": "laptop", "id": "r-1", "pool": "a100", "time_us": NOON}


def signed(private: bytes = PRIVATE, actor: str = "", changed: dict[str, Any] | None = None) -> Envelope:
    """A signed request of which this was changed after it was signed."""
    keyid, sig = sign(private, submit(), **PARTS, actor=actor)
    return unwrap(wrapped(**{**PARTS, "actor": actor, "keyid": keyid, "sig": sig, **(changed or {})}))


def test_a_signed_request_counts_as_its_holders() -> None:
    assert verify(signed(), KEYS) == Identity("console", "signed")


def test_a_key_holder_may_act_for_names_below_its_own_and_no_others() -> None:
    assert verify(signed(actor="console/alice"), KEYS) == Identity("console/alice", "signed")
    for actor in ("mallory", "consolealice", "root"):
        with pytest.raises(InvalidMessage, match="wrong-actor"):
            verify(signed(actor=actor), KEYS)


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "r-2"},
        {"source": "elsewhere"},
        {"pool": "h100"},
        {"time_us": NOON + 1},
        {"actor": "console/bob"},
        {"body": submit(preemptible=True)},
        {"keyid": key_id(OTHER)},
        {"sig": "AAAA"},
        {"sig": "%%%"},
        {"sig": "é"},
        {"sig": "A"},
    ],
)
def test_whatever_is_changed_afterwards_is_noticed(changed: dict[str, object]) -> None:
    with pytest.raises(InvalidMessage) as caught:
        verify(signed(changed=changed), KEYS)
    assert caught.value.code == "bad-signature"
    assert caught.value.id


def test_a_key_that_the_policy_does_not_name_is_refused() -> None:
    with pytest.raises(InvalidMessage) as caught:
        verify(signed(private=new_private_key()), KEYS)
    assert caught.value.code == "unknown-key"


def test_a_key_of_the_policy_that_is_no_key_fits_nothing() -> None:
    with pytest.raises(InvalidMessage, match="bad-signature"):
        verify(signed(changed={"keyid": "nonsense"}), {"nonsense": "alice"})


def test_an_unsigned_request_is_as_good_as_its_topic() -> None:
    plain = unwrap(wrapped(actor="alice", auth="signed"))
    assert verify(plain, KEYS) == Identity("alice", "none")
    assert verify(plain, KEYS, unsigned="acl") == Identity("alice", "acl")
