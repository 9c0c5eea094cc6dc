"""What a replay finds: the first decision that differs, and proposals that searching again does not reproduce."""

import dataclasses
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypedDict

from pydantic import ValidationError

from bailiff.render.record_text.lines import lines
from bailiff_core.explain.proposals import difference_sentences
from bailiff_core.records import AUDIT_TYPES, Record, Wire, decode
from bailiff_core.records.wire import UnreadableRecord, time_text
from bailiff_core.victims.search_again import ProposalDifference

MOST_FIELDS = 10


class DifferenceFound(TypedDict):
    """The position of the difference, the engine, and the fields that differ.

    Attributes:
        recorded: The record of the log as a sentence.
        now: What this engine decides, as a sentence.
        expected: What this engine decides, as type and data.
        found: What the log has, as type and data.
    """

    seq: int
    cycle: int
    time: str
    engine: str
    decided_by: str
    recorded: list[str]
    now: list[str]
    expected: str
    found: str
    fields: list[str]


class ProposalNotReproduced(TypedDict):
    """A proposal that differs from what its engine computes on the same state; both are as in records, null: there is none.

    Attributes:
        seq: Of its record.
        differing: The fields.
        text: Both results as sentences.
    """

    seq: int
    computed_at: int
    request: int
    job: str
    text: list[str]
    differing: list[str]
    proposed: dict[str, Any] | None
    computed: dict[str, Any] | None


def proposal_differences(found: Iterable[dict[str, Any]]) -> list[ProposalNotReproduced]:
    """From the results of `replay_worker.ReplayWorker`, in the order of the log."""
    read = [ProposalDifference.model_validate_json(json.dumps(each)) for each in found]
    return [
        {
            "seq": each.seq,
            "computed_at": each.computed_at,
            "request": each.request,
            "job": each.job,
            "text": difference_sentences(each),
            "differing": list(each.differing),
            "proposed": each.proposed.to_data() if each.proposed is not None else None,
            "computed": each.computed.to_data() if each.computed is not None else None,
        }
        for each in sorted(read, key=lambda each: (each.seq, each.request))
    ]


def difference_of(details: dict[str, Any], engine: str, decided_by: str) -> DifferenceFound:
    """Built from the result of `replay_worker.ReplayWorker`."""
    headers = tuple((name, text.encode("latin-1")) for name, text in details["headers"])
    record: Record | None = None
    with suppress(UnreadableRecord):  # it may have been written by a later release than this one
        record = decode(Wire(headers, details["value"].encode("latin-1")))
    return {
        "seq": details["seq"],
        "cycle": details["cycle"],
        "time": time_text(record.time) if record is not None else "",
        "engine": engine,
        "decided_by": decided_by,
        "recorded": _sentences(record, details["found"]),
        "now": _sentences(_as_decided(record, details["expected"]), details["expected"]),
        "expected": details["expected"],
        "found": details["found"],
        "fields": differing_fields(details["expected"], details["found"]),
    }


def _as_decided(record: Record | None, expected: str) -> Record | None:
    kind, _, data = expected.removeprefix("one more decision: ").partition(" ")
    known = AUDIT_TYPES.get(kind)
    if record is None or known is None or not data:
        return None
    try:
        return dataclasses.replace(record, type=kind, data=known.model_validate_json(data))
    except ValidationError:
        return None


def _sentences(record: Record | None, otherwise: str) -> list[str]:
    if record is None or not otherwise.startswith(record.type):
        return [otherwise]
    return [
        " ".join(part for part in (line.statement.what, line.statement.subject, line.statement.detail) if part)
        for line in lines(record)
    ]


def differing_fields(expected: str, found: str) -> list[str]:
    """`victims.0.job: train-7 was decided, replay gives train-8`, for two decisions of one type."""
    (kind, _, left), (other, _, right) = expected.partition(" "), found.partition(" ")
    try:
        pairs = [(json.loads(left), json.loads(right))] if kind == other else []
    except ValueError:
        pairs = []
    details: list[str] = []
    for again, then in pairs:
        _compare("", again, then, details)
    return details[:MOST_FIELDS]


def _compare(path: str, again: object, then: object, details: list[str]) -> None:
    if isinstance(again, dict) and isinstance(then, dict):
        for key in sorted({*again, *then}):
            _compare(f"{path}.{key}" if path else key, again.get(key), then.get(key), details)
    elif isinstance(again, list) and isinstance(then, list) and len(again) == len(then):
        for index, (left, right) in enumerate(zip(again, then, strict=True)):
            _compare(f"{path}.{index}", left, right, details)
    elif again != then:
        details.append(f"{path}: {then!r} was decided, replay gives {again!r}")
