"""Requests come in two spellings of CloudEvents and mean the same; whatever does not fit is refused in words."""

import json

import pytest
from tests.unit.bus_runtime.kit import APPENDED, NOON, binary, message, structured, submit, submit_data, wrapped

from bailiff_bus.envelope import InvalidMessage, pool_of, unwrap, unwrap_dead_letter, wrap_dead_letter
from bailiff_bus.messages.dead_letters import DeadLetter
from bailiff_bus.messages.reports import ReportBody
from bailiff_bus.port import Message
from bailiff_core.records.job_requests import CancelJob, SubmitJob
from bailiff_core.records.request import RequestBody

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def refusal(input_: Message) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        unwrap(input_)
    return caught.value


def test_what_was_wrapped_comes_out_again() -> None:
    found = unwrap(wrapped(subject="bert-1", actor="alice", auth="acl", traceparent=TRACE))
    assert (found.id, found.source, found.pool, found.time) == ("r-1", "laptop", "a100", NOON)
    assert (found.subject, found.actor, found.auth) == ("bert-1", "alice", "acl")
    assert found.body == submit()
    assert ("traceparent", TRACE.encode()) in wrapped(traceparent=TRACE).headers


def test_kcat_with_headers_only_is_enough_and_time_is_then_the_brokers() -> None:
    found = unwrap(binary(submit_data()))
    assert found.time == APPENDED
    assert isinstance(found.body, SubmitJob)


@pytest.mark.parametrize(
    "content_type",
    ["application/cloudevents+json", "application/cloudevents+json; charset=utf-8", "Application/CloudEvents+JSON"],
)
def test_structured_mode_means_the_same_as_binary_mode(content_type: str) -> None:
    one = unwrap(structured(submit_data(), content_type, time="2027-01-15T08:00:00Z"))
    other = unwrap(binary(submit_data(), time="2027-01-15T08:00:00Z"))
    assert one == other


def test_the_digest_covers_what_is_asked_and_not_how_it_is_spelled() -> None:
    base = unwrap(binary(submit_data()))
    respelled = binary(json.dumps(submit_data(), indent=4, sort_keys=True).encode())
    assert unwrap(respelled).digest == base.digest
    assert unwrap(binary(submit_data(), id="r-2", source="other")).digest == base.digest
    others = [
        binary(submit_data(preemptible=True)),
        binary(submit_data(), pool="h100"),
        binary(submit_data(), actor="alice"),
        binary({**submit_data(), "added_later": 1}),
    ]
    assert len({unwrap(other).digest for other in others} | {base.digest}) == 5


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("1970-01-01t01:00:00.123456789+01:00", 123_456),
        ("2027-01-15T08:00:00.000000Z", NOON),
    ],
)
def test_times_of_rfc_3339_are_understood(text: str, micros: int) -> None:
    assert unwrap(binary(submit_data(), time=text)).time == micros


@pytest.mark.parametrize(
    "text", ["yesterday", "2027-02-30T00:00:00Z", "2027-01-01", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"]
)
def test_other_times_are_refused(text: str) -> None:
    assert refusal(binary(submit_data(), time=text)).code == "bad-field"


@pytest.mark.parametrize(
    ("input_", "code", "reason"),
    [
        (message(b"{}"), "not-a-cloudevent", "content-type: application/cloudevents+json"),
        (message(b""), "empty", "tombstone"),
        (binary(b"{"), "not-json", "line 1 column 2"),
        (binary(b"\xff\xfe"), "not-json", "not UTF-8 at byte 0"),
        (binary(b"\xef\xbb\xbf{}"), "not-json", "BOM"),
        (binary(b'{"a":NaN}'), "not-json", "NaN is not JSON"),
        (binary(b'{"a":-Infinity}'), "not-json", "-Infinity is not JSON"),
        (binary(b'{"job":"a","job":"b"}'), "not-json", 'key "job" occurs twice in one object'),
        (binary(b'{"a":' + b"9" * 5000 + b"}"), "not-json", "too many digits"),
        (binary(b"[" * 200_000), "not-json", "nested more than 64 deep"),
        (binary(b'{"a":' * 80 + b"1" + b"}" * 80), "not-json", "nested more than 64 deep"),
        (binary(b"[]"), "not-an-object", "data: expected a JSON object, found a list of 0"),
        (binary(b"null"), "not-an-object", "found null"),
        (binary({"a": 1.5}), "bad-field", "a: expected a whole number, found 1.5"),
        (binary({"a": 2**53}), "bad-field", "a: expected a whole number within ±9007199254740991, found 9"),
        (binary(b'{"a":"\\ud800"}'), "bad-field", "a: expected text without U+0000 or an unpaired surrogate"),
        (binary({"a": [{"b": "x\0"}]}), "bad-field", "a.0.b: expected text without U+0000"),
        (binary(b'{"\\udfff":1}'), "bad-field", "data: expected keys without"),
        (binary(submit_data(), id=None), "no-id", "id: expected a value, found nothing"),
        (binary(submit_data(), source=""), "no-source", "source"),
        (binary(submit_data(), pool=None), "no-pool", "pool"),
        (binary(submit_data(), type=None), "no-type", "type"),
        (binary(submit_data(), pool="A100"), "bad-field", 'a pool name (a-z 0-9 - . _), found "A100"'),
        (binary(submit_data(), specversion="0.3"), "wrong-specversion", 'specversion: expected 1.0, found "0.3"'),
        (binary(submit_data(), specversion=None), "wrong-specversion", "found null"),
        (binary(submit_data(), type="bailiff.Nothing.v9"), "unknown-type", "is unknown to this release"),
        (binary(submit_data(), id="x" * 257), "bad-field", "id: expected at most 256 characters"),
        (binary(submit_data(), id="x\n"), "bad-field", "id: expected printable text"),
        (binary(submit_data(), id=b"\xff"), "bad-field", 'header "ce_id" is not UTF-8'),
        (binary(submit_data(), auth="root"), "bad-field", 'auth: expected none, acl or signed, found "root"'),
        (binary(submit_data(), sig="abc"), "bad-field", "keyid, sig: expected both or neither"),
        (binary(submit_data(), sig="abc", keyid="k"), "bad-field", "time: expected a value in a signed request"),
        (binary(b" " * 262_145), "too-large", "262145 bytes, the limit is 262144"),
        (binary(submit_data(), extra="x" * 70_000), "too-large", "headers"),
        (message(b"{}", (("content-type", b"application/cloudevents-batch+json"),)), "not-a-cloudevent", "ce_type"),
        (message(b"{}", (("content-type", b"text/xml"), ("ce_type", b"x"))), "wrong-content-type", '"text/xml"'),
        (message(b"{}", (("ce_type", b"x"), ("CE_Type", b"y"))), "bad-field", "occurs twice"),
        (structured(submit_data(), id=5), "bad-field", "id: expected text, found 5"),
        (structured(submit_data(), data_base64="e30="), "bad-field", "data_base64"),
        (structured(submit_data(), datacontenttype="text/xml"), "wrong-content-type", "datacontenttype"),
        (message(b"[1]", (("content-type", b"application/cloudevents+json"),)), "not-an-object", "a list of 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_code_and_a_sentence(input_: Message, code: str, reason: str) -> None:
    found = refusal(input_)
    assert found.code == code
    assert reason in found.reason
    assert len(found.reason) <= 2000


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        ({"tasks": [{"gpu_milli": -1}]}, "demand.tasks.0.gpu_milli: expected a whole number ≥ 0, found -1"),
        ({"tasks": [{"count": "two"}]}, 'demand.tasks.0.count: expected a whole number, found "two"'),
        ({"tasks": []}, "demand.tasks: expected at least 1 entry, found a list of 0"),
        ({"tasks": {}}, "demand.tasks: expected a list, found an object"),
        ({"preemptible": "yes"}, 'demand.preemptible: expected true or false, found "yes"'),
        ({"on_eviction": "x"}, "demand.on_eviction: expected 'requeue' or 'end', found \"x\""),
        ({"grace": "5 weeks"}, "demand.grace: '5 weeks' is not a duration: write a whole number and one of us, ms"),
        ({"min_tasks": 4}, "demand: min_tasks is 4, but the job has only 1 tasks"),
        ({"project": "Ω"}, "demand.project: expected a name of at most 63 characters a-z 0-9 - . _ that begins"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_the_allowed_ones(demand: dict[str, object], reason: str) -> None:
    found = refusal(binary(submit_data(**demand)))
    assert found.code == "bad-field"
    assert reason in found.reason


def test_several_faults_come_together_and_at_most_five() -> None:
    found = refusal(binary(submit_data(tasks=[{"count": 0}] * 7)))
    assert found.reason.count("expected a whole number ≥ 1, found 0") == 5
    assert found.reason.endswith("; and 2 more")


def test_long_values_and_keys_are_cut() -> None:
    found = refusal(binary(submit_data(labels={"k" * 300: "v" * 300, "ok": "w" * 300})))
    assert "k" * 65 not in found.reason
    assert "v" * 65 not in found.reason
    assert found.reason.count("at most 253 characters") == 3


@pytest.mark.parametrize(
    "spec",
    [
        "SECRET",
        {"command": ["x"], "env": {"TOKEN": 12345678}},
        {"command": ["x"], "env": "SECRET"},
        {"command": ["x"], "env": {"SECRET": "a\0SECRET"}},
        {"command": [1, "SECRET", 12345678]},
        {"command": {"SECRET": 1}},
        {"command": "SECRET \0"},
        {"command": "x", "env": {"A": 1.5e9}},
        {"command": "x", "env": {"A": 2**60}},
        {"command": "x", "secrets": {"A": 12345678}},
        {"command": "x", "runtime": "SECRET"},
    ],
)
def test_secret_fields_of_a_job_are_never_quoted(spec: object) -> None:
    found = refusal(binary({**submit_data(), "spec": spec}))
    assert found.reason.startswith("spec")
    for private in ("SECRET", "12345678", "1.5", "1500000000", str(2**60)):
        assert private not in found.reason


def test_a_wrong_command_has_one_error_in_both_spellings() -> None:
    reason = refusal(binary({**submit_data(), "spec": {"command": 3}})).reason
    assert reason == "spec.command: expected a list; spec.command: expected text"


def test_a_refusal_says_whose_request_it_was_as_far_as_that_can_be_known() -> None:
    found = refusal(binary(submit_data(job="bert-1", grace=-1)))
    assert (found.source, found.id, found.pool, found.job) == ("laptop", "r-1", "a100", "bert-1")
    found = refusal(binary({"job": "bert-1", "reason": 3}, type=CancelJob.TYPE))
    assert found.job == "bert-1"
    found = refusal(binary(b"{", source="x" * 300, pool="NO"))
    assert (found.source, found.id, found.pool, found.job) == (None, "r-1", None, None)
    found = refusal(structured(submit_data(), subject=3))
    assert (found.source, found.id, found.pool) == ("laptop", "r-1", "a100")


def test_a_topic_takes_only_the_types_that_belong_there() -> None:
    assert unwrap(wrapped(), accept=(RequestBody,)).body == submit()
    with pytest.raises(InvalidMessage, match="is not allowed on") as caught:
        unwrap(wrapped(), accept=(ReportBody,))
    assert caught.value.code == "unknown-type"


def test_the_pool_is_found_without_parsing_the_rest() -> None:
    assert pool_of(binary(b"{")) == "a100"
    assert pool_of(structured(None)) == "a100"
    assert pool_of(binary(b"{}", pool="A b")) is None
    assert pool_of(message(b"")) is None
    assert pool_of(message(b"[" * 100_000, (("content-type", b"application/cloudevents+json"),))) is None


def test_a_dead_letter_keeps_the_bytes_it_is_about() -> None:
    bad = binary(b"\xff\0", id=b"\xfe")
    letter = DeadLetter(topic=bad.topic, partition=0, offset=7, code="not-json", reason="not UTF-8")
    headers, value = wrap_dead_letter(letter, bad, source="admission", id="x", pool="a100", time_us=NOON)
    found, original_headers, original_value = unwrap_dead_letter(message(value, headers, "bailiff.dead-letters"))
    assert (found, original_headers, original_value) == (letter, bad.headers, bad.value)


@pytest.mark.parametrize("headers", [(), (("bailiff_dead_letter", b"{"),)])
def test_what_is_no_dead_letter_is_refused_as_well(headers: tuple[tuple[str, bytes], ...]) -> None:
    with pytest.raises(InvalidMessage):
        unwrap_dead_letter(message(b"x", headers))
