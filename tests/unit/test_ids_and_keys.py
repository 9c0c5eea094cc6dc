"""Whose an id is, when keys change: it is bound to the holder's name, as the policy has it, and not to one key."""

from pathlib import Path

from tests.kits.signed_pool import SignedPool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.message import MessageBody
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records.facts import ApplyPolicy, CancelJob, InputRejected, RevokeKey
from bailiff_core.records.job_requests import SubmitJob
from bailiff_log.keys import key_id, new_private_key
from bailiff_log.signatures import salted, sign

OLD, NEW, EVE = (bytes([number]) * 32 for number in (1, 2, 3))


def submission(job: str) -> SubmitJob:
    return SubmitJob(
        demand=JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),)), spec=JobSpec(command="true", runtime="simulated")
    )


class Asking:
    """Sends requests under one source and id, and says what became of each."""

    def __init__(self, pool: SignedPool) -> None:
        self.pool = pool

    async def ask(self, body: MessageBody, key: bytes, id: str = "1") -> str:  # noqa: A002
        """Accepted, a repeat, or the code of the rejection."""
        pool, about = self.pool, {"source": "/laptop", "id": id, "pool": "pool-a", "time_us": self.pool.now()}
        body = salted(key, body, source="/laptop", id=id)
        keyid, sig = sign(key, body, **about, actor="")
        before, rejected = dict(pool.state.requests), len(pool.facts(InputRejected))
        headers, value = wrap(body, **about, actor="", keyid=keyid, sig=sig)
        pool.send(topics.REQUESTS.name, headers, value)
        marker = pool.request(RevokeKey(key=key_id(new_private_key()), reason="none"), pool.root)
        await pool.until("it is read", lambda state: any(name.endswith(marker) for name in state.requests))
        codes = [each.code for each in pool.facts(InputRejected)[rejected:]]
        new = [name for name in pool.state.requests if name not in before and not name.endswith(marker)]
        return codes[0] if codes else "accepted" if new else "repeat"


def applied(**keys: str) -> ApplyPolicy:
    holders = {key_id({"old": OLD, "new": NEW, "eve": EVE}[name]): holder for name, holder in keys.items()}
    identity = DEFAULT_POLICY.identity.model_copy(update={"keys": holders})
    return ApplyPolicy(policy=DEFAULT_POLICY.model_copy(update={"identity": identity}))


@in_virtual_time
async def test_an_id_stays_its_holder_s_when_the_key_is_replaced_and_revoked(tmp_path: Path) -> None:
    async with SignedPool(tmp_path) as pool:
        asking = Asking(pool)
        pool.request(applied(old="ada", eve="eve"), pool.root)
        await pool.until("the keys are known", lambda state: state.policy is not None and state.policy.identity.keys)
        assert await asking.ask(submission("job-1"), OLD) == "accepted"
        cancel = CancelJob(job="job-1")
        assert await asking.ask(cancel, OLD, "2") == "accepted"
        pool.request(applied(old="ada", new="ada", eve="eve"), pool.root)
        await pool.until("the new key is known", lambda state: len(state.policy.identity.keys) == 3)
        assert await asking.ask(submission("job-1"), OLD) == "repeat"
        assert await asking.ask(submission("job-1"), NEW) == "id-reused", "its spec is salted by the key: it is another request"
        assert await asking.ask(cancel, NEW, "2") == "repeat"
        assert await asking.ask(submission("eve-1"), EVE) == "accepted", "ids of others are others"
        pool.request(RevokeKey(key=key_id(OLD), reason="lost"), pool.root)
        await pool.until("it is revoked", lambda state: key_id(OLD) in state.revoked_keys)
        assert await asking.ask(submission("job-1"), OLD) == "unknown-key"
        assert await asking.ask(submission("job-2"), OLD, "3") == "unknown-key"
        assert await asking.ask(submission("job-2"), NEW, "3") == "accepted", "what was rejected uses up no id"
        assert await asking.ask(submission("job-3"), NEW) == "id-reused", "ids of the old key are the holder's still"
        pool.request(applied(new="bob", eve="eve"), pool.root)
        await pool.until("the key is another's", lambda state: "bob" in state.policy.identity.keys.values())
        assert await asking.ask(submission("job-4"), NEW) == "accepted", "whose name it is decides, not the key"
