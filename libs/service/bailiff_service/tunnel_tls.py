"""TLS between two who know each other's certificate: one made for a single connection, whose fingerprint is on record.

Both present a certificate of their own. The agent accepts those that a grant names; the client accepts the one whose fingerprint
the agent has reported. No certificate authority is involved.
"""

import asyncio
import hashlib
import secrets
import socket
import ssl
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

ALWAYS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)  # the grant is what expires
HANDSHAKE_S = 10.0
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""Options of the machines that have them: a connection whose other side is gone without a word ends after a minute."""


PORT_OPEN, PORT_CLOSED = b"\x01", b"\x00"
"""What the agent sends first on a connection to a port of a task."""


class WrongPeer(ConnectionError):
    """Somebody else answers at the address."""


class PortClosed(Exception):
    """The task does not listen on its port."""


@dataclass(frozen=True, slots=True)
class TunnelIdentity:
    """A private key with a self-signed certificate. pem: both, as `ssl` reads them."""

    der: bytes
    pem: bytes = field(repr=False)

    @classmethod
    def new(cls) -> "TunnelIdentity":
        """A new one, for one connection or one run of an agent."""
        key = generate_private_key(SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"bailiff-{secrets.token_hex(16)}")])
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(ALWAYS[0])
            .not_valid_after(ALWAYS[1])
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return cls(made.public_bytes(Encoding.DER), private + made.public_bytes(Encoding.PEM))

    @property
    def certificate(self) -> str:
        """The certificate as requests carry it: DER, base64url."""
        return urlsafe_b64encode(self.der).rstrip(b"=").decode()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in hex."""
        return hashlib.sha256(self.der).hexdigest()


def certificate_bytes(text: str) -> bytes:
    """The DER of a certificate in a request. Raises `ValueError` for all that is none of ours."""
    der = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    try:
        found = x509.load_der_x509_certificate(der)
        if not isinstance(found.public_key(), EllipticCurvePublicKey):
            raise ValueError("its key is not one of an elliptic curve")
        found.verify_directly_issued_by(found)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError) as error:
        raise ValueError(f"not a self-signed certificate: {error}") from None
    return der


def server_context(identity: TunnelIdentity, clients: Iterable[bytes]) -> ssl.SSLContext:
    """For one connection from one of these clients (DER)."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # nobody resumes a connection
    for der in clients:
        context.load_verify_locations(cadata=der)
    return context


async def connect_tunnel(
    address: str, identity: TunnelIdentity, fingerprint: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the agent whose certificate has this fingerprint. Raises `OSError`; `WrongPeer` if it has another one."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, identity)
    context.check_hostname = False  # the fingerprint says more than a name
    context.verify_mode = ssl.CERT_NONE
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.wait_for(
        asyncio.open_connection(host.strip("[]"), int(port), ssl=context, ssl_handshake_timeout=HANDSHAKE_S), HANDSHAKE_S
    )
    keep_alive(writer.get_extra_info("socket"))
    if peer_fingerprint(writer) != fingerprint:
        writer.transport.abort()
        raise WrongPeer(f"{address} has another certificate than the agent reported")
    return reader, writer


async def connect_port(
    address: str, identity: TunnelIdentity, fingerprint: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the port for which this identity has a grant. Raises `PortClosed`; `OSError`: the grant is over, say."""
    reader, writer = await connect_tunnel(address, identity, fingerprint)
    try:
        answer = await asyncio.wait_for(reader.readexactly(1), HANDSHAKE_S)
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("the agent does not accept the connection") from None
    except BaseException:
        writer.transport.abort()
        raise
    if answer != PORT_OPEN:
        writer.close()
        raise PortClosed
    return reader, writer


def keep_alive(connection: socket.socket) -> None:
    """End the connection when the other side is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def peer_fingerprint(writer: asyncio.StreamWriter) -> str:
    """SHA-256 of the peer's certificate, in hex; empty if it has none."""
    tls = writer.get_extra_info("ssl_object")
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    return hashlib.sha256(der).hexdigest() if der else ""


def _context(protocol: int, identity: TunnelIdentity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile() as file:  # `ssl` reads keys from files only; this one is ours alone, and gone at once
        file.write(identity.pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context
