"""Fixtures for all test folders."""

import gc
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog
from _pytest.nodeid import NodeId
from hypothesis import settings
from tests.kits.dra import dra_cluster  # noqa: F401
from tests.kits.examples import EXPLORES
from tests.kits.kafka import kafka, private_kafka  # noqa: F401
from tests.kits.kubernetes_cluster import kubernetes, kubernetes_api, kubernetes_namespace  # noqa: F401
from tests.kits.postgres import database, postgres, private_postgres  # noqa: F401
from tests.kits.survival import _stages, stage  # noqa: F401
from tests.kits.system import _battered_systems, _calm_systems, battered, system  # noqa: F401

from bailiff_service import gc_tuning, logs

# `make test` says the same of the same code, however busy the machine is; `make test-long` tries examples that nobody has seen.
settings.register_profile("repeatable", deadline=None, derandomize=not EXPLORES)
settings.load_profile("repeatable")

TESTS = Path(__file__).parent
SHARED = ("_stages", "_calm_systems", "_battered_systems", "kafka", "kubernetes", "dra_cluster")
"""Session fixtures that several files share. The tests of each are one group, run by one worker, so each starts once."""
SYSTEMS = ("_stages", "_calm_systems", "_battered_systems")
"""Fixtures that stop after their group: Kafka and five idle services use a sixth of a core."""
ORDER = ("chaos", "acceptance", "process", "integration", "contract", "simulation", "fuzz", "property")
"""Order in which folders start, before all others: tests that mostly wait first, then long ones, short ones last. Of each folder
the files that may take longest start first, so that no worker is left with one at the end.
"""

WHOLE_SYSTEM = ("acceptance", "process", "chaos")
"""Folders whose tests start real services: `make test-system` runs them."""

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # services that tests start, hundreds of times, are compiled once
sys.dont_write_bytecode = False  # and so are the tests
os.environ["COLUMNS"] = "200"  # what a command prints does not depend on this terminal, and no cell of a table wraps

gc.set_threshold(20_000, 20, 50)  # most objects stay, those of thousands of tests: a fifth of the time goes into looking at them

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a process started with & ignores Ctrl-C, and so do its children
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--random-order SEED`."""
    parser.addoption("--random-order", type=int, metavar="SEED", help="shuffle groups, files and tests: none may need another")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a whole system, and order the tests by group, the same for one worker as for several: see `make test`."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = _group(item)
        if item.path.relative_to(TESTS).parts[0] in WHOLE_SYSTEM:
            item.add_marker("system")
        elif group in SYSTEMS:
            raise pytest.UsageError(f"{item.nodeid} needs a whole system: move it to one of {WHOLE_SYSTEM}")
        groups.setdefault(group, []).append(item)
        if getattr(item.config.option, "loadgroup", False):
            # The mark `xdist_group` does the same, but xdist 3.8 does not find the name in pytest 9.2.
            item._id = NodeId.parse(f"{item.nodeid}@{group}")
    seed = config.getoption("random_order")
    for group in groups.values() if seed is not None else ():
        shuffled = {item: random.Random(f"{seed} {item.name}").random() for item in group}
        group.sort(key=lambda item: (random.Random(f"{seed} {item.path.name}").random(), shuffled[item]))
    order = sorted(groups, key=lambda group: (_place(group), -sum(map(_may_take_s, groups[group]))))
    if seed is not None:
        order = random.Random(seed).sample(list(groups), len(groups))
    items[:] = [item for group in order for item in groups[group]]


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: the garbage collector need not look through them each time, and services that run in
    this process do not unfreeze them, nor freeze what is garbage after their test.
    """
    gc.collect()
    gc.freeze()
    as_it_is = SimpleNamespace(freeze=lambda: None, unfreeze=lambda: None, collect=gc.collect)
    pytest.MonkeyPatch().setattr(gc_tuning, "gc", as_it_is)


def _group(item: pytest.Item) -> str:
    """The group that one worker runs without interruption: a file, or all tests that use the same session fixture."""
    used = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in used), item.path.relative_to(TESTS).as_posix())


def _may_take_s(item: pytest.Item) -> float:
    """The test's time-out."""
    own = item.get_closest_marker("timeout")
    return float(own.args[0] if own else item.config.getini("timeout"))


def _place(group: str) -> int:
    """Rank of the group in the start order."""
    if group in SHARED:
        return SHARED.index(group)
    folder = group.partition("/")[0]
    return len(SHARED) + (ORDER.index(folder) if folder in ORDER else len(ORDER))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop a system after its last test, to free the CPU."""
    following = getattr(nextitem, "fixturenames", ())
    started = getattr(item, "funcargs", {})
    for name in SYSTEMS:
        if name in started and name not in following:
            started[name].stop()


@pytest.fixture(scope="session")
def _logs_at_first() -> Callable[[], None]:
    """Restores the logging configuration of the session's start."""
    root, aiokafka = logging.getLogger(), logging.getLogger("aiokafka")
    level, configured = root.level, structlog.get_config()

    def restore() -> None:
        root.setLevel(level)
        aiokafka.handlers.clear()
        aiokafka.setLevel(logging.NOTSET)
        aiokafka.propagate = True
        structlog.configure(**configured)
        logs._deferred = None  # a command's, that logged nothing

    return restore


@pytest.fixture(autouse=True)
def _logs_as_they_were(_logs_at_first: Callable[[], None]) -> Iterator[None]:
    """Restore the logging configuration, which services and commands in this process change: a test's, and a shared fixture's."""
    _logs_at_first()
    handlers = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = handlers
    _logs_at_first()
