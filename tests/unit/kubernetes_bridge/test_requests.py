"""The bridge's requests: ids that nobody can guess, and rejections that are its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kits.signed_pool import POOL, SignedPool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.policy import DEFAULT_POLICY, Limits
from bailiff_core.records.facts import ApplyPolicy, CancelJob, InputRejected, JobSubmitted, SubmitJob
from bailiff_kubernetes_bridge.actions import Send
from bailiff_kubernetes_bridge.pool_log import PoolLog
from bailiff_kubernetes_bridge.requests import RESEND_AFTER, Requests
from bailiff_log.keys import key_id, new_private_key
from bailiff_service.metrics import Metrics
from bailiff_service.settings import PoolDeclaration

SOURCE = "/kubernetes/c1"
NAME = "j/submit/0123456789abcdef/1.1"
SECRET = b"s" * 32
ONE_JOB = DEFAULT_POLICY.limits.model_copy(update={"user": Limits(open_jobs=1)})


def submission(job: str = "j", kind: str = "train") -> SubmitJob:
    demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),), priority_class=kind)
    return SubmitJob(demand=demand, spec=JobSpec(command="true", runtime="simulated"))


class Bridge:
    """The bridge's requests and its view of the log, in a pool that accepts unsigned requests. key: it signs with this one."""

    def __init__(self, pool: SignedPool, key: bytes | None = None) -> None:
        self.pool = pool
        bus = pool.cluster.client("bridge")
        self.log = PoolLog(bus, PoolDeclaration(name=POOL, partition=0), Metrics(), pool.folder / "s", SOURCE, lambda: None)
        self.requests = Requests(Client(bus, source=SOURCE, now=pool.now, private_key=key), pool.clock_and_ids(), SECRET)

    async def send(self, body: SubmitJob) -> str:
        """Sends it; the id on the wire."""
        await self.requests.send(self.log, [Send(NAME, "", body)])
        return unwrap(self.pool.messages(topics.REQUESTS.name)[-1]).id

    def stranger(self, request_id: str, job: str = "theirs") -> None:
        """Somebody else sends this under the bridge's source and that id."""
        headers, value = wrap(CancelJob(job=job), source=SOURCE, id=request_id, pool=POOL, time_us=self.pool.now())
        self.pool.send(topics.REQUESTS.name, headers, value)

    async def until_rejected(self, code: str, times: int = 1) -> None:
        """Waits until the log has so many rejections with the code, and the bridge has read them."""
        await self.pool.until(code, lambda _: sum(each.code == code for each in self.pool.facts(InputRejected)) >= times)
        await asyncio.sleep(2)

    @property
    def rejected(self) -> list[str]:
        """The codes of what the bridge believes to be rejected."""
        return [each.code for each in self.log.rejected.values()]


@asynccontextmanager
async def bridged(folder: Path, *, signs: bool = False) -> AsyncIterator[Bridge]:
    async with SignedPool(folder) as pool:
        key = new_private_key() if signs else None
        if key is not None:
            identity = DEFAULT_POLICY.identity.model_copy(update={"keys": {key_id(key): "bridge"}})
            pool.request(ApplyPolicy(policy=DEFAULT_POLICY.model_copy(update={"identity": identity})), pool.root)
            await pool.until("its key is known", lambda state: key_id(key) in state.rules.identity.keys)
        bridge = Bridge(pool, key)
        reading = asyncio.ensure_future(bridge.log.run())
        try:
            await asyncio.sleep(2)
            yield bridge
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


@in_virtual_time
async def test_a_stranger_who_uses_the_name_of_a_request_before_it_is_sent_does_not_stop_it(tmp_path: Path) -> None:
    async with bridged(tmp_path) as bridge:
        bridge.stranger(NAME)
        await bridge.until_rejected("no-such-job")
        sent = await bridge.send(submission())
        assert (sent.startswith(f"{NAME}/"), len(sent)) == (True, len(NAME) + 33)
        await bridge.pool.until("it is accepted", lambda state: "j" in state.jobs)
        assert bridge.rejected == []


@in_virtual_time
async def test_the_rejection_of_a_stranger_s_request_under_the_bridge_s_id_is_not_the_bridge_s(tmp_path: Path) -> None:
    async with bridged(tmp_path) as bridge:
        sent = await bridge.send(submission(kind="unknown"))
        await bridge.until_rejected("unknown-class")
        assert bridge.rejected == ["unknown-class"]
        bridge.stranger(sent)
        await bridge.until_rejected("no-such-job")
        assert bridge.rejected == ["unknown-class"]


@in_virtual_time
async def test_what_a_limit_rejected_is_sent_again_under_an_id_that_nobody_has_seen(tmp_path: Path) -> None:
    async with bridged(tmp_path) as bridge:
        bridge.pool.request(ApplyPolicy(policy=DEFAULT_POLICY.model_copy(update={"limits": ONE_JOB})), bridge.pool.root)
        await bridge.pool.until("limits", lambda state: state.rules.limits.user.open_jobs == 1)
        bridge.pool.submit("theirs")
        await bridge.pool.until("there is one job", lambda state: "theirs" in state.jobs)
        first = await bridge.send(submission())
        await bridge.until_rejected("too-many-jobs")
        bridge.stranger(first)
        await bridge.pool.until("the stranger has used the id", lambda state: state.jobs["theirs"].cancelled)
        await bridge.pool.until("there is room", lambda state: state.jobs["theirs"].phase == "cancelled")
        await asyncio.sleep(RESEND_AFTER / 1_000_000)
        again = await bridge.send(submission())
        assert again != first
        await bridge.pool.until("it is accepted", lambda state: "j" in state.jobs)
        assert [each.request.id for each in bridge.pool.facts(JobSubmitted)][-1] == again


@in_virtual_time
async def test_a_request_without_an_answer_is_repeated_under_its_id(tmp_path: Path) -> None:
    async with bridged(tmp_path) as bridge:
        await bridge.pool.stop("admission")
        first = await bridge.send(submission())
        await asyncio.sleep(RESEND_AFTER / 1_000_000)
        assert await bridge.send(submission()) == first
        assert len(bridge.pool.messages(topics.REQUESTS.name)) == 2


@pytest.mark.slow
@in_virtual_time
async def test_a_stranger_under_the_bridge_s_source_delays_none_of_its_rejections(tmp_path: Path) -> None:
    """What somebody without its key sends counts for him alone, however much it is; the bridge signs."""

    async with bridged(tmp_path, signs=True) as bridge:
        most = bridge.pool.state.rules.max_rejections_per_minute
        for number in range(most + 20):
            bridge.stranger(f"{NAME}-{number}")
        await bridge.pool.until("he is above his limit", lambda _: len(bridge.pool.facts(InputRejected)) >= most)
        await bridge.send(submission(kind="unknown"))
        await bridge.until_rejected("unknown-class")
        assert bridge.rejected == ["unknown-class"]
        assert [each.sender for each in bridge.pool.facts(InputRejected) if each.code == "unknown-class"] == ["bridge"]
