"""Which tests run which statement of the core, kept in build/mutants by file of tests until it, an import or its data changes.

A statement that has changed since has the tests of its file. Remove build/mutants to measure everything anew.

Run as a module it measures files of tests: in a process of its own, since the core is imported with a mark at each statement.
"""

import hashlib
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, zip_longest
from pathlib import Path

import pytest

from .imports import Place, Statements, import_core, places, rewrite_imports
from .operators import CORE, Mutant
from .session import TESTS, collect, failures, in_forks

ROOT = CORE.parents[2]
KEPT = ROOT / "build/mutants"
DATA = (".yaml", ".json", ".jsonl")


@dataclass(frozen=True)
class Measured:
    """What one file of tests runs. tests: processor time and statements by test. at_import: statements that an import runs."""

    tests: dict[str, tuple[float, list[Place]]]
    at_import: list[Place]


@dataclass
class Coverage:
    """`seconds`: processor time per test. `tests`: by statement. `at_import`: statements that an import runs.

    A test that starts processes is in none: these would run the unchanged core.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[Place, list[str]] = field(default_factory=dict)
    at_import: dict[Place, None] = field(default_factory=dict)

    def add(self, measured: Measured) -> None:
        """Add one file of tests."""
        self.at_import.update(dict.fromkeys(measured.at_import))
        for test, (seconds, ran) in measured.tests.items():
            self.seconds[test] = seconds
            for place in ran:
                self.tests.setdefault(place, []).append(test)

    def runs_at_import(self, mutant: Mutant) -> bool:
        """Whether an import runs the changed statement."""
        return mutant.scope is None or places(mutant.file)[mutant.statement] in self.at_import

    def of_statement(self, mutant: Mutant) -> list[str]:
        """The tests that run the changed statement, quickest first; those of its file where none was known to."""
        place = places(mutant.file)[mutant.statement]
        return self.quickest(self.tests[place] if place in self.tests else self._near(mutant.file))

    def of_file(self, file: str) -> list[str]:
        """The tests that run any statement of the file, in turn with all tests, since any may read a constant of the file."""
        pairs = zip_longest(self.quickest(self._near(file)), self.quickest(self.seconds))
        return list(dict.fromkeys(test for pair in pairs for test in pair if test is not None))

    def _near(self, file: str) -> dict[str, None]:
        return {test: None for (name, _), tests in self.tests.items() if name == file for test in tests}

    def quickest(self, tests: Iterable[str]) -> list[str]:
        """The tests, quickest first."""
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    def within(self, tests: Sequence[str], most: float) -> list[str]:
        """The first of the tests, as many as take so many seconds together."""
        ends = accumulate(self.seconds[test] for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end <= most]


def current(workers: int) -> Coverage:
    """The coverage of these sources. Files of tests that have not been measured are measured now."""
    kept = _kept()
    if missing := [file for file, path in kept.items() if not path.exists()]:
        KEPT.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", __spec__.name, str(workers), *missing], check=True, cwd=ROOT)
    coverage = Coverage()
    for path in kept.values():
        coverage.add(pickle.loads(path.read_bytes()))
    return coverage


def _kept() -> dict[str, Path]:
    """Where the coverage of each file of tests is kept: named by the file, what it imports of `tests`, and its folder's data."""
    kept = {}
    for folder in TESTS:
        data = sorted(path for path in (ROOT / folder).iterdir() if path.suffix in DATA)
        texts = [path.read_text() for path in (ROOT / folder).glob("*.py")]
        for_all = [path for path in data if not any(path.name in text for text in texts)]
        for path in sorted((ROOT / folder).glob("test_*.py")):
            sources = _imported([path, *(ROOT / folder).glob("conftest.py"), ROOT / "tests/conftest.py"])
            named = [each for each in data if any(each.name in source.read_text() for source in sources)]
            kept[f"{folder}/{path.name}"] = KEPT / f"{path.stem}.{_digest([*sources, *for_all, *named])}"
    return kept


def _imported(paths: Iterable[Path]) -> list[Path]:
    """These files, and all of `tests` that they import."""
    found: dict[Path, None] = {}
    queue = list(paths)
    while queue:
        path = queue.pop()
        if path not in found:
            found[path] = None
            queue += _imports_of(path)
    return list(found)


@cache
def _imports_of(path: Path) -> list[Path]:
    text = path.read_text().replace("from tests import ", "tests.").replace("from . import ", f"tests.{path.parent.name}.")
    names = [name.replace(".", "/") + ".py" for name in re.findall(r"\btests(?:\.\w+)+", text)]
    return [ROOT / name for name in names if (ROOT / name).exists()]


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(set(paths)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def measure(workers: int, files: Sequence[str]) -> None:
    """Run these files of tests, and keep what each runs. A test that fails is left out, and named."""
    statements, kept = Statements(), _kept()
    rewrite_imports(statements.rewrite)
    import_core()

    def loop(items: list[pytest.Item]) -> None:
        at_import = [statements.known[number] for number in statements.taken()]
        of_file: dict[str, list[pytest.Item]] = {file: [] for file in files}
        for item in items:
            of_file[item.path.relative_to(ROOT).as_posix()].append(item)
        works = ((file, lambda items=items: _run(items, statements)) for file, items in of_file.items())
        for file, (failed, tests) in in_forks(workers, works):
            print(*(f"left out, it fails without any mutant: {text}" for text in failed), sep="\n", end="", file=sys.stderr)
            kept[file].write_bytes(pickle.dumps(Measured(tests, at_import)))

    collect(loop, files)


def _run(items: list[pytest.Item], statements: Statements) -> tuple[list[str], dict[str, tuple[float, list[Place]]]]:
    ran: dict[str, tuple[float, list[Place]]] = {}
    processes = [0]
    sys.addaudithook(lambda event, _: processes.__setitem__(0, processes[0] + (event in ("subprocess.Popen", "os.fork"))))

    def around(item: pytest.Item, run: Callable[[], None]) -> None:
        began, before = time.process_time(), processes[0]
        statements.taken()
        run()
        if processes[0] == before:
            ran[item.nodeid] = time.process_time() - began, [statements.known[number] for number in statements.taken()]

    failed = list(failures(items, around))
    for text in failed:
        ran.pop(text.partition(": ")[0], None)
    return failed, ran


if __name__ == "__main__":
    from tests.mutants import coverage  # what is pickled is of the module, not of this program

    coverage.measure(int(sys.argv[1]), sys.argv[2:])
