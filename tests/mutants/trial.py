"""Runs the tests that see one mutant, up to the first that fails."""

import gc
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FunctionType

import pytest

from .coverage import Coverage
from .imports import rewrite_imports
from .operators import CORE, Mutant
from .session import collect, failures

MOST_MEMORY = 8 * 2**30
PATIENCE_S = 2.0
SLOWER = 5
"""A test may take so many times its processor time, and so many seconds on top; then the alarm ends the fork."""


@dataclass(frozen=True)
class Functions:
    """The functions of the core, by file, name and line; found once, before the forks, since it takes long."""

    known: dict[tuple[str, str, int], list[FunctionType]]

    @classmethod
    def of_core(cls) -> "Functions":
        """All functions whose code is in a file of the core. What exists by now is no garbage, and the forks share its memory."""
        gc.unfreeze()  # pytest has frozen what was collected, and the collector would not list it
        known: dict[tuple[str, str, int], list[FunctionType]] = {}
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename.startswith(str(CORE)):
                known.setdefault(_place(found.__code__), []).append(found)
        gc.freeze()
        return cls(known)

    def change(self, mutant: Mutant) -> None:
        """Replace the code of one function. In a fork."""
        code = compile(mutant.tree(), str(CORE / mutant.file), "exec")
        parts = [part for part in _codes(code) if part.co_qualname == mutant.scope and _place(part) in self.known]
        assert parts, f"no function of {mutant}"
        for part in parts:
            for function in self.known[_place(part)]:
                function.__code__ = part


def in_function(mutant: Mutant, functions: Functions, items: list[pytest.Item], coverage: Coverage) -> str:
    """What failed with the code of one function replaced, in a fork of a process with all tests collected; "" if nothing did."""
    functions.change(mutant)
    return _run(items, coverage)


def at_import(mutant: Mutant, coverage: Coverage, most: float) -> str:
    """The same with the module imported in its changed form, in a fork of a process that has not imported the core yet."""
    rewrite_imports(lambda file, tree: mutant.tree() if file == mutant.file else tree)
    tests = coverage.within(coverage.of_file(mutant.file), most)
    outcome = ["the tests are not collected"]

    def loop(items: list[pytest.Item]) -> None:
        named = {item.nodeid: item for item in items}
        outcome[0] = _run([named[test] for test in tests if test in named], coverage)

    with suppress(RuntimeError):
        collect(loop, list(dict.fromkeys(test.partition("::")[0] for test in tests)))
    return outcome[0]


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> list[CodeType]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [*inner, *(found for part in inner for found in _codes(part))]


def _run(items: list[pytest.Item], coverage: Coverage) -> str:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def around(item: pytest.Item, run: Callable[[], None]) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S + SLOWER * coverage.seconds[item.nodeid])
        run()

    return next(failures(items, around), "")
