"""CloudEvents 1.0 over Kafka for everything that is not an audit record.

We write binary mode: attributes in `ce_*` headers, the data as JSON in the value. We read that, and structured mode
(`content-type: application/cloudevents+json`, the whole event as one JSON object), from any topic. Whatever else comes
is `Unacceptable`, with a code for programs and a sentence for people; no input of any shape raises anything else.

Data is JSON without doubled keys, fractions, U+0000 or half surrogate pairs, whole numbers within ±(2^53 - 1), nested
at most 64 deep. Its canonical form (sorted keys, no spaces, UTF-8) is what is validated and what `digest` covers, so
that both modes, and clients that write JSON differently, agree.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NoReturn

import orjson
from pydantic import ValidationError

from bailiff_bus.complaints import NAME_PATTERN, complaint, complaints, found_text, shortened
from bailiff_bus.messages import MESSAGE_TYPES, DeadLetter, MessageBody
from bailiff_bus.port import Headers, Message
from bailiff_core.canonical import canonical_json, written
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.records.wire import EPOCH_START, time_text, time_value

MAX_INPUT_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_DEPTH = 64
MAX_REASON = 2000
JSON_TYPE = "application/json"
STRUCTURED_TYPE = "application/cloudevents+json"
LETTER_HEADER = "bailiff_letter"
ORIGINAL_PREFIX = "original_"

Auth = Literal["none", "acl", "signed"]

_LONGEST = {
    "id": 256, "source": 256, "type": 128, "domain": 63, "subject": 256, "actor": 256, "auth": 16, "keyid": 128,
    "sig": 256, "time": 64,
}  # fmt: skip
_NAME = re.compile(NAME_PATTERN.removesuffix("$"))
_LOOK_CLOSER = re.compile(rb"\\u|[:,\[]-?(?:[0-9]{16}|[0-9]+[.eE])")  # before a number in canonical form stands one of these
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class Unacceptable(Exception):
    """An input that has no effect. What could be made out of it is there for the record of its rejection."""

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        source: str | None = None,
        id: str | None = None,  # noqa: A002 - the name that CloudEvents gives it
        domain: str | None = None,
        job: str | None = None,
    ) -> None:
        self.code, self.reason = code, shortened(reason, MAX_REASON)
        self.source, self.id, self.domain, self.job = source, id, domain, job
        super().__init__(f"{code}: {self.reason}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message, understood. `time` is µs UTC: the sender's, or where it gave none the broker's append time.

    digest: SHA-256 of type, domain, data and actor. The same id with another digest is another request.
    """

    id: str
    source: str
    type: str
    domain: str
    time: int
    subject: str
    actor: str
    auth: str
    keyid: str
    sig: str
    body: MessageBody
    data: bytes

    @property
    def digest(self) -> str:
        """Over what `data`, the canonical form of the data, and these attributes say."""
        return content_digest(self.type, self.domain, self.data, self.actor)


@dataclass(frozen=True, slots=True)
class _Event:
    """The attributes and the data of either mode, before anybody looked at what they mean."""

    at: dict[str, str]
    data: object


_CONTENT_TYPE, _SPECVERSION = ("content-type", JSON_TYPE.encode()), ("ce_specversion", b"1.0")
_IN_VALUE = object()  # the data of binary mode, not looked at yet


def wrap(
    body: MessageBody,
    *,
    source: str,
    id: str,  # noqa: A002 - the name that CloudEvents gives it
    domain: str,
    time_us: int,
    subject: str = "",
    actor: str = "",
    auth: Auth | None = None,
    keyid: str = "",
    sig: str = "",
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
        ("ce_domain", domain.encode()),
    ]
    optional = (("ce_subject", subject), ("ce_actor", actor), ("ce_auth", auth), ("ce_keyid", keyid), ("ce_sig", sig))
    headers += [(name, value.encode()) for name, value in optional if value]
    if traceparent:
        headers.append(("traceparent", traceparent.encode()))
    return tuple(headers), body.to_json()


class Opened:
    """A message whose attributes were read. What it says is asked next, by whom it concerns.

    domain: the one that it names; None where it names none, or cannot be read that far.
    """

    __slots__ = ("_event", "_fault", "_message", "domain")

    def __init__(self, message: Message) -> None:
        self._message, self.domain, self._event = message, None, _Event({}, None)
        self._fault: Unacceptable | None = None
        try:
            _check_size(message)
            self._event = _attributes(message)
            self.domain = _name_hint(self._event.at.get("domain"))
        except Unacceptable as fault:
            self._fault = fault
        except RecursionError:
            self._fault = Unacceptable("not-json", f"nested more than {MAX_DEPTH} deep")

    def envelope(self, accept: tuple[type[MessageBody], ...] = (MessageBody,)) -> Envelope:
        """What the message says. Raises `Unacceptable`, and nothing else, for what it cannot say.

        accept: the message types, or bases of them, that this topic is for.
        """
        event, canonical = self._event, None
        try:
            if self._fault is not None:
                raise self._fault
            if event.data is _IN_VALUE:
                event = _Event(event.at, None)
                canonical = _already_canonical(self._message.value)
                event = _Event(event.at, _parsed(self._message.value) if canonical is None else canonical)
            return _understood(event, self._message, accept, None if canonical is None else self._message.value)
        except Unacceptable as refusal:
            raise _with_hints(refusal, event) from None
        except RecursionError:
            raise Unacceptable("not-json", f"nested more than {MAX_DEPTH} deep") from None


def unwrap(message: Message, *, accept: tuple[type[MessageBody], ...] = (MessageBody,)) -> Envelope:
    """What the message says: `Opened.envelope`."""
    return Opened(message).envelope(accept)


def domain_of(message: Message) -> str | None:
    """The domain that the message names, without a look at the rest; None where it names none."""
    return Opened(message).domain


def content_digest(type_name: str, domain: str, data: bytes, actor: str) -> str:
    """SHA-256 over the canonical JSON of [type, domain, actor], a line feed, and the canonical JSON of the data."""
    return hashlib.sha256(_about(type_name, domain, actor) + data).hexdigest()


@lru_cache(maxsize=1024)  # few people send much
def _about(type_name: str, domain: str, actor: str) -> bytes:
    return canonical_json([type_name, domain, actor]) + b"\n"


def wrap_dead_letter(letter: DeadLetter, original: Message, **attributes: Any) -> tuple[Headers, bytes]:
    """A dead letter: the original bytes as the value, what is known about them in headers.

    The original's headers follow under `original_`, so that nothing of it is taken for the letter's own.
    """
    headers, data = wrap(letter, **attributes)
    own = tuple(header for header in headers if header[0] != "content-type")
    moved = tuple((ORIGINAL_PREFIX + name, value) for name, value in original.headers)
    kept = moved if _header_bytes(moved) <= MAX_HEADER_BYTES else ()
    return (("content-type", b"application/octet-stream"), *own, (LETTER_HEADER, data), *kept), original.value


def unwrap_dead_letter(message: Message) -> tuple[DeadLetter, Headers, bytes]:
    """The letter, and the headers and value that it is about. Raises `Unacceptable`."""
    about = dict(message.headers).get(LETTER_HEADER)
    if about is None:
        raise Unacceptable("not-a-cloudevent", f"a dead letter has a header {LETTER_HEADER}, this message has none")
    try:
        letter = DeadLetter.model_validate_json(about)
    except ValidationError as error:
        raise Unacceptable("bad-field", complaints(error.errors(include_url=False))) from None
    originals = tuple(
        (name.removeprefix(ORIGINAL_PREFIX), value) for name, value in message.headers if name.startswith(ORIGINAL_PREFIX)
    )
    return letter, originals, message.value


# --- bytes to attributes and data


def _check_size(message: Message) -> None:
    if len(message.value) > MAX_INPUT_BYTES:
        raise Unacceptable("too-large", f"{len(message.value)} bytes, at most {MAX_INPUT_BYTES} are read")
    if _header_bytes(message.headers) > MAX_HEADER_BYTES:
        raise Unacceptable("too-large", f"more than {MAX_HEADER_BYTES} bytes of headers")
    if not message.value:
        raise Unacceptable("empty", "the value is empty (a tombstone, or nothing was sent)")


def _header_bytes(headers: Headers) -> int:
    return sum([len(name) + len(value or b"") for name, value in headers])


def _attributes(message: Message) -> _Event:
    headers = _text_headers(message.headers)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == STRUCTURED_TYPE:
        return _structured(message.value)
    if "ce_specversion" not in headers and "ce_type" not in headers:
        raise Unacceptable(
            "not-a-cloudevent",
            f"send the attributes as headers ce_specversion, ce_id, ce_source, ce_type, ce_domain; or the header "
            f"content-type: {STRUCTURED_TYPE} and the whole event as JSON",
        )
    if media_type not in {"", JSON_TYPE}:
        raise Unacceptable(
            "wrong-content-type", f"content-type is {found_text(media_type)}, expected {JSON_TYPE} or {STRUCTURED_TYPE}"
        )
    return _Event({name[3:]: value for name, value in headers.items() if name.startswith("ce_")}, _IN_VALUE)


def _text_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if not key.startswith("ce_") and key != "content-type":
            continue
        if key in found:
            raise Unacceptable("bad-field", f"header {found_text(name)} stands twice")
        try:
            found[key] = (value or b"").decode()  # a Kafka header may be null
        except UnicodeDecodeError:
            raise Unacceptable("bad-field", f"header {found_text(name)} is not UTF-8") from None
    return found


def _structured(value: bytes) -> _Event:
    event = _parsed(value)
    if not isinstance(event, dict):
        raise Unacceptable("not-an-object", f"expected an event as a JSON object, found {found_text(event)}")
    at = {name: item for name, item in event.items() if isinstance(item, str) and name != "data"}
    try:
        for name in ("specversion", *_LONGEST):
            if name in event and name not in at:
                raise Unacceptable("bad-field", complaint((name,), "text", event[name]))
        if "data_base64" in event:
            raise Unacceptable("bad-field", "data_base64: expected the data as JSON in the member data")
        content_type = at.get("datacontenttype", JSON_TYPE).partition(";")[0].strip().lower()
        if content_type != JSON_TYPE:
            found = found_text(content_type)
            raise Unacceptable("wrong-content-type", f"datacontenttype is {found}, expected {JSON_TYPE}")
        if "data" not in event:
            raise Unacceptable("not-an-object", "data: expected a JSON object, found nothing")
    except Unacceptable as refusal:
        raise _with_hints(refusal, _Event(at, None)) from None
    return _Event(at, event["data"])


def _already_canonical(value: bytes) -> dict[str, Any] | None:
    """The data, if these bytes are its canonical form and nothing in them needs a closer look: what our own clients send.

    Then no key is doubled; no number is a fraction, or has 16 digits, so none is too large; no escape, so no U+0000.
    """
    if _LOOK_CLOSER.search(value) or value.count(b"{") + value.count(b"[") > MAX_DEPTH:
        return None
    try:
        data = orjson.loads(value)
        return data if isinstance(data, dict) and written(data) == value else None
    except ValueError:
        return None


def _parsed(value: bytes) -> object:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Unacceptable("not-json", f"not UTF-8 at byte {error.start}") from None
    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Unacceptable("not-json", f"not JSON at line {error.lineno} column {error.colno}: {error.msg}") from None
    except ValueError:  # Python refuses to read numbers of more than 4300 digits
        raise Unacceptable("not-json", "a number has too many digits") from None
    except RecursionError:
        raise Unacceptable("not-json", f"nested more than {MAX_DEPTH} deep") from None


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Unacceptable("not-json", f"key {found_text(twice)} stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise Unacceptable("not-json", f"{name} is not JSON")


# --- attributes and data to an envelope


def _understood(event: _Event, message: Message, accept: tuple[type[MessageBody], ...], canonical: bytes | None) -> Envelope:
    """canonical: the canonical form of the data, where that is known to be free of faults."""
    at = event.at
    if at.get("specversion") != "1.0":
        raise Unacceptable("wrong-specversion", complaint(("specversion",), "1.0", at.get("specversion")))
    for name, text in at.items():
        if name in _LONGEST:
            _check_attribute(name, text, _LONGEST[name])
    for name in ("id", "source", "type", "domain"):
        if not at.get(name):
            raise Unacceptable(f"no-{name}", f"{name}: expected a value, found nothing")
    if not _NAME.fullmatch(at["domain"]):
        raise Unacceptable("bad-field", complaint(("domain",), "the name of a pool (a-z 0-9 - . _)", at["domain"]))
    if at.get("auth", "") not in {"", "none", "acl", "signed"}:
        raise Unacceptable("bad-field", complaint(("auth",), "none, acl or signed", at["auth"]))
    if bool(at.get("keyid")) != bool(at.get("sig")):
        raise Unacceptable("bad-field", "keyid, sig: expected both or neither")
    if at.get("sig") and not at.get("time"):
        raise Unacceptable("bad-field", "time: expected a value in a signed request, found nothing")
    time = _time_value(at["time"]) if at.get("time") else message.time
    kind = MESSAGE_TYPES.get(at["type"])
    if kind is None:
        raise Unacceptable("unknown-type", f"type: {found_text(at['type'])} is not a type of this release")
    if not issubclass(kind, accept):
        raise Unacceptable("unknown-type", f"type: {found_text(at['type'])} does not belong on {message.topic}")
    if not isinstance(event.data, dict):
        raise Unacceptable("not-an-object", f"data: expected a JSON object, found {found_text(event.data)}")
    if canonical is None:
        _check_values(event.data)
    data = canonical or canonical_json(event.data)
    try:
        body = kind.model_validate_json(data)
    except ValidationError as error:
        raise Unacceptable("bad-field", complaints(error.errors(include_url=False))) from None
    return Envelope(
        id=at["id"], source=at["source"], type=at["type"], domain=at["domain"], time=time,
        subject=at.get("subject", ""), actor=at.get("actor", ""), auth=at.get("auth", ""),
        keyid=at.get("keyid", ""), sig=at.get("sig", ""), body=body, data=data,
    )  # fmt: skip


def _check_attribute(name: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise Unacceptable("bad-field", complaint((name,), f"at most {longest} characters", text))
    if not text.isprintable():
        raise Unacceptable("bad-field", complaint((name,), "printable text", text))


def _check_values(data: dict[str, Any]) -> None:
    """Refuse what other readers of JSON, the log or a database could not keep exactly, wherever it stands."""
    ahead: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    while ahead:
        path, value = ahead.pop()
        if len(path) > MAX_DEPTH:
            raise Unacceptable("not-json", f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, dict):
            for key, item in value.items():
                if not _is_plain(key):
                    raise Unacceptable("bad-field", complaint(path, "keys without U+0000 or half a pair", "a key"))
                ahead.append(((*path, key), item))
        elif isinstance(value, list):
            ahead.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, str) and not _is_plain(value):
            raise Unacceptable("bad-field", complaint(path, "text without U+0000 or half a surrogate pair", value))
        elif isinstance(value, float):
            raise Unacceptable("bad-field", complaint(path, "a whole number", value))
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise Unacceptable("bad-field", complaint(path, f"a whole number within ±{MAX_INTEGER}", value))


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
        return time_value(text)  # as our own clients write it
    wanted = "a time such as 2026-01-31T12:00:00.000000Z"
    match = _TIME.fullmatch(text)
    if match is None:
        raise Unacceptable("bad-field", complaint(("time",), wanted, text))
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unacceptable("bad-field", complaint(("time",), wanted, text)) from None
    micros = (moment - EPOCH_START) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0")[:6])
    if micros < 0:
        raise Unacceptable("bad-field", complaint(("time",), "a time after 1970", text))
    return micros


def _with_hints(refusal: Unacceptable, event: _Event) -> Unacceptable:
    """The refusal with what can be made out of the input, as far as it may stand in the log."""
    return Unacceptable(
        refusal.code,
        refusal.reason,
        source=refusal.source or _hint(event.at, "source"),
        id=refusal.id or _hint(event.at, "id"),
        domain=refusal.domain or _name_hint(event.at.get("domain")),
        job=refusal.job or _job_hint(event.data),
    )


def _hint(at: Mapping[str, str], name: str) -> str | None:
    text = at.get(name, "")
    return text if text and len(text) <= 256 and _is_plain(text) and text.isprintable() else None


def _name_hint(value: object) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _job_hint(data: object) -> str | None:
    if not isinstance(data, dict):
        return None
    demand = data.get("demand")
    return _name_hint(data.get("job")) or _name_hint(demand.get("job") if isinstance(demand, dict) else None)
