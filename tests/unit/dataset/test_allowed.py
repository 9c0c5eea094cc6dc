"""What datasets have of records: every field says it, and no text is exported that does not."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from bailiff.dataset import Pseudonyms, rules
from bailiff.dataset.anonymise import Anonymiser
from bailiff.dataset.columns import TABLES
from bailiff.dataset.tables import Tables
from bailiff_bus.messages.commands import StartTask
from bailiff_core.model.document import Count, Document, Integer, JobName, Name, Reason
from bailiff_core.model.policy import Policy
from bailiff_core.model.privacy import PRIVATE, PUBLIC, SECRET, Treatment, pseudonym, treatment_of, treatments
from bailiff_core.model.state import PoolState
from bailiff_core.records import AUDIT_TYPES, Record
from bailiff_core.records.facts import SubmitJob

from .canaries import A_TIME, CANARY, Aviary, annotations, documents_in, texts_allowed

KEY = b"k" * 32


PUBLISHED = [kind for kind in AUDIT_TYPES.values() if not kind.NOT_PUBLISHED]


def documents_of(kind, said=(PUBLIC,)):
    """This document, and those within the fields of it that say one of these."""
    fields = [name for name, found in treatments(kind).items() if found in said]
    within = [found for name in fields for found in documents_in(annotations(kind)[name])]
    return {kind, *(found for each in within for found in documents_of(each, said))}


DOCUMENTS = sorted({found for kind in PUBLISHED for found in documents_of(kind)}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_each_field_says_how_datasets_treat_it_and_no_text_is_copied(kind):
    for name, said in treatments(kind).items():
        where = f"{kind.__name__}.{name}"
        assert said, f"{where} is new: may it go into datasets? Say so in its type (bailiff_core/model/privacy.py)"
        assert said in (PUBLIC, PRIVATE) or said.rule in {"pseudonym", "placeholder", *rules.TREATMENTS}, where
        if said == PUBLIC and not documents_in(annotations(kind)[name]):
            assert not texts_allowed(annotations(kind)[name]), f"{where} may hold text and is public"


def test_no_record_can_hold_what_is_secret():
    """A job's command, environment and paths are `SECRET` by the type that they have; the log has their digest."""
    assert treatments(SubmitJob)["spec"] == treatments(SubmitJob)["salt"] == treatments(StartTask)["spec"] == SECRET
    for kind in AUDIT_TYPES.values():
        for found in documents_of(kind, (PUBLIC, PRIVATE, SECRET)):
            assert SECRET not in (found.TREATMENT, *treatments(found).values()), f"{found.__name__} in {kind.__name__}"


def test_the_policy_and_each_record_type_are_among_them():
    assert {Policy, *PUBLISHED} <= set(DOCUMENTS)


def test_a_type_says_it_for_every_field_that_has_it_and_the_field_may_say_otherwise():
    assert treatment_of(Count | None) == treatment_of(Literal["a", "b"]) == treatment_of(tuple[bool, ...]) == PUBLIC
    assert treatment_of(tuple[JobName, ...]) == treatment_of(JobName | None) == pseudonym("job")
    assert treatment_of(Annotated[JobName | None, PRIVATE]) == treatment_of(Reason) == PRIVATE
    assert treatment_of(str) is treatment_of(Name | None) is treatment_of(dict[str, int]) is treatment_of(JobName | int) is None


def given_away(payloads, **headers):
    """The bytes of these records and of the tables made of them, each by what it was made of."""
    anonymiser, tables, found, epoch = Anonymiser(Pseudonyms(KEY)), Tables(0), {}, 0
    for at, data in enumerate(payloads):
        about = {"pool": CANARY, "writer": CANARY, "engine": CANARY, "cause": f"{CANARY}/0/1", "actor": CANARY, "auth": CANARY}
        epoch += data.NAME == "WriterStarted"
        record = Record(
            seq=at,
            epoch=epoch,
            cycle=at,
            cycle_end=True,
            time=A_TIME + at,
            prev="",
            policy=0,
            type=data.type_name(),
            data=data,
            inputs=((CANARY, 1),),
            **{**about, **headers},
        )
        for made, wire in anonymiser.take(record):
            state = PoolState()
            state.indices.loss = getattr(made.data, "job", ""), (0, 0), 0
            tables.note(made, state)
            found[type(data).__name__] = b"\n".join([*(name.encode() + b" " + value for name, value in wire.headers), wire.value])
    return found, tables


def test_no_canary_in_any_text_of_any_record_gets_out():
    """Planted by the models' own structure, in keys and values, at every depth, and in every header."""
    aviary = Aviary()
    payloads = sorted(aviary.everything(), key=lambda data: data.NAME != "PoolCreated")
    found, tables = given_away(payloads)
    assert len(found) == len(PUBLISHED) < len(AUDIT_TYPES)
    assert len(aviary.planted) > 250
    for kind, raw in found.items():
        flown = [f"{canary} of {where}" for canary, where in aviary.planted.items() if canary.encode() in raw]
        assert not flown, f"{kind}: {flown}"
        assert CANARY.encode() not in raw, raw
    assert CANARY not in repr(tables.rows)
    assert all(set(row) <= set(TABLES[name]) for name, rows in tables.rows.items() for row in rows)


def test_a_canary_is_found_where_a_rule_lets_it_out(monkeypatch):
    """The test above would see it."""
    monkeypatch.setitem(rules.TREATMENTS, "island_used", lambda value, _export: value)
    found, _ = given_away(sorted(Aviary().everything(), key=lambda data: data.NAME != "PoolCreated"))
    assert CANARY.encode() in found["JobPlaced"]


def test_a_field_that_says_nothing_is_left_out():
    class Noted(Document):
        job: JobName
        exit_codes: Annotated[dict[str, Integer], Treatment("exit_codes")]
        note: str = ""
        counts: dict[str, int] = Field(default_factory=dict)

    noted = Noted(job="j", exit_codes={"0": 3, "x": 4}, note="hello", counts={"hello": 1})
    exported = rules.of_document(noted, rules.Export(Pseudonyms(KEY), 0))
    assert exported == {"job": Pseudonyms(KEY).name("job", "j"), "exit_codes": {"0": 3}}
