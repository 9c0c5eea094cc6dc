"""The receipt as a document: the records' exact bytes with one proof that they are in the log, the seal, the cosignatures.

Everything else follows from the records: root key, certificates, requests, victims and stages. Its JSON is canonical, so that
every reader parses the same: sorted members, no spaces, whole numbers, each `<` written as `\\u003c` (so it can stand in a page).
Headers that are as in the record before, at the same places, are written as how many they are.
"""

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed, SealingKey
from bailiff_core.canonical import canonical_json
from bailiff_core.model.document import Count, Hash, JobName, Name
from bailiff_core.records import Wire

FORMAT: Literal[2] = 2
MAX_BYTES = 64 * 1024 * 1024
"""Of a file that is read."""
MAX_RECORDS, MAX_PROOF = 10_000, 640_000
MAX_HEADERS, MAX_REPEATED = 64, 128
"""Of a record; characters of a value that is not written again."""


class InvalidReceipt(Exception):
    """The text is not a receipt. The message says why."""


class UnknownFormat(InvalidReceipt):
    """A receipt of a later release."""


class RawBytes(BaseModel):
    """Bytes that are not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    base64: Annotated[str, Field(max_length=2_000_000)]


Raw = str | RawBytes
"""Bytes of a record: as text, or as base64 where they are not UTF-8."""


def raw_of(content: bytes) -> Raw:
    """The bytes as they are written."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return RawBytes(base64=base64.b64encode(content).decode())


def bytes_of(raw: Raw) -> bytes:
    """The inverse of `raw_of`.

    Raises:
        ValueError: It is not base64.
    """
    if isinstance(raw, str):
        return raw.encode()
    content = base64.b64decode(raw.base64, validate=True)
    if base64.b64encode(content).decode() != raw.base64:
        raise ValueError("not base64 in its only form")
    return content


class ReceiptRecord(BaseModel):
    """One record of the log.

    Attributes:
        headers: Name and value of its `ce_*` headers, as on the wire.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    seq: Count
    headers: Annotated[tuple[tuple[str, Raw], ...], Field(max_length=MAX_HEADERS)]
    value: Raw

    @property
    def wire(self) -> Wire:
        """Its bytes. Raises `ValueError`."""
        return Wire(tuple((name, bytes_of(content)) for name, content in self.headers), bytes_of(self.value))


class Receipt(BaseModel):
    """One preemption, or what one victim lost by it.

    Attributes:
        receipt_version: The version of this format.
        decision: The record `PreemptionDecided`.
        victims: Those whose eviction the receipt shows; the decision names all victims.
        records: In the order of the log, without gaps where one is signed together with those before it.
        proof: That all of them are under the seal's root: the roots of the subtrees without any of them, from left to right.
        left_out: Stages that it does not show, as they would make it too long: a claim.
        seal: Covers every record of the receipt.
        keys: The log's sealing keys up to the seal's; each is signed by the one before.
        cosignatures: Of the seal's checkpoint.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    receipt_version: Literal[2] = FORMAT
    pool: Name
    decision: Count
    victims: Annotated[tuple[JobName, ...], Field(min_length=1, max_length=10_000)]
    records: Annotated[tuple[ReceiptRecord, ...], Field(min_length=1, max_length=MAX_RECORDS)]
    proof: Annotated[tuple[Hash, ...], Field(max_length=MAX_PROOF)]
    left_out: Count = 0
    seal: LogSealed
    keys: Annotated[tuple[SealingKey, ...], Field(max_length=1000)] = ()
    cosignatures: Annotated[tuple[CheckpointCosigned, ...], Field(max_length=64)] = ()

    def to_text(self) -> str:
        """Its canonical JSON."""
        data = self.model_dump(mode="json")
        data["records"] = with_headers(data["records"], shortened)
        data["seal"] = self.seal.to_data()
        data["keys"] = [each.to_data() for each in self.keys]
        data["cosignatures"] = [each.to_data() for each in self.cosignatures]
        return canonical_text(data)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The receipt in this JSON.

        Raises:
            InvalidReceipt: It is none, or not exactly as `to_text` writes it.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidReceipt("not the JSON of a receipt") from None
        if not isinstance(data, dict):
            raise InvalidReceipt("not the JSON of a receipt")
        version = data.get("receipt_version")
        if isinstance(version, int) and version != FORMAT:
            raise UnknownFormat(f"a receipt of the format {version}: this release reads {FORMAT}")
        try:
            data["records"] = with_headers(data["records"], expanded)
        except (TypeError, KeyError, IndexError):
            raise InvalidReceipt("records: not those of a receipt") from None
        try:
            found = cls.model_validate_json(json.dumps(data))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "receipt"
            raise InvalidReceipt(f"{where}: {first['msg']}") from None
        if found.to_text() != text:
            raise InvalidReceipt("its JSON is not canonical: it was changed, or written by another program")
        return found


def with_headers(records: list[dict[str, Any]], change: Callable[[list[Any], list[Any]], list[Any]]) -> list[dict[str, Any]]:
    """The records with changed headers.

    Args:
        change: `shortened` or `expanded`: of the headers of a record, and all of those of the record before it.
    """
    found: list[dict[str, Any]] = []
    before: list[Any] = []
    for record in records:
        headers = change(record["headers"], before)
        found.append({**record, "headers": headers})
        before = headers if change is expanded else record["headers"]
    return found


def shortened(headers: list[Any], before: list[Any]) -> list[Any]:
    """These headers; each run of those that are as before, at the same places, as how many they are."""
    found: list[Any] = []
    for at, header in enumerate(headers):
        if at >= len(before) or before[at] != header or not _is_repeatable(header):
            found.append(header)
        elif found and isinstance(found[-1], int):
            found[-1] += 1
        else:
            found.append(1)
    return found


def expanded(headers: list[Any], before: list[Any]) -> list[Any]:
    """The inverse of `shortened`. Raises `TypeError`, `IndexError`."""
    found: list[Any] = []
    for header in headers:
        if type(header) is not int:
            found.append(header)
            continue
        run = before[len(found) : len(found) + header]
        if not 0 < header == len(run) or not all(map(_is_repeatable, run)):
            raise IndexError
        found += run
    if len(found) > MAX_HEADERS:
        raise IndexError
    return found


def _is_repeatable(header: Any) -> bool:
    return all(isinstance(each, str) and len(each) <= MAX_REPEATED for each in header)


def canonical_text(data: object) -> str:
    """Canonical JSON that can stand in a page."""
    return canonical_json(data).decode().replace("<", "\\u003c")
