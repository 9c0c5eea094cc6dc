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
    timed = re.compile(r"^\s*assert .*\b(?:monotonic|perf_counter|time)\(\) - ", re.MULTILINE)
    assert not [path.name for path in TESTS.rglob("test_*.py") if timed.search(path.read_text())]


def test_no_wait_for_an_event_is_given_up_within_a_minute() -> None:
    """A busy machine is no fault of the code."""
    waits = re.compile(r"asyncio\.timeout\(([\d.]+)\)")
    found = {path.name: list(map(float, waits.findall(path.read_text()))) for path in TESTS.rglob("*.py")}
    assert {name for name, seconds in found.items() if any(each < 60 for each in seconds)} == set()
