"""Which key signs a log's records, as the records say it.

A log whose first record names a root key is signed: `PoolCreated` and each `WriterStarted` carry the certificate of the
writer's key. Whoever passes a `SignatureCheck` to the chain rule checks the signatures: the core does no cryptography.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bailiff_core.model.certificate import Certificate, RootKeyChange

from .facts import KeyRevoked, PoolCreated, RootKeyChanged, WriterStarted
from .payload import Payload
from .wire import Wire, time_text


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The keys of a signed log after a record.

    Attributes:
        root_key: Public key.
        writer_key: Public key.
        writer_until: When the writer's certificate expires, RFC 3339 as in records.
        revoked: Keys without effect.
    """

    root_key: str
    writer_key: str
    writer_until: str
    revoked: tuple[str, ...] = ()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "LogKeys":
        """The inverse of `dataclasses.asdict`, also after JSON."""
        return cls(data["root_key"], data["writer_key"], data["writer_until"], tuple(data["revoked"]))


class SignatureCheck(Protocol):
    """Checks signatures of a log's records. Each method returns why one is invalid, or an empty text.

    Attributes:
        deferred: Receives each hash that a record announces (hex), then the record to compare with it later; None: records are
            compared at once.
    """

    deferred: list[tuple[str, Wire]] | None

    def record(self, keys: LogKeys, signature: str, prev: str, wire: Wire) -> str:
        """Whether the writer's key signed the content of this record after the record `prev`, a hash in hex."""

    def certificate(self, certificate: Certificate, root_key: str, revoked: tuple[str, ...], pool: str, time: str) -> str:
        """Whether the root key permits this key to write the pool's log at this time, RFC 3339."""

    def root_change(self, change: RootKeyChange, root_key: str) -> str:
        """Whether this root key signed the change."""


class InvalidKeys(Exception):
    """A record about keys has no effect. The text says why."""


KEY_RECORDS = frozenset({PoolCreated.TYPE, WriterStarted.TYPE, KeyRevoked.TYPE, RootKeyChanged.TYPE})


def keys_after(keys: LogKeys | None, data: Payload, pool: str, time: str, check: SignatureCheck | None = None) -> LogKeys | None:
    """The keys after a record of `KEY_RECORDS`; None while the log is not signed.

    Args:
        check: None trusts the record, as the fold does.

    Raises:
        InvalidKeys: If it is invalid.
    """
    match data:
        case PoolCreated():
            if data.root_key is None:
                return None
            return _with_writer(LogKeys(data.root_key, "", ""), data.certificate, pool, time, check)
        case WriterStarted():
            return keys and _with_writer(keys, data.certificate, pool, time, check)
        case KeyRevoked():
            return keys and replace(keys, revoked=(*(key for key in keys.revoked if key != data.key), data.key))
        case RootKeyChanged():
            refused = "" if keys is None or check is None else check.root_change(data.change, keys.root_key)
            if refused:
                raise InvalidKeys(refused)
            return keys and replace(keys, root_key=data.change.key)
        case _:
            return keys


def _with_writer(keys: LogKeys, certificate: Certificate | None, pool: str, time: str, check: SignatureCheck | None) -> LogKeys:
    if certificate is None:
        raise InvalidKeys("the writer has no certificate")
    refused = "" if check is None else check.certificate(certificate, keys.root_key, keys.revoked, pool, time)
    if refused:
        raise InvalidKeys(refused)
    return replace(keys, writer_key=certificate.key, writer_until=time_text(certificate.expires))
