"""No input of any shape does anything but come out as an envelope or as a refusal that may stand in the log."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.unit.bus_runtime.kit import binary, message, structured, submit_data, wrapped

from bailiff_bus.envelope import Envelope, InvalidMessage, pool_of, unwrap
from bailiff_bus.port import Message
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.records.facts import InputRejected

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

HEADER_NAMES = st.sampled_from(
    ["content-type", "ce_specversion", "ce_id", "ce_source", "ce_type", "ce_pool", "ce_time", "ce_sig", "ce_keyid"]
) | st.text(max_size=10)
HEADER_VALUES = (
    st.binary(max_size=20)
    | st.sampled_from([b"1.0", b"a100", b"application/json", b"application/cloudevents+json", b"2027-01-01T00:00:00Z"])
    | st.sampled_from(sorted(MESSAGE_TYPES)).map(str.encode)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=6), inner, max_size=4),
    max_leaves=12,
)


def outcome(input_: Message) -> Envelope | InvalidMessage:
    """Raises if anything comes but these two, or if a refusal could not be recorded."""
    pool_of(input_)
    try:
        return unwrap(input_)
    except InvalidMessage as refusal:
        InputRejected(
            topic=input_.topic,
            partition=0,
            offset=0,
            digest="0" * 64,
            code=refusal.code,
            reason=refusal.reason,
            source=refusal.source,
            id=refusal.id,
            job=refusal.job,
        )
        refusal.reason.encode()
        return refusal


@calm
@given(st.binary(max_size=300), st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=8))
@pytest.mark.slow
def test_any_bytes_under_any_headers(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    outcome(message(value, tuple(headers)))


@calm
@given(JSON, st.sampled_from(sorted(MESSAGE_TYPES)), st.booleans())
@pytest.mark.slow
def test_any_json_as_the_data_of_any_type(data: Any, kind: str, as_binary: bool) -> None:
    outcome(binary(data, type=kind) if as_binary else structured(data, type=kind))


@st.composite
def damaged_requests(draw: st.DrawFn) -> Any:
    """A request that is right but for something at one place of it."""
    data: Any = submit_data(labels={"a": "b"}, grace="30s")
    data["spec"]["env"] = {"HOME": "/x"}
    place = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            place = inner
            continue
        if draw(st.booleans()):
            place[key] = draw(JSON)
        else:
            del place[key]
        return data


@calm
@given(damaged_requests(), st.booleans())
@pytest.mark.slow
def test_a_request_that_is_wrong_at_one_place(data: Any, as_binary: bool) -> None:
    outcome(binary(data) if as_binary else structured(data))


@calm
@given(damaged_requests())
@pytest.mark.slow
def test_both_modes_say_the_same(data: Any) -> None:
    one, other = outcome(binary(data)), outcome(structured(data))
    if isinstance(one, InvalidMessage) or isinstance(other, InvalidMessage):
        assert str(one) == str(other)
    else:
        assert one == other


@calm
@given(damaged_requests())
@pytest.mark.slow
def test_canonical_input_is_validated_like_any_other(data: Any) -> None:
    """Our own clients' bytes take a shorter way."""
    try:
        canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        assume(False)
    short, long = outcome(binary(canonical)), outcome(binary(json.dumps(data, indent=1).encode()))
    if isinstance(short, InvalidMessage) or isinstance(long, InvalidMessage):
        assert (type(short), getattr(short, "code", "")) == (type(long), getattr(long, "code", ""))
    else:
        assert short == long


@calm
@given(st.data())
def test_flipped_and_cut_bytes(data: st.DataObject) -> None:
    right = wrapped(actor="alice")
    value = bytearray(right.value)
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(value)))
    outcome(message(bytes(value[cut:]) if cut % 2 else bytes(value), right.headers))


@pytest.mark.long
@pytest.mark.timeout(3600)  # minutes; a limit that strikes while something is drawn looks like "inconsistent data generation"
@settings(calm, max_examples=20_000)
@given(st.binary(max_size=2000), st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=12))
def test_any_bytes_for_longer(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    outcome(message(value, tuple(headers)))


def test_a_large_input_with_one_doubled_key_at_its_end_is_answered_at_all() -> None:
    pairs = ",".join(f'"{number}":0' for number in range(20_000))
    found = outcome(binary(f'{{{pairs},"19999":1}}'.encode()))
    assert isinstance(found, InvalidMessage)
    assert "occurs twice" in found.reason


def test_json_that_python_writes_is_read_as_python_meant_it() -> None:
    data = submit_data(user="Жанна 🚀")
    found = outcome(binary(json.dumps(data, ensure_ascii=True).encode()))
    assert isinstance(found, Envelope)
    assert found == outcome(binary(json.dumps(data, ensure_ascii=False).encode()))
