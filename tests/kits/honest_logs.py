"""A signed log as services write it, with as many types of records as they write without being killed."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kits.signed_pool import SignedPool
from tests.unit.bus.virtual_time import run

from bailiff_bus import topics
from bailiff_core.model.policy import DEFAULT_POLICY, GpuBudget, Project
from bailiff_core.records import Record, Wire, facts
from bailiff_core.records.request import RequestBody
from bailiff_log.credentials import Credentials
from bailiff_log.enrolment import EnrolmentToken
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.root_keys import change_root_key

ADA, EVE, TOKEN = (bytes([number]) * 32 for number in (1, 2, 3))
IDENTITY = DEFAULT_POLICY.identity.model_copy(update={"keys": {key_id(ADA): "ada", key_id(EVE): "eve"}, "operators": ("ada",)})
BUDGETS = (GpuBudget(name="all", gpu_hours=1000), GpuBudget(name="ada", user="ada", gpu_hours=100))
POLICY = DEFAULT_POLICY.model_copy(update={"identity": IDENTITY, "budgets": BUDGETS})
HOUR = 3_600_000_000


async def tell(pool: SignedPool) -> None:
    """As many types of records as services write without being killed."""

    async def ask(body: RequestBody, key: bytes | None = ADA) -> None:
        pool.request(body, key)
        await pool.until("all requests are answered", lambda _: answers(pool) == len(pool.messages(topics.REQUESTS.name)))

    await ask(facts.ApplyPolicy(policy=POLICY, reason="begin"), pool.root)
    await ask(facts.TopUpBudget(budget="ada", gpu_hours=10, reason="paper"))
    await ask(facts.TransferBudget(budget="all", to="ada", gpu_hours=20, reason="a gift"))
    pool.submit("low", kind="train", key=ADA, BAILIFF_SIM_CHECKPOINTS="10:0.1")
    await pool.until_running("low")
    pool.submit("high", kind="inference", key=ADA)
    await pool.until_running("high")
    await ask(facts.AttachJob(job="high", task=0, client_certificate="A" * 400))
    await pool.until("the agent answers", lambda _: records_of(pool, "AttachEnded"))
    await ask(facts.EvictJob(job="high", reason="room"))
    await ask(facts.PauseJob(job="high", reason="later"))
    await pool.until("it is paused", lambda state: state.jobs["high"].phase == "paused")
    await ask(facts.ReadJobSpec(job="high", encryption_key=key_id(ADA)))
    await ask(facts.SetPriorityClass(job="high", priority_class="train"))
    await ask(facts.ScaleJob(job="high", tasks=1))
    await pool.until_running("low")
    inventory = pool.machines["n1"].inventory
    device = inventory.list()[0].id
    inventory.fail(device, xid=79)
    await pool.until("a GPU is unhealthy", lambda _: records_of(pool, "DeviceUnhealthy"))
    inventory.fail(device)
    await ask(facts.ClearQuarantine(node="n1", device=device, reason="replaced"))
    await ask(facts.EnrolNode(node="n2", token_key=key_id(TOKEN), expires=pool.now() + HOUR))
    pool.start_agent("n2", "nodes-2", token=EnrolmentToken(TOKEN, key_id(pool.root)).text())
    await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
    pool.start_agent("n3", "nodes-3", token=EnrolmentToken(EVE, key_id(pool.root)).text())
    await pool.until("n3 waits", lambda _: records_of(pool, "NodeWaiting"))
    pool.submit("small", gpus=1, key=ADA)
    pool.submit("unsigned", gpus=1)
    await pool.until_running("small")
    on = pool.state.nodes[pool.state.jobs["small"].tasks[0].node].name
    await ask(facts.MigrateJob(job="small", node="n2" if on == "n1" else "n1"))
    await ask(facts.DrainNode(node="n1", reason="repair"))
    await ask(facts.DrainNode(node="n9"))
    await ask(facts.CancelJob(job="nothing"), None)
    await ask(facts.UndrainNode(node="n1"))
    await ask(facts.RevokeKey(key=key_id(EVE), reason="lost"))
    await ask(facts.ResumeJob(job="high"))
    await pool.stop("agent-n2")
    await pool.until("n2 is silent", lambda _: records_of(pool, "NodeUnreachable") + records_of(pool, "NodesSilent"))
    await ask(facts.ReturnNode())
    await pool.stop("admission")
    pool.start_admission(name="another")
    await pool.until("another writer writes", lambda state: state.epoch == 2)
    for job in ("low", "high", "small", "unsigned"):
        await ask(facts.CancelJob(job=job, reason="end"))
    await ask(
        facts.ApplyPolicy(policy=POLICY.model_copy(update={"projects": (Project(name="demo"),)}), reason="projects"), pool.root
    )
    await ask(facts.ReserveGpus(reservation="course", project="demo", gpus=1, begin=pool.now() + 24 * HOUR, duration=HOUR))
    await ask(facts.CancelReservation(reservation="course"))
    await ask(facts.ChangeRootKey(change=change_root_key(pool.root, pool.state.identity, new_private_key())), pool.root)


def wires_of(pool: SignedPool) -> list[Wire]:
    return [Wire(each.headers, each.value) for each in pool.messages(topics.AUDIT.name)]


def records_of(pool: SignedPool, kind: str) -> list[Record]:
    return [record for record in pool.records() if type(record.data).__name__ == kind]


def answers(pool: SignedPool) -> int:
    """How many requests have a record."""
    return sum(record.cause.startswith(topics.REQUESTS.name) for record in pool.records())


def told() -> tuple[list[Wire], Credentials]:
    """The log of `tell`, and what its writer signs with."""
    found: list[tuple[list[Wire], Credentials]] = []

    async def main(folder: Path) -> None:
        async with SignedPool(folder) as pool:
            await tell(pool)
            found.append((wires_of(pool), pool.credentials("admission")))

    with TemporaryDirectory() as folder:
        run(main(Path(folder)))
    return found[0]
