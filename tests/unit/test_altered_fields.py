"""Which field of which record nobody can check from the log: measured, and compared with the page that says so.

The attacker holds the writer's and the sealing key. Each field of a record of each type is changed to other values that its type
permits; `audit verify` or `audit replay` names it, or `docs/reference/what-the-log-shows.md` says why it cannot be known.
"""

import re
from pathlib import Path

import pytest
from tests.kits.altered_fields import HEADERS, Checked, alterations, kind_of
from tests.kits.examples import SHARE
from tests.kits.signed_pool import SignedPool
from tests.unit.bus.virtual_time import run

from bailiff_bus import topics
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import AUDIT_TYPES, Record, Wire, decode
from bailiff_core.records.facts import (
    ApplyPolicy,
    AttachJob,
    CancelJob,
    ChangeRootKey,
    ClearQuarantine,
    DrainNode,
    EnrolNode,
    EvictJob,
    MigrateJob,
    PauseJob,
    ReadJobSpec,
    ResumeJob,
    ReturnNode,
    RevokeKey,
    ScaleJob,
    SetPriorityClass,
    UndrainNode,
)
from bailiff_core.records.payload import Decision
from bailiff_core.records.request import RequestBody
from bailiff_log.credentials import Credentials
from bailiff_log.enrolment import EnrolmentToken
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.root_keys import change_root_key

pytestmark = pytest.mark.slow  # hundreds of altered logs are verified and replayed

ADA, EVE, TOKEN = (bytes([number]) * 32 for number in (1, 2, 3))
IDENTITY = DEFAULT_POLICY.identity.model_copy(update={"keys": {key_id(ADA): "ada", key_id(EVE): "eve"}, "operators": ("ada",)})
POLICY = DEFAULT_POLICY.model_copy(update={"identity": IDENTITY})
HOUR = 3_600_000_000
PAGE = Path(__file__).parents[2] / "docs/reference/what-the-log-shows.md"


async def story(pool: SignedPool) -> None:
    """As many types of records as services write without being killed."""

    async def ask(body: RequestBody, key: bytes | None = ADA) -> None:
        pool.request(body, key)
        await pool.until("all requests are answered", lambda _: answers(pool) == len(pool.messages(topics.REQUESTS.name)))

    await ask(ApplyPolicy(policy=POLICY, reason="begin"), pool.root)
    pool.submit("low", kind="train", key=ADA, BAILIFF_SIM_CHECKPOINTS="10:0.1")
    await pool.until_running("low")
    pool.submit("high", kind="inference", key=ADA)
    await pool.until_running("high")
    await ask(AttachJob(job="high", task=0, client_certificate="A" * 400))
    await pool.until("the agent answers", lambda _: records_of(pool, "AttachEnded"))
    await ask(EvictJob(job="high", reason="room"))
    await ask(PauseJob(job="high", reason="later"))
    await pool.until("it is paused", lambda state: state.jobs["high"].phase == "paused")
    await ask(ReadJobSpec(job="high", encryption_key=key_id(ADA)))
    await ask(SetPriorityClass(job="high", priority_class="train"))
    await ask(ScaleJob(job="high", tasks=1))
    await pool.until_running("low")
    inventory = pool.machines["n1"].inventory
    device = inventory.list()[0].id
    inventory.fail(device, xid=79)
    await pool.until("a GPU is unhealthy", lambda _: records_of(pool, "DeviceUnhealthy"))
    inventory.fail(device)
    await ask(ClearQuarantine(node="n1", device=device, reason="replaced"))
    await ask(EnrolNode(node="n2", token_key=key_id(TOKEN), expires=pool.now() + HOUR))
    pool.start_agent("n2", "nodes-2", token=EnrolmentToken(TOKEN, key_id(pool.root)).text())
    await pool.until("n2 has joined", lambda state: "n2" in state.node_numbers)
    pool.start_agent("n3", "nodes-3", token=EnrolmentToken(EVE, key_id(pool.root)).text())
    await pool.until("n3 waits", lambda _: records_of(pool, "NodeWaiting"))
    pool.submit("small", gpus=1, key=ADA)
    pool.submit("unsigned", gpus=1)
    await pool.until_running("small")
    on = pool.state.nodes[pool.state.jobs["small"].tasks[0].node].name
    await ask(MigrateJob(job="small", node="n2" if on == "n1" else "n1"))
    await ask(DrainNode(node="n1", reason="repair"))
    await ask(DrainNode(node="n9"))
    await ask(CancelJob(job="nothing"), None)
    await ask(UndrainNode(node="n1"))
    await ask(RevokeKey(key=key_id(EVE), reason="lost"))
    await ask(ResumeJob(job="high"))
    await pool.stop("agent-n2")
    await pool.until("n2 is silent", lambda _: records_of(pool, "NodeUnreachable") + records_of(pool, "NodesSilent"))
    await ask(ReturnNode())
    await pool.stop("admission")
    pool.start_admission(name="another")
    await pool.until("another writer writes", lambda state: state.epoch == 2)
    for job in ("low", "high", "small", "unsigned"):
        await ask(CancelJob(job=job, reason="end"))
    await ask(ChangeRootKey(change=change_root_key(pool.root, pool.state.identity, new_private_key())), pool.root)


def written(pool: SignedPool) -> list[Record]:
    return [decode(Wire(each.headers, each.value)) for each in pool.messages(topics.AUDIT.name)]


def records_of(pool: SignedPool, kind: str) -> list[Record]:
    return [record for record in written(pool) if type(record.data).__name__ == kind]


def answers(pool: SignedPool) -> int:
    """How many requests have a record."""
    return sum(record.cause.startswith(topics.REQUESTS.name) for record in written(pool))


def rows() -> list[tuple[str, set[str]]]:
    """Of the page's table: record types, and their fields that the log cannot show."""
    lines = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return [(line[1], set(re.findall(r"`([^`]+)`", line[2]))) for line in lines]


def excused() -> dict[str, set[str]]:
    """Fields by record type."""
    found: dict[str, set[str]] = {}
    for kinds, fields in rows():
        for kind in re.findall(r"`([^`]+)`", kinds):
            found.setdefault(kind, set()).update(fields)
    return found


def is_excused(fields: set[str], name: str) -> bool:
    """Whether the field, or what it is a part of, is among these."""
    parts = name.split(".")
    return "all" in fields or any(".".join(parts[: number + 1]) in fields for number in range(len(parts)))


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """By kind of record: the fields of which some alteration is named by nobody. In `make test-long` of each record."""
    records: list[Record] = []
    writers: list[Credentials] = []

    async def main() -> None:
        async with SignedPool(tmp_path_factory.mktemp("pool")) as pool:
            await story(pool)
            records.extend(written(pool))
            writers.append(pool.credentials("admission"))

    run(main())
    checked, found, tried = Checked(records, writers[0]), dict[str, set[str]](), 0
    for record in records:
        kind = kind_of(record)
        if kind in found and SHARE > 1:
            continue
        fields = found.setdefault(kind, set())
        for each in alterations(record):
            tried += 1
            if checked.named_by(each.record) == "nobody":
                fields.add(each.name)
    assert tried > 1_500
    return found


def test_what_nobody_names_is_on_the_page_with_its_reason(unnamed: dict[str, set[str]]) -> None:
    page = excused()
    everywhere = page["every record"]
    missing = [
        f"{kind}: {name}"
        for kind, fields in unnamed.items()
        for name in sorted(fields)
        if not is_excused(everywhere | page.get(kind, set()), name)
    ]
    assert missing == []


def test_the_page_names_fields_that_there_are() -> None:
    kinds = {kind.__name__: kind for kind in AUDIT_TYPES.values()}
    wrong = [
        f"{kind}: {field}"
        for kind, fields in excused().items()
        if kind not in ("every record", "unsigned")
        for field in sorted(fields - {"all"})
        if kind not in kinds or field not in {*kinds[kind].model_fields, *HEADERS}
    ]
    assert wrong == []


def test_every_type_of_record_is_measured_or_on_the_page(unnamed: dict[str, set[str]]) -> None:
    facts = {kind.__name__ for kind in AUDIT_TYPES.values() if not issubclass(kind, Decision)}
    assert facts - set(unnamed) - set(excused()) == set()
    decisions = {kind.__name__ for kind in AUDIT_TYPES.values() if issubclass(kind, Decision)}
    free = excused()["every record"]
    assert {kind for kind in decisions & set(unnamed) if unnamed[kind] - free} == set()
