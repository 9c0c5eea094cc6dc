"""Bytes of records: canonical, read back whole, and refused where a reader must stop."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.story_script import play

from bailiff_core.canonical import canonical_json
from bailiff_core.model.document import parse_duration
from bailiff_core.model.placement_ranges import bits, numbers, ranges
from bailiff_core.records import Break, ChainHead, Record, Wire, continues, decode, encode, facts, follow, record_hash
from bailiff_core.records.chain import GENESIS
from bailiff_core.records.layout import REQUIRED_HEADERS
from bailiff_core.records.wire import UnreadableRecord, time_text, time_value


def a_record(**fields):
    given = {
        "pool": "a100",
        "seq": 7,
        "epoch": 2,
        "cycle": 3,
        "cycle_end": True,
        "time": 1_767_225_600_000_000,
        "prev": "ab" * 32,
        "writer": "w",
        "engine": "0.1.0+x/1",
        "policy": 1,
        "type": facts.ClockAdvanced.type_name(),
        "data": facts.ClockAdvanced(),
        **fields,
    }
    return Record(**given)


def changed(wire, name, value):
    """The same record with another header; None takes it away."""
    headers = [(key, value if key == name else old) for key, old in wire.headers if key != name or value is not None]
    return Wire(tuple(headers), wire.value)


def test_every_record_of_a_story_is_read_back_as_it_was():
    story = play("node n1: 8 gpus; runs low: 8 gpus; submit high: interactive, 8 gpus; propose; yields low")
    for record, wire in zip(story.records, story.wires, strict=True):
        assert decode(wire) == record
        assert encode(decode(wire)) == wire


def test_optional_headers_are_left_out_or_read_back():
    plain = dict(encode(a_record()).headers)
    assert not {"ce_cause", "ce_inputs", "ce_actor", "ce_auth"} & set(plain)
    full = a_record(cause="t/0/1", inputs=(("t/0", 2), ("u/3", 4)), actor="al=ice", auth="signed")
    assert decode(encode(full)) == full


def test_headers_outside_the_record_do_not_change_its_hash():
    wire = encode(a_record())
    more = Wire((*wire.headers, ("traceparent", b"00-1")), wire.value)
    assert record_hash(more) == record_hash(wire)
    assert record_hash(Wire(tuple(reversed(wire.headers)), wire.value)) == record_hash(wire)
    assert record_hash(Wire((*wire.headers, ("ce_x", b"")), wire.value)) != record_hash(wire)


NAMES = st.sampled_from(["ce_a", "ce_bb", "ce_c", "content-type", "x"]) | st.text(max_size=3)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=6)), max_size=8), st.binary(max_size=6), st.sampled_from([0, 2000]))
@pytest.mark.slow
def test_a_hash_is_over_its_parts_as_the_protocol_says(headers, value, more):
    """Names that stand twice, no headers at all, and parts of any length included."""

    def prefixed(part):
        return len(part).to_bytes(4, "big") + part

    value += b"x" * more
    hashed = sorted(header for header in headers if header[0].startswith("ce_"))
    parts = [prefixed(b"bailiff-audit-1"), len(hashed).to_bytes(4, "big")]
    parts += [prefixed(name.encode()) + prefixed(content) for name, content in hashed]
    expected = hashlib.sha256(b"".join([*parts, prefixed(value)])).hexdigest()
    assert record_hash(Wire(tuple(headers), value)) == expected


def test_to_follow_is_to_continue_and_to_decode():
    story = play("node n1: 8 gpus; runs low: 8 gpus")
    head = ChainHead(story.state.pool)
    for wire in story.wires:
        assert follow(replace(head, next_seq=head.next_seq + 1), wire) == continues(
            replace(head, next_seq=head.next_seq + 1), wire
        )
        after, record = follow(head, wire)
        assert after == continues(head, wire)
        assert record == decode(wire)
        head = after


@pytest.mark.parametrize("name", sorted(REQUIRED_HEADERS))
def test_a_record_that_lacks_a_header_which_all_have_is_unreadable(name):
    with pytest.raises(UnreadableRecord, match=name):
        decode(changed(encode(a_record()), name, None))


def test_a_repeated_header_counts_with_its_last_value():
    wire = encode(a_record())
    twice = Wire((("ce_cause", b"7"), *wire.headers, ("ce_cause", b"8")), wire.value)
    assert decode(twice) == a_record(cause="8")
    assert record_hash(twice) != record_hash(Wire((*wire.headers, ("ce_cause", b"8")), wire.value))


def test_no_bytes_may_move_between_the_parts_of_a_hash():
    one = Wire((("ce_a", b"bc"),), b"d")
    assert (
        len(
            {
                record_hash(wire)
                for wire in (
                    one,
                    Wire((("ce_ab", b"c"),), b"d"),
                    Wire((("ce_a", b"b"),), b"cd"),
                    Wire((("ce_a", b"bcd"),), b""),
                    Wire((), b"abcd"),
                )
            }
        )
        == 5
    )


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ce_type", b"bailiff.audit.NodeDanced.v1", "does not know the type"),
        ("ce_type", b"bailiff.audit.ClockAdvanced.v2", "does not know the type"),
        ("ce_seq", b"x", "invalid literal"),
        ("ce_time", b"yesterday", "yesterday"),
        ("ce_policy", None, "policy"),
        ("ce_inputs", b"t/0", "invalid literal"),
    ],
)
def test_a_reader_stops_at_what_it_cannot_understand(name, value, why):
    with pytest.raises(UnreadableRecord, match=why):
        decode(changed(encode(a_record(inputs=(("t/0", 1),))), name, value))


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"job": 1}', b"\xff", b'{"job":"UPPER","attempt":1,"task":0,"node":"n"}'])
def test_data_that_does_not_match_its_type(value):
    wire = encode(a_record(type=facts.TaskStarted.type_name(), data=facts.TaskStarted(job="j", attempt=1, task=0, node="n")))
    with pytest.raises(UnreadableRecord):
        decode(Wire(wire.headers, value))


def test_an_unknown_type_that_the_fold_does_not_need_is_skipped():
    wire = changed(changed(encode(a_record()), "ce_type", b"bailiff.audit.NodeDanced.v1"), "ce_essential", b"false")
    assert decode(wire).data is None
    with pytest.raises(ValueError, match="no data"):
        encode(decode(wire))


def test_unknown_fields_are_ignored():
    wire = encode(a_record())
    assert decode(Wire(wire.headers, b'{"mood":"fine"}')).data == facts.ClockAdvanced()


# --- the chain


HEAD = ChainHead("a100", 7, "ab" * 32, 2, time_text(1_767_225_600_000_000))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"pool": "h100"}, "pool is 'h100'"),
        ({"seq": 8}, "seq is 8, expected 7"),
        ({"seq": 6}, "seq is 6, expected 7"),
        ({"prev": "cd" * 32}, "prev is cdcdcdcdcdcd"),
        ({"epoch": 3}, "epoch is '3', expected 2"),
        ({"epoch": 1}, "epoch is '1', expected 2"),
        ({"time": 1_767_225_599_999_999}, "before"),
        ({"type": "bailiff.audit.PoolCreated.v1"}, "PoolCreated.v1 at seq 7"),
        ({"type": "bailiff.audit.WriterStarted.v1"}, "a writer started with epoch 2, but 2 is taken"),
    ],
)
def test_an_orphan(fields, why):
    found = continues(HEAD, encode(a_record(**fields)))
    assert isinstance(found, Break)
    assert why in found.reason


def test_a_record_that_continues():
    wire = encode(a_record())
    assert continues(HEAD, wire) == ChainHead("a100", 8, record_hash(wire), 2, HEAD.time)


@pytest.mark.parametrize("epoch", [3, 4, 1000])
def test_a_writer_takes_any_higher_epoch(epoch):
    assert continues(HEAD, encode(a_record(epoch=epoch, type="bailiff.audit.WriterStarted.v1"))).epoch == epoch


def test_a_pool_begins_with_its_creation():
    head = ChainHead("a100")
    assert head.hash == GENESIS
    first = a_record(seq=0, epoch=0, prev=GENESIS)
    assert isinstance(continues(head, encode(first)), Break)
    created = replace(first, type="bailiff.audit.PoolCreated.v1", data=facts.PoolCreated(pool=HEAD.pool, partition=0, nonce="00"))
    assert continues(head, encode(created)).next_seq == 1


@pytest.mark.parametrize("name", ["ce_pool", "ce_seq", "ce_prev", "ce_type", "ce_epoch", "ce_time"])
@pytest.mark.parametrize("value", [None, b"", b"\xff\xfe", b"-1", b"9" * 5000, "²".encode()])
def test_headers_of_any_shape_are_checked_without_an_exception(name, value):
    writer = a_record(epoch=3, type="bailiff.audit.WriterStarted.v1")
    for wire in (encode(a_record()), encode(writer)):
        assert isinstance(continues(HEAD, changed(wire, name, value)), Break | ChainHead)


def test_a_record_without_headers_is_an_orphan():
    assert isinstance(continues(HEAD, Wire((), b"")), Break)


# --- small print


@given(st.integers(0, 253_402_300_799_999_999))
def test_times_go_through_their_text(time):
    text = time_text(time)
    assert len(text) == 27
    assert time_value(text) == time


@pytest.mark.parametrize("text", ["2026-01-31 12:00:00.000000Z", "2026-01-31T12:00:00,000000Z", "2026-W05-6T12:00:00.000000Z"])
def test_invalid_times(text):
    with pytest.raises(ValueError, match="is not a time"):
        time_value(text)


@given(st.sets(st.integers(0, 200)))
def test_ranges_go_through_their_text(found):
    assert numbers(ranges(found)) == sorted(found)
    assert bits(sum(1 << number for number in found)) == sorted(found)


@pytest.mark.parametrize("text", ["3-1", "-1", "a", "1,", "1--2", "0-100001"])
def test_invalid_ranges(text):
    with pytest.raises(ValueError):
        numbers(text)


def test_durations():
    assert [parse_duration(text) for text in ("30s", "500ms", " 5m ", "1h", "7d", "9us", 12)] == [
        *(30_000_000, 500_000, 300_000_000, 3_600_000_000, 604_800_000_000, 9, 12)
    ]
    for wrong in ("", "s", "1.5h", "5 m", "-1s", "5w"):
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration(wrong)


def test_canonical_json():
    assert canonical_json({"b": [1, True, None], "a": "ü\n"}) == '{"a":"ü\\n","b":[1,true,null]}'.encode()
    for wrong in (1.0, [float("nan")], {"a": (0.5,)}):
        with pytest.raises(TypeError, match="integers only"):
            canonical_json(wrong)
