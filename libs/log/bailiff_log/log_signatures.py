"""Signatures of the audit log's records (docs/reference/log-protocol.md#signatures).

The writer signs the first of the records that it appends together: `["bailiff-record-1", pool, prev, content]` as canonical JSON,
where `content` is the record's content hash. Each of these records names the content hash of the next in `ce_nextcontent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.certificate import Certificate, RootKeyChange
from bailiff_core.records import LogKeys, Record, Wire, encode
from bailiff_core.records.chain import NOT_ANNOUNCED, WRITER_STARTED
from bailiff_core.records.wire import HashedRecord, UnchainedRecord, content_hash, time_value

from .certificates import InvalidCertificate, check_certificate
from .credentials import Credentials
from .keys import is_signed, sign_fields

RECORD_TAG, ROOT_KEY_TAG = "bailiff-record-1", "bailiff-root-key-1"
PLACEHOLDER = "-"  # in drafts; an empty header would be left out


class InvalidSignature(Exception):
    """A signature whose check was deferred is invalid."""


class LogSignatureCheck:
    """Checks the signatures of one pool's log, as the chain rule needs (`SignatureCheck`)."""

    deferred: list[tuple[str, Wire]] | None = None

    def __init__(self, pool: str) -> None:
        self.pool = pool

    def record(self, keys: LogKeys, signature: str, prev: str, wire: Wire) -> str:
        """Why the writer's signature over the content of this record after `prev` is invalid, or an empty text."""
        valid = is_signed(keys.writer_key, signature, [RECORD_TAG, self.pool, prev, content_hash(wire)])
        return "" if valid else f"its signature is not that of the writer's key {keys.writer_key}"

    def certificate(self, certificate: Certificate, root_key: str, revoked: tuple[str, ...], pool: str, time: str) -> str:
        """Why this certificate does not permit its key to write the pool's log at this time, or an empty text.

        A writer continues at the log's time, which may be before its certificate was issued.
        """
        try:
            at = max(time_value(time), certificate.not_before)
            check_certificate(certificate, root_keys={root_key}, pool=pool, roles={"admission"}, at=at, revoked=revoked)
        except (InvalidCertificate, ValueError) as error:
            return str(error)
        return ""

    def settle(self) -> None:
        """Raises `InvalidSignature` if what was not checked yet is invalid."""

    def root_change(self, change: RootKeyChange, root_key: str) -> str:
        """Why this change is not signed with the root key, or an empty text."""
        valid = is_signed(root_key, change.signature, [ROOT_KEY_TAG, change.identity, change.key])
        return "" if valid else "the change of the root key is not signed with the one before it"


class DeferredSignatureCheck(LogSignatureCheck):
    """As `LogSignatureCheck`, but keeps the newest signature, and the records after it, unchecked until `settle`.

    A signature vouches for all records before it, through their hashes. So it suffices to check the newest one of each key, and
    what the records after it announce. Where another key signs, the signatures of the one before are settled first: no writer
    vouches for another's.
    """

    def __init__(self, pool: str) -> None:
        super().__init__(pool)
        self._pending: tuple[LogKeys, str, str, Wire] | None = None
        self.deferred = []

    def record(self, keys: LogKeys, signature: str, prev: str, wire: Wire) -> str:
        """Keeps the signature. Always an empty text. Raises `InvalidSignature`: that of the key before is invalid."""
        if self._pending is not None and self._pending[0].writer_key != keys.writer_key:
            self.settle()
        self._pending = keys, signature, prev, wire
        self.deferred = []
        return ""

    def settle(self) -> None:
        """Checks the newest signature, and the records after it."""
        pending, self._pending = self._pending, None
        announced, self.deferred = self.deferred or (), []
        refused = pending and super().record(*pending)
        if refused:
            raise InvalidSignature(refused)
        if any(content_hash(wire) != content for content, wire in announced):
            raise InvalidSignature(NOT_ANNOUNCED)


class WriterCheck:
    """For the writer's own records, which it signs and announces itself (`SignatureCheck`). Readers check them."""

    def __init__(self) -> None:
        self.deferred: list[tuple[str, Wire]] | None = []

    def record(self, keys: LogKeys, signature: str, prev: str, wire: Wire) -> str:  # noqa: ARG002
        """Always valid."""
        return ""

    def certificate(self, certificate: Certificate, root_key: str, revoked: tuple[str, ...], pool: str, time: str) -> str:  # noqa: ARG002
        """Always valid."""
        return ""

    def root_change(self, change: RootKeyChange, root_key: str) -> str:  # noqa: ARG002
        """Always valid."""
        return ""


@dataclass(slots=True)
class DraftRecord:
    """A record before its `prev` and, if it is the first of a group, its signature are known."""

    record: Record
    unchained: UnchainedRecord

    def finish(self, prev: str, credentials: Credentials) -> tuple[Record, HashedRecord]:
        """The record after `prev`, its bytes, and their hash."""
        record, signature = self.record, b""
        record.prev = prev
        if record.signature:
            record.signature = sign_fields(credentials.private_key, [RECORD_TAG, record.pool, prev, self.unchained.content])
            signature = record.signature.encode()
        return record, self.unchained.chained(prev.encode(), signature)


def draft_signed(records: Sequence[Record]) -> list[DraftRecord]:
    """Drafts of records that are appended together: the first is signed, each names the content hash of the next.

    `WriterStarted` begins a group of its own. The content hash depends neither on `prev` nor on the signature, so each record is
    encoded once.
    """
    drafts: list[DraftRecord] = []
    next_content = ""
    for number in range(len(records) - 1, -1, -1):
        first = number == 0 or records[number].type == WRITER_STARTED
        record = records[number].continuing(PLACEHOLDER)
        record.next_content, record.signature = next_content, PLACEHOLDER if first else ""
        unchained = UnchainedRecord(encode(record))
        drafts.append(DraftRecord(record, unchained))
        next_content = "" if record.type == WRITER_STARTED else unchained.content
    drafts.reverse()
    return drafts
