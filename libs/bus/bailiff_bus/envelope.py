"""CloudEvents 1.0 over Kafka for everything that is not an audit record.

Written in binary mode: attributes in `ce_*` headers, the data as JSON in the value. Read in binary mode and in structured
mode (`content-type: application/cloudevents+json`, the whole event as one JSON object), from any topic. Any other input
raises `InvalidMessage` with a code and a readable reason, and nothing else.

Data is JSON without duplicate keys, fractions, U+0000 or unpaired surrogates, integers within ±(2^53 - 1), nested at most
64 deep. Its canonical form (sorted keys, no spaces, UTF-8) is validated and covered by `digest`, so that both modes, and
clients that format JSON differently, agree.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NoReturn, NotRequired, TypedDict

import orjson
from pydantic import ValidationError

from bailiff_core.canonical import canonical_json, json_bytes
from bailiff_core.humanize import shortened, value_text
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.identity import Auth
from bailiff_core.model.message import MAX_INPUT_BYTES, MESSAGE_TYPES, MessageBody
from bailiff_core.records.wire import EPOCH_START, time_text, time_value

from .messages.dead_letters import DeadLetter
from .port import Headers, Message
from .validation_errors import NAME_PATTERN, describe_error, describe_errors

MAX_HEADER_BYTES = 64 * 1024
MAX_DEPTH = 64
MAX_REASON = 2000
JSON_TYPE = "application/json"
STRUCTURED_TYPE = "application/cloudevents+json"
DEAD_LETTER_HEADER = "bailiff_dead_letter"
ORIGINAL_PREFIX = "original_"


_MAX_LENGTHS = {
    "id": 256,
    "source": 256,
    "type": 128,
    "pool": 63,
    "subject": 256,
    "actor": 256,
    "auth": 16,
    "keyid": 128,
    "sig": 256,
    "certificate": 1024,
    "time": 64,
}
_NAME = re.compile(NAME_PATTERN.removesuffix("$"))
_NEEDS_FULL_CHECK = re.compile(rb"\\u|[:,\[]-?(?:[0-9]{16}|[0-9]+[.eE])")  # a number in canonical form follows one of these
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class InvalidMessage(Exception):
    """An input that is rejected. Attributes that could be read are kept for the record of the rejection."""

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        source: str | None = None,
        id: str | None = None,  # noqa: A002 - named by CloudEvents
        pool: str | None = None,
        job: str | None = None,
    ) -> None:
        self.code, self.reason = code, shortened(reason, MAX_REASON)
        self.source, self.id, self.pool, self.job = source, id, pool, job
        super().__init__(f"{code}: {self.reason}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """One parsed and validated message. `time` is µs UTC: the sender's, else the broker's append time.

    public: the data as covered by `digest`, SHA-256 of type, pool, public data and actor. The same id with another digest is
    another request.
    """

    id: str
    source: str
    type: str
    pool: str
    time: int
    subject: str
    actor: str
    auth: str
    keyid: str
    sig: str
    certificate: str
    body: MessageBody
    data: bytes
    public: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of type, pool, actor and `public`."""
        return content_digest(self.type, self.pool, self.public, self.actor)

    def refused(self, code: str, reason: str) -> InvalidMessage:
        """Why this message has no effect."""
        return InvalidMessage(code, reason, source=self.source, id=self.id, pool=self.pool)


@dataclass(frozen=True, slots=True)
class _Event:
    """Attributes and data of either mode, not validated."""

    attributes: dict[str, str]
    data: object


class Attributes(TypedDict):
    """Attributes that every sender gives a message. time_us: µs UTC."""

    source: str
    id: str
    pool: str
    time_us: int
    subject: NotRequired[str]
    traceparent: NotRequired[str]


_CONTENT_TYPE, _SPECVERSION = ("content-type", JSON_TYPE.encode()), ("ce_specversion", b"1.0")
_UNPARSED = object()  # the data of binary mode, not parsed yet


def wrap(
    body: MessageBody,
    *,
    source: str,
    id: str,  # noqa: A002 - named by CloudEvents
    pool: str,
    time_us: int,
    subject: str = "",
    actor: str = "",
    auth: Auth | None = None,
    keyid: str = "",
    sig: str = "",
    certificate: str = "",
    traceparent: str = "",
) -> tuple[Headers, bytes]:
    """Headers and value of a message, in binary mode."""
    headers: list[tuple[str, bytes]] = [
        _CONTENT_TYPE,
        _SPECVERSION,
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        ("ce_type", body.TYPE.encode()),
        ("ce_time", time_text(time_us).encode()),
        ("ce_pool", pool.encode()),
    ]
    optional = (
        ("ce_subject", subject),
        ("ce_actor", actor),
        ("ce_auth", auth),
        ("ce_keyid", keyid),
        ("ce_sig", sig),
        ("ce_certificate", certificate),
    )
    headers += [(name, value.encode()) for name, value in optional if value]
    if traceparent:
        headers.append(("traceparent", traceparent.encode()))
    return tuple(headers), body.to_json()


class ReceivedMessage:
    """A message whose attributes were read; `envelope` parses the rest, for messages of pools that are handled here.

    pool: from the attributes; None if it is missing or unreadable.
    """

    __slots__ = ("_error", "_event", "_message", "pool")

    def __init__(self, message: Message) -> None:
        self._message, self.pool, self._event = message, None, _Event({}, None)
        self._error: InvalidMessage | None = None
        try:
            _check_size(message)
            self._event = _attributes(message)
            self.pool = _name_hint(self._event.attributes.get("pool"))
        except InvalidMessage as error:
            self._error = error
        except RecursionError:
            self._error = InvalidMessage("not-json", f"nested more than {MAX_DEPTH} deep")

    @property
    def source(self) -> str:
        """Its source, as a record can have it; empty if it is missing or unreadable."""
        return _hint(self._event.attributes, "source") or ""

    @property
    def is_signed(self) -> bool:
        """Whether it has a signature, valid or not."""
        return bool(self._event.attributes.get("sig"))

    def envelope(self, accept: tuple[type[MessageBody], ...] = (MessageBody,)) -> Envelope:
        """The parsed message. Raises `InvalidMessage`, and nothing else.

        accept: the message types of this topic, or bases of them.
        """
        event, canonical = self._event, None
        try:
            if self._error is not None:
                raise self._error
            if event.data is _UNPARSED:
                event = _Event(event.attributes, None)
                canonical = _already_canonical(self._message.value)
                event = _Event(event.attributes, _parsed(self._message.value) if canonical is None else canonical)
            return _validated(event, self._message, accept, None if canonical is None else self._message.value)
        except InvalidMessage as error:
            raise _with_hints(error, event) from None
        except RecursionError:
            raise InvalidMessage("not-json", f"nested more than {MAX_DEPTH} deep") from None


def unwrap(message: Message, *, accept: tuple[type[MessageBody], ...] = (MessageBody,)) -> Envelope:
    """The parsed message: `ReceivedMessage.envelope`."""
    return ReceivedMessage(message).envelope(accept)


def pool_of(message: Message) -> str | None:
    """The pool of the message, without parsing the rest; None if it is missing or unreadable."""
    return ReceivedMessage(message).pool


def content_digest(type_name: str, pool: str, data: bytes, actor: str) -> str:
    """SHA-256 over the canonical JSON of [type, pool, actor], a line feed, and the canonical JSON of the public data."""
    return hashlib.sha256(_digest_prefix(type_name, pool, actor) + data).hexdigest()


@lru_cache(maxsize=1024)  # few combinations occur
def _digest_prefix(type_name: str, pool: str, actor: str) -> bytes:
    return canonical_json([type_name, pool, actor]) + b"\n"


def wrap_dead_letter(dead_letter: DeadLetter, original: Message, **attributes: Any) -> tuple[Headers, bytes]:
    """A dead letter: the original bytes as the value, the `DeadLetter` in headers.

    The original's headers follow with the prefix `original_`.
    """
    headers, data = wrap(dead_letter, **attributes)
    own = tuple(header for header in headers if header[0] != "content-type")
    originals = tuple((ORIGINAL_PREFIX + name, value) for name, value in original.headers)
    originals = originals if _header_bytes(originals) <= MAX_HEADER_BYTES else ()
    return (("content-type", b"application/octet-stream"), *own, (DEAD_LETTER_HEADER, data), *originals), original.value


def unwrap_dead_letter(message: Message) -> tuple[DeadLetter, Headers, bytes]:
    """The dead letter, and the headers and value of the original. Raises `InvalidMessage`."""
    content = dict(message.headers).get(DEAD_LETTER_HEADER)
    if content is None:
        raise InvalidMessage("not-a-cloudevent", f"a dead letter needs the header {DEAD_LETTER_HEADER}")
    try:
        dead_letter = DeadLetter.model_validate_json(content)
    except ValidationError as error:
        raise InvalidMessage("bad-field", describe_errors(error.errors(include_url=False))) from None
    originals = tuple(
        (name.removeprefix(ORIGINAL_PREFIX), value) for name, value in message.headers if name.startswith(ORIGINAL_PREFIX)
    )
    return dead_letter, originals, message.value


# --- bytes to attributes and data


def _check_size(message: Message) -> None:
    if len(message.value) > MAX_INPUT_BYTES:
        raise InvalidMessage("too-large", f"{len(message.value)} bytes, the limit is {MAX_INPUT_BYTES}")
    if _header_bytes(message.headers) > MAX_HEADER_BYTES:
        raise InvalidMessage("too-large", f"more than {MAX_HEADER_BYTES} bytes of headers")
    if not message.value:
        raise InvalidMessage("empty", "the value is empty (or a tombstone)")


def _header_bytes(headers: Headers) -> int:
    return sum([len(name) + len(value or b"") for name, value in headers])


def _attributes(message: Message) -> _Event:
    headers = _text_headers(message.headers)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == STRUCTURED_TYPE:
        return _structured(message.value)
    if "ce_specversion" not in headers and "ce_type" not in headers:
        raise InvalidMessage(
            "not-a-cloudevent",
            f"send the attributes as headers ce_specversion, ce_id, ce_source, ce_type, ce_pool; or the header "
            f"content-type: {STRUCTURED_TYPE} and the whole event as JSON",
        )
    if media_type not in {"", JSON_TYPE}:
        raise InvalidMessage(
            "wrong-content-type", f"content-type is {value_text(media_type)}, expected {JSON_TYPE} or {STRUCTURED_TYPE}"
        )
    return _Event({name[3:]: value for name, value in headers.items() if name.startswith("ce_")}, _UNPARSED)


def _text_headers(headers: Headers) -> dict[str, str]:
    result: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if not key.startswith("ce_") and key != "content-type":
            continue
        if key in result:
            raise InvalidMessage("bad-field", f"header {value_text(name)} occurs twice")
        try:
            result[key] = (value or b"").decode()  # a Kafka header may be null
        except UnicodeDecodeError:
            raise InvalidMessage("bad-field", f"header {value_text(name)} is not UTF-8") from None
    return result


def _structured(value: bytes) -> _Event:
    event = _parsed(value)
    if not isinstance(event, dict):
        raise InvalidMessage("not-an-object", f"expected an event as a JSON object, found {value_text(event)}")
    attributes = {name: item for name, item in event.items() if isinstance(item, str) and name != "data"}
    try:
        for name in ("specversion", *_MAX_LENGTHS):
            if name in event and name not in attributes:
                raise InvalidMessage("bad-field", describe_error((name,), "text", event[name]))
        if "data_base64" in event:
            raise InvalidMessage("bad-field", "data_base64: expected the data as JSON in the member data")
        content_type = attributes.get("datacontenttype", JSON_TYPE).partition(";")[0].strip().lower()
        if content_type != JSON_TYPE:
            found = value_text(content_type)
            raise InvalidMessage("wrong-content-type", f"datacontenttype is {found}, expected {JSON_TYPE}")
        if "data" not in event:
            raise InvalidMessage("not-an-object", "data: expected a JSON object, found nothing")
    except InvalidMessage as error:
        raise _with_hints(error, _Event(attributes, None)) from None
    return _Event(attributes, event["data"])


def _already_canonical(value: bytes) -> dict[str, Any] | None:
    """The data, if these bytes are its canonical form and need no further checks, as from our own clients.

    Then there is no duplicate key, no fraction, no number of 16 digits or more and no escape, so no U+0000.
    """
    if _NEEDS_FULL_CHECK.search(value) or value.count(b"{") + value.count(b"[") > MAX_DEPTH:
        return None
    try:
        data = orjson.loads(value)
        return data if isinstance(data, dict) and json_bytes(data) == value else None
    except ValueError:
        return None


def _parsed(value: bytes) -> object:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessage("not-json", f"not UTF-8 at byte {error.start}") from None
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InvalidMessage("not-json", f"not JSON at line {error.lineno} column {error.colno}: {error.msg}") from None
    except ValueError:  # Python's limit for integers is 4300 digits
        raise InvalidMessage("not-json", "a number has too many digits") from None
    except RecursionError:
        raise InvalidMessage("not-json", f"nested more than {MAX_DEPTH} deep") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        duplicate = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidMessage("not-json", f"key {value_text(duplicate)} occurs twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise InvalidMessage("not-json", f"{name} is not JSON")


# --- attributes and data to an envelope


def _validated(event: _Event, message: Message, accept: tuple[type[MessageBody], ...], canonical: bytes | None) -> Envelope:
    """canonical: the canonical form of the data, if it passed all checks already."""
    attributes = event.attributes
    if attributes.get("specversion") != "1.0":
        raise InvalidMessage("wrong-specversion", describe_error(("specversion",), "1.0", attributes.get("specversion")))
    for name, text in attributes.items():
        if name in _MAX_LENGTHS:
            _check_attribute(name, text, _MAX_LENGTHS[name])
    for name in ("id", "source", "type", "pool"):
        if not attributes.get(name):
            raise InvalidMessage(f"no-{name}", f"{name}: expected a value, found nothing")
    if not _NAME.fullmatch(attributes["pool"]):
        raise InvalidMessage("bad-field", describe_error(("pool",), "a pool name (a-z 0-9 - . _)", attributes["pool"]))
    if attributes.get("auth", "") not in {"", "none", "acl", "signed"}:
        raise InvalidMessage("bad-field", describe_error(("auth",), "none, acl or signed", attributes["auth"]))
    if bool(attributes.get("keyid")) != bool(attributes.get("sig")):
        raise InvalidMessage("bad-field", "keyid, sig: expected both or neither")
    if attributes.get("sig") and not attributes.get("time"):
        raise InvalidMessage("bad-field", "time: expected a value in a signed request, found nothing")
    time = _time_value(attributes["time"]) if attributes.get("time") else message.time
    kind = MESSAGE_TYPES.get(attributes["type"])
    if kind is None:
        raise InvalidMessage("unknown-type", f"type: {value_text(attributes['type'])} is unknown to this release")
    if not issubclass(kind, accept):
        raise InvalidMessage("unknown-type", f"type: {value_text(attributes['type'])} is not allowed on {message.topic}")
    if not isinstance(event.data, dict):
        raise InvalidMessage("not-an-object", f"data: expected a JSON object, found {value_text(event.data)}")
    if canonical is None:
        _check_values(event.data)
    data = canonical or canonical_json(event.data)
    try:
        body = kind.model_validate_json(data)
    except ValidationError as error:
        raise InvalidMessage("bad-field", describe_errors(error.errors(include_url=False))) from None
    return Envelope(
        **{name: attributes.get(name, "") for name in _MAX_LENGTHS if name != "time"},
        time=time,
        body=body,
        data=data,
        public=body.public_data(data),
    )


def _check_attribute(name: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise InvalidMessage("bad-field", describe_error((name,), f"at most {limit} characters", text))
    if not text.isprintable():
        raise InvalidMessage("bad-field", describe_error((name,), "printable text", text))


def _check_values(data: dict[str, Any]) -> None:
    """Reject values that other JSON parsers, the log or a database would not preserve exactly."""
    pending: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    while pending:
        path, value = pending.pop()
        if len(path) > MAX_DEPTH:
            raise InvalidMessage("not-json", f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, dict):
            for key, item in value.items():
                if not _is_plain(key):
                    raise InvalidMessage(
                        "bad-field", describe_error(path, "keys without U+0000 or an unpaired surrogate", "a key")
                    )
                pending.append(((*path, key), item))
        elif isinstance(value, list):
            pending.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, str) and not _is_plain(value):
            raise InvalidMessage("bad-field", describe_error(path, "text without U+0000 or an unpaired surrogate", value))
        elif isinstance(value, float):
            raise InvalidMessage("bad-field", describe_error(path, "a whole number", value))
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise InvalidMessage("bad-field", describe_error(path, f"a whole number within ±{MAX_INTEGER}", value))


def _is_plain(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time_value(text: str) -> int:
    with suppress(ValueError):
        return time_value(text)  # the format of Bailiff's clients
    expected = "a time such as 2026-01-31T12:00:00.000000Z"
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidMessage("bad-field", describe_error(("time",), expected, text))
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidMessage("bad-field", describe_error(("time",), expected, text)) from None
    micros = (moment - EPOCH_START) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0")[:6])
    if micros < 0:
        raise InvalidMessage("bad-field", describe_error(("time",), "a time after 1970", text))
    return micros


def _with_hints(error: InvalidMessage, event: _Event) -> InvalidMessage:
    """The error with the attributes that could be read, if they are valid in a record."""
    return InvalidMessage(
        error.code,
        error.reason,
        source=error.source or _hint(event.attributes, "source"),
        id=error.id or _hint(event.attributes, "id"),
        pool=error.pool or _name_hint(event.attributes.get("pool")),
        job=error.job or _job_hint(event.data),
    )


def _hint(attributes: Mapping[str, str], name: str) -> str | None:
    text = attributes.get(name, "")
    return text if text and len(text) <= 256 and _is_plain(text) and text.isprintable() else None


def _name_hint(value: object) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _job_hint(data: object) -> str | None:
    if not isinstance(data, dict):
        return None
    demand = data.get("demand")
    return _name_hint(data.get("job")) or _name_hint(demand.get("job") if isinstance(demand, dict) else None)
