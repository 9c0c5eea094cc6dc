"""A certificate authority for installations that have none: certificates for brokers and for every principal, as PEM files.

Files: `ca.pem` and `ca.key`; for each name `NAME.pem` (certificate) and `NAME.key`; for brokers and superuser also
`NAME.chain.pem` (key, certificate and CA in one file), which Kafka and its tools read as a key store of type PEM.
"""

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bailiff_bus.grants import PREFIX, PRINCIPALS
from bailiff_log.file_writing import write

CA_DAYS, LEAF_DAYS = 3650, 365
BROKER, SUPERUSER = "broker", "superuser"
CHAINED = (BROKER, SUPERUSER)
HOUR = datetime.timedelta(hours=1)


def issue(
    folder: Path, hosts: Sequence[str], names: Iterable[str] = (BROKER, SUPERUSER, *PRINCIPALS), *, renew: bool = False
) -> list[str]:
    """Writes missing certificates, all signed by the folder's CA; with `renew`, new ones for all names.

    Args:
        hosts: Names and addresses of the brokers, for `broker`.

    Returns:
        The files written.

    Raises:
        OSError: A file cannot be read or written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    if not (folder / "ca.key").exists():
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named("bailiff-ca")
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        made = (
            _builder(subject, subject, key, CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        written += [_write(folder / "ca.key", _private(key)), _write(folder / "ca.pem", _public(made))]
    ca_key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    ca = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    for name in names:
        if renew or not (folder / f"{name}.pem").exists():
            written += _issue_one(folder, name, hosts if name == BROKER else (), ca, ca_key)
    return written


def _issue_one(
    folder: Path, name: str, hosts: Sequence[str], ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> list[str]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_named(PREFIX + name), ca.subject, key, LEAF_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False)
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    made = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False).sign(ca_key, hashes.SHA256())
    written = [_write(folder / f"{name}.key", _private(key)), _write(folder / f"{name}.pem", _public(made))]
    if name in CHAINED:
        written.append(_write(folder / f"{name}.chain.pem", _private(key) + _public(made) + _public(ca)))
    return written


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(file: Path, content: bytes) -> str:
    """Replace the file at once: a reader never sees half of it. Private keys are readable by their owner only."""
    write(file, content, mode=0o644 if content.startswith(b"-----BEGIN CERTIFICATE") else 0o600)
    return file.name
