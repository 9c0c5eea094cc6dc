"""A flood of unsigned requests delays nobody else's, and none of it is lost when admission is killed in the middle."""

import time
import uuid
from collections import Counter

import pytest
from tests.kits.system import POLICY, System, Watch

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import JobSubmitted, SubmitJob
from bailiff_log.keys import key_id
from bailiff_log.signatures import salted, sign

KEY = bytes(range(32))
FLOOD, DECIDED_BEFORE = 1_000, 200
FLOODED = POLICY.model_copy(update={"identity": POLICY.identity.model_copy(update={"keys": {key_id(KEY): "ada"}})})


@pytest.fixture(scope="module")
def flooded(tmp_path_factory):
    with System(tmp_path_factory.mktemp("flood"), pools={"pool-a": 1}, policy=FLOODED) as system:
        yield system


def request(job: str, kind: str, gpus: int, key: bytes = b"") -> tuple:
    group = TaskGroup(gpu_milli=gpus * 1000, cpu_milli=100, memory_bytes=1 << 20)
    body = SubmitJob(demand=JobDemand(job=job, tasks=(group,), priority_class=kind), spec=JobSpec(command="sleep 600"))
    about = {"source": "/ada" if key else "/flood", "id": uuid.uuid4().hex, "pool": "pool-a", "time_us": time.time_ns() // 1000}
    if not key:
        return wrap(body, **about)
    body = salted(key, body, source=about["source"], id=about["id"])
    keyid, sig = sign(key, body, **about)
    return wrap(body, **about, keyid=keyid, sig=sig)


async def published(watch: Watch, requests: list[tuple]) -> None:
    messages = [(b"pool-a", headers, value) for headers, value in requests]
    for batch in await watch.producer.send_many(topics.REQUESTS.name, messages):
        await batch.first


async def test_an_urgent_signed_job_overtakes_a_flood_and_nothing_is_lost_when_admission_is_killed(flooded: System):
    """A thousand jobs of eight GPUs are asked for while admission is down, then one urgent job of ada's."""
    async with flooded.watch("pool-a") as watch:
        flooded.kill("admission")
        flood = [f"flood-{number}" for number in range(FLOOD)]
        await published(watch, [request(job, "train", 8) for job in flood])
        await published(watch, [request("urgent", "inference", 8, KEY)])
        flooded.start_service("admission")
        await watch.until("the urgent job is submitted", lambda state: "urgent" in state.jobs)
        assert sum(job.startswith("flood") for job in watch.state.jobs) <= DECIDED_BEFORE
        await watch.until("some more of the flood is decided", lambda state: len(state.jobs) > DECIDED_BEFORE)
        flooded.kill_and_restart("admission")
        await watch.until_running("urgent")
        await watch.until("the flood is decided", lambda state: len(state.jobs) == FLOOD + 1)
        await watch.until("the positions have passed it", lambda state: not any(name.count("/") > 1 for name in state.inputs))
        submitted = Counter(fact.demand.job for fact in watch.facts(JobSubmitted))
        assert submitted == Counter({**dict.fromkeys(flood, 1), "urgent": 1})
        own = [fact.demand.job for fact in watch.facts(JobSubmitted) if fact.demand.job.startswith("flood")]
        assert own == flood, "a user's requests keep their order"
        await watch.verify()
        flooded.broken = True  # a thousand jobs are not worth cancelling
        watch.keep(*watch.state.jobs)
