"""Links that are cut, one way or both, that flap, or that are slow and lossy, at each stage of a preemption.

Three brokers, two admissions and two agents are on hosts of their own (tests/kits/network.py). Whatever is cut: no acknowledged
request is lost, no GPU is given twice, the log is one chain that replays byte for byte, and once the link has healed the
preemption is done. The table of all cells: `python -m pytest -m long -s tests/process/test_partitions.py`.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.kits.network import POOL, NetworkSystem, skip_without_namespaces
from tests.kits.partitions import CUTS, MODES, STAGES, Cell, Story, table
from tests.kits.system import System, systems

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SAMPLE = (Cell("admission active", "TERM", "both ways"), Cell("agent of victim", "notice sent", "one way"))
CELLS = [Cell(cut, stage, mode) for mode in MODES for cut in CUTS for stage in STAGES]


@pytest.fixture(scope="module")
def _host_systems(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    skip_without_namespaces()
    with systems(tmp_path_factory, "hosts", NetworkSystem) as get:
        yield get


@pytest.fixture
def hosts(_host_systems: Callable[[], System]) -> NetworkSystem:
    """A running system, each of its processes on a host of its own; after a failed test a new one."""
    system = _host_systems()
    assert isinstance(system, NetworkSystem)
    return system


@pytest.fixture(scope="module")
def measured() -> Iterator[dict[Cell, float]]:
    """The seconds to recover, by cell; printed at the end."""
    seconds: dict[Cell, float] = {}
    yield seconds
    print(f"\n{table(seconds)}")


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, id=str(cell), marks=() if cell in SAMPLE else pytest.mark.long) for cell in CELLS]
)
async def test_an_impaired_link_loses_and_duplicates_nothing(
    hosts: NetworkSystem, measured: dict[Cell, float], cell: Cell
) -> None:
    async with hosts.watch(POOL) as pool:
        measured[cell] = await Story(hosts, pool, cell).run()
        print(f"{cell}: {measured[cell]:.1f} s", flush=True)


async def test_the_log_of_all_of_it_is_one_chain_that_replays(hosts: NetworkSystem) -> None:
    async with hosts.watch(POOL) as pool:
        assert (await pool.verify(orphans=True)).cycles
