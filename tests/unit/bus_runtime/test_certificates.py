"""Certificates: who may act as what, and messages that carry one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bailiff_bus.envelope import Envelope, InvalidMessage, unwrap
from bailiff_bus.messages.commands import SendInventory
from bailiff_bus.port import Message
from bailiff_core.model.certificate import Certificate
from bailiff_log.certificates import InvalidCertificate, check_certificate
from bailiff_log.credentials import CERTIFICATE, PRIVATE_KEY, Credentials, make_credentials, read_credentials
from bailiff_log.encryption import CannotDecrypt, decrypt, encrypt
from bailiff_log.keys import KeyFileError, key_id, new_private_key
from bailiff_log.message_signatures import Trust, check_sender, wrap_signed

NOW, DAY = 1_800_000_000_000_000, 86_400_000_000
ROOT = new_private_key()
TRUST = Trust(root_keys={key_id(ROOT)})


def credentials(folder: Path, role: str = "admission", pool: str = "*", root: bytes = ROOT) -> Credentials:
    return make_credentials(folder, root, role=role, name="a1", pool=pool, not_before=NOW - DAY, expires=NOW + DAY)


def permits(certificate: Certificate, *, pool: str = "a100", role: str = "admission", at: int = NOW, revoked: str = "") -> None:
    check_certificate(certificate, root_keys=TRUST.root_keys, pool=pool, roles={role}, at=at, revoked={revoked})


def test_a_certificate_permits_its_role_in_its_pool_until_it_expires(tmp_path: Path) -> None:
    certificate = credentials(tmp_path, pool="a100").certificate
    permits(certificate)
    for refused, reason in [
        (lambda: permits(certificate, role="eviction-executor"), "does not permit to act as eviction-executor"),
        (lambda: permits(certificate, pool="h100"), "is for pool a100, not for h100"),
        (lambda: permits(certificate, at=NOW + 2 * DAY), "is valid from"),
        (lambda: permits(certificate, at=NOW - 2 * DAY), "is valid from"),
        (lambda: permits(certificate, revoked=certificate.key), "was revoked"),
    ]:
        with pytest.raises(InvalidCertificate, match=reason):
            refused()


@pytest.mark.parametrize(
    "change",
    [
        *({"role": "node"}, {"name": "a2"}, {"pool": "h100"}, {"expires": NOW + 9 * DAY}, {"not_before": 0}),
        *({"encryption_key": None}, {"key": key_id(new_private_key())}),
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_field_of_a_certificate_can_be_changed(tmp_path: Path, change: dict[str, object]) -> None:
    changed = credentials(tmp_path).certificate.model_copy(update=change)
    with pytest.raises(InvalidCertificate, match="not signed with the pool's root key"):
        permits(changed, pool=changed.pool if changed.pool != "*" else "a100", role=changed.role)


def test_somebody_elses_root_key_vouches_for_nobody(tmp_path: Path) -> None:
    with pytest.raises(InvalidCertificate, match="not signed with the pool's root key"):
        permits(credentials(tmp_path, root=new_private_key()).certificate)


def test_credentials_are_read_again_and_their_keys_are_kept(tmp_path: Path) -> None:
    made = credentials(tmp_path)
    assert read_credentials(tmp_path) == made
    renewed = make_credentials(tmp_path, ROOT, role="admission", name="a1", not_before=NOW, expires=NOW + 9 * DAY)
    assert renewed.private_key == made.private_key
    assert (tmp_path / PRIVATE_KEY).stat().st_mode & 0o777 == 0o600
    assert made.private_key.hex() not in repr(made)


def test_a_certificate_for_other_keys_is_refused(tmp_path: Path) -> None:
    credentials(tmp_path / "one")
    credentials(tmp_path / "two")
    (tmp_path / "one" / CERTIFICATE).write_bytes((tmp_path / "two" / CERTIFICATE).read_bytes())
    with pytest.raises(KeyFileError, match="is for other keys"):
        read_credentials(tmp_path / "one")


def test_only_the_reader_decrypts_and_only_for_the_purpose(tmp_path: Path) -> None:
    reader, other = credentials(tmp_path / "one"), credentials(tmp_path / "two")
    assert reader.certificate.encryption_key is not None
    text = encrypt(b"TOKEN=abc", reader.certificate.encryption_key, "start job-1")
    assert "abc" not in text
    assert decrypt(text, reader.decryption_key, "start job-1") == b"TOKEN=abc"
    for key, purpose in [(other.decryption_key, "start job-1"), (reader.decryption_key, "start job-2")]:
        with pytest.raises(CannotDecrypt):
            decrypt(text, key, purpose)
    with pytest.raises(CannotDecrypt):
        decrypt(text[:-4] + "AAAA", reader.decryption_key, "start job-1")


def received(sender: Credentials | None, change: Callable[[str, bytes], bytes] = lambda _, value: value) -> Envelope:
    body = SendInventory(node="n1", incarnation="i", sender="admission", sender_epoch=1)
    headers, value = wrap_signed(sender, body, source="/admission", id="1", pool="a100", time_us=NOW)
    changed = tuple((name, change(name, each)) for name, each in headers)
    return unwrap(Message("bailiff.node-commands", 0, 0, NOW, None, changed, change("value", value)))


def test_a_signed_message_names_its_sender(tmp_path: Path) -> None:
    sender = credentials(tmp_path)
    assert check_sender(received(sender), TRUST, {"admission"}, NOW) == sender.certificate


def test_a_message_without_a_valid_signature_has_no_sender(tmp_path: Path) -> None:
    sender = credentials(tmp_path)
    stranger = Credentials(new_private_key(), sender.decryption_key, sender.certificate, sender.root_key)
    for message, code in [
        (received(None), "not-signed"),
        (received(stranger), "bad-signature"),
        (received(sender, lambda name, each: b"2" if name == "ce_id" else each), "bad-signature"),
        (received(sender, lambda name, each: each.replace(b"n1", b"n2") if name == "value" else each), "bad-signature"),
        (received(credentials(tmp_path / "executor", role="eviction-executor")), "bad-certificate"),
    ]:
        with pytest.raises(InvalidMessage) as refused:
            check_sender(message, TRUST, {"admission"}, NOW)
        assert refused.value.code == code


def test_a_pool_without_a_root_key_checks_no_signatures() -> None:
    assert check_sender(received(None), Trust(), {"admission"}, NOW) is None
