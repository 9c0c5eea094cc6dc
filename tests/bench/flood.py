"""How long an urgent, signed job waits while somebody unsigned floods the pool with requests, and what that costs admission.

On a Kafka as `make up` starts it, and on one with TLS, users and access lists.

The flood fills the pool, so the urgent job needs a preemption: decided is when the log has it, running when its task has started.
"""

import asyncio
import time

from aiokafka import AIOKafkaProducer

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.kafka import KafkaBus
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_devstack.kafka import EmbeddedKafka
from bailiff_devstack.secure_kafka import SecureKafka
from bailiff_devstack.stack import Plan, Stack
from bailiff_log.keys import key_id

from .requests import submit_message
from .system import Watch, all_joined, cpu_seconds, job_of, megabytes, publishing, spent, watching
from .table import Row, Run

POOL, NODES, SENT_AT_ONCE = "pool-a", 2, 500
KEY = bytes(range(32))
POLICY = f"""
priority_classes:
  - {{name: inference, value: 125, preemptible: false}}
  - {{name: train, value: 50, preemptible: true, global_default: true}}
identity:
  keys: {{"{key_id(KEY)}": ada}}
"""
DECIDED, RUNNING = ("PreemptionDecided", "JobPlaced"), "TaskStarted"


def measure(run: Run) -> list[Row]:
    """Urgent jobs before the flood, while it is sent, and while it is worked off."""
    requests, urgent = (10_000, 3) if run.quick else (100_000, 5)
    policy = run.folder / "policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(POLICY)
    nodes = [{"name": f"node-{n}", "pool": POOL, "gpus": "8xH100-80GB"} for n in range(NODES)]
    rows = []
    for what, kind in {"": EmbeddedKafka, ", SECURE=1": SecureKafka}.items():
        folder = run.folder / kind.__name__
        with Stack(folder, Plan(nodes=nodes, policy=policy), kafka=kind(folder / "kafka")) as stack:
            rows += asyncio.run(_measure(run, stack, requests, urgent, what))
    return rows


class Urgent:
    """When the log had which record about which urgent job, by the broker's clock, s."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str], float] = {}

    def take(self, kind: str, record: object) -> None:
        name = kind.removeprefix("bailiff.audit.").removesuffix(".v1")
        job = job_of(record) if name in (*DECIDED, RUNNING) else ""
        if job.startswith("urgent"):
            self.at.setdefault((job, name), record.timestamp / 1000)


async def _measure(run: Run, stack: Stack, requests: int, urgent: int, where: str) -> list[Row]:
    kafka, seen = stack.kafka.settings("operator"), Urgent()
    await all_joined(stack, POOL, NODES)
    async with (
        publishing(kafka) as producer,
        watching(kafka, topics.AUDIT.name, on=seen.take) as audit,
        Client(KafkaBus(kafka), source="/ada", private_key=KEY) as client,
    ):
        await _send(producer, [submit_message(POOL, f"filler-{n}") for n in range(8 * NODES)])
        await audit.until("fillers run", lambda: audit.seen[RUNNING] >= 8 * NODES)
        calm = [await _urgent_job(client, audit, seen, f"urgent-calm-{n}") for n in range(urgent)]
        run.say("making the flood")
        flood = [submit_message(POOL, f"flood-{n}") for n in range(requests)]
        before, began = cpu_seconds(stack), time.monotonic()
        sending = asyncio.ensure_future(_send(producer, flood))
        stormy = []
        for n in range(urgent):
            await asyncio.sleep(1.0)
            stormy.append(await _urgent_job(client, audit, seen, f"urgent-flood-{n}"))
            run.say(f"{stormy[-1]} s, {'sending' if not sending.done() else 'sent'}, {dict(audit.seen)}")
        await sending
        run.say(f"sent within {time.monotonic() - began:.1f} s")
        for n in range(urgent):
            await asyncio.sleep(1.0)
            stormy.append(await _urgent_job(client, audit, seen, f"urgent-after-{n}"))
            run.say(f"{stormy[-1]} s, {dict(audit.seen)}")
        most = megabytes(stack, peak=True)
        run.say(f"{most} {spent(before, cpu_seconds(stack))}")
    rows = [Row(f"the same{where}: memory of the largest service, at most", max(most.values()), "MB", "≤ 600 MB")]
    for at, what in enumerate(("on the log → its preemption is decided", "on the log → its task runs")):
        rows.append(
            Row(
                f"urgent signed job, {requests:,} unsigned requests under way{where}: {what}, slowest of {len(stormy)}",
                max(each[at] for each in stormy),
                "s",
                "≤ 2 s" if at == 0 else "≤ 5 s",
                max(each[at] for each in calm),
                "s: the same without a flood",
            )
        )
    return rows


async def _send(producer: AIOKafkaProducer, messages: list) -> None:
    for start in range(0, len(messages), SENT_AT_ONCE):
        sent = [
            await producer.send(topics.REQUESTS.name, value, key=POOL.encode(), headers=list(headers))
            for headers, value in messages[start : start + SENT_AT_ONCE]
        ]
        await asyncio.gather(*sent)


async def _urgent_job(client: Client, audit: Watch, seen: Urgent, job: str) -> tuple[float, float]:
    """Seconds from the request to the decision, and to the start of the task."""
    group = TaskGroup(gpu_milli=1000, cpu_milli=100, memory_bytes=1 << 28)
    demand = JobDemand(job=job, tasks=(group,), priority_class="inference")
    await client.submit(demand, JobSpec(command=("true",), env={"BAILIFF_SIM_RUN_FOR": "0.5"}, runtime="simulated"), pool=POOL)
    asked = time.time()
    await audit.until(f"{job} runs", lambda: (job, RUNNING) in seen.at)
    decided = min(seen.at[job, kind] for kind in DECIDED if (job, kind) in seen.at)
    return round(decided - asked, 3), round(seen.at[job, RUNNING] - asked, 3)
