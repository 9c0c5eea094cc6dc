"""Who asked, from the log alone: a record keeps what was signed, without what is private, and nothing in it can be changed."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.kits.signed_pool import SECRET, SignedPool
from tests.unit.bus.virtual_time import run

from bailiff_core.canonical import canonical_json
from bailiff_core.model.identity import SignIn
from bailiff_core.model.job_spec import runtime_label, sharing_label
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import Record, facts
from bailiff_core.records.job_requests import CancelJob, PauseJob, SetPriorityClass
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_log.keys import is_signed, key_id, new_private_key
from bailiff_log.request_verifier import RequestVerifier
from bailiff_log.signed_requests import signing_key

ADA, BOB, CONSOLE = (bytes([number]) * 32 for number in (1, 2, 3))
KEYS = {key_id(ADA): "ada", key_id(BOB): "bob", key_id(CONSOLE): "console"}
POLICY = DEFAULT_POLICY.model_copy(update={"identity": DEFAULT_POLICY.identity.model_copy(update={"keys": KEYS})})
CAROL = SignIn(issuer="https://sso.example", subject="00u1")
Change = Callable[[Record], Record]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """The log of a pool in which ada submits, others try to cancel it, the console pauses in carol's name."""
    records: list[Record] = []

    async def story(folder: Path) -> None:
        async with SignedPool(folder) as pool:
            pool.request(ApplyPolicy(policy=POLICY, reason="name the keys"), pool.root)
            await pool.until("the policy names keys", lambda state: bool(state.rules.identity.keys))
            pool.submit("train-1", key=ADA)
            pool.submit("unsigned")
            await pool.until("both are known", lambda state: len(state.jobs) == 2)
            for key, actor in ((BOB, ""), (None, ""), (None, "dora"), (CONSOLE, "console/carol")):
                pool.request(CancelJob(job="train-1"), key, actor)
            pool.request(PauseJob(job="unsigned", reason="lunch", vouched_by=CAROL), CONSOLE, "console/carol")
            await pool.until("it is paused", lambda state: state.jobs["unsigned"].paused_seq is not None)
            pool.request(SetPriorityClass(job="train-1", priority_class="nonsense" * 7), BOB)
            pool.request(CancelJob(job="train-1", reason="done"), ADA)
            await pool.until("it is cancelled", lambda state: state.jobs["train-1"].cancelled)
            records.extend(pool.records())

    run(story(tmp_path_factory.mktemp("pool")))
    return records


def found(records: list[Record]) -> dict[str, Any]:
    verifier = RequestVerifier("pool-a")
    for record in records:
        verifier.take(record)
    return dict(verifier.result())


def the(records: list[Record], kind: type[facts.Fact]) -> Record:
    """The last record of this type that a signed request caused."""
    return [record for record in records if isinstance(record.data, kind) and record.request][-1]


def test_every_signed_request_is_checked_and_unsigned_ones_are_counted(log: list[Record]) -> None:
    checked = found(log)
    assert (checked["signed"], checked["unsigned"], checked["fault_count"]) == (7, 3, 0)
    assert [(each["reason"], each["codes"]) for each in checked["not_judged"]] == [("not-kept", {"not-permitted": 2})]
    assert signing_key(the(log, facts.JobSubmitted)) == key_id(ADA)


def test_each_denied_request_is_on_record_with_its_rule_and_its_requester(log: list[Record]) -> None:
    denied = [
        (record.actor, record.auth, record.data.rule)
        for record in log
        if isinstance(record.data, facts.InputRejected) and record.data.code == "not-permitted"
    ]
    assert sorted(denied) == [  # requests are taken in turn by user
        ("", "none", "verified-owner"),
        ("bob", "signed", "permissions.cancel"),
        ("bob", "signed", "permissions.set_priority_class"),
        ("console/carol", "signed", "permissions.cancel"),
        ("dora", "none", "verified-owner"),
    ]


def test_the_record_shows_who_vouches_for_a_signed_in_user(log: list[Record]) -> None:
    paused = the(log, facts.JobPaused)
    assert isinstance(paused.data, facts.JobPaused)
    assert (paused.actor, paused.data.request.vouched_by) == ("console/carol", CAROL)
    assert signing_key(paused) == key_id(CONSOLE)


def test_nothing_private_is_in_the_log_and_the_signature_can_be_checked_with_ten_lines(log: list[Record]) -> None:
    submitted = the(log, facts.JobSubmitted)
    assert isinstance(submitted.data, facts.JobSubmitted)
    assert SECRET not in "".join(record.request for record in log)
    kept = orjson.loads(submitted.request)
    head = canonical_json([kept["type"], submitted.pool, kept.get("actor", "")])
    digest = hashlib.sha256(head + b"\n" + kept["data"].encode()).hexdigest()
    assert is_signed(kept["key"], kept["sig"], ["bailiff-request-1", digest, kept["source"], kept["id"], kept["time"]])
    assert orjson.loads(kept["data"])["spec_digest"] == submitted.data.spec_digest
    assert digest == submitted.data.request.digest


def with_request(record: Record, **members: Any) -> Record:
    """The record with other members in what its requester signed."""
    return replace(record, request=canonical_json({**orjson.loads(record.request), **members}).decode())


def with_signed_data(record: Record, **members: Any) -> Record:
    """The record with other members in the data that its requester signed."""
    return with_request(record, data=canonical_json({**orjson.loads(orjson.loads(record.request)["data"]), **members}).decode())


def with_data(record: Record, **members: Any) -> Record:
    """The record with other members than its requester signed."""
    assert record.data is not None
    return replace(record, data=record.data.model_copy(update=members))


TAMPERED: dict[str, tuple[type[facts.Fact], Change, str]] = {
    "another requester": (facts.JobCancelled, lambda each: replace(each, actor="bob"), "wrong-requester"),
    "no requester": (facts.JobCancelled, lambda each: replace(each, actor="", auth="none"), "wrong-requester"),
    "another user": (facts.JobSubmitted, lambda each: with_data(each, user="bob"), "not-what-was-signed"),
    "another key": (facts.JobCancelled, lambda each: with_request(each, key=key_id(BOB)), "bad-request-signature"),
    "a signed actor": (facts.JobPaused, lambda each: with_request(each, actor="console/dora"), "bad-request-signature"),
    "an unknown key": (facts.JobCancelled, lambda each: forged(each, new_private_key()), "unknown-request-key"),
    "somebody else's key": (facts.JobCancelled, lambda each: forged(each, BOB), "wrong-requester"),
    "another time": (facts.JobCancelled, lambda each: with_request(each, time=1), "bad-request-signature"),
    "another id": (facts.JobCancelled, lambda each: with_request(each, id="x"), "bad-request-signature"),
    "another type": (facts.JobCancelled, lambda each: with_request(each, type="bailiff.PauseJob.v1"), "bad-request-signature"),
    "the signed data": (facts.JobCancelled, lambda each: with_signed_data(each, job="unsigned"), "bad-request-signature"),
    "the signed digest of the spec": (
        facts.JobSubmitted,
        lambda each: with_signed_data(each, spec_digest="0" * 64),
        "bad-request-signature",
    ),
    "other data under the digest of what was signed": (
        facts.JobCancelled,
        lambda each: with_data(
            with_request(with_signed_data(each, job="unsigned"), digest=each.data.request.digest),  # type: ignore[union-attr]
            job="unsigned",
        ),
        "bad-request-signature",
    ),
    "the job": (facts.JobCancelled, lambda each: with_data(each, job="unsigned"), "not-what-was-signed"),
    "the reason": (facts.JobCancelled, lambda each: with_data(each, reason="because"), "not-what-was-signed"),
    "the digest of the spec": (facts.JobSubmitted, lambda each: with_data(each, spec_digest="0" * 64), "not-what-was-signed"),
    "the demand": (
        facts.JobSubmitted,
        lambda each: with_data(each, demand=each.data.demand.model_copy(update={"labels": {"team": "x"}})),  # type: ignore[union-attr]
        "not-what-was-signed",
    ),
    "an operator more": (
        facts.PolicyApplied,
        lambda each: with_data(
            each, policy=POLICY.model_copy(update={"identity": POLICY.identity.model_copy(update={"operators": ("mallory",)})})
        ),
        "not-what-was-signed",
    ),
    "why a policy was applied": (facts.PolicyApplied, lambda each: with_data(each, reason="forged"), "not-what-was-signed"),
    "who vouches": (
        facts.JobPaused,
        lambda each: with_data(each, request=each.data.request.model_copy(update={"vouched_by": None})),  # type: ignore[union-attr]
        "not-what-was-signed",
    ),
    "a rejection of another request": (facts.InputRejected, lambda each: with_data(each, id="x"), "not-what-was-signed"),
    "nothing that was signed": (facts.JobCancelled, lambda each: replace(each, request=""), "no-signed-request"),
    "garbage": (facts.JobCancelled, lambda each: replace(each, request='{"key":1}'), "unreadable-request"),
}


CONSEQUENCES = ("not-admissible", "wrongly-rejected")
"""Whoever changes whose job it is changes what later requests may do to it."""


def forged(record: Record, key: bytes) -> Record:
    """The same request, signed by somebody else."""
    from bailiff_bus.envelope import content_digest
    from bailiff_log.keys import sign_fields

    kept = orjson.loads(record.request)
    digest = content_digest(kept["type"], record.pool, kept["data"].encode(), kept.get("actor", ""))
    sig = sign_fields(key, ["bailiff-request-1", digest, kept["source"], kept["id"], kept["time"]])
    return with_request(record, key=key_id(key), sig=sig)


@pytest.mark.parametrize("what", TAMPERED)
def test_whoever_rewrites_the_log_is_found(log: list[Record], what: str) -> None:
    kind, change, fault = TAMPERED[what]
    original = the(log, kind)
    result = found([change(record) if record.seq == original.seq else record for record in log])
    first, *consequences = result["faults"]
    assert (first["seq"], first["fault"]) == (original.seq, fault)
    assert all(each["seq"] > original.seq and each["fault"] in CONSEQUENCES for each in consequences)


@pytest.mark.parametrize(
    ("label", "faults"), [(runtime_label("kubernetes"), []), (sharing_label("kubernetes"), []), ("rack", ["not-what-was-signed"])]
)
def test_labels_that_admission_adds_for_a_runtime_are_what_was_signed(log: list[Record], label: str, faults: list[str]) -> None:
    original = the(log, facts.JobSubmitted)
    assert isinstance(original.data, facts.JobSubmitted)
    demand = original.data.demand
    tasks = tuple(group.model_copy(update={"node_labels": {**group.node_labels, label: "true"}}) for group in demand.tasks)
    changed = with_data(original, demand=demand.model_copy(update={"tasks": tasks}))
    result = found([changed if record.seq == original.seq else record for record in log])
    assert [each["fault"] for each in result["faults"]] == faults


def test_a_signature_serves_one_record(log: list[Record]) -> None:
    again = replace(the(log, facts.JobCancelled), seq=log[-1].seq + 1)
    (fault,) = found([*log, again])["faults"]
    assert (fault["seq"], fault["fault"]) == (again.seq, "request-used-again")
    late = replace(again, time=again.time + 100 * 86_400_000_000)
    assert "longer ago" in found([*log, late])["faults"][0]["detail"]


def test_a_part_of_a_log_is_checked_without_the_keys_that_came_before_it(log: list[Record]) -> None:
    last = the(log, facts.JobCancelled)
    assert found([record for record in log if record.seq >= last.seq])["faults"] == []
    (fault,) = found([with_data(last, job="unsigned")])["faults"]
    assert fault["fault"] == "not-what-was-signed"
