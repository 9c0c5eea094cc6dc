"""The requests of one signer are taken in the order in which they were sent, also while a policy changes who that is."""

from collections.abc import Sequence
from pathlib import Path

from tests.kits.honest_logs import wires_of
from tests.kits.log_faults import named_by_verify
from tests.kits.signed_pool import SignedPool
from tests.unit.bus.virtual_time import run

from bailiff_admission.rates import BURST, SECOND
from bailiff_bus import topics
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import Record, decode
from bailiff_core.records.facts import ApplyPolicy, CancelJob, DrainNode, UndrainNode
from bailiff_log.keys import key_id, known_keys
from bailiff_log.signed_requests import signing_key

OPS, LATE = (bytes([number]) * 32 for number in (1, 2))
SLOW = DEFAULT_POLICY.limits.model_copy(update={"pool": DEFAULT_POLICY.limits.pool.model_copy(update={"requests_per_second": 1})})


def test_requests_that_wait_when_a_policy_names_their_key_are_taken_before_later_ones(tmp_path: Path) -> None:
    async def story() -> list[Record]:
        async with SignedPool(tmp_path) as pool:
            keys = {key_id(OPS): "ops"}
            identity = DEFAULT_POLICY.identity.model_copy(update={"keys": keys, "operators": ("ops", "late")})
            policy = DEFAULT_POLICY.model_copy(update={"identity": identity, "limits": SLOW})
            pool.request(ApplyPolicy(policy=policy), pool.root)
            await pool.until("the policy holds", lambda state: "ops" in known_keys(state).values())
            for _ in range(BURST // SECOND + 10):  # the pool's rate is used up: what follows waits
                pool.request(CancelJob(job="nothing"))
            for number in range(3):
                pool.request(DrainNode(node="n1", reason=f"{number}"), LATE)
            named = identity.model_copy(update={"keys": {**keys, key_id(LATE): "late"}})
            pool.request(ApplyPolicy(policy=policy.model_copy(update={"identity": named})), OPS)
            await pool.until("the key is known", lambda state: "late" in known_keys(state).values())
            last = pool.request(UndrainNode(node="n1"), LATE)
            await pool.until("all are answered", lambda _: last in str(pool.messages(topics.AUDIT.name)))
            return [decode(wire) for wire in wires_of(pool)]

    records = run(story())
    offsets = places(records, key_id(LATE))
    assert len(offsets) == 4
    assert offsets == sorted(offsets)
    assert named_by_verify(records) == []


def places(records: Sequence[Record], key: str) -> list[int]:
    """The offsets of the requests that this key signed, as recorded."""
    return [int(record.cause.rpartition("/")[2]) for record in records if signing_key(record) == key]
