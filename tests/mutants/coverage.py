"""Which tests run which statement of the core, kept in build/mutants until the core or a test changes.

Run as a module it measures anew: in a process of its own, since the core is imported with a mark at each statement.
"""

import hashlib
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import pytest

from .imports import Statements, import_core, rewrite_imports
from .operators import CORE
from .session import collect, first_failure, in_forks

ROOT = CORE.parents[2]
KEPT = ROOT / "build/mutants/coverage"
Place = tuple[str, int]


@dataclass
class Coverage:
    """`seconds`: processor time per test. `tests`: by statement (file, line). `at_import`: statements that an import runs.

    A test that starts processes is in none: these would run the unchanged core.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[Place, list[str]] = field(default_factory=dict)
    at_import: dict[Place, None] = field(default_factory=dict)

    def of_file(self, file: str) -> list[str]:
        """The tests that run any statement of the file, then all others."""
        near = {test: None for (name, _), tests in self.tests.items() if name == file for test in self.quickest(tests)}
        return list(near | dict.fromkeys(self.quickest(self.seconds)))

    def quickest(self, tests: Iterable[str]) -> list[str]:
        """The tests, quickest first."""
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    def within(self, tests: Sequence[str], most: float) -> list[str]:
        """The first of the tests, as many as take so many seconds together."""
        ends = accumulate(self.seconds[test] for test in tests)
        return [test for test, end in zip(tests, ends, strict=True) if end <= most]


def current(workers: int) -> Coverage:
    """What was measured of these sources, measured now if there is none."""
    digest, here = hashlib.sha256(), Path(__file__).parent
    tests = (p for p in (ROOT / "tests").rglob("*") if p.suffix in (".py", ".yaml", ".json", ".jsonl") and here not in p.parents)
    for path in sorted([*CORE.rglob("*.py"), *tests]):
        digest.update(f"{path.relative_to(ROOT)}".encode() + path.read_bytes())
    kept = KEPT.with_suffix(f".{digest.hexdigest()[:16]}")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", __spec__.name, str(kept), str(workers)], check=True, cwd=ROOT)
    found = pickle.loads(kept.read_bytes())
    assert isinstance(found, Coverage)
    return found


def _measure(path: Path, workers: int) -> None:
    statements = Statements()
    rewrite_imports(statements.rewrite)
    import_core()
    coverage, failures = Coverage(), list[str]()

    def loop(items: list[pytest.Item]) -> None:
        coverage.at_import = dict.fromkeys(statements.known[number] for number in statements.taken())
        parts = [(None, lambda part=items[at::workers]: _run(part, statements)) for at in range(workers)]
        for _, (failure, ran) in in_forks(workers, parts):
            failures.append(failure)
            for test, (seconds, numbers) in ran.items():
                coverage.seconds[test] = seconds
                for number in numbers:
                    coverage.tests.setdefault(statements.known[number], []).append(test)

    collect(loop)
    if any(failures):
        sys.exit("a test fails without any mutant:\n" + "\n".join(filter(None, failures)))
    path.write_bytes(pickle.dumps(coverage))


def _run(items: list[pytest.Item], statements: Statements) -> tuple[str, dict[str, tuple[float, list[int]]]]:
    ran: dict[str, tuple[float, list[int]]] = {}
    processes = [0]
    sys.addaudithook(lambda event, _: processes.__setitem__(0, processes[0] + (event in ("subprocess.Popen", "os.fork"))))

    def around(item: pytest.Item, run: Callable[[], None]) -> None:
        began, before = time.process_time(), processes[0]
        statements.taken()
        run()
        if processes[0] == before:
            ran[item.nodeid] = time.process_time() - began, statements.taken()

    return first_failure(items, around), ran


if __name__ == "__main__":
    from tests.mutants.coverage import _measure as measure  # what is pickled is of the module, not of this program

    measure(Path(sys.argv[1]), int(sys.argv[2]))
