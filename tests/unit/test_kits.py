"""What holds for every test: it imports no other, so each can be read, moved and deleted alone, and it does not time itself."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_module_imports_tests_or_conftests() -> None:
    imports = re.compile(r"^ *(?:from|import) tests\b[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
    found = [(path, each) for path in TESTS.rglob("*.py") for each in imports.findall(path.read_text())]
    assert len(found) > 500
    assert [(path.name, each) for path, each in found if re.search(r"\b(?:test_|conftest)", each)] == []


def test_no_assertion_is_on_how_long_something_took() -> None:
    """On a busy machine it takes longer."""
    timed = re.compile(r"^\s*assert .*(?:\b(?:monotonic|perf_counter|time)\(\) - |\.elapsed <)", re.MULTILINE)
    assert not [path.name for path in TESTS.rglob("test_*.py") if timed.search(path.read_text())]


def test_no_wait_for_an_event_is_given_up_within_a_minute() -> None:
    """A busy machine is no fault of the code. A few seconds are to see that nothing comes."""
    waits = re.compile(r"(?:asyncio\.timeout\(|wait_for\(.*, |\.wait\(timeout=|within_s=)([\d.]+)\)")
    real = [path for path in TESTS.rglob("*.py") if "simulation" not in path.parts]  # that has virtual time
    found = [(path.name, float(seconds)) for path in real for seconds in waits.findall(path.read_text())]
    assert len(found) > 10
    assert [(name, seconds) for name, seconds in found if 3 < seconds < 60] == []
