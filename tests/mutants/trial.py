"""Runs the tests that see one mutant, up to the first that fails."""

import gc
import os
import resource
import signal
from collections.abc import Callable
from types import CodeType, FunctionType

import pytest

from .coverage import Coverage
from .imports import rewrite_imports
from .operators import CORE, Mutant
from .session import collect, failures

MOST_MEMORY = 8 * 2**30
PATIENCE_S = 2.0
SLOWER = 5
"""A test may take so many times its processor time, and so many seconds on top; then the mutant counts as one that loops."""


def in_function(mutant: Mutant, items: list[pytest.Item], coverage: Coverage) -> str:
    """What failed with the code of one function replaced, in a fork of a process with all tests collected; "" if nothing did."""
    code = compile(mutant.tree(), str(CORE / mutant.file), "exec")
    changed = [part for part in _codes(code) if part.co_qualname == mutant.scope]
    functions = [
        (found, part)
        for found in gc.get_objects()
        if isinstance(found, FunctionType) and found.__code__.co_filename == code.co_filename
        for part in changed
        if (found.__code__.co_qualname, found.__code__.co_firstlineno) == (mutant.scope, part.co_firstlineno)
    ]
    assert functions, f"no function of {mutant}"
    for function, part in functions:
        function.__code__ = part
    return _run(items, coverage)


def at_import(mutant: Mutant, coverage: Coverage, most: float) -> str:
    """The same with the module imported in its changed form, in a fork of a process that has not imported the core yet."""
    rewrite_imports(lambda file, tree: mutant.tree() if file == mutant.file else tree)
    outcome = ["the tests are not collected"]

    def loop(items: list[pytest.Item]) -> None:
        named = {item.nodeid: item for item in items}
        outcome[0] = _run(
            [named[test] for test in coverage.within(coverage.of_file(mutant.file), most) if test in named], coverage
        )

    try:
        collect(loop)
    except RuntimeError:
        return outcome[0]
    return outcome[0]


def _codes(code: CodeType) -> list[CodeType]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [*inner, *(found for part in inner for found in _codes(part))]


def _run(items: list[pytest.Item], coverage: Coverage) -> str:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGVTALRM, lambda *_: os._exit(1))

    def around(item: pytest.Item, run: Callable[[], None]) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S + SLOWER * coverage.seconds[item.nodeid])
        run()

    return next(failures(items, around), "")
