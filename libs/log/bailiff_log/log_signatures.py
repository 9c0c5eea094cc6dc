"""Signatures of the audit log's records (docs/reference/log-protocol.md#signatures).

The writer signs the first of the records that it appends together: `["bailiff-record-1", pool, prev, content]` as canonical JSON,
where `content` is the record's content hash. Each of these records names the content hash of the next in `ce_nextcontent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bailiff_core.model.certificate import Certificate, RootKeyChange
from bailiff_core.records import LogKeys, Record, Wire, encode
from bailiff_core.records.chain import NOT_ANNOUNCED, WRITER_STARTED
from bailiff_core.records.wire import content_hash, time_value

from .certificates import InvalidCertificate, check_certificate
from .credentials import Credentials
from .keys import is_signed, sign_fields

RECORD_TAG, ROOT_KEY_TAG = "bailiff-record-1", "bailiff-root-key-1"
PLACEHOLDER = "-"  # in drafts; an empty header would be left out


class InvalidSignature(Exception):
    """A signature whose check was deferred is invalid."""


class LogSignatureCheck:
    """Checks the signatures of one pool's log, as the chain rule needs (`SignatureCheck`)."""

    def __init__(self, pool: str) -> None:
        self.pool = pool

    def record(self, keys: LogKeys, signature: str, prev: str, content: str) -> str:
        """Why the writer's signature over the record with this content after `prev` is invalid, or an empty text."""
        valid = is_signed(keys.writer_key, signature, [RECORD_TAG, self.pool, prev, content])
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

    def defers(self, announced: str, wire: Wire) -> bool:  # noqa: ARG002 - a subclass does
        """Never: each record is checked when it is read."""
        return False

    def settle(self) -> None:
        """Raises `InvalidSignature` if what was not checked yet is invalid."""

    def root_change(self, change: RootKeyChange, root_key: str) -> str:
        """Why this change is not signed with the root key, or an empty text."""
        valid = is_signed(root_key, change.signature, [ROOT_KEY_TAG, change.identity, change.key])
        return "" if valid else "the change of the root key is not signed with the one before it"


class DeferredSignatureCheck(LogSignatureCheck):
    """As `LogSignatureCheck`, but keeps the newest signature, and the records after it, unchecked until `settle`.

    A signature vouches for all records before it, through their hashes. So it suffices to check the newest one, and what the
    records after it announce.
    """

    def __init__(self, pool: str) -> None:
        super().__init__(pool)
        self._pending: tuple[LogKeys, str, str, str] | None = None
        self._announced: list[tuple[str, Wire]] = []

    def record(self, keys: LogKeys, signature: str, prev: str, content: str) -> str:
        """Keeps the signature. Always an empty text."""
        self._pending = keys, signature, prev, content
        self._announced.clear()
        return ""

    def defers(self, announced: str, wire: Wire) -> bool:
        """Keeps the record."""
        self._announced.append((announced, wire))
        return True

    def settle(self) -> None:
        """Checks the newest signature, and the records after it."""
        pending, self._pending = self._pending, None
        announced, self._announced = self._announced, []
        refused = pending and super().record(*pending)
        if refused:
            raise InvalidSignature(refused)
        if any(content_hash(wire) != content for content, wire in announced):
            raise InvalidSignature(NOT_ANNOUNCED)


@dataclass(slots=True)
class DraftRecord:
    """A record before its `prev` and, if it is the first of a group, its signature are known. content: its content hash."""

    record: Record
    wire: Wire
    content: str

    def finish(self, prev: str, credentials: Credentials) -> tuple[Record, Wire]:
        """The record after `prev`, and its bytes."""
        record, headers = self.record.continuing(prev), list(self.wire.headers)
        headers[headers.index(("ce_prev", PLACEHOLDER.encode()))] = "ce_prev", prev.encode()
        if record.signature:
            record.signature = sign_fields(credentials.private_key, [RECORD_TAG, record.pool, prev, self.content])
            headers[-1] = "ce_sig", record.signature.encode()
        return record, Wire(tuple(headers), self.wire.value)


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
        wire = encode(record)
        content = content_hash(wire)
        drafts.append(DraftRecord(record, wire, content))
        next_content = "" if record.type == WRITER_STARTED else content
    drafts.reverse()
    return drafts
