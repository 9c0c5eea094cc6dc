"""Canonical form: one value, one text, whoever writes it."""

import json
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiff_core.canonical import canonical_json
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.records.payload import AUDIT_TYPES

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.lists(inner).map(tuple),
)


@given(VALUES)
@pytest.mark.slow
def test_it_equals_the_output_of_the_json_module(value: object) -> None:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical_json(value) == plain.encode()


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), [1, [2.0]], {"a": {"b": 0.0}}, UUID(int=1), {"a": Colour.RED}, {"a": [object()]}, b"x"]
)
def test_values_that_are_not_exact_json_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        canonical_json("\ud800")


def _kinds(schema: Any) -> set[str]:
    """Every `type` that stands anywhere in a JSON schema, and `anything` for a place that takes whatever comes."""
    if isinstance(schema, list):
        return set().union(*map(_kinds, schema))
    if not isinstance(schema, dict):
        return set()
    here = {schema["type"]} if isinstance(schema.get("type"), str) else set()
    fields = schema.get("properties", {}).values()
    here |= {"anything" for field in fields if not {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & set(field)}
    return here.union(*map(_kinds, schema.values()))


@pytest.mark.slow
def test_no_record_and_no_message_has_a_float_field() -> None:
    """`Document.to_json` relies on it."""
    for kind in [*AUDIT_TYPES.values(), *MESSAGE_TYPES.values()]:
        assert not _kinds(kind.model_json_schema(mode="serialization")) & {"number", "anything"}, kind
