"""The same state, the same decisions: worlds made from seeds are decided as they were recorded under this `LOGIC`.

This says nothing on what is right, which the other tests do. It notices each change of what is decided: another order of equal
choices, a search that counts its steps otherwise, a wake-up at another time. Such a change is a fault, or it raises `LOGIC`.
"""

import json

import pytest
from tests.property.decided import FILE, NAMES, QUICK, digest, texts

from bailiff_core.engine import LOGIC, STATE_SCHEMA

RECORDED = json.loads(FILE.read_text())


def test_the_record_is_of_this_engine() -> None:
    now = {"logic": LOGIC, "state_schema": STATE_SCHEMA}
    assert RECORDED.items() >= now.items(), "record what this engine decides: python -m tests.property.decided"
    assert list(RECORDED["decided"]) == NAMES


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NAMES])
def test_it_is_decided_as_recorded(name: str) -> None:
    decided, recorded = texts(name), RECORDED["decided"][name].split()
    for number, (text, expected) in enumerate(zip(decided, recorded, strict=False)):
        assert digest([text]) == expected, f"{name}, step {number}: raise LOGIC, or this is a fault: {text}"
    assert len(decided) == len(recorded)
