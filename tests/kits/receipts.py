"""A signed pool in which a preemption is carried out, sealed and cosigned; its receipt, and the receipt altered."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kits.log_builder import DAY, NEW_YEAR, SECOND, Story, policy

from bailiff.audit.receipt.collect import ReceiptSource, collect
from bailiff.audit.receipt.model import canonical_text, expanded, shortened, with_headers
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.messages.seals import CheckpointCosigned, LogSealed, SealingKey
from bailiff_bus.port import Message
from bailiff_bus.topics import AUDIT, REQUESTS
from bailiff_core.admission import Evidence, ReceivedRequest, Rejected, admit_received
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec, spec_digest
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.records import Record, Wire, decisions, decode, facts, record_hash
from bailiff_core.records.chain import GENESIS
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.merkle import Frontier, leaf_hash, multiproof
from bailiff_core.records.request import RequestBody, RequestFact, body_of
from bailiff_log.certificates import issue_certificate
from bailiff_log.checkpoints import Checkpoint, cosign, log_key, origin_of, witness_key
from bailiff_log.cosigner import Cosigner
from bailiff_log.credentials import make_credentials
from bailiff_log.keys import key_id, sign_bytes
from bailiff_log.log_signatures import draft_signed
from bailiff_log.root_keys import change_root_key
from bailiff_log.seals import SealChain, make_key, make_seal
from bailiff_log.signatures import salted, sign
from bailiff_log.signed_notes import Note, NoteSignature
from bailiff_log.signed_requests import kept_request

POOL = "pool-a"
ROOT, SEALER, NEXT_SEALER, WITNESS, USER, STRANGER = (bytes([number]) * 32 for number in range(0x41, 0x47))
WITNESS_KEY = witness_key("witness.example/w1", WITNESS)


class SignedStory(Story):
    """A story whose writer signs, and whose users sign their submissions with `key`."""

    def __init__(self, folder: Path, key: bytes | None = USER, root: bytes = ROOT, **about: Any) -> None:
        self.key, self._requests, self.spec = key, dict[str, str](), JobSpec(command="true")
        span = {"not_before": NEW_YEAR - DAY, "expires": NEW_YEAR + 365 * DAY}
        credentials = make_credentials(folder / "admission", root, role="admission", name="admission", **span)
        rules = policy(identity={"keys": {key_id(USER): "ada"}})
        super().__init__(rules, pool=POOL, credentials=credentials, **about)

    def submitted(self, job: str, *groups: TaskGroup, gpus: int = 1, tasks: int = 1, cls: str | None = None, **demand: Any):
        """As a story's; signed, as admission accepts it."""
        groups = groups or (TaskGroup(count=tasks, gpu_milli=gpus * 1000),)
        requested = JobDemand(job=job, tasks=groups, priority_class=cls, **demand)
        if self.key is None:
            return super().submitted(job, *groups, cls=cls, **demand)
        return self._asked(SubmitJob(demand=requested, spec=self.spec), f"submit-{job}")

    def _asked(self, body: RequestBody, name: str) -> Any:
        """The record of this request of ada's, which is kept with its signature."""
        assert self.key is not None
        about: dict[str, Any] = {"source": "laptop", "id": name, "pool": POOL, "time_us": self.time}
        body = salted(self.key, body, source="laptop", id=name)
        keyid, sig = sign(self.key, body, **about)
        headers, value = wrap(body, **about, keyid=keyid, sig=sig)
        envelope = unwrap(Message(REQUESTS.name, 0, 0, self.time, None, headers, value))
        self._requests[name] = kept_request(envelope)
        digest = spec_digest(bytes.fromhex(body.salt), body.spec.to_json()) if isinstance(body, SubmitJob) and body.salt else ""
        received = ReceivedRequest("laptop", name, envelope.digest, envelope.time, "ada", "signed", body)
        admitted = admit_received(self.state, received, Evidence(digest))
        assert not isinstance(admitted, Rejected), admitted
        return admitted[0]

    def _record(self, fact: Any, cycle: int, cycle_end: bool = False) -> Record:
        if isinstance(fact, RequestFact) and self.key is not None and fact.request.id not in self._requests:
            fact = self._asked(body_of(fact), fact.request.id)
        record = super()._record(fact, cycle, cycle_end)
        if not isinstance(fact, RequestFact):
            return record
        kept = self._requests.get(fact.request.id)
        return replace(record, actor="ada", auth="signed", request=kept) if kept else replace(record, auth="none")


def preempted(story: Story, *, finished: bool = True) -> None:
    """Two jobs fill the pool; an urgent one takes the GPUs of both."""
    story.node("n1", gpus=8)
    for number in (1, 2):
        story.runs(f"train-{number}", gpus=4, after=SECOND)
    story.submit("serve-1", gpus=8, cls="inference", after=3600 * SECOND)
    story.propose(after=SECOND)
    story.expect("PreemptionDecided")
    story.yields("train-1", after=SECOND)
    if finished:
        story.yields("train-2", after=SECOND)
        story.submit("train-3", gpus=1)


@dataclass
class SealedStory:
    """A story's log, sealed at some sizes and cosigned."""

    story: Story
    bodies: list[LogSealed | SealingKey]
    cosignatures: list[CheckpointCosigned]

    @property
    def chain(self) -> SealChain:
        """Its valid seals."""
        chain = SealChain(POOL)
        for body in self.bodies:
            chain.take(body)
        return chain

    @property
    def decision(self) -> int:
        """The newest preemption."""
        return max(each.seq for each in self.story.records if isinstance(each.data, decisions.PreemptionDecided))

    @property
    def source(self) -> ReceiptSource:
        """For `collect`."""
        return ReceiptSource(POOL, self.messages, self.chain, self.cosignatures)

    async def messages(self) -> AsyncGenerator[Message, None]:
        """The log."""
        for message in messages_of(self.story.wires):
            yield message


def messages_of(wires: Sequence[Wire]) -> list[Message]:
    """As in Kafka."""
    return [Message(AUDIT.name, 0, at, NEW_YEAR, None, wire.headers, wire.value) for at, wire in enumerate(wires)]


def sealed(story: Story, *sizes: int, witnesses: int = 1) -> SealedStory:
    """Seals at these sizes, the last ones by another key; each is cosigned. No sizes: one over all."""
    hashes = [bytes.fromhex(record_hash(wire)) for wire in story.wires]
    identity = hashes[0].hex()
    bodies: list[LogSealed | SealingKey] = [make_key(SEALER, POOL, identity)]
    if len(sizes) > 1:
        bodies.append(make_key(NEXT_SEALER, POOL, identity, SEALER))
    key = NEXT_SEALER if len(sizes) > 1 else SEALER
    tree, before, cosigned = Frontier(), Frontier(), []
    with TemporaryDirectory() as folder:
        witness = Cosigner(Path(folder) / "w", WITNESS_KEY, WITNESS, lambda: NEW_YEAR)
        for size in sizes or (len(hashes),):
            leaves = [leaf_hash(each) for each in hashes[tree.size : size]]
            tree.extend(list(leaves))
            seal = make_seal(key, POOL, identity, tree, hashes[size - 1].hex(), NEW_YEAR, before.size, before.followed_by(leaves))
            bodies.append(seal)
            proof = [bytes.fromhex(each) for each in seal.consistency]
            keys = [log_key(origin_of(POOL, identity), seal.key)]
            if witnesses:
                note = witness.add_checkpoint(seal.checkpoint, keys, seal.previous_size, proof)
                cosigned.append(CheckpointCosigned(witness=str(WITNESS_KEY), checkpoint=str(note)))
            before = tree.copy()
        witness.close()
    return SealedStory(story, bodies, cosigned)


@cache
def usual() -> SealedStory:
    """The preemption of `preempted`, signed, under two seals of a key that replaced another."""
    with TemporaryDirectory() as folder:
        story = SignedStory(Path(folder))
    preempted(story)
    return sealed(story, 6, len(story.wires))


def _unsigned(folder: Path) -> SealedStory:
    story = SignedStory(folder, key=None)
    preempted(story)
    return sealed(story, witnesses=0)


def _unfinished(folder: Path) -> SealedStory:
    story = SignedStory(folder)
    preempted(story, finished=False)
    return sealed(story)


def _called_off(folder: Path) -> SealedStory:
    story = SignedStory(folder)
    preempted(story, finished=False)
    story.cancel("serve-1")
    return sealed(story)


def _shrunk(folder: Path) -> SealedStory:
    story = SignedStory(folder)
    story.node("n1", gpus=4)
    story.runs(
        "train-2", gpus=1, tasks=4, min_tasks=1, elastic="live", grace=60_000_000, labels={"team": "a"}, kill_after=1_000_000
    )
    story.submit("serve-1", gpus=2, cls="inference")
    story.propose()
    story.yields("train-2")
    return sealed(story)


def _replaced_writer(folder: Path) -> SealedStory:
    story = SignedStory(folder)
    preempted(story, finished=False)
    story.restart()
    story.yields("train-2")
    return sealed(story)


def _terminal(folder: Path) -> SealedStory:
    """Admission lets no node save what has a terminal: jobs whose class, or whose own file, leaves the choice to it."""
    classes = [each.model_copy(update={"checkpoint": "auto"}).model_dump(mode="json") for each in DEFAULT_POLICY.priority_classes]
    story = SignedStory(folder)
    story.apply_policy(
        story.state.rules.model_copy(update={"priority_classes": policy(priority_classes=classes).priority_classes})
    )
    story.spec = JobSpec(command="true", tty=True)
    story.node("n1", gpus=8)
    story.runs("train-2", gpus=8)
    story.submit("serve-1", gpus=8, cls="inference", checkpoint="auto", after=3600 * SECOND)
    assert story.state.jobs["train-2"].demand.checkpoint == story.state.jobs["serve-1"].demand.checkpoint == "job"
    story.propose()
    return sealed(story)


STORIES: tuple[Callable[[Path], SealedStory], ...] = (_unsigned, _unfinished, _called_off, _shrunk, _replaced_writer, _terminal)
"""What happens in a pool."""


def opened(text: str) -> dict[str, Any]:
    """The receipt's JSON with all headers of each record."""
    data = json.loads(text)
    return {**data, "records": with_headers(data["records"], expanded)}


def altered(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The receipt's JSON after this change, canonical again."""
    data = opened(text)
    change(data)
    data["records"] = with_headers(data["records"], shortened)
    return canonical_text(data)


def _headers_written(change: Callable[[list[Any]], object]) -> Callable[[str], str]:
    """The text with the headers of its last record written otherwise."""

    def changed(text: str) -> str:
        data = json.loads(text)
        change(data["records"][-1]["headers"])
        return canonical_text(data)

    return changed


# --- alterations: what both verifiers must judge alike


Change = Callable[[dict[str, Any]], None]


def at(data: dict[str, Any], kind: str, number: int = 0) -> dict[str, Any]:
    """The record of this type."""
    found = [each for each in data["records"] if dict(each["headers"]).get("ce_type") == f"bailiff.audit.{kind}.v1"]
    return found[number]


def header(record: dict[str, Any], name: str, value: str | None) -> None:
    """Set a header, or strip it."""
    kept = [each for each in record["headers"] if each[0] != name]
    record["headers"] = kept if value is None else [*kept, [name, value]]


def other(text: str) -> str:
    """Another text of this length and alphabet."""
    return ("1" if text[0] != "1" else "2") + text[1:]


def _headers_changed(kind: str) -> dict[str, Change]:
    def change(name: str) -> Change:
        return lambda data: header(at(data, kind), name, other(dict(at(data, kind)["headers"])[name]))

    names = ("ce_specversion", "ce_id", "ce_source", "ce_time", "ce_pool", "ce_seq", "ce_epoch", "ce_cycle", "ce_cycleend")
    names += ("ce_prev", "ce_essential", "ce_engine", "ce_policy")
    return {f"{name} of {kind} changed": change(name) for name in names}


def _value(kind: str, before: str, after: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        assert before in at(data, kind)["value"], at(data, kind)["value"]
        at(data, kind)["value"] = at(data, kind)["value"].replace(before, after, 1)

    return change


def _set(*path: str | int, to: Any) -> Change:
    def change(data: dict[str, Any]) -> None:
        inside: Any = data
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = to(inside[path[-1]]) if callable(to) else to

    return change


def _without(kind: str) -> Change:
    return lambda data: data["records"].remove(at(data, kind))


def _swap(data: dict[str, Any]) -> None:
    stages = [at for at, each in enumerate(data["records"]) if "EvictionStageReached" in dict(each["headers"])["ce_type"]]
    data["records"][stages[0]], data["records"][stages[1]] = data["records"][stages[1]], data["records"][stages[0]]


def _renumbered(data: dict[str, Any]) -> None:
    """Two stages exchange their numbers, so that the order of the file stays right."""
    first, second = at(data, "EvictionStageReached", 0), at(data, "EvictionStageReached", 1)
    for name in ("headers", "value"):
        first[name], second[name] = second[name], first[name]


def _resealed(change: Change, private: bytes = NEXT_SEALER, identity: str = "") -> Change:
    """The holder of a sealing key changes records, and seals the log that has them."""

    def changed(data: dict[str, Any]) -> None:
        log = usual()
        change(data)
        hashes = [bytes.fromhex(record_hash(wire)) for wire in log.story.wires]
        for each in data["records"]:
            headers = tuple((name, text.encode()) for name, text in each["headers"])
            hashes[each["seq"]] = bytes.fromhex(record_hash(Wire(headers, each["value"].encode())))
        _seal_anew(data, hashes, private, identity)

    return changed


def _seal_anew(data: dict[str, Any], hashes: list[bytes], private: bytes, identity: str = "") -> None:
    """The proofs and the seal of a log with these records."""
    leaves = [leaf_hash(each) for each in hashes]
    tree = Frontier()
    tree.extend(list(leaves))
    data["proof"] = _proof(data, leaves)
    identity = identity or hashes[0].hex()
    data["keys"] = [make_key(private, POOL, identity).to_data()]
    data["seal"] = make_seal(private, POOL, identity, tree, hashes[-1].hex(), NEW_YEAR).to_data()
    data["cosignatures"] = []


def _rewritten(change: Change, also: int | None = None) -> Change:
    """A writer that lies changes records and signs its whole log anew, which is then sealed. also: a record to be shown, too."""

    def changed(data: dict[str, Any]) -> None:
        story = usual().story
        if also is not None:
            wire = story.wires[also]
            headers = [[name, content.decode()] for name, content in wire.headers if name.startswith("ce_")]
            data["records"].append({"seq": also, "headers": headers, "value": wire.value.decode()})
            data["records"].sort(key=lambda each: each["seq"])
        change(data)
        shown = {
            each["seq"]: Wire(tuple((n, t.encode()) for n, t in each["headers"]), each["value"].encode())
            for each in data["records"]
        }
        records = [
            replace(decode(shown.get(seq, wire)), prev="", signature="", next_content="") for seq, wire in enumerate(story.wires)
        ]
        groups: list[list[Record]] = []
        for record, wire in zip(records, story.wires, strict=True):
            if dict(wire.headers).get("ce_sig"):
                groups.append([])
            groups[-1].append(record)
        prev, hashes, again = GENESIS, list[str](), dict[int, Wire]()
        assert story.credentials is not None
        for draft in (draft for group in groups for draft in draft_signed(group)):
            _, chained = draft.finish(prev, story.credentials)
            again[len(hashes)] = chained.wire
            hashes.append(chained.hash)
            prev = chained.hash
        for each in data["records"]:
            wire = again[each["seq"]]
            each["headers"] = [[name, text.decode()] for name, text in wire.headers if name.startswith("ce_")]
            each["value"] = wire.value.decode()
        _seal_anew(data, [bytes.fromhex(each) for each in hashes], NEXT_SEALER)

    return changed


def _as(kind: str, value: Any) -> Change:
    """Record 3, of a timer, becomes one of this kind."""

    def change(data: dict[str, Any]) -> None:
        record = next(each for each in data["records"] if each["seq"] == 3)
        header(record, "ce_type", f"bailiff.audit.{kind}.v1")
        record["value"] = json.dumps(value() if callable(value) else value, sort_keys=True, separators=(",", ":"))

    return change


def _certificate(**terms: Any) -> Change:
    """The writer's certificate as the root key could have issued it."""

    def change(data: dict[str, Any]) -> None:
        record = at(data, "WriterStarted")
        value = json.loads(record["value"])
        had = value["certificate"]
        about = {name: had[name] for name in ("key", "role", "name", "not_before", "expires")} | terms
        issued = issue_certificate(ROOT, encryption_key=had.get("encryption_key"), **about)
        record["value"] = json.dumps(value | {"certificate": issued.to_data()}, sort_keys=True, separators=(",", ":"))

    return change


def _of_another_pool(data: dict[str, Any]) -> None:
    """A whole log of somebody else's keys, in which the same happens."""
    data.clear()
    data.update(opened(forged_text()))


def _cosigned_by_a_stranger(data: dict[str, Any]) -> None:
    key = witness_key("stranger.example/w", STRANGER)
    note = Note.parse(data["seal"]["checkpoint"])
    text = str(note.with_signatures([cosign(note.text, key, STRANGER, NEW_YEAR // SECOND)]))
    data["cosignatures"] = [{"witness": str(key), "checkpoint": text}]


def _cosigned_another_size(data: dict[str, Any]) -> None:
    data["cosignatures"] = [usual().cosignatures[0].to_data()]


def _proof(data: dict[str, Any], leaves: list[bytes]) -> list[str]:
    """The proof of the records, which are perhaps not in order."""
    shown = sorted({each["seq"] for each in data["records"]})
    return [each.hex() for each in multiproof(shown, len(leaves), Frontier().followed_by(leaves))]


def _proven_without(change: Change) -> Change:
    """Records are left out, and the rest is proven anew: whoever has the file can do that."""

    def changed(data: dict[str, Any]) -> None:
        change(data)
        data["proof"] = _proof(data, [leaf_hash(bytes.fromhex(record_hash(wire))) for wire in usual().story.wires])

    return changed


def _extra(data: dict[str, Any]) -> None:
    log = usual()
    seq = next(each.seq for each in log.story.records if isinstance(each.data, facts.NodeJoined))
    hashes = [leaf_hash(bytes.fromhex(record_hash(wire))) for wire in log.story.wires]
    wire = log.story.wires[seq]
    headers = [[name, content.decode()] for name, content in wire.headers if name.startswith("ce_")]
    data["records"].append({"seq": seq, "headers": headers, "value": wire.value.decode()})
    data["records"].sort(key=lambda each: each["seq"])
    data["proof"] = _proof(data, hashes)


def _noted(change: Callable[[str], str]) -> Change:
    def changed(data: dict[str, Any]) -> None:
        data["cosignatures"][0]["checkpoint"] = change(data["cosignatures"][0]["checkpoint"])

    return changed


def _stripped(data: dict[str, Any]) -> None:
    header(at(data, SIGNED), "ce_request", None)
    header(at(data, SIGNED), "ce_auth", "none")


def _signed_data_replaced(data: dict[str, Any]) -> None:
    """A writer that lies changes the demand, and claims the digest of the one that was signed."""
    record = at(data, SIGNED)
    kept, stated = json.loads(dict(record["headers"])["ce_request"]), json.loads(record["value"])
    kept |= {"digest": stated["request"]["digest"], "data": kept["data"].replace('"gpu_milli":4000', '"gpu_milli":8000')}
    header(record, "ce_request", json.dumps(kept, sort_keys=True, separators=(",", ":")))
    record["value"] = record["value"].replace('"gpu_milli":4000', '"gpu_milli":8000')


def _revoked(key: str) -> dict[str, Any]:
    return {"key": key, "request": {"digest": "0" * 64, "id": "r", "source": "laptop"}}


def _revoked_writer() -> dict[str, Any]:
    credentials = usual().story.credentials
    assert credentials is not None
    return _revoked(credentials.certificate.key)


def _root_changed() -> dict[str, Any]:
    change = change_root_key(STRANGER, "0" * 64, STRANGER)
    return {"change": change.to_data(), "request": {"digest": "0" * 64, "id": "r", "source": "laptop"}}


def _another_policy() -> dict[str, Any]:
    return json.loads(usual().story.wires[1].value)


def _checkpoint_of(origin: str | None, losses: str = "") -> Change:
    """The holder of the sealing key signs a checkpoint with another origin; nobody cosigned it."""

    def change(data: dict[str, Any]) -> None:
        seal = data["seal"]
        name = (origin or origin_of(POOL, seal["identity"])) + losses
        text = str(Checkpoint(name, seal["size"], bytes.fromhex(seal["root"])))
        key = log_key(name, seal["key"])
        data["seal"]["checkpoint"] = str(Note(text, (NoteSignature(name, key.id, sign_bytes(NEXT_SEALER, text.encode())),)))
        data["cosignatures"] = []

    return change


SIGNED = "JobSubmitted"
ALTERATIONS: dict[str, tuple[Change, str]] = {
    "nothing": (lambda _: None, ""),
    **{name: (change, "refuted") for kind in ("PreemptionDecided", SIGNED) for name, change in _headers_changed(kind).items()},
    "the victim's price lowered": (_value("PreemptionDecided", '"lost_gpu_ms":1', '"lost_gpu_ms":2'), "inclusion"),
    "another preemptor": (_value("PreemptionDecided", "serve-1", "serve-9"), "inclusion"),
    "a byte of the proposal": (_value("ProposalReceived", '"computed_at":13', '"computed_at":12'), "inclusion"),
    "a byte of the request's reason": (_value("PreemptionRequested", '"priority":', '"prioritx":'), "refuted"),
    "a byte of a stage": (_value("EvictionStageReached", "noticed", "yielding"), "inclusion"),
    "a byte of the outcome": (_value("JobRequeued", '"preempted"', '"yielded"'), "inclusion"),
    "a byte of the policy": (_value("PolicyApplied", "ada", "eve"), "inclusion"),
    "a byte of the writer's certificate": (_value("WriterStarted", '"expires":', '"expires":1'), "refuted"),
    "the writer's signature stripped": (lambda data: header(at(data, "EvictionStarted"), "ce_sig", None), "inclusion"),
    "the user's signature stripped": (lambda data: header(at(data, SIGNED), "ce_request", None), "inclusion"),
    "a header twice": (lambda data: at(data, SIGNED)["headers"].append(["ce_actor", "eve"]), "records"),
    "a header that is not hashed": (lambda data: at(data, SIGNED)["headers"].append(["traceparent", "00"]), "records"),
    "another root": (_set("seal", "root", to=other), "inclusion"),
    "another size": (_set("seal", "size", to=32), "inclusion"),
    "a size beyond whole numbers": (_set("seal", "size", to=2**60), "unreadable"),
    "another time of the seal": (_set("seal", "sealed_at", to=1), "seal"),
    "another identity": (_set("seal", "identity", to=other), "seal"),
    "the seal's signature changed": (_set("seal", "signature", to=other), "seal"),
    "the seal's checkpoint changed": (_set("seal", "checkpoint", to=lambda text: text.replace("\n33\n", "\n32\n")), "seal"),
    "the seal by a stranger": (_set("seal", "key", to=key_id(STRANGER)), "seal"),
    "the handover's signature changed": (_set("keys", 1, "signature", to=other), "seal"),
    "the handover left out": (lambda data: data["keys"].pop(), "seal"),
    "the keys in another order": (lambda data: data["keys"].reverse(), "seal"),
    "a hash of the proof changed": (_set("proof", 0, to=other), "inclusion"),
    "the last hash of the proof changed": (_set("proof", -1, to=other), "inclusion"),
    "the proof cut": (lambda data: data["proof"].pop(), "inclusion"),
    "the proof too long": (lambda data: data["proof"].append("0" * 64), "inclusion"),
    "no proof": (lambda data: data.update(proof=[]), "inclusion"),
    "the proof in another order": (lambda data: data["proof"].reverse(), "inclusion"),
    "another number": (lambda data: data["records"][-1].update(seq=32), "records"),
    "stages reordered": (_swap, "records"),
    "stages exchanged": (_renumbered, "refuted"),
    "a record twice": (lambda data: data["records"].append(data["records"][-1]), "records"),
    "an extra record of the log": (_extra, "records"),
    "no first record": (_without("PoolCreated"), "records"),
    "no start of the writer": (_without("WriterStarted"), "records"),
    "no policy": (_without("PolicyApplied"), "records"),
    "no submission": (_without(SIGNED), "records"),
    "no request": (_without("PreemptionRequested"), "decision"),
    "no proposal": (_without("ProposalReceived"), "decision"),
    "no decision": (_without("PreemptionDecided"), "records"),
    "no outcome": (_without("JobRequeued"), "inclusion"),
    "no outcome, and another proof": (_proven_without(_without("JobRequeued")), ""),
    "the middle of a cycle left out": (_without("JobPending"), "writer"),
    "a victim whose submission is missing": (lambda data: data["victims"].append("train-2"), "records"),
    "a victim of nobody": (lambda data: data["victims"].append("train-9"), "records"),
    "a victim twice": (lambda data: data["victims"].append("train-1"), "decision"),
    "a victim that is the preemptor": (_set("victims", to=["serve-1"]), "decision"),
    "no victim": (_set("victims", to=[]), "unreadable"),
    "another decision": (_set("decision", to=13), "records"),
    "another pool": (_set("pool", to="pool-b"), "records"),
    "a later format": (_set("receipt_version", to=3), "unreadable"),
    "an unknown member": (_set("note", to="x"), "unreadable"),
    "a member of the wrong type": (_set("decision", to="15"), "unreadable"),
    "a member that is null": (_set("decision", to=None), "unreadable"),
    "a name that is markup": (_set("victims", 0, to="</script><script>alert(1)</script>"), "unreadable"),
    "no records": (_set("records", to=[]), "unreadable"),
    "a stage left out": (_without("EvictionStageReached"), "inclusion"),
    "a stage left out, and another proof": (_proven_without(_without("EvictionStageReached")), ""),
    "no witness": (_set("cosignatures", to=[]), ""),
    "a witness that nobody knows": (_cosigned_by_a_stranger, ""),
    "a witness of another size": (_cosigned_another_size, "cosignatures"),
    "a cosignature changed": (_noted(lambda text: text[:-8] + other(text[-8:])), "cosignatures"),
    "a cosignature stripped": (_noted(lambda text: text[: text.rindex("—")]), "cosignatures"),
    "a cosigner's key changed": (_set("cosignatures", 0, "witness", to=lambda text: text[:-1] + "J"), "cosignatures"),
    "a price, sealed again": (_resealed(_value("PreemptionDecided", '"lost_gpu_ms":1', '"lost_gpu_ms":2')), "writer"),
    "a job's demand, sealed again": (_resealed(_value(SIGNED, '"gpu_milli":4000', '"gpu_milli":8000')), "writer"),
    "a signed job's demand, sealed again": (_resealed(_value(SIGNED, '"gpu_milli":4000', '"gpu_milli":8000')), "requesters"),
    "a signature stripped, sealed again": (_resealed(lambda data: header(at(data, SIGNED), "ce_request", None)), "requesters"),
    "what was signed replaced, sealed again": (_resealed(_signed_data_replaced), "requesters"),
    "a signature stripped without a trace, sealed again": (_resealed(_stripped), "requesters"),
    "another user, sealed again": (_resealed(_value(SIGNED, '"user":"ada"', '"user":"eve"')), "requesters"),
    "another actor, sealed again": (_resealed(lambda data: header(at(data, SIGNED), "ce_actor", "eve")), "requesters"),
    "a policy's keys, sealed again": (_resealed(_value("PolicyApplied", '"ada"', '"eve"')), "requesters"),
    "a stage of another attempt, sealed again": (_resealed(_value("EvictionStarted", '"attempt":1', '"attempt":2')), "stages"),
    "another decision's stage, sealed again": (
        _resealed(_value("EvictionStarted", '"decided_by":15', '"decided_by":9')),
        "stages",
    ),
    "another certificate, sealed again": (_resealed(_value("WriterStarted", '"role":"admission"', '"role":"auditor"')), "writer"),
    "another root key, sealed again": (_resealed(_value("PoolCreated", key_id(ROOT), key_id(STRANGER))), "writer"),
    "a request of another job, sealed again": (_resealed(_value("PreemptionRequested", "serve-1", "serve-2")), "decision"),
    "a proposal for another job, sealed again": (
        _resealed(_value("ProposalReceived", '"job":"serve-1"', '"job":"serve-2"')),
        "decision",
    ),
    "sealed again by a stranger": (_resealed(lambda _: None, STRANGER), ""),
    "sealed again as another log": (_resealed(lambda _: None, identity="0" * 64), "seal"),
    "a checkpoint in the name of another log": (_checkpoint_of("bailiff/pool-b/" + "0" * 64), "seal"),
    "a checkpoint after so many losses that nobody can count them": (_checkpoint_of(None, "/1" + "0" * 5000), "seal"),
    "a signature of a name that two readers may read differently": (
        _noted(lambda text: f"{text}— w\u00e9 AAAAAAAA\n"),
        "cosignatures",
    ),
    "tasks without end": (
        _value("PreemptionDecided", '"job":"train-1",', '"job":"train-1","tasks":"0-9007199254740991",'),
        "records",
    ),
    "written anew by its writer": (_rewritten(lambda _: None), ""),
    "a demand, written anew by its writer": (_rewritten(_value(SIGNED, '"gpu_milli":4000', '"gpu_milli":8000')), "requesters"),
    "a grace, written anew by its writer": (_rewritten(_value(SIGNED, '"demand":{', '"demand":{"grace":1,')), "requesters"),
    "an expired certificate": (_rewritten(_certificate(expires=NEW_YEAR + SECOND)), "writer"),
    "a certificate of another role": (_rewritten(_certificate(role="auditor")), "writer"),
    "a certificate of another pool": (_rewritten(_certificate(pool="pool-b")), "writer"),
    "a writer's key that was revoked": (_rewritten(_as("KeyRevoked", _revoked_writer), also=3), "writer"),
    "a user's key that was revoked": (_rewritten(_as("KeyRevoked", lambda: _revoked(key_id(USER))), also=3), "requesters"),
    "another root key that nobody signed": (_rewritten(_as("RootKeyChanged", _root_changed), also=3), "writer"),
    "a stage before the decision": (
        _rewritten(_as("EvictionStarted", {"attempt": 1, "decided_by": 15, "job": "train-1"}), also=3),
        "stages",
    ),
    "a policy in between": (_rewritten(_as("PolicyApplied", _another_policy), also=3), "requesters"),
    "another pool of the same name": (_of_another_pool, ""),
}
"""Name: the change, and the check that finds it; `refuted` where several may, empty where nothing is wrong in the file itself."""

PINNED: dict[str, str] = {
    "sealed again by a stranger": "trust",
    "another pool of the same name": "trust",
    "a witness that nobody knows": "trust",
    "no witness": "trust",
}
"""Alterations that only the reader's own keys find."""
KNOWN = {"root": key_id(ROOT), "sealing": key_id(SEALER), "witness": str(WITNESS_KEY)}


@cache
def usual_text() -> str:
    """The receipt of train-1."""
    return _now(usual())


@cache
def forged_text() -> str:
    """The receipt of the same preemption in a pool of somebody else."""
    with TemporaryDirectory() as folder:
        story = SignedStory(Path(folder), root=STRANGER)
    preempted(story)
    return _now(sealed(story, witnesses=0))


def _now(log: SealedStory) -> str:
    """In a loop of its own: the test may have one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(collect(log.source, "train-1"))).result().receipt.to_text()


MALFORMED: list[Callable[[str], str]] = [
    lambda text: text + " ",
    lambda text: text.replace(":", ": ", 1),
    lambda text: text.replace('"decision":15', '"decision":15,"decision":15'),
    lambda text: text.replace('"decision":15', '"decision":15.0'),
    lambda text: text.replace('"decision":15', '"decision":1e400'),
    lambda text: text.replace('"decision":15', '"decision":-0'),
    lambda text: text.replace('"decision":15', '"decision":NaN'),
    lambda text: text.replace('"previous_size":6', '"previous_size":0'),
    lambda text: text.replace('"seal":{', '"seal":{"a":1,'),
    lambda text: text.replace("pool-a", "pool-\\u0061", 1),
    lambda text: text.replace("serve-1", "\\ud800", 1),
    lambda text: text.replace("serve-1", "serve\\/1", 1),
    lambda text: text[:-1],
    lambda text: "[" * 100_000,
    lambda text: "",
    lambda text: "null",
    lambda text: "[1]",
    lambda text: text.replace('"victims":["train-1"]', '"victims":"train-1"'),
    lambda text: text.replace('"proof":[', '"proof":["A",', 1),
    _headers_written(lambda headers: headers.insert(0, 0)),
    _headers_written(lambda headers: headers.insert(0, -1)),
    _headers_written(lambda headers: headers.insert(0, True)),
    _headers_written(lambda headers: headers.append(40)),
    _headers_written(lambda headers: headers.append(64)),
    _headers_written(lambda headers: headers.append(2**60)),
    _headers_written(lambda headers: headers.__setitem__(slice(0, 1), ["1.0"])),
    _headers_written(lambda headers: headers.__setitem__(slice(0, 1), [["ce_specversion", "1.0"]])),
    _headers_written(lambda headers: headers.__setitem__(slice(2, 3), [1, headers[2] - 1])),
    _headers_written(lambda headers: headers.clear() or headers.extend([["a", "b"]] * 65)),
]
"""JSON that two readers may read differently, or that is no receipt."""
