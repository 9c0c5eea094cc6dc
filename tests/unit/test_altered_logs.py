"""What a writer that lies can put into the log, and what `bailiff audit verify` says about it: one table of alterations.

The attacker holds the writer's key: every alteration is chained and signed anew, so that only its content can give it away.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.kits.signed_pool import POOL, SignedPool
from tests.kits.tampering import seals_of
from tests.unit.bus.virtual_time import run
from typer.testing import CliRunner

from bailiff.audit.log_files import about_line, message_line
from bailiff.audit.log_sources import Source
from bailiff.audit.rejections import judge_rejections
from bailiff.audit.replay_worker import ReplayWorker
from bailiff.audit.segments import seal_to
from bailiff.audit.verify import verified as verified_source
from bailiff.cli import app
from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus import topics
from bailiff_bus.envelope import content_digest
from bailiff_bus.port import Message
from bailiff_core.canonical import canonical_json
from bailiff_core.engine import LOGIC
from bailiff_core.model.identity import Permissions
from bailiff_core.model.policy import DEFAULT_POLICY, GpuBudget, PoolLimits, Project
from bailiff_core.permissions import ROOT_ACTOR
from bailiff_core.recorded import OF_WRITER
from bailiff_core.records import ChainHead, Record, Wire, encode, facts
from bailiff_core.records.decisions import JobPlaced
from bailiff_core.records.facts import (
    ApplyPolicy,
    CancelJob,
    CancelReservation,
    ChangeRootKey,
    DrainNode,
    EnrolNode,
    EvictJob,
    PauseJob,
    ReadJobSpec,
    ReserveGpus,
    ResumeJob,
    ReturnNode,
    RevokeKey,
    ScaleJob,
    SetPriorityClass,
    TopUpBudget,
    TransferBudget,
    UndrainNode,
)
from bailiff_core.records.payload import Fact, Payload
from bailiff_core.records.request import RECORDS, RequestBody
from bailiff_log.certificates import issue_certificate
from bailiff_log.chain_verifier import Verification
from bailiff_log.credentials import Credentials, make_credentials
from bailiff_log.keys import key_id, new_private_key, sign_fields
from bailiff_log.rejected_requests import Unjudged
from bailiff_log.request_verifier import NotJudged, RequestVerifier
from bailiff_log.root_keys import change_root_key
from bailiff_log.seals import SealBody, make_key
from bailiff_log.writer import chain_records

ADA, BOB, OPS, EVE, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3, 4, 5))
KEYS = {key_id(ADA): "ada", key_id(BOB): "bob", key_id(OPS): "ops", key_id(EVE): "eve"}
IDENTITY = DEFAULT_POLICY.identity.model_copy(
    update={
        "keys": KEYS,
        "operators": ("ops",),
        "class_users": {"inference": ("ada",)},
        "permissions": Permissions(logs=("anyone",)),
    }
)
PROJECTS = (Project(name="default"), Project(name="vision", submitters=("ada",)))
THREE_JOBS = DEFAULT_POLICY.limits.model_copy(update={"pool": PoolLimits(open_jobs=3)})
BUDGETS = tuple(GpuBudget(name=name, project=name, gpu_hours=100) for name in ("default", "vision"))
POLICY = DEFAULT_POLICY.model_copy(update={"identity": IDENTITY, "projects": PROJECTS, "limits": THREE_JOBS, "budgets": BUDGETS})
SIGNED_ONLY = POLICY.model_copy(update={"identity": IDENTITY.model_copy(update={"accept": ("signed",)})})
HOUR = 3_600_000_000


@dataclass(frozen=True)
class Original:
    """An honest log, and what its writer signs with."""

    records: list[Record]
    writer: Credentials
    root: bytes


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """The log of a pool with requests of every kind, of owners, operators, strangers and the root key."""
    found: list[Original] = []

    async def story(folder: Path) -> None:
        async with SignedPool(folder) as pool:

            async def ask(body: Any, key: bytes | None = None, actor: str = "") -> None:
                asked = pool.request(body, key, actor)
                await pool.until(f"{body} is answered", lambda _: asked in answered(pool))

            await ask(ApplyPolicy(policy=POLICY), pool.root)
            pool.submit("train-1", gpus=1, key=ADA)
            pool.submit("unsigned", gpus=1)
            pool.submit("quiet", gpus=1, key=BOB)
            await pool.until("all are known", lambda state: len(state.jobs) == 3)
            await pool.until_running("train-1")
            for key, actor in ((BOB, ""), (None, "dora")):
                await ask(CancelJob(job="train-1"), key, actor)
            await ask(ReadJobSpec(job="train-1", encryption_key=key_id(ADA)), ADA)
            await ask(EvictJob(job="train-1", reason="room"), OPS)
            await ask(PauseJob(job="train-1"), ADA)
            await pool.until("it is paused", lambda state: state.jobs["train-1"].phase == "paused")
            await ask(SetPriorityClass(job="train-1", priority_class="inference"), ADA)
            await ask(ScaleJob(job="train-1", tasks=1), ADA)
            await ask(ResumeJob(job="train-1"), ADA)
            await ask(DrainNode(node="n1"), OPS)
            await ask(UndrainNode(node="n1"), OPS)
            await ask(ReturnNode(), OPS)
            await ask(TopUpBudget(budget="vision", gpu_hours=2, reason="a deadline"), OPS)
            await ask(TransferBudget(budget="vision", to="default", gpu_hours=1, reason="it is idle"), OPS)
            at = pool.now() + HOUR
            await ask(ReserveGpus(reservation="course", project="vision", gpus=1, begin=at, duration=HOUR), OPS)
            await ask(CancelReservation(reservation="course", reason="ill"), OPS)
            await ask(EnrolNode(node="n2", key="B" * 43, expires=pool.now() + HOUR), OPS)
            await ask(RevokeKey(key=key_id(EVE), reason="lost"), OPS)
            await ask(DrainNode(node="n1"), BOB)
            await ask(CancelJob(job="train-1", reason="done"), ADA)
            await ask(ApplyPolicy(policy=SIGNED_ONLY), OPS)
            pool.submit("late", key=ADA, gpus=1)
            await ask(CancelJob(job="unsigned"), OPS)
            await ask(CancelJob(job="late"), None, "dora")
            successor = new_private_key()
            await ask(ChangeRootKey(change=change_root_key(pool.root, pool.state.identity, successor)), pool.root)
            found.append(Original(pool.records(), pool.credentials("admission"), pool.root))

    run(story(tmp_path_factory.mktemp("pool")))
    return found[0]


def answered(pool: SignedPool) -> list[str]:
    """The ids of requests that the log has."""
    asked = [getattr(record.data, "request", None) for record in pool.records()]
    rejected = [fact.id or "" for fact in pool.facts(facts.InputRejected)]
    return [*(request.id for request in asked if isinstance(request, facts.RequestId)), *rejected]


# --- how an attacker alters records


Log = list[Record]
Alter = Callable[[Log], Log]
Change = Callable[[Record], Record]
REQUESTS = tuple(RECORDS.values())
OTHER_KINDS: tuple[tuple[RequestBody, str, bytes, dict[str, Any]], ...] = (
    (facts.CheckpointJob(job="train-1"), "ada", ADA, {}),
    (facts.MigrateJob(job="train-1"), "ada", ADA, {}),
    (facts.AttachJob(job="train-1", task=0, client_certificate="A" * 100), "ada", ADA, {"attempt": 1, "node": "n1"}),
    (facts.ReplaceNode(node="n1", machine_id="machine"), "ops", OPS, {}),
    (facts.ClearQuarantine(node="n1", device="GPU-0", reason="checked"), "ops", OPS, {}),
    (facts.AcceptTruncation(epoch=1, seq=9), "ops", OPS, {}),
)
"""Requests of which the story has none: they are verified, but lead to no state that could be replayed."""


def with_requests_of_other_kinds(log: Log) -> Log:
    """The log, and at its end a signed request of each of these kinds."""
    for number, (body, actor, key, added) in enumerate(OTHER_KINDS):
        kept = the(log, facts.JobPaused if key is ADA else facts.NodeDrained, "", actor)
        request = facts.RequestId(source="/tests", id=f"other-{number}", digest="0" * 64, owner=actor)
        fact = RECORDS[type(body)].model_validate({**body.to_data(), **added, "request": request})
        now, cause = log[-1].time, f"{topics.REQUESTS.name}/0/{9_000 + number}"
        record = replace(kept, seq=len(log), type=fact.type_name(), data=fact, time=now, cause=cause)
        log = [*log, forged(record, key, type=body.TYPE, data=canonical_json(body.to_data()).decode(), id=request.id, time=now)]
    return log


def the(log: Log, kind: type[Fact], job: str = "", actor: str | None = None) -> Record:
    """The first record of this type that a request caused, about this job, of this sender."""
    for record in log:
        demand = getattr(record.data, "demand", None)
        about = demand.job if demand is not None else getattr(record.data, "job", "")
        if isinstance(record.data, kind) and record.auth and job in ("", about) and actor in (None, record.actor):
            return record
    raise AssertionError(f"the log has no {kind.__name__} {job} of {actor}")


def altering(kind: type[Fact], change: Change, job: str = "", actor: str | None = None) -> Alter:
    """The log with this one record changed."""

    def alter(log: Log) -> Log:
        at = the(log, kind, job, actor).seq
        return [change(record) if record.seq == at else record for record in log]

    return alter


def said(record: Record, **members: Any) -> Record:
    """The record with other data."""
    assert record.data is not None
    return replace(record, data=record.data.model_copy(update=members))


def stripped(record: Record, *, actor: str | None = None, auth: str = "none", **members: Any) -> Record:
    """As if nobody had signed it."""
    request = members.get("request", getattr(record.data, "request", None))
    if isinstance(request, facts.RequestId):
        members["request"] = request.model_copy(update={"owner": ""})
    return replace(said(record, **members), request="", auth=auth, actor=record.actor if actor is None else actor)


def with_logic(record: Record, logic: int) -> Record:
    return replace(record, engine=f"{record.engine.rpartition('/')[0]}/{logic}")


def forged(record: Record, key: bytes, pool: str = POOL, **members: Any) -> Record:
    """The same request, signed with this key, for this pool."""
    kept = {**orjson.loads(record.request), **members}
    digest = content_digest(kept["type"], pool, kept["data"].encode(), kept.get("actor", ""))
    kept["sig"] = sign_fields(key, ["bailiff-request-1", digest, kept["source"], kept["id"], kept["time"]])
    kept["key"] = key_id(key)
    found = replace(record, request=canonical_json(kept).decode())
    request = getattr(found.data, "request", None)
    return said(found, request=request.model_copy(update={"digest": digest})) if isinstance(request, facts.RequestId) else found


def as_rejected(record: Record, code: str, **members: Any) -> Record:
    """The request, rejected."""
    kept = orjson.loads(record.request)
    data = facts.InputRejected(
        topic=topics.REQUESTS.name,
        partition=0,
        offset=0,
        digest="0" * 64,
        code=code,
        reason=code,
        source=kept["source"],
        id=kept["id"],
        job=record.data.demand.job if isinstance(record.data, facts.JobSubmitted) else None,
        **members,
    )
    return replace(record, type=data.type_name(), data=data)


def as_accepted(record: Record, fact: Fact) -> Record:
    """A rejected request, as if it had been accepted."""
    kept = orjson.loads(record.request) if record.request else {"source": "/tests", "id": "unsigned", "type": "", "data": ""}
    digest = content_digest(kept["type"], POOL, kept["data"].encode(), kept.get("actor", ""))
    request = facts.RequestId(source=kept["source"], id=kept["id"], digest=digest, owner=record.actor if record.request else "")
    return replace(record, type=fact.type_name(), data=fact.model_copy(update={"request": request}))


def renumbered(log: Log) -> Log:
    return [replace(record, seq=number) for number, record in enumerate(log)]


def inserted(kind: type[Fact], change: Change, actor: str | None = None) -> Alter:
    """A changed copy of the record, at the end of the log."""
    return lambda log: renumbered([*log, replace(change(the(log, kind, "", actor)), time=log[-1].time)])


def dropped(kind: type[Fact], job: str = "") -> Alter:
    return lambda log: renumbered([record for record in log if record.seq != the(log, kind, job).seq])


def moved_before(kind: type[Fact], before: type[Fact], job: str = "") -> Alter:
    """The record earlier in the log than it was."""

    def alter(log: Log) -> Log:
        record, place = the(log, kind, job), the(log, before)
        rest = [each for each in log if each.seq != record.seq]
        return renumbered([*rest[: place.seq], replace(record, time=place.time), *rest[place.seq :]])

    return alter


def swapped(kind: type[Fact], other: type[Fact]) -> Alter:
    """Two requests in each other's place, each with its input."""

    def alter(log: Log) -> Log:
        one, two = the(log, kind), the(log, other)
        places = {one.seq: two, two.seq: one}
        return [
            replace(places[at.seq], **{name: getattr(at, name) for name in ("seq", "time", "cycle", "cycle_end", "inputs")})
            if at.seq in places
            else at
            for at in log
        ]

    return alter


def with_causes_swapped(log: Log) -> Log:
    causes = {the(log, facts.JobScaled).seq: the(log, facts.JobPriorityClassChanged).cause}
    causes[the(log, facts.JobPriorityClassChanged).seq] = the(log, facts.JobScaled).cause
    return [replace(record, cause=causes.get(record.seq, record.cause)) for record in log]


def enrolled(change: Change) -> Alter:
    """The log with another enrolment of its node."""
    return lambda log: [change(record) if isinstance(record.data, facts.NodeEnrolled) else record for record in log]


def certified_by(root: bytes) -> Change:
    """An enrolment by a certificate of this root key."""

    def change(record: Record) -> Record:
        assert isinstance(record.data, facts.NodeEnrolled)
        assert record.data.certificate is not None
        terms = record.data.certificate.model_dump(exclude={"signature"})
        return said(record, certificate=issue_certificate(root, **terms))

    return change


def permitted(log: Log, kind: type[Fact], **how: Any) -> Record:
    """A node that enrols by the log's permit, with a key of the attacker's."""
    permit, last = the(log, kind), log[-1]
    fact = facts.NodeEnrolled(node="n2", key=key_id(EVE), encryption_key=key_id(EVE), permitted_by=permit.seq, **how)
    return replace(last, type=fact.type_name(), data=fact, request="", auth="", actor="")


def cancelling(job: str) -> facts.JobCancelled:
    return facts.JobCancelled(job=job, request=facts.RequestId(source="-", id="-", digest="0" * 64))


def demanding(record: Record, **members: Any) -> Record:
    """A submission with another demand."""
    assert isinstance(record.data, facts.JobSubmitted)
    return said(record, demand=record.data.demand.model_copy(update=members))


def owned(record: Record, owner: str) -> Record:
    """With an id of this owner's."""
    request = getattr(record.data, "request")  # noqa: B009 - of every request
    return said(record, request=request.model_copy(update={"owner": owner}))


def with_id(record: Record, name: str) -> Record:
    """Another request."""
    request = getattr(record.data, "request")  # noqa: B009 - of every request
    return said(record, request=request.model_copy(update={"id": name}))


def invented(record: Record, **members: Any) -> Record:
    """A request that nobody has sent, of nobody."""
    return with_id(stripped(record, actor="", **members), "invented")


def by_cordon(record: Record) -> Record:
    """A drain as if a node had reported a cordon."""
    found = said(invented(record), reason=f"{facts.CORDONED}maintenance")
    request = found.data.request.model_copy(update={"source": "node/n1"})  # type: ignore[union-attr]
    return replace(said(found, request=request), auth="")


def shortened(record: Record) -> Record:
    """A rejection as of a long request: with the digest of its data."""
    kept = orjson.loads(record.request)
    digest = content_digest(kept["type"], POOL, kept["data"].encode(), kept.get("actor", ""))
    return replace(record, request=canonical_json({**kept, "data": "", "digest": digest}).decode())


def unreadable(record: Record) -> Record:
    """A request that is rejected for its signature, of which nothing is kept."""
    return replace(as_rejected(record, "bad-signature"), request="", auth="", actor="")


SUBMITTED, CANCELLED, DRAINED, REJECTED, APPLIED = (
    facts.JobSubmitted,
    facts.JobCancelled,
    facts.NodeDrained,
    facts.InputRejected,
    facts.PolicyApplied,
)
DRAIN = facts.NodeDrained(node="n1", request=facts.RequestId(source="-", id="-", digest="0" * 64))
NOBODY = {"user": "", "user_verified": False}

FOUND: dict[str, tuple[Alter, str]] = {
    # whose keys a node's reports are signed with
    "a node enrolled without its certificate": (enrolled(lambda r: said(r, certificate=None)), "wrong-enrolment"),
    "a node enrolled with another key than the certificate's": (enrolled(lambda r: said(r, key=key_id(EVE))), "wrong-enrolment"),
    "a certificate for another name": (enrolled(lambda r: said(r, node="n9")), "wrong-enrolment"),
    "a node enrolled by a certificate of a stranger's root key": (enrolled(certified_by(STRANGER)), "wrong-enrolment"),
    "a node enrolled by a permit that is for another key": (
        lambda log: renumbered([*log, permitted(log, facts.EnrolmentPermitted, by="operator")]),
        "wrong-enrolment",
    ),
    "a node enrolled by a token that nobody was given": (
        lambda log: renumbered([*log, permitted(log, facts.EnrolmentPermitted, by="token", token_signature="A" * 86)]),
        "wrong-enrolment",
    ),
    # how much it is
    "a job above the limit of the pool": (moved_before(SUBMITTED, CANCELLED, "late"), "not-admissible"),
    "a rejection that names a proven sender whom nobody has seen": (
        lambda log: [
            replace(r, data=r.data.model_copy(update={"sender": "ada"})) if isinstance(r.data, REJECTED) and not r.request else r
            for r in log
        ],
        "wrong-requester",
    ),
    "a rejection that counts for another sender": (
        altering(REJECTED, lambda r: said(r, sender="ada"), actor="bob"),
        "wrong-requester",
    ),
    # whose it is
    "user_verified without a signature": (altering(SUBMITTED, lambda r: said(r, user_verified=True), "unsigned"), "wrong-owner"),
    "a stripped submission that stays verified": (
        altering(SUBMITTED, lambda r: stripped(r, actor="dora", user="dora"), "train-1"),
        "wrong-owner",
    ),
    "an unsigned job of somebody who has not asked": (
        altering(SUBMITTED, lambda r: said(r, user="dora"), "unsigned"),
        "wrong-owner",
    ),
    "a signed job of somebody who has not asked": (
        altering(SUBMITTED, lambda r: said(r, user="bob"), "train-1"),
        "not-what-was-signed",
    ),
    "a stripped submission, whose owner goes on with the job": (
        altering(SUBMITTED, lambda r: stripped(r, actor="", **NOBODY), "train-1"),
        "not-admissible",
    ),
    "an unsigned request whose id is somebody's": (altering(SUBMITTED, lambda r: owned(r, "eve"), "unsigned"), "not-as-admitted"),
    "a request whose id is another's": (altering(SUBMITTED, lambda r: owned(r, "eve"), "train-1"), "not-as-admitted"),
    "a request whose id is nobody's": (altering(CANCELLED, lambda r: owned(r, ""), "train-1"), "not-as-admitted"),
    "another default than the policy's": (
        altering(SUBMITTED, lambda r: demanding(r, max_failures=7), "train-1"),
        "not-as-admitted",
    ),
    "another default than the release's": (
        altering(SUBMITTED, lambda r: demanding(r, elastic="live"), "train-1"),
        "not-as-admitted",
    ),
    "a node enrolled by a certificate, and a permit": (enrolled(lambda r: said(r, permitted_by=6)), "wrong-enrolment"),
    "a rejection with another code": (altering(REJECTED, lambda r: said(r, code="expired"), actor="bob"), "wrongly-rejected"),
    "a rejection of another job": (altering(REJECTED, lambda r: said(r, job="quiet"), actor="bob"), "wrongly-rejected"),
    "a rejection by another rule": (altering(REJECTED, lambda r: said(r, rule="x"), actor="bob"), "wrongly-rejected"),
    "a signed rejection of requests unread": (
        altering(REJECTED, lambda r: said(r, offsets="1-2"), actor="bob"),
        "not-what-was-signed",
    ),
    "a signed job of nobody": (altering(SUBMITTED, lambda r: said(r, **NOBODY), "train-1"), "not-what-was-signed"),
    "no project": (altering(SUBMITTED, lambda r: demanding(r, project=None), "unsigned"), "wrong-owner"),
    "a project that the policy has not": (altering(SUBMITTED, lambda r: demanding(r, project="x"), "unsigned"), "not-admissible"),
    "a project that is closed": (altering(SUBMITTED, lambda r: demanding(r, project="vision"), "unsigned"), "not-admissible"),
    "a class that is closed": (
        altering(SUBMITTED, lambda r: demanding(r, priority_class="inference"), "unsigned"),
        "not-admissible",
    ),
    # done, although denied
    "a signed cancel that is denied": (
        altering(REJECTED, lambda r: as_accepted(r, cancelling("train-1")), actor="bob"),
        "not-admissible",
    ),
    "an unsigned cancel that is denied": (
        altering(REJECTED, lambda r: as_accepted(r, cancelling("train-1")), actor="dora"),
        "not-admissible",
    ),
    "an operator's request of somebody else": (
        altering(REJECTED, lambda r: as_accepted(r, DRAIN), "", "bob"),
        "not-what-was-signed",
    ),
    "a cancel of a job that there is not": (altering(CANCELLED, lambda r: invented(r, job="x"), "unsigned"), "not-admissible"),
    "an unsigned submission where signatures are required": (
        inserted(SUBMITTED, lambda r: demanding(invented(r, **NOBODY), job="x")),
        "not-admissible",
    ),
    "an unsigned policy where signatures are required": (inserted(APPLIED, invented), "not-admissible"),
    "a policy that no request asked for": (
        inserted(APPLIED, lambda r: replace(stripped(r, actor="", request=None), auth="")),
        "no-request",
    ),
    "a drain that names no cordon": (altering(DRAINED, lambda r: replace(by_cordon(r), actor="ops")), "not-admissible"),
    # rejected, although nothing denies it
    **{
        f"a cancel rejected as {code}": (
            altering(CANCELLED, lambda r, code=code: as_rejected(r, code), "train-1"),
            "wrongly-rejected",
        )
        for code in ("not-permitted", "auth-not-accepted", "no-such-job", "already-ended", "id-reused", "expired")
    },
    **{
        f"a submission rejected as {code}": (
            altering(SUBMITTED, lambda r, code=code: as_rejected(r, code), "late"),
            "wrongly-rejected",
        )
        for code in (
            *("not-permitted", "job-exists", "unknown-class", "no-project", "unknown-project", "unknown-topology"),
            *("never-fits", "over-limit", "unshared-checkpoints", "too-many-jobs", "dependency-failed"),
        )
    },
    **{
        f"{kind.__name__} rejected as {code}": (altering(kind, lambda r, code=code: as_rejected(r, code)), "wrongly-rejected")
        for kind, code in (
            (DRAINED, "not-permitted"),
            (DRAINED, "no-such-node"),
            (facts.NodeUndrained, "not-drained"),
            (facts.NodeUndrained, "cordoned"),
            (facts.EnrolmentPermitted, "too-many"),
            (facts.EnrolmentPermitted, "revoked-key"),
            (facts.KeyRevoked, "not-permitted"),
            (facts.KeyRevoked, "already-revoked"),
            (facts.KeyRevoked, "root-key"),
            (facts.JobEvictionRequested, "not-placed"),
            (facts.JobPaused, "already-paused"),
            (facts.JobResumed, "not-paused"),
            (facts.JobPriorityClassChanged, "not-pending"),
            (facts.JobScaled, "cannot-scale"),
            (facts.JobSpecGranted, "malformed"),
            (facts.RootKeyChanged, "bad-signature"),
            (facts.NodeReturned, "a-code-of-no-release"),
        )
    },
    # order
    "a submission before the policy that names its key": (moved_before(SUBMITTED, APPLIED, "train-1"), "unknown-request-key"),
    "an eviction before the policy that names its operator": (
        moved_before(facts.JobEvictionRequested, APPLIED, "train-1"),
        "unknown-request-key",
    ),
    "two requests of one signer": (swapped(facts.JobPriorityClassChanged, facts.JobScaled), "out-of-order"),
    "two requests of one operator": (swapped(DRAINED, facts.NodeUndrained), "out-of-order"),
    "a job's submission left out": (dropped(SUBMITTED, "train-1"), "contradiction"),
}
UNSEEN: dict[str, tuple[Alter, str]] = {
    "requests of two signers in another order": (
        swapped(CANCELLED, facts.KeyRevoked),
        "users take turns: requests of two of them may pass each other",
    ),
    "two requests of one signer, each with the other's place": (
        lambda log: with_causes_swapped(swapped(facts.JobPriorityClassChanged, facts.JobScaled)(log)),
        "what was at a place, only the topic says",
    ),
    "a submission stripped and of nobody": (
        altering(SUBMITTED, lambda r: stripped(r, actor="", **NOBODY), "quiet"),
        "where unsigned requests are accepted, anybody may have sent one",
    ),
    "an unsigned job renamed": (
        altering(SUBMITTED, lambda r: replace(said(r, user="dora"), actor="dora"), "unsigned"),
        "the name of an unsigned request is a claim",
    ),
    "an unsigned submission that nobody sent": (
        altering(SUBMITTED, lambda r: with_id(r, "invented"), "unsigned"),
        "an unsigned request proves nothing",
    ),
    "a request left out": (
        dropped(facts.NodeReturned),
        "what was never written leaves no trace: its sender has no answer, and its input position passes",
    ),
    "a drain that follows a cordon": (altering(DRAINED, by_cordon), "reports of nodes are not in the log"),
    "a name that an access list verifies, before logic 3": (
        altering(facts.JobPaused, lambda r: with_logic(stripped(r, auth="acl"), 2)),
        "until then an access list could vouch for the name of a key's holder",
    ),
}
NOT_JUDGED: dict[str, tuple[Alter, Unjudged]] = {
    "a request that is rejected for its signature": (altering(DRAINED, unreadable), "not-kept"),
    "a request of which only the digest is kept": (
        altering(DRAINED, lambda r: shortened(as_rejected(r, "no-such-node"))),
        "not-kept",
    ),
    **{
        f"a submission rejected as {code}": (altering(SUBMITTED, lambda r, code=code: as_rejected(r, code), "late"), reason)
        for code, reason in (
            ("no-runtime", "private-part"),
            ("malformed", "private-part"),
            ("too-large", "private-part"),
            ("too-many-requests", "not-in-log"),
            ("internal-error", "not-in-log"),
        )
    },
    "one of many that a record counts": (altering(DRAINED, lambda r: as_rejected(r, "no-such-node", count=2)), "not-in-log"),
    "a rejection of another logic": (
        altering(DRAINED, lambda r: with_logic(as_rejected(r, "no-such-node"), LOGIC + 1)),
        "other-logic",
    ),
}


def of_every_kind() -> Iterator[tuple[str, Alter, str]]:
    """What can be done to each signed request, whatever it asks for."""
    for kind in REQUESTS:
        name, actor = kind.__name__, "ops" if kind is APPLIED else None

        def altered(change: Change, kind: type[Fact] = kind, actor: str | None = actor) -> Alter:
            return lambda log: altering(kind, change, "", actor)(with_requests_of_other_kinds(log))

        def repeated(change: Change, kind: type[Fact] = kind, actor: str | None = actor) -> Alter:
            return lambda log: inserted(kind, change, actor)(with_requests_of_other_kinds(log))

        yield f"{name} written as unsigned", altered(stripped), "not-admissible"
        by_list = altered(lambda r: with_logic(stripped(r, auth="acl"), 3))
        yield f"{name} written as verified by an access list", by_list, "not-admissible"
        yield f"{name} without its signature", altered(lambda r: replace(r, request="")), "no-signed-request"
        yield f"{name} in another's name", altered(lambda r: replace(r, actor="eve")), "wrong-requester"
        yield f"{name} signed by a stranger", altered(lambda r: forged(r, STRANGER)), "unknown-request-key"
        yield f"{name} signed by another key", altered(lambda r: replace(forged(r, BOB), actor="ada")), "wrong-requester"
        yield f"{name} signed for another pool", altered(lambda r: forged(r, ADA, pool="pool-b")), "bad-request-signature"
        yield f"{name} signed at another time", altered(lambda r: at_time(r, 1)), "bad-request-signature"
        if kind is not facts.RootKeyChanged:  # the chain rule refuses one that the present root key has not signed
            yield (
                f"{name} of a revoked key",
                repeated(lambda r: replace(forged(r, EVE), actor="eve")),
                "unknown-request-key",
            )
            yield f"{name} twice", repeated(lambda r: r), "request-used-again"


def at_time(record: Record, time: int) -> Record:
    return replace(record, request=canonical_json({**orjson.loads(record.request), "time": time}).decode())


ALTERATIONS = {**FOUND, **{name: (alter, fault) for name, alter, fault in of_every_kind()}}


async def verified(original: Original, records: Sequence[Record]) -> Verification:
    """The log as the attacker chains and signs it anew, as `audit verify` finds it."""

    return await verified_source(source_of(original, records))


def chained(original: Original, records: Sequence[Record]) -> list[tuple[Record, Wire, ChainHead]]:
    return chain_records(ChainHead(POOL), list(records), original.writer)


def source_of(original: Original, records: Sequence[Record]) -> Source:
    wires = [wire for _, wire, _ in chained(original, records)]

    async def read() -> AsyncGenerator[Message, None]:
        for message in as_messages(wires):
            yield message

    return Source(POOL, 0, read, (), ChainHead(POOL))


async def test_an_honest_log_has_no_faults(honest: Original) -> None:
    for records in (honest.records, with_requests_of_other_kinds(honest.records)):
        found = await verified(honest, records)
        assert (found["ok"], found["requests"]["faults"]) == (True, [])
    assert set(REQUESTS) <= {type(record.data) for record in records if record.request}


@pytest.mark.parametrize("name", ALTERATIONS)
async def test_an_alteration_is_named(honest: Original, name: str) -> None:
    alter, fault = ALTERATIONS[name]
    found = await verified(honest, alter(honest.records))
    assert found["broken"] is None
    assert not found["ok"]
    assert found["requests"]["faults"][0]["fault"] == fault


async def test_a_change_of_the_root_key_that_is_repeated_is_no_record_of_the_log(honest: Original) -> None:
    again = inserted(facts.RootKeyChanged, lambda record: record)(honest.records)
    assert (await verified(honest, again))["orphans_by_kind"] == {"not-signed": 1}


@pytest.mark.parametrize("name", UNSEEN)
async def test_what_the_log_alone_cannot_show_is_listed_with_the_reason(honest: Original, name: str) -> None:
    alter, _ = UNSEEN[name]
    found = await verified(honest, alter(honest.records))
    assert (found["broken"], found["requests"]["faults"]) == (None, [])


@pytest.mark.parametrize("name", NOT_JUDGED)
async def test_a_rejection_that_the_log_alone_cannot_judge_is_listed(honest: Original, name: str) -> None:
    alter, reason = NOT_JUDGED[name]
    altered = alter(honest.records)
    found = (await verified(honest, altered))["requests"]
    assert found["faults"] == []
    before = (await verified(honest, honest.records))["requests"]["not_judged"]
    assert counted(found["not_judged"], reason) > counted(before, reason)


def counted(not_judged: list[NotJudged], reason: Unjudged) -> int:
    return sum(sum(each["codes"].values()) for each in not_judged if each["reason"] == reason)


async def test_without_the_first_records_no_rejection_is_judged(honest: Original) -> None:
    verifier = RequestVerifier(POOL)
    for record in honest.records[10:]:
        verifier.take(record)
    found = verifier.result()["not_judged"]
    assert [(each["reason"], each["codes"]) for each in found] == [
        ("not-kept", {"auth-not-accepted": 1, "not-permitted": 1}),
        ("earlier-records", {"not-permitted": 2}),
    ]


async def test_a_log_that_changes_between_its_two_readings_is_refused(honest: Original) -> None:
    verifier, other = RequestVerifier(POOL), altering(SUBMITTED, lambda r: demanding(r, max_failures=7), "quiet")
    for record, _, _ in chained(honest, honest.records):
        verifier.take(record)
    with pytest.raises(ClientError, match="changed between its two readings"):
        await judge_rejections(verifier, source_of(honest, other(honest.records)).read())


# --- facts about nodes, GPUs and tasks, which agents report


def of_kind(log: Log, kind: type[Payload]) -> Record:
    return next(record for record in log if isinstance(record.data, kind))


def fact_changed(kind: type[Payload], change: Callable[[Any], Payload]) -> Alter:
    """The log with the first record of this type changed."""

    def alter(log: Log) -> Log:
        at = of_kind(log, kind)
        return [replace(record, data=change(record.data)) if record is at else record for record in log]

    return alter


def header_changed(kind: type[Payload], **members: Any) -> Alter:
    """The log with the first record of this type saying something else about itself."""
    return lambda log: [replace(record, **members) if record is of_kind(log, kind) else record for record in log]


def fact_left_out(kind: type[Payload]) -> Alter:
    return lambda log: renumbered([record for record in log if record is not of_kind(log, kind)])


def fact_before(kind: type[Payload], fact: Fact) -> Alter:
    """The log with an invented fact before the first record of this type, in the same cycle."""

    def alter(log: Log) -> Log:
        at = of_kind(log, kind)
        said = {"request": "", "actor": "", "auth": "", "cycle_end": False, "cause": "", "inputs": ()}
        if not isinstance(fact, OF_WRITER):  # as if it were the first input of another partition
            said |= {"cause": "bailiff.node-reports/7/0", "inputs": (("bailiff.node-reports/7", 1),)}
        made = replace(at, type=fact.type_name(), data=fact, **said)
        return renumbered([*log[: at.seq], made, *log[at.seq :]])

    return alter


CORDON = facts.NodeDrained(
    node="n1", reason=f"{facts.CORDONED}x", request=facts.RequestId(source="node/n1", id="-", digest="0" * 64)
)
GPU = {"node": "n1", "device": "GPU-sim-n1-0"}
FAULT = {"reason": "xid", "detail": "79"}
BY_REPLAY: dict[str, Alter] = {
    "a node that joined with fewer GPUs": fact_changed(facts.NodeJoined, lambda data: data.model_copy(update={"devices": ()})),
    "a node that is silent": fact_before(SUBMITTED, facts.NodeUnreachable(node="n1", last_contact=0)),
    "a node that is lost": fact_before(SUBMITTED, facts.NodeLost(node="n1", last_contact=0)),
    "a node with a cordon": fact_before(SUBMITTED, CORDON),
    "a GPU that is unhealthy": fact_before(SUBMITTED, facts.DeviceUnhealthy.model_validate({**GPU, **FAULT})),
    "another GPU than was allocated": fact_changed(
        JobPlaced, lambda data: data.model_copy(update={"placement": (data.placement[0].model_copy(update={"devices": "3"}),)})
    ),
    "a task whose release is left out": fact_left_out(facts.TaskReleased),
    "a task that was never started": fact_before(SUBMITTED, facts.TaskStarted(job="train-1", attempt=1, task=0, node="n1")),
    "a placement that nobody decided": fact_left_out(JobPlaced),
    # what says of itself where in the log it belongs, or which task it is about
    "a report about another attempt": fact_changed(facts.TaskExited, lambda data: data.model_copy(update={"attempt": 2})),
    "a report of another node": fact_changed(facts.TaskReleased, lambda data: data.model_copy(update={"node": "n2"})),
    "an eviction that another record decided": fact_changed(
        facts.EvictionStarted, lambda data: data.model_copy(update={"decided_by": data.decided_by - 1})
    ),
    **{
        f"a {kind.__name__} with another {name}": header_changed(kind, **{name: value})
        for kind in (facts.TaskStarted, SUBMITTED)
        for name, value in (("writer", "other"), ("engine", f"0.0.9/0/{LOGIC - 1}"), ("policy", 0), ("cycle", 1_000))
    },
    "a report that names an actor": header_changed(facts.TaskStarted, actor="eve"),
    "an input that was done before": header_changed(facts.TaskReleased, cause="bailiff.node-reports/0/1"),
    "an input that is not done": header_changed(facts.TaskReleased, cause="bailiff.node-reports/0/99"),
    "a report that is done ahead of another": header_changed(
        facts.TaskReleased, cause="bailiff.node-reports/0/98", inputs=(("bailiff.node-reports/0/98", 99),)
    ),
    "an input that no record says is done": header_changed(facts.TaskReleased, inputs=()),
    "a report that no input caused": header_changed(facts.TaskReleased, cause=""),
    "a report that an input without a number caused": header_changed(facts.TaskReleased, cause="bailiff.node-reports"),
    "another input than the one that it rejects": header_changed(REJECTED, cause="bailiff.requests/0/0"),
    "a fact of the writer that an input caused": header_changed(facts.ClockAdvanced, cause="bailiff.requests/0/0"),
    "a second fact of an input that advances inputs": header_changed(facts.NodeJoined, inputs=(("bailiff.requests/0", 9),)),
    "a first policy that an input caused": header_changed(APPLIED, cause="bailiff.requests/0/0"),
    "a first policy that somebody enforces": fact_changed(APPLIED, lambda data: data.model_copy(update={"enforce": True})),
    "a writer that an input caused": header_changed(facts.WriterStarted, cause="bailiff.requests/0/0"),
    "a writer of another logic than its records name": header_changed(facts.WriterStarted, engine=f"0.0.9/0/{LOGIC - 1}"),
    "a writer that begins with other inputs": fact_changed(
        facts.WriterStarted, lambda data: data.model_copy(update={"inputs": {"bailiff.requests/0": 5}})
    ),
}
REPORTS_UNSEEN: dict[str, Alter] = {
    "a GPU that is unhealthy, and given to nobody afterwards": fact_before(
        facts.RootKeyChanged, facts.DeviceUnhealthy.model_validate({**GPU, "device": "GPU-sim-n1-3", **FAULT})
    ),
    "a node with more memory": fact_changed(
        facts.NodeJoined, lambda data: data.model_copy(update={"memory_bytes": 2 * data.memory_bytes})
    ),
}
"""Reports of nodes are not in the log: what decides nothing else cannot be told from an honest report."""


def replay_fault(original: Original, records: Sequence[Record]) -> str:
    """What `bailiff audit replay` says of the altered log; empty for nothing."""
    worker = ReplayWorker()
    for _, wire, _ in chained(original, records):
        if not worker.done:
            worker.take(wire, again=True)
    found = worker.found()
    return str(found["error"] or found["difference"] or "")


def test_an_honest_log_is_replayed(honest: Original) -> None:
    assert replay_fault(honest, honest.records) == ""


@pytest.mark.parametrize("name", BY_REPLAY)
def test_an_altered_fact_that_decides_something_is_found_by_replay(honest: Original, name: str) -> None:
    assert replay_fault(honest, BY_REPLAY[name](honest.records))


@pytest.mark.parametrize("name", REPORTS_UNSEEN)
async def test_an_altered_fact_that_decides_nothing_is_not_seen(honest: Original, name: str) -> None:
    altered = REPORTS_UNSEEN[name](honest.records)
    assert replay_fault(honest, altered) == ""
    assert (await verified(honest, altered))["requests"]["faults"] == []


# --- what whoever holds the sealing key can do


SEAL, OTHER_ROOT, OTHER_SEAL = (bytes([number]) * 32 for number in (7, 8, 9))
BEGINNING = 30
"""Records of the log that are written anew: up to there nothing but the first policy needs the root key."""


@dataclass(frozen=True)
class Sealed:
    """A log in a file, with its seals."""

    path: Path

    def verify(self, *options: str) -> tuple[int, dict[str, Any]]:
        """Exit code and JSON of `audit verify`."""
        found = CliRunner().invoke(app, ["audit", "verify", "--file", str(self.path), "--output", "json", *options])
        return found.exit_code, json.loads(found.stdout)


def sealed(
    path: Path, records: Sequence[Record], writer: Credentials | None, more: Sequence[SealBody] = (), stranger: bool = False
) -> Sealed:
    """Signs and seals the records. more: messages on `bailiff.seals` before the auditor's. stranger: adds a record of his."""
    made = chain_records(ChainHead(POOL), list(records), writer)
    wires = [wire for _, wire, _ in made]
    seals = [seal_to(body) for body in (*more, *seals_of(as_messages(wires), SEAL))]
    if stranger:
        head = made[-1][2]
        wires.append(encode(replace(made[-1][0], seq=head.next_seq, prev=head.hash)))
    path.write_text("".join([about_line(POOL, 0, seals), *map(message_line, as_messages(wires))]), encoding="utf-8")
    return Sealed(path)


def as_messages(wires: Sequence[Wire]) -> list[Message]:
    return [Message(topics.AUDIT.name, 0, number, 0, None, wire.headers, wire.value) for number, wire in enumerate(wires)]


def under(log: Log, root: bytes | None, folder: Path) -> tuple[Log, Credentials | None]:
    """The log's beginning, begun under another root key, or under none."""
    writer = None
    if root is not None:
        times = {"not_before": log[0].time - HOUR, "expires": log[0].time + 1_000 * HOUR}
        writer = make_credentials(folder, root, role="admission", name="admission", **times)

    def anew(record: Record) -> Record:
        if record.actor == ROOT_ACTOR:
            return forged(record, root) if root is not None else stripped(record, actor="")
        if isinstance(record.data, facts.PoolCreated):
            return said(record, root_key=root and key_id(root), certificate=writer and writer.certificate)
        if isinstance(record.data, facts.WriterStarted):
            return said(record, certificate=writer and writer.certificate)
        return certified_by(root)(record) if root is not None and isinstance(record.data, facts.NodeEnrolled) else record

    return [anew(record) for record in log[:BEGINNING]], writer


async def test_the_root_key_is_pinned_on_an_honest_log(honest: Original, tmp_path: Path) -> None:
    log = sealed(tmp_path / "log.jsonl", honest.records, honest.writer)
    code, found = await asyncio.to_thread(log.verify, "--trust", key_id(SEAL), "--root", key_id(honest.root), "--strict")
    assert (code, found["root_key"], found["to_judge"]) == (0, key_id(honest.root), [])
    code, found = await asyncio.to_thread(log.verify, "--trust", key_id(honest.root))
    assert code == 1
    assert f"give it as --root {key_id(honest.root)}" in found["seal_problem"]


@pytest.mark.parametrize(
    ("root", "says"), [(OTHER_ROOT, f"begun under the root key {key_id(OTHER_ROOT)}"), (None, "the log is not signed")]
)
async def test_another_log_that_the_sealing_key_has_sealed_is_found_by_its_root_key(
    honest: Original, tmp_path: Path, root: bytes | None, says: str
) -> None:
    log = sealed(tmp_path / "log.jsonl", *under(honest.records, root, tmp_path / "writer"))
    assert (await asyncio.to_thread(log.verify, "--trust", key_id(SEAL)))[0] == 0  # all that this key can say
    code, found = await asyncio.to_thread(log.verify, "--trust", key_id(SEAL), "--root", key_id(honest.root))
    assert code == 1
    assert says in found["root_problem"]


STRANGERS: list[SealBody] = [make_key(OTHER_SEAL, POOL, "0" * 64), make_key(STRANGER, POOL, "0" * 64, OTHER_SEAL)]


@pytest.mark.parametrize("trust", [True, False])
async def test_a_stranger_s_sealing_keys_and_records_are_left_to_a_person(honest: Original, tmp_path: Path, trust: bool) -> None:
    log = sealed(tmp_path / "log.jsonl", honest.records, honest.writer, STRANGERS, stranger=True)
    options = ["--trust", key_id(SEAL)] if trust else []
    code, found = await asyncio.to_thread(log.verify, *options)
    assert (code, found["ok"], found["sealed"], found["seal_keys"]) == (0, True, len(honest.records), [key_id(SEAL)])
    assert [text.partition(" that")[0] for text in found["to_judge"]] == ["1 record", "2 messages about seals of keys"]
    assert (await asyncio.to_thread(log.verify, *options, "--strict"))[0] == ExitCode.TO_JUDGE
