"""`python -m tests.mutants` runs mutants of the core; ends with 1 if the tests miss too many, or one that nobody has judged."""

import argparse
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Outcome:
    """What the tests made of a mutant. result: what failed, "" if nothing did, a negative signal if one ended the tests."""

    mutant: Mutant
    result: str | int

    def word(self) -> str:
        """Under what it is counted."""
        if self.result == -signal.SIGVTALRM:
            return "timed out"
        return "killed" if self.result else "survived"

    def test(self) -> str:
        """The test that failed, "" for none."""
        return self.result.partition(": ")[0] if isinstance(self.result, str) else ""

    def __str__(self) -> str:
        if isinstance(self.result, int):
            return f"{self.word()} ({signal.Signals(-self.result).name}): {self.mutant}"
        errors = [line[2:].strip() for line in self.result.splitlines() if line.startswith("E ")]
        return f"{self.word()}: {self.mutant}" + (f"\n    {self.test()}: {errors[0] if errors else ''}" if self.result else "")


class Killers:
    """Tests that noticed earlier mutants of a file. They are run first, since they often notice the next one as well."""

    def __init__(self) -> None:
        self._last: dict[str, list[str]] = defaultdict(list)

    def add(self, outcome: Outcome) -> None:
        """Note which test noticed the mutant."""
        file, test = outcome.mutant.file, outcome.test()
        if test:
            self._last[file] = [test, *(other for other in self._last[file] if other != test)][:MOST_KILLERS]

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
    judged = judged_mutants()
    mutants = [mutant for package in given.package or PACKAGES for mutant in mutants_of(package)]
    mutants = [mutant for mutant in mutants if mutant.file.startswith(tuple(given.file or [""]))]
    if given.judged:
        mutants = [mutant for mutant in mutants if mutant.key() in judged]
    elif given.sample or not (given.package or given.file):
        mutants = Random(given.seed).sample(mutants, min(given.sample or 100, len(mutants)))
    coverage = current(given.workers)
    tried = [mutant for mutant in mutants if given.judged or mutant.key() not in judged]
    outcomes = list(_outcomes(tried, coverage, given.workers, given.seconds))
    if given.judged:
        noticed = [outcome for outcome in outcomes if outcome.word() != "survived"]
        print(*(f"judged equivalent, but a test notices it: {outcome}" for outcome in noticed), sep="\n")
        return int(bool(noticed))
    return _report(outcomes, [mutant for mutant in mutants if mutant.key() in judged])


def _outcomes(mutants: list[Mutant], coverage: Coverage, workers: int, most: float) -> Iterator[Outcome]:
    """What the tests of so many seconds make of each mutant."""
    imported = [mutant for mutant in mutants if coverage.runs_at_import(mutant)]
    yield from _printed(
        in_forks(workers, ((mutant, lambda mutant=mutant: at_import(mutant, coverage, most)) for mutant in imported))
    )
    found: list[Outcome] = []
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
        for outcome in _printed(in_forks(workers, works)):
            killers.add(outcome)
            found.append(outcome)

    collect(loop)
    yield from found


def _printed(results: Iterable[tuple[Mutant, str | int]]) -> Iterator[Outcome]:
    for done, (mutant, result) in enumerate(results, 1):
        outcome = Outcome(mutant, result)
        print(f"{done}. {outcome}", file=sys.stderr, flush=True)
        yield outcome


def judged_mutants() -> dict[Key, str]:
    """Reasons by mutant. What names no mutant any more fails."""
    of_function: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
    for package in PACKAGES:
        for mutant in mutants_of(package):
            of_function[mutant.file, mutant.function].append(mutant)
    judged: dict[Key, str] = {}
    gone = []
    for entry in yaml.safe_load(JUDGED.read_text()):
        for file, functions in entry["mutants"].items():
            for function, changes in functions.items():
                for text in changes:
                    named = [mutant for mutant in of_function[file, function] if _is_named(mutant, text)]
                    judged |= {mutant.key(): entry["equivalent"] for mutant in named}
                    gone += [] if named else [f"{file} ({function})  {text}"]
    if gone:
        sys.exit("judged.yaml names what is not in the core any more:\n" + "\n".join(gone))
    return judged


def _is_named(mutant: Mutant, text: str) -> bool:
    """Whether an entry of judged.yaml means this one: `<change>` or `<its beginning>…`, and maybe ` @ <part of the line>`."""
    change, _, part = text.partition(" @ ")
    found = f"{mutant.before} → {mutant.after}"
    is_change = found.startswith(change[:-1]) if change.endswith("…") else found == change
    return is_change and part in mutant.source


def _report(outcomes: list[Outcome], equivalent: list[Mutant]) -> int:
    """Print the numbers and the survivors. One that timed out was noticed, since it is counted in processor time."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    words = [(outcome.mutant, outcome.word()) for outcome in outcomes] + [(mutant, "equivalent") for mutant in equivalent]
    for mutant, word in words:
        for row in (mutant.file.partition("/")[0], "all"):
            counts[row][word] += 1
    print(f"{'package':12} {'mutants':>8} {'judged equivalent':>18} {'killed':>8} {'timed out':>10} {'survived':>9} {'share':>7}")
    for package in [*(name for name in PACKAGES if name in counts), "all"]:
        count = counts[package]
        noticed = count["killed"] + count["timed out"]
        share = 100 * noticed / max(1, noticed + count["survived"])
        numbers = f"{count['killed']:8} {count['timed out']:10} {count['survived']:9} {share:6.1f}%"
        print(f"{package:12} {count.total():8} {count['equivalent']:18} {numbers}")
    survivors = [outcome.mutant for outcome in outcomes if outcome.word() == "survived"]
    for mutant in sorted(survivors, key=lambda mutant: (mutant.file, mutant.line)):
        print(f"survived: {mutant}\n    {mutant.source}")
    return int(bool(survivors) or share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
