"""Links that are cut, one way or both, that flap, or that are slow and lossy, at each stage of a preemption.

Three brokers, two admissions and two agents are on hosts of their own (tests/network_kit.py). Whatever is cut: no acknowledged
request is lost, no GPU is given twice, the log is one chain that replays byte for byte, and once the link has healed the
preemption is done. The table of all cells: `python -m pytest -m long -s tests/process/test_partitions.py`.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.network_kit import NetworkSystem, skip_without_namespaces
from tests.partitions import CUTS, MODES, STAGES, Cell, partitions, table
from tests.system import System, systems

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SAMPLE = (
    Cell("broker leader", "decided", "both ways"),
    Cell("admission active", "TERM", "both ways"),
    Cell("agent of victim", "notice sent", "one way"),
)


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


async def test_a_link_is_cut_during_a_preemption(hosts: NetworkSystem) -> None:
    async with partitions(hosts) as tested:
        for cell in SAMPLE:
            await tested.run(cell)
        print(table(tested.seconds))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cut", CUTS)
async def test_every_link_is_impaired_at_every_stage(hosts: NetworkSystem, cut: str, mode: str) -> None:
    async with partitions(hosts) as tested:
        for stage in STAGES:
            await tested.run(Cell(cut, stage, mode))
        print(table(tested.seconds))
