"""Checks a receipt from the file alone. The page in the file does the same: `services/console/frontend/src/receipt`.

A contract suite (`tests/contract/test_receipts.py`) holds both to the same verdict on the same altered receipts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from typing_extensions import TypedDict

from bailiff_core.explain.evictions import end_text
from bailiff_core.humanize import count_text
from bailiff_core.model.identity import is_verified
from bailiff_core.model.placement_ranges import numbers
from bailiff_core.model.proposal import VictimChoice
from bailiff_core.records import LogKeys, Record, Wire, decisions, decode, facts, record_hash
from bailiff_core.records.log_keys import InvalidKeys, keys_after
from bailiff_core.records.merkle import leaf_hash, multiproof_root
from bailiff_core.records.wire import UnreadableRecord, content_hash, time_text
from bailiff_log.checkpoints import Checkpoint, checkpoint_signed_by, cosigned_at, log_key, origin_of
from bailiff_log.cosignatures import LATEST_TIME
from bailiff_log.log_signatures import LogSignatureCheck
from bailiff_log.request_verifier import RequestVerifier
from bailiff_log.seals import SealChain, VerificationFailed, check_seal
from bailiff_log.signed_notes import KeyKind, Note, NoteKey
from bailiff_log.signed_requests import Fault, is_signed_request

from .model import InvalidReceipt, Receipt, UnknownFormat
from .rules import CHECKS, NOT_CHECKED, PURPOSES

Status = Literal["passed", "failed", "not-checked"]
Verdict = Literal["proven", "consistent", "refuted", "unreadable"]
GENESIS_EPOCH = 0
BY_PERMISSION: tuple[Fault, ...] = ("not-admissible", "wrong-owner", "not-as-admitted", "out-of-order")
"""What only the whole log shows; `audit verify` judges it."""
ORIGIN_END = re.compile("(/[1-9][0-9]{0,8})?")
SIGNER = re.compile("[!-*,-~]{1,255}")
RANGES = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?){0,999}")


class Check(TypedDict):
    """One check.

    Attributes:
        proves: What follows if it passes.
        detail: What was found.
    """

    id: str
    title: str
    status: Status
    detail: str
    proves: str


class Unproven(TypedDict):
    """Something that the file does not show."""

    id: str
    text: str


class Victim(TypedDict):
    """A victim whose eviction the receipt shows, as the decision has it.

    Attributes:
        outcome: How its eviction ended; empty: it had not, when the receipt was made.
    """

    job: str
    attempt: int
    tasks: str
    gpus: int
    lost_gpu_ms: int
    outcome: str


class CheckedReceipt(TypedDict):
    """The result of `bailiff audit check-receipt`.

    Attributes:
        ok: No check failed.
        verdict: `proven`: no check failed, and the reader knows the root key or a sealing key; `consistent`: no check failed;
            `refuted`: one did; `unreadable`: this is no receipt.
        problem: Why it is unreadable.
        later_format: It is unreadable because a later release wrote it.
        finished: Whether the eviction of each victim in it had ended.
        others: Victims of the decision that the receipt does not show.
        repeat: Commands that repeat it, and check what a file cannot show.
    """

    ok: bool
    verdict: Verdict
    problem: str
    later_format: bool
    pool: str
    decision: int
    time: str
    preemptor: str
    action: str
    finished: bool
    victims: list[Victim]
    others: int
    root_key: str
    sealing_key: str
    witnesses: list[str]
    sealed_records: int
    checks: list[Check]
    not_checked: list[Unproven]
    repeat: list[str]


class Failed(Exception):
    """A check failed. The text says why."""


class NotChecked(Exception):
    """The receipt has nothing to check here. The text says why."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What the reader knows from elsewhere.

    Attributes:
        roots: Root keys; one must be that of the log's first record.
        sealing: Sealing keys; one must be the seal's or one before it.
        witnesses: Vkeys; each must have cosigned the seal.
    """

    roots: Sequence[str] = ()
    sealing: Sequence[str] = ()
    witnesses: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.roots or self.sealing or self.witnesses)


def unreadable(problem: str, *, later_format: bool = False) -> CheckedReceipt:
    """The result for a text that is no receipt."""
    return {
        "ok": False,
        "verdict": "unreadable",
        "problem": problem,
        "later_format": later_format,
        "pool": "",
        "decision": -1,
        "time": "",
        "preemptor": "",
        "action": "",
        "finished": False,
        "victims": [],
        "others": 0,
        "root_key": "",
        "sealing_key": "",
        "witnesses": [],
        "sealed_records": 0,
        "checks": [],
        "not_checked": [],
        "repeat": [],
    }


def check_receipt(text: str, trust: Trust = Trust()) -> CheckedReceipt:
    """Checks the receipt in this JSON."""
    try:
        receipt = Receipt.parse(text)
    except InvalidReceipt as error:
        return unreadable(str(error), later_format=isinstance(error, UnknownFormat))
    try:
        contents = Contents.of(receipt)
    except Failed as error:
        return _without_contents(receipt, str(error))
    checks = [_run(name, partial(look, contents)) for name, look in LOOKS.items()]
    checks.append(_run("trust", partial(_trust, contents, trust)))
    return _result(contents, checks, known=bool(trust.roots or trust.sealing))


def _run(name: str, look: Callable[[], str]) -> Check:
    try:
        status, detail = "passed", look()
    except NotChecked as error:
        status, detail = "not-checked", str(error)
    except (Failed, VerificationFailed, ValueError) as error:  # what cannot be read proves nothing
        status, detail = "failed", str(error)
    return {"id": name, "title": CHECKS[name]["title"], "status": status, "detail": detail, "proves": CHECKS[name]["proves"]}  # type: ignore[typeddict-item]


@dataclass
class Contents:
    """A receipt with its records decoded.

    Attributes:
        hashes: Of each record, in order.
        decision: The decision's record.
    """

    receipt: Receipt
    records: list[Record]
    hashes: list[str]
    decision: Record
    data: decisions.PreemptionDecided
    choices: dict[str, list[VictimChoice]] = field(default_factory=dict)

    @classmethod
    def of(cls, receipt: Receipt) -> "Contents":
        """Raises `Failed` if there is nothing to check: a record cannot be read, or the decision is missing."""
        records, hashes = [], []
        for each in receipt.records:
            try:
                wire = each.wire
                records.append(decode(wire))
                hashes.append(record_hash(wire))
            except (UnreadableRecord, ValueError) as error:
                raise Failed(f"record {each.seq} cannot be read: {str(error).splitlines()[0]}") from None
        decision = next((each for each in records if each.seq == receipt.decision), None)
        if decision is None or not isinstance(decision.data, decisions.PreemptionDecided):
            raise Failed(f"record {receipt.decision}, the decision, is not in it, or decides no preemption")
        contents = cls(receipt, records, hashes, decision, decision.data)
        for choice in decision.data.victims:
            contents.choices.setdefault(choice.job, []).append(choice)
        for job in contents.choices:
            contents.outcome(job)
        return contents

    def of_type(self, *kinds: type[Any]) -> Iterator[Record]:
        """The records with such data."""
        return (each for each in self.records if isinstance(each.data, kinds))

    def submission(self, job: str) -> Record | None:
        """The record that accepted this job."""
        return next((each for each in self.of_type(facts.JobSubmitted) if each.data.demand.job == job), None)  # type: ignore[union-attr]

    def outcome(self, job: str) -> str:
        """How the eviction of this victim ended; empty: it had not."""
        wanted = {number for choice in self.choices.get(job, ()) for number in task_numbers(choice.tasks)}
        settled = set[int]()
        refused = any(each.data.job == job for each in self.of_type(facts.TaskCancelEvictionRefused))  # type: ignore[union-attr]
        for record in self.records:
            data = record.data
            if record.seq <= self.decision.seq or getattr(data, "job", None) != job:
                continue
            match data:
                case decisions.JobRequeued() | decisions.JobEnded():
                    return data.outcome
                case decisions.JobShrunk():
                    settled |= set(task_numbers(data.tasks))
                    if wanted and wanted <= settled:
                        return f"shrunk, {data.outcome}"
                case facts.TaskEvictionCancelled():
                    settled.add(data.task)
                    if wanted <= settled and not refused:
                        return "eviction cancelled"
                case decisions.EvictionCancelled() if not data.notified:
                    return "eviction cancelled"
                case decisions.ReservationDropped():
                    return "reservation dropped"
                case _:
                    pass
        return ""


def task_numbers(text: str) -> list[int]:
    """The tasks in these ranges. Raises `Failed` where they are none, or more than a job may have."""
    if text and not RANGES.fullmatch(text):
        raise Failed(f"{text[:40]!r} names no tasks")
    return numbers(text)


def short_type(record: Record) -> str:
    """`PreemptionDecided`."""
    return record.type.removeprefix("bailiff.audit.").rpartition(".v")[0]


def purpose_of(contents: Contents, at: int) -> str:
    """What the record at this index is in the receipt for; empty: nothing."""
    record, receipt = contents.records[at], contents.receipt
    purpose = PURPOSES.get(short_type(record), "")
    data: Any = record.data
    mine = {*receipt.victims, contents.data.preemptor.job}
    match purpose:
        case "keys" | "policy":
            return purpose
        case "submission" if data.demand.job in mine:
            return purpose
        case "request" if record.seq == contents.data.request:
            return purpose
        case "proposal" if any(each.request == contents.data.request for each in data.proposals):
            return purpose
        case "decision" if record.seq == receipt.decision:
            return purpose
        case "stage" | "outcome" if data.job in receipt.victims:
            return purpose
        case "use" if data.job == contents.data.preemptor.job:
            return purpose
        case _:
            pass
    followed = at + 1 < len(contents.records) and contents.records[at + 1].seq == record.seq + 1
    return "support" if followed and record.next_content else ""


# --- the checks


def _records(contents: Contents) -> str:
    receipt, last = contents.receipt, -1
    for kept, record in zip(receipt.records, contents.records, strict=True):
        names = [name for name, _ in kept.headers]
        if len(set(names)) != len(names) or not all(name.startswith("ce_") for name in names):
            raise Failed(f"record {kept.seq} has a header twice, or one that is not hashed")
        if (record.pool, record.seq) != (receipt.pool, kept.seq):
            raise Failed(f"record {kept.seq} is {record.pool}#{record.seq} by its own headers")
        if kept.seq <= last:
            raise Failed(f"record {kept.seq} comes after record {last}: they are not in the order of the log")
        last = kept.seq
    if contents.records[0].seq != 0 or not isinstance(contents.records[0].data, facts.PoolCreated):
        raise Failed("the log's first record is missing")
    for at, record in enumerate(contents.records):
        if not purpose_of(contents, at):
            raise Failed(f"record {record.seq}, {short_type(record)}, has nothing to do with this preemption")
    epochs = {each.epoch for each in contents.of_type(facts.WriterStarted)} | {GENESIS_EPOCH}
    homeless = next((each for each in contents.records if each.epoch not in epochs), None)
    if homeless is not None:
        raise Failed(f"the start of the writer of record {homeless.seq} is missing")
    for job in dict.fromkeys((contents.data.preemptor.job, *receipt.victims)):
        submission = contents.submission(job)
        if submission is None or submission.seq > contents.decision.seq:
            raise Failed(f"the submission of {job} is missing")
        if not any(each.seq == submission.policy for each in contents.of_type(facts.PolicyApplied)):
            raise Failed(f"record {submission.policy}, the policy under which {job} was submitted, is missing")
    return f"{count_text(len(contents.records), 'record')} of {receipt.pool}, #{contents.records[0].seq} to #{last}"


def _inclusion(contents: Contents) -> str:
    seal = contents.receipt.seal
    root = bytes.fromhex(seal.root)
    kept = zip(contents.receipt.records, contents.hashes, strict=True)
    leaves = {each.seq: leaf_hash(bytes.fromhex(found)) for each, found in kept}
    proof = [bytes.fromhex(each) for each in contents.receipt.proof]
    if len(leaves) < len(contents.hashes) or multiproof_root(leaves, seal.size, proof) != root:
        raise Failed("the records with these bytes are not at their positions under the seal")
    return f"each is under the root over {count_text(seal.size, 'record')}, {seal.root[:16]}…"


def _seal(contents: Contents) -> str:
    receipt, seal = contents.receipt, contents.receipt.seal
    check_seal(seal, receipt.pool)
    if seal.identity != contents.hashes[0]:
        raise Failed("the seal is of a log with another first record")
    checkpoint_note(receipt, seal.checkpoint)
    if sealing_keys(receipt)[-1] != seal.key:
        raise Failed(f"the seal was signed with key {seal.key}, which does not follow from the keys in the file")
    return f"sealed at {time_text(seal.sealed_at)}, signed by key {seal.key}"


def checkpoint_note(receipt: Receipt, text: str) -> Note:
    """The checkpoint of the receipt's seal in this note, signed with its key. Raises `Failed` and `NoteError`."""
    seal, origin = receipt.seal, text.partition("\n")[0]
    if not ORIGIN_END.fullmatch(origin.removeprefix(origin_of(receipt.pool, seal.identity))):
        raise Failed("the checkpoint is of another log")
    note, _ = checkpoint_signed_by(text, [log_key(origin, seal.key)])
    if note.text != str(Checkpoint(origin, seal.size, bytes.fromhex(seal.root))):
        raise Failed("the checkpoint has another size or root")
    if str(note) != text or not all(SIGNER.fullmatch(each.name) for each in note.signatures):
        raise Failed("the checkpoint is not in its only form")
    return note


def sealing_keys(receipt: Receipt) -> list[str]:
    """The log's sealing keys up to the seal's. Raises `VerificationFailed`."""
    chain = SealChain(receipt.pool, identity=receipt.seal.identity)
    for body in receipt.keys:
        chain.take(body)
    return chain.keys or [receipt.seal.key]


def _writer(contents: Contents) -> str:
    created = contents.records[0].data
    if not isinstance(created, facts.PoolCreated):
        raise Failed("the log's first record is missing")
    if created.root_key is None:
        raise NotChecked("this log is not signed")
    check, signatures = LogSignatureCheck(contents.receipt.pool), 0
    keys: LogKeys | None = None
    before: Record | None = None
    for kept, record in zip(contents.receipt.records, contents.records, strict=True):
        following, before = before, record
        try:
            if record.data is not None and PURPOSES.get(short_type(record)) == "keys":
                changed = keys_after(keys, record.data, record.pool, time_text(record.time), check)
                signer = keys if isinstance(record.data, facts.KeyRevoked | facts.RootKeyChanged) else changed
                keys = changed
            else:
                signer = keys
        except InvalidKeys as error:
            raise Failed(f"record {record.seq}: {error}") from None
        assert signer is not None  # the first record has a root key
        _check_writer(check, signer, following, record, kept.wire)
        signatures += bool(record.signature)
    assert keys is not None
    return f"{count_text(signatures, 'signature')}, the newest by key {keys.writer_key}, certified by root key {keys.root_key}"


def _check_writer(check: LogSignatureCheck, keys: LogKeys, before: Record | None, record: Record, wire: Wire) -> None:
    """Whether the log's writer signed this record, or announced it in the record before."""
    announced = before.next_content if before is not None and before.seq == record.seq - 1 else ""
    if time_text(record.time) > keys.writer_until:
        raise Failed(f"record {record.seq}: the writer's certificate has expired on {keys.writer_until}")
    if announced and not isinstance(record.data, facts.WriterStarted):
        if content_hash(wire) != announced:
            raise Failed(f"record {record.seq} is not what the record before it announces")
        return
    if keys.writer_key in keys.revoked:
        raise Failed(f"record {record.seq}: the writer's key {keys.writer_key} was revoked")
    refused = check.record(keys, record.signature, record.prev, wire)
    if refused:
        raise Failed(f"record {record.seq}: {refused}")


def _requesters(contents: Contents) -> str:
    verifier, in_force, signed, names = RequestVerifier(contents.receipt.pool), -1, 0, []
    for record in contents.records:
        if PURPOSES.get(short_type(record)) not in ("keys", "policy", "submission"):
            continue
        if isinstance(record.data, facts.PolicyApplied):
            verifier.take(record)
            in_force = record.seq
            continue
        if isinstance(record.data, facts.JobSubmitted):
            if in_force != record.policy:
                raise Failed(f"record {record.seq}: the policy in force is not in the file")
            names.append(f"{record.data.demand.job}: {record.actor if is_signed_request(record) else 'not signed'}")
            signed += is_signed_request(record)
            if record.data.user_verified and not is_verified(record.auth or "none"):
                raise Failed(f"record {record.seq} names {record.data.user} as verified, and nobody signed it")
        fault = verifier.take(record)
        if fault is not None and fault["fault"] not in BY_PERMISSION and isinstance(record.data, facts.JobSubmitted):
            raise Failed(f"record {fault['seq']}: {fault['detail']}")
    if not signed:
        raise NotChecked("none of these submissions is signed")
    return "; ".join(names)


def _decision(contents: Contents) -> str:
    receipt, data, seq = contents.receipt, contents.data, contents.decision.seq
    if len(set(receipt.victims)) != len(receipt.victims):
        raise Failed("a victim is named twice")
    stranger = next((job for job in receipt.victims if job not in contents.choices), None)
    if stranger is not None:
        raise Failed(f"{stranger} is not a victim of this decision")
    request = next((each for each in contents.records if each.seq == data.request), None)
    if request is None or not isinstance(request.data, decisions.PreemptionRequested) or request.seq >= seq:
        raise Failed(f"record {data.request}, the request that it answers, is missing")
    if request.data.job != data.preemptor.job:
        raise Failed(f"it answers a request of {request.data.job}, not of {data.preemptor.job}")
    proposals = [
        each
        for record in contents.of_type(facts.ProposalReceived)
        if record.seq < seq and record.data.selection == request.data.selection  # type: ignore[union-attr]
        for each in record.data.proposals  # type: ignore[union-attr]
        if each.request == data.request
    ]
    if not proposals:
        raise Failed("the proposal that it accepts is missing")
    if any(each.job != data.preemptor.job for each in proposals):
        raise Failed("the proposal is for another job")
    return (
        f"#{seq}, {data.action} for {data.preemptor.job}: {count_text(len(contents.choices), 'victim')}, "
        f"{len(receipt.victims)} of them in this file"
    )


def _stages(contents: Contents) -> str:
    stages = 0
    for record in contents.records:
        data: Any = record.data
        if PURPOSES.get(short_type(record)) not in ("stage", "outcome") or data.job not in contents.receipt.victims:
            continue
        stages += 1
        attempts = [choice.attempt for choice in contents.choices.get(data.job, ())]
        if record.seq <= contents.decision.seq:
            raise Failed(f"record {record.seq} is before the decision")
        if getattr(data, "attempt", attempts[:1] and attempts[0]) not in attempts:
            raise Failed(f"record {record.seq} is about another attempt of {data.job}")
        if isinstance(data, facts.EvictionStarted) and data.decided_by != contents.decision.seq:
            raise Failed(f"record {record.seq} starts an eviction that record {data.decided_by} decided")
    ended = [f"{job}: {end_text(contents.outcome(job)) or 'not ended yet'}" for job in contents.receipt.victims]
    return f"{count_text(stages, 'stage')}; {'; '.join(ended)}"


def _cosignatures(contents: Contents) -> str:
    if not contents.receipt.cosignatures:
        raise NotChecked("no witness cosigned this seal")
    return ", ".join(sorted({NoteKey.parse(each, KeyKind.COSIGNATURE).name for each in cosigners(contents.receipt)}))


def cosigners(receipt: Receipt) -> list[str]:
    """The vkeys of those who cosigned the seal's checkpoint. Raises `Failed` and `NoteError` if one did not."""
    found = []
    for each in receipt.cosignatures:
        note, key = checkpoint_note(receipt, each.checkpoint), NoteKey.parse(each.witness, KeyKind.COSIGNATURE)
        at = cosigned_at(note, key)
        if at is None or at > LATEST_TIME or str(key) != each.witness or not SIGNER.fullmatch(key.name):
            raise Failed(f"{key.name} did not cosign the seal")
        found.append(str(key))
    return found


def _trust(contents: Contents, trust: Trust) -> str:
    if not trust:
        raise NotChecked("compare them: no key was given that you know")
    created, found = contents.records[0].data, []
    root = created.root_key if isinstance(created, facts.PoolCreated) else None
    if trust.roots:
        if root not in trust.roots:
            raise Failed(f"the log's root key is {root or 'none'}, which is not one of yours")
        found.append("root key")
    if trust.sealing:
        if not set(sealing_keys(contents.receipt)) & set(trust.sealing):
            raise Failed(f"the log was sealed with key {contents.receipt.seal.key}, which does not follow from one of yours")
        found.append("sealing key")
    if trust.witnesses:
        missing = [each.split("+")[0] for each in trust.witnesses if each not in cosigners(contents.receipt)]
        if missing:
            raise Failed(f"not cosigned by {', '.join(missing)}")
        found.append(count_text(len(trust.witnesses), "witness"))
    return f"as you know them: {', '.join(found)}"


LOOKS: dict[str, Callable[[Contents], str]] = {
    "records": _records,
    "inclusion": _inclusion,
    "seal": _seal,
    "writer": _writer,
    "requesters": _requesters,
    "decision": _decision,
    "stages": _stages,
    "cosignatures": _cosignatures,
}
"""All checks but that of the keys that the reader knows."""


# --- the result


def _without_contents(receipt: Receipt, problem: str) -> CheckedReceipt:
    skipped: dict[str, Callable[[], str]] = dict.fromkeys((*LOOKS, "trust"), lambda: _skip("a record cannot be read"))
    checks = [_run(name, look) for name, look in (skipped | {"records": lambda: _fail(problem)}).items()]
    return {**unreadable(""), "verdict": "refuted", "pool": receipt.pool, "decision": receipt.decision, "checks": checks}


def _fail(why: str) -> str:
    raise Failed(why)


def _skip(why: str) -> str:
    raise NotChecked(why)


def _result(contents: Contents, checks: list[Check], *, known: bool) -> CheckedReceipt:
    receipt, data = contents.receipt, contents.data
    created = contents.records[0].data
    ok = all(each["status"] != "failed" for each in checks)
    victims = [_victim(contents, job) for job in receipt.victims]
    skipped = {each["id"] for each in checks if each["status"] == "not-checked"}
    missing = ["unsigned" if each == "writer" else each for each in CHECKS if each in skipped]
    missing += ["left_out"] if receipt.left_out else []
    always = ["rules", "permissions", "candidates", "prices", "stages", "revocations", "page"]
    return {
        "ok": ok,
        "verdict": ("proven" if known else "consistent") if ok else "refuted",
        "problem": "",
        "later_format": False,
        "pool": receipt.pool,
        "decision": receipt.decision,
        "time": time_text(contents.decision.time),
        "preemptor": data.preemptor.job,
        "action": data.action,
        "finished": all(each["outcome"] for each in victims),
        "victims": victims,
        "others": len(contents.choices.keys() - set(receipt.victims)),
        "root_key": (created.root_key or "") if isinstance(created, facts.PoolCreated) else "",
        "sealing_key": receipt.seal.key,
        "witnesses": sorted(each.witness for each in receipt.cosignatures),
        "sealed_records": receipt.seal.size,
        "checks": checks,
        "not_checked": [{"id": each, "text": NOT_CHECKED[each]} for each in (*missing, *always)],
        "repeat": [
            "bailiff audit check-receipt FILE --root KEY --trust KEY",
            f"bailiff audit verify --pool {receipt.pool} --trust KEY",
            f"bailiff audit replay --pool {receipt.pool} --from {contents.decision.seq} --to {contents.decision.seq}",
            f"bailiff explain {contents.decision.seq} --all --pool {receipt.pool}",
        ],
    }


def _victim(contents: Contents, job: str) -> Victim:
    choices = contents.choices.get(job, [])
    return {
        "job": job,
        "attempt": choices[0].attempt if choices else 0,
        "tasks": ",".join(choice.tasks for choice in choices if choice.tasks),
        "gpus": sum(choice.gpus for choice in choices),
        "lost_gpu_ms": sum(choice.lost_gpu_ms for choice in choices),
        "outcome": contents.outcome(job),
    }
