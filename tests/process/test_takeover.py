"""Two replicas of every control service share two pools; when one of each dies, the others take over what it had."""

from collections.abc import Iterator

import pytest
from tests.system import System

pytestmark = pytest.mark.kafka

CONTROL = ("admission", "victim-selection", "eviction-executor")


@pytest.fixture
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system with a second replica of each control service, named with `-b`."""
    system = System(tmp_path_factory.mktemp("pairs"))
    try:
        system.start()
        for name in CONTROL:
            system.stack.start_service(name, replica="-b")
        system.stack.processes.wait_ready(*(f"{name}-b" for name in CONTROL), timeout_s=60)
        yield system
    finally:
        system.stop()


async def test_the_other_replica_takes_the_pools_over(pairs: System) -> None:
    async with pairs.watch("pool-a") as one, pairs.watch("pool-b") as other:
        pools = ((one, {"whole-a": 8}), (other, {"half-b": 4, "other-half-b": 4}))
        for watch, jobs in pools:
            for job, gpus in jobs.items():
                await watch.submit(job, gpus=gpus)
            await watch.until_running(*jobs)
        pairs.kill(*CONTROL)
        for watch, jobs in pools:
            await watch.submit("urgent", "true", gpus=4, kind="inference")
            await watch.until_ended("urgent")
            await watch.until_running(*jobs)
            assert sum(watch.job(job).evictions for job in jobs) == 1
            await watch.verify(orphans=True)
