"""The allowlist of the dataset: every type and field has a decision, and no text is exported without one."""

import pytest

from bailiff.dataset import Pseudonyms, field_allowlist
from bailiff.dataset.anonymise import Anonymiser
from bailiff.dataset.columns import TABLES
from bailiff.dataset.tables import Tables
from bailiff_core.records import AUDIT_TYPES, Record

from .canaries import A_TIME, CANARY, Aviary, annotations, documents_in, texts_allowed

KEY = b"k" * 32


@pytest.mark.parametrize("kind", AUDIT_TYPES.values(), ids=lambda kind: kind.__name__)
def test_each_record_type_and_each_field_of_it_has_a_decision(kind):
    if kind in field_allowlist.OMITTED_RECORDS:
        assert kind not in field_allowlist.RECORDS
        return
    assert kind in field_allowlist.RECORDS, (
        f"{kind.__name__} is new: may it go into datasets? Say so in bailiff/dataset/field_allowlist.py"
    )
    assert set(kind.model_fields) == set(field_allowlist.RECORDS[kind]), (
        "a field is new, or gone: decide about it in field_allowlist.py"
    )


@pytest.mark.parametrize("kind", field_allowlist.DOCUMENTS, ids=lambda kind: kind.__name__)
def test_each_field_of_a_document_within_has_a_decision(kind):
    assert set(kind.model_fields) == set(field_allowlist.DOCUMENTS[kind])


def test_documents_have_their_own_allowlist_and_text_is_never_copied_verbatim():
    for kind, fields in (*field_allowlist.RECORDS.items(), *field_allowlist.DOCUMENTS.items()):
        for name, rule in fields.items():
            annotation = annotations(kind)[name]
            if rule is field_allowlist.keep:
                assert not texts_allowed(annotation), f"{kind.__name__}.{name} may hold text and is kept as it is"
            if rule is field_allowlist.inside:
                assert all(found in field_allowlist.DOCUMENTS for found in documents_in(annotation)), f"{kind.__name__}.{name}"


def given_away(payloads, **headers):
    """The bytes of these records and of the tables made of them, each by what it was made of."""
    anonymiser, tables, found, epoch = Anonymiser(Pseudonyms(KEY)), Tables(0), {}, 0
    for at, data in enumerate(payloads):
        about = {"pool": CANARY, "writer": CANARY, "engine": CANARY, "cause": f"{CANARY}/0/1", "actor": CANARY, "auth": CANARY}
        epoch += data.NAME == "WriterStarted"
        record = Record(
            seq=at, epoch=epoch, cycle=at, cycle_end=True, time=A_TIME + at, prev="", policy=0, type=data.type_name(), data=data,
            inputs=((CANARY, 1),), **{**about, **headers},
        )  # fmt: skip
        for made, wire in anonymiser.take(record):
            tables.note(made)
            found[type(data).__name__] = b"\n".join([*(name.encode() + b" " + value for name, value in wire.headers), wire.value])
    return found, tables


def test_no_canary_in_any_text_of_any_record_gets_out():
    """Planted by the models' own structure, in keys and values, at every depth, and in every header."""
    aviary = Aviary()
    payloads = sorted(aviary.everything(), key=lambda data: data.NAME != "PoolCreated")
    found, tables = given_away(payloads)
    assert len(found) == len(AUDIT_TYPES) - len(field_allowlist.OMITTED_RECORDS)
    assert len(aviary.planted) > 250
    for kind, raw in found.items():
        flown = [f"{canary} of {where}" for canary, where in aviary.planted.items() if canary.encode() in raw]
        assert not flown, f"{kind}: {flown}"
        assert CANARY.encode() not in raw, raw
    assert CANARY not in repr(tables.rows)
    assert all(set(row) <= set(TABLES[name]) for name, rows in tables.rows.items() for row in rows)


def test_a_canary_is_found_where_a_rule_lets_it_out(monkeypatch):
    """The test above would see it."""
    monkeypatch.setitem(field_allowlist.RECORDS, next(kind for kind in AUDIT_TYPES.values() if kind.__name__ == "JobPending"), {
        "job": field_allowlist.JOB, "reason": field_allowlist.keep,
    })  # fmt: skip
    found, _ = given_away(sorted(Aviary().everything(), key=lambda data: data.NAME != "PoolCreated"))
    assert CANARY.encode() in found["JobPending"]


def test_a_field_without_a_decision_is_left_out(monkeypatch):
    kind = next(kind for kind in AUDIT_TYPES.values() if kind.__name__ == "JobEnded")
    fields = {name: rule for name, rule in field_allowlist.RECORDS[kind].items() if name != "exit_codes"}
    payload = kind.model_construct(job="j", attempt=1, outcome="failed", exit_codes={"0": 3}, reason="")
    assert field_allowlist.of_record(payload, field_allowlist.Export(Pseudonyms(KEY), 0))["exit_codes"] == {"0": 3}
    monkeypatch.setitem(field_allowlist.RECORDS, kind, fields)
    assert "exit_codes" not in field_allowlist.of_record(payload, field_allowlist.Export(Pseudonyms(KEY), 0))
