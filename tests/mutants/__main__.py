"""`python -m tests.mutants` runs mutants of the core; ends with 1 if the tests miss too many, or one that nobody has judged."""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
import yaml

from .coverage import Coverage, current
from .imports import import_core
from .operators import PACKAGES, Mutant, mutants_of
from .session import Work, collect, in_forks
from .trial import Functions, at_import, in_function

JUDGED = Path(__file__).parent / "judged.yaml"
LEAST_SHARE = 95
MOST_KILLERS = 8
Key = tuple[str, str, str, str]


class Killers:
    """Tests that noticed earlier mutants of a file. They are run first, since they often notice the next one as well."""

    def __init__(self) -> None:
        self._last: dict[str, list[str]] = defaultdict(list)

    def add(self, mutant: Mutant, failure: str | None) -> None:
        """Note which test noticed the mutant."""
        test, known = (failure or "").partition(": ")[0], self._last[mutant.file]
        if test:
            self._last[mutant.file] = [test, *(other for other in known if other != test)][:MOST_KILLERS]

    def first(self, mutant: Mutant, coverage: Coverage) -> list[str]:
        """The tests of the changed statement: these first, then the quickest."""
        running = dict.fromkeys(coverage.of_statement(mutant))
        return list(dict.fromkeys([test for test in self._last[mutant.file] if test in running]) | running)


def main() -> int:
    """0 when every survivor is judged, and enough are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--package", action="append", choices=PACKAGES, help="only this one; whole unless --sample is given")
    parser.add_argument("--file", action="append", help="only files whose path begins so; whole unless --sample is given")
    parser.add_argument("--sample", type=int, help="so many mutants, chosen by --seed; 100 if no package or file is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="processor time of the tests of a mutant, the quickest tests first"
    )
    parser.add_argument("--judged", action="store_true", help="run the mutants that are judged equivalent, too, and only them")
    given = parser.parse_args()
    judged = _judged()
    mutants = [mutant for package in given.package or PACKAGES for mutant in mutants_of(package)]
    mutants = [mutant for mutant in mutants if mutant.file.startswith(tuple(given.file or [""]))]
    if given.judged:
        mutants = [mutant for mutant in mutants if mutant.key() in judged]
    elif given.sample or not (given.package or given.file):
        mutants = Random(given.seed).sample(mutants, min(given.sample or 100, len(mutants)))
    coverage = current(given.workers)
    tried = [mutant for mutant in mutants if given.judged or mutant.key() not in judged]
    outcomes = _outcomes(tried, coverage, given.workers, given.seconds)
    survivors = [mutant for mutant, failure in outcomes if failure == ""]
    if given.judged:
        killed = [mutant for mutant in mutants if mutant not in survivors]
        print(*(f"judged equivalent, but a test notices it: {mutant}" for mutant in killed), sep="\n")
        return int(bool(killed))
    return _report(mutants, survivors, judged)


def _outcomes(mutants: list[Mutant], coverage: Coverage, workers: int, most: float) -> Iterator[tuple[Mutant, str | None]]:
    """Each mutant with what failed: "" for a survivor, None for one that took too long."""
    imported = [mutant for mutant in mutants if coverage.runs_at_import(mutant)]
    yield from _printed(
        in_forks(workers, ((mutant, lambda mutant=mutant: at_import(mutant, coverage, most)) for mutant in imported))
    )
    found: list[tuple[Mutant, str | None]] = []
    killers = Killers()

    def loop(items: list[pytest.Item]) -> None:
        import_core()
        functions = Functions.of_core()
        named = {item.nodeid: item for item in items}
        works: Iterable[Work] = (
            (mutant, lambda mutant=mutant, tests=tests: in_function(mutant, functions, [named[test] for test in tests], coverage))
            for mutant in mutants
            if mutant not in imported
            for tests in [coverage.within(killers.first(mutant, coverage), most)]
        )
        for mutant, failure in _printed(in_forks(workers, works)):
            killers.add(mutant, failure)
            found.append((mutant, failure))

    collect(loop)
    yield from found


def _printed(outcomes: Iterable[tuple[Mutant, str | None]]) -> Iterator[tuple[Mutant, str | None]]:
    for done, (mutant, failure) in enumerate(outcomes, 1):
        what = "survived" if failure == "" else "killed"
        print(f"{done}. {what}: {mutant}", file=sys.stderr, flush=True)
        yield mutant, failure


def _judged() -> dict[Key, str]:
    """Reasons by mutant. An entry that is no mutant any more fails."""
    entries = yaml.safe_load(JUDGED.read_text()) or []
    judged = {
        (entry["file"], entry["function"], entry["line"], change): str(entry["equivalent"])
        for entry in entries
        for change in entry.get("changes", [entry.get("change")])
    }
    there = {mutant.key() for package in PACKAGES for mutant in mutants_of(package)}
    if gone := [key for key in judged if key not in there]:
        sys.exit("judged.yaml names what is not in the core any more:\n" + "\n".join(map(str, gone)))
    return judged


def _report(mutants: list[Mutant], survivors: list[Mutant], judged: dict[Key, str]) -> int:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants:
        outcome = "equivalent" if mutant.key() in judged else "survived" if mutant in survivors else "killed"
        for row in (mutant.file.partition("/")[0], "all"):
            counts[row][outcome] += 1
    print(f"{'package':12} {'mutants':>8} {'killed':>8} {'survived':>9} {'judged equivalent':>18} {'share':>7}")
    for package in [*(name for name in PACKAGES if name in counts), "all"]:
        count = counts[package]
        share = 100 * count["killed"] / max(1, count["killed"] + count["survived"])
        numbers = f"{count.total():8} {count['killed']:8} {count['survived']:9} {count['equivalent']:18} {share:6.1f}%"
        print(f"{package:12} {numbers}")
    for mutant in sorted(survivors, key=lambda mutant: (mutant.file, mutant.line)):
        print(f"survived: {mutant}\n    {mutant.source}")
    return int(bool(survivors) or share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
