"""A signature covers one request at one time, by the owner of the key in the policy."""

from typing import Any

import pytest
from tests.unit.bus_runtime.kit import NOON, submit, wrapped

from bailiff_bus.envelope import Envelope, InvalidMessage, unwrap
from bailiff_core.model.job_spec import JobSpec
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.signatures import Identity, salted, sign, verify

PRIVATE = bytes(range(32))
OTHER = bytes(32)
KEYS = {key_id(PRIVATE): "console", key_id(OTHER): "mallory"}
PARTS: dict[str, Any] = {"source": "laptop", "id": "r-1", "pool": "a100", "time_us": NOON}


def signed(private: bytes = PRIVATE, actor: str = "", changed: dict[str, Any] | None = None) -> Envelope:
    """A signed request of which this was changed after it was signed."""
    body = salted(private, submit(), source=PARTS["source"], id=PARTS["id"])
    keyid, sig = sign(private, body, **PARTS, actor=actor)
    return unwrap(wrapped(**{**PARTS, "body": body, "actor": actor, "keyid": keyid, "sig": sig, **(changed or {})}))


def who(envelope: Envelope) -> tuple[str, str]:
    """The requester and its authentication."""
    found = verify(envelope, KEYS)
    return found.actor, found.auth


def test_a_signed_submission_needs_a_salt() -> None:
    keyid, sig = sign(PRIVATE, submit(), **PARTS)
    with pytest.raises(InvalidMessage, match="no-salt"):
        verify(unwrap(wrapped(**PARTS, keyid=keyid, sig=sig)), KEYS)


def test_the_spec_is_signed_by_its_salted_digest_and_a_repeat_is_the_same_request() -> None:
    assert signed().digest == signed().digest
    assert signed().public.count(b"spec_digest") == 1
    assert b"command" not in signed().public
    other = submit().model_copy(update={"spec": JobSpec(command="other"), "salt": "ab" * 32})
    for changed in ({"body": other}, {"body": other.model_copy(update={"salt": "cd" * 32})}):
        with pytest.raises(InvalidMessage, match="bad-signature"):
            verify(signed(changed=changed), KEYS)


def test_a_signed_request_counts_as_its_holders() -> None:
    assert who(signed()) == ("console", "signed")


def test_a_key_holder_may_act_for_names_below_its_own_and_no_others() -> None:
    assert who(signed(actor="console/alice")) == ("console/alice", "signed")
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
