"""`bailiff audit verify --witnesses`: tails cut with their seals, older copies and other histories are found and named."""

import asyncio
from pathlib import Path

import pytest
from tests.kits.cosigned_log import BOTH, END, FORK, KEY, KEYS, LOG, NAMES, NOW, OTHER, OURS, SAME, SIZES, SealedLog
from tests.kits.memory_bus import MemoryCluster
from typer.testing import CliRunner

from bailiff import Client
from bailiff.audit.cosignatures import newest_cosignatures
from bailiff.audit.log_files import write_log
from bailiff.audit.log_sources import from_file
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.segments import seal_to
from bailiff.audit.verify import Verified, verified
from bailiff.cli import app
from bailiff.cli.audit.verify import witness_addresses
from bailiff.client.errors import ClientError, ExitCode
from bailiff.doctor.checks import cosignature_checks
from bailiff.witness.witnesses import WitnessAddress
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.seals import CheckpointCosigned, CheckpointRefused, LogSealed
from bailiff_core.records import Wire
from bailiff_core.records.merkle import Frontier, leaf_hash
from bailiff_log.checkpoints import cosign, witness_key
from bailiff_log.cosignatures import MAX_WITNESSES, signed_refusal
from bailiff_log.seals import SealBody, make_invalidation, make_key, make_seal
from bailiff_log.signed_notes import Note, NoteKey

W1, W2 = [BOTH[0]], [BOTH[1]]


def problems(found: Verified) -> str:
    """The problems of a log that is otherwise whole."""
    assert found["broken"] is None
    assert not found["seal_problem"]
    assert found["ok"] == (not found["witnesses"]["problems"])
    return "; ".join(found["witnesses"]["problems"])


async def test_a_log_that_enough_witnesses_cosigned_is_verified(tmp_path: Path) -> None:
    cosigned = LOG.cosigned_by(tmp_path, "w1", "w2")
    found = await verified(LOG.source(cosigned=cosigned), (), 2, BOTH)
    assert problems(found) == ""
    assert found["witnesses"] == {
        "wanted": 2,
        "cosigned": END,
        "by": ["w1", "w2"],
        "at": "2027-01-15T08:00:00.000000Z",
        "named": True,
        "unsealed": False,
        "problems": [],
    }


async def test_the_position_is_the_newest_that_so_many_cosigned(tmp_path: Path) -> None:
    cosigned = LOG.cosigned_by(tmp_path, "w1") + LOG.cosigned_by(tmp_path, "w2", until=SAME - 1)
    for wanted, position in ((0, END), (1, END), (2, SAME - 1)):
        found = await verified(LOG.source(cosigned=cosigned), (), wanted, BOTH)
        assert problems(found) == ""
        assert found["witnesses"]["cosigned"] == position


async def test_too_few_witnesses_are_a_failure(tmp_path: Path) -> None:
    cosigned = LOG.cosigned_by(tmp_path, "w1")
    assert "1 of 2 wanted witnesses" in problems(await verified(LOG.source(cosigned=cosigned), (), 2, BOTH))
    assert "0 of 1 wanted witnesses" in problems(await verified(LOG.source(cosigned=cosigned), (), 1, W2))
    again = [*cosigned, *cosigned]
    assert "1 of 2 wanted witnesses" in problems(await verified(LOG.source(cosigned=again), (), 2, BOTH))


@pytest.mark.parametrize("witnesses", [W1, []], ids=["key given", "key not given"])
async def test_a_tail_that_was_cut_together_with_its_seals_is_found(witnesses: list[WitnessAddress], tmp_path: Path) -> None:
    cut = LOG.source(END - 2, LOG.cosigned_by(tmp_path, "w1"))
    found = await verified(cut, (), len(witnesses), witnesses)
    assert problems(found) == (
        f"w1 cosigned {END} records at 2027-01-15T08:00:00.000000Z, but the log ends with record {END - 3}: "
        f"its tail was cut, or it is an older copy; the last cosigned position that this log has is {END - 2}"
    )
    assert (await verified(LOG.source(END - 2)))["ok"]  # without witnesses nothing is missing


async def test_no_message_of_others_hides_a_refusal_from_doctor(tmp_path: Path) -> None:
    """Neither what the witness cosigned before, sent again, nor what it never cosigned, nor any number of invented witnesses."""
    *_, before, newest = LOG.cosigned_by(tmp_path, "w1")
    reason = "the seals end with 5 records"
    refusal = CheckpointRefused(witness=newest.witness, cosigned=newest.checkpoint, reason=reason, refused_at=1)
    unsigned = refusal.model_copy(update={"reason": "invented"})
    refusal = signed_refusal(refusal, "pool-a", NAMES["w1"])
    invented = [
        CheckpointCosigned(witness=str(key), checkpoint=note)
        for key, note in (invented_cosignature(number) for number in range(2 * MAX_WITNESSES))
    ]
    forged = CheckpointCosigned(witness=newest.witness, checkpoint=newest.checkpoint.replace("— w1 ", "— w1 A"))
    cluster = MemoryCluster(lambda: NOW)
    cluster.create_topics(1)
    for body in (before, newest, refusal, newest, before, forged, unsigned, *invented):
        headers, value = wrap(body, source="/test", id="1", pool="pool-a", time_us=NOW)
        cluster.store(topics.COSIGNATURES.name, 0, b"pool-a", headers, value)
    async with Client(cluster.client("c"), source="test") as client:
        more, first, *others = [check async for check in cosignature_checks(client, "pool-a")]
    assert (first["status"], refusal.reason in first["found"]) == ("wrong", True)
    assert (more["status"], more["found"].startswith(f"{MAX_WITNESSES + 1} more")) == ("warn", True)
    assert {check["status"] for check in others} == {"ok"}


async def test_doctor_shows_named_witnesses_before_any_number_of_others_and_misses_silent_ones(tmp_path: Path) -> None:
    *_, newest = LOG.cosigned_by(tmp_path, "w1")
    cluster = MemoryCluster(lambda: NOW)
    cluster.create_topics(1)
    for number in range(2 * MAX_WITNESSES):
        key, note = invented_cosignature(number)
        body = CheckpointRefused(witness=str(key), cosigned=note, reason="invented", refused_at=1)
        headers, value = wrap(
            signed_refusal(body, "pool-a", bytes([number]) * 32), source="/test", id="1", pool="pool-a", time_us=NOW
        )
        cluster.store(topics.COSIGNATURES.name, 0, b"pool-a", headers, value)
    headers, value = wrap(newest, source="/test", id="1", pool="pool-a", time_us=NOW)
    cluster.store(topics.COSIGNATURES.name, 0, b"pool-a", headers, value)
    named = {str(KEYS["w1"]), str(KEYS["w2"])}
    async with Client(cluster.client("c"), source="test") as client:
        before = [check["found"] async for check in cosignature_checks(client, "pool-a", named)]
        assert not [text for text in before if "w2" in text], "before the first seal nobody is missed"
        cluster.store(topics.SEALS.name, 0, b"pool-a", (), b"{}")
        found = [check async for check in cosignature_checks(client, "pool-a", named)]
    missed, more, own, *others = found
    assert (missed["status"], missed["found"].startswith("w2 has cosigned nothing")) == ("warn", True)
    assert more["found"].startswith(f"{MAX_WITNESSES} more keys")
    assert (own["status"], own["found"]) == ("ok", f"w1 cosigned the first {END} records, 0ms ago")
    assert len(others) == MAX_WITNESSES


def invented_cosignature(number: int) -> tuple[NoteKey, str]:
    """A key that anybody can make, and a checkpoint that it cosigned."""
    private = bytes([number]) * 32
    key, checkpoint = witness_key(f"invented-{number}", private), LOG.seals[-1]
    assert isinstance(checkpoint, LogSealed)
    note = Note.parse(checkpoint.checkpoint)
    return key, str(note.with_signatures([cosign(note.text, key, private, NOW // 1_000_000)]))


@pytest.mark.parametrize("witnesses", [W1, []], ids=["key given", "key not given"])
async def test_another_history_with_seals_of_its_own_is_found(witnesses: list[WitnessAddress], tmp_path: Path) -> None:
    fork = OTHER.source(cosigned=LOG.cosigned_by(tmp_path, "w1"))
    found = await verified(fork, (), len(witnesses), witnesses)
    assert f"w1 cosigned another history: the first {END - 2} records have another root" in problems(found)
    assert f"the last cosigned position that this log has is {SAME - 1}" in problems(found)


async def test_two_witnesses_that_were_shown_two_histories_are_found(tmp_path: Path) -> None:
    cosigned = LOG.cosigned_by(tmp_path, "w1") + OTHER.cosigned_by(tmp_path, "w2")
    assert "w2 cosigned another history" in problems(await verified(LOG.source(cosigned=cosigned), (), 2, BOTH))
    assert "w1 cosigned another history" in problems(await verified(OTHER.source(cosigned=cosigned), (), 2, BOTH))


async def test_another_log_in_the_pool_s_name_is_found(tmp_path: Path) -> None:
    first = dict(OURS[0].headers) | {"ce_time": b"2025-12-31T00:00:00.000000Z"}
    other = SealedLog([Wire(tuple(first.items()), OURS[0].value)], (1,))
    found = await verified(other.source(1, LOG.cosigned_by(tmp_path, "w1")), (), 1, W1)
    assert f"w1 cosigned another log of pool-a, {LOG.hashes[0][:16]}…" in problems(found)


async def test_cosignatures_that_anybody_made_accuse_nobody(tmp_path: Path) -> None:
    forged = OTHER.cosigned_by(tmp_path, "w2")
    unsigned = [
        each.model_copy(update={"checkpoint": each.checkpoint.replace("\u2014 bailiff/pool-a/", "\u2014 bailiff/pool-b/")})
        for each in forged
    ]
    garbage = [
        CheckpointCosigned(witness="w+0+0", checkpoint="x"),
        CheckpointCosigned(witness=str(KEYS["w1"]), checkpoint="x\n\nx\n"),
    ]
    for cosigned, witnesses in ((unsigned, []), (forged, W1), (garbage, W1), (garbage, [])):
        found = await verified(LOG.source(cosigned=cosigned), (), 0, witnesses)
        assert problems(found) == ""
        assert found["witnesses"]["cosigned"] == 0


async def test_an_accepted_loss_is_not_a_cut_tail(tmp_path: Path) -> None:
    cosigned = LOG.cosigned_by(tmp_path, "w1")
    valid, lost = LOG.seals[2], LOG.seals[3]
    assert isinstance(valid, LogSealed)
    assert isinstance(lost, LogSealed)
    accepted = make_invalidation(KEY, "pool-a", valid.identity, valid, lost, END - 1, "a disk failed", NOW)
    source = LOG.source(END - 2, cosigned)
    source.seals = [*LOG.seals, accepted]
    found = await verified(source, (), 1, W1)
    assert problems(found) == ""
    assert found["witnesses"]["cosigned"] == END - 2


async def test_an_exported_file_and_folder_are_verified_with_their_cosignatures(tmp_path: Path) -> None:
    cosigned = LOG.cosigned_by(tmp_path, "w1")
    file, folder = tmp_path / "log.jsonl", tmp_path / "segments"
    seals = [seal_to(each) for each in LOG.seals]
    for records in (END, END - 2):
        source = LOG.source(records)
        with file.open("w", encoding="utf-8") as out:
            newest = [each.to_data() for each in newest_cosignatures(cosigned)]
            await write_log(out, "pool-a", 0, source.messages, seals if records == END else seals[:-1], newest)
        found = await verified(from_file(file), (), 1, W1)
        assert found["ok"] == (records == END)
    source = LOG.source()
    await write_segments(folder, SAME - 1, source.start, source.tree, 0, source.messages, source.seals, cosigned)
    found = await verified(from_file(folder), (), 1, W1)
    assert problems(found) == ""
    assert found["witnesses"]["cosigned"] == SAME - 1


@pytest.mark.parametrize("due", [True, False])
async def test_before_the_first_seal_verify_says_when_it_is_due(
    due: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an exit code of its own: nothing is wrong, and nothing is cosigned."""
    file, source = tmp_path / "log.jsonl", LOG.source(SAME - 2)
    with file.open("w", encoding="utf-8") as out:
        await write_log(out, "pool-a", 0, source.messages, [], [])
    found = await verified(from_file(file), (), 1, W1)
    assert (found["ok"], found["witnesses"]["unsealed"], found["witnesses"]["problems"]) == (False, True, [])
    monkeypatch.setattr("bailiff.audit.log_sources.time_ns", lambda: (NOW + (120 if due else 420) * 1_000_000) * 1000)
    options = ("audit", "verify", "--file", str(file), "--witnesses", "1", "--witness-key", str(KEYS["w1"]))
    said = await asyncio.to_thread(CliRunner().invoke, app, options)
    assert said.exit_code == ExitCode.NOT_FOUND
    assert "pool-a: the chain is unbroken" in said.stdout
    assert "pool-a has no seal yet" in said.stderr
    assert ("is due in 3m" if due else "was due 2m ago: see that the auditor runs") in said.stderr
    foreign = await verified(from_file(file), (), 1, W1, root="another")
    assert not foreign["witnesses"]["unsealed"], "a log that is wrong is not called unsealed"


def test_more_witnesses_than_keys_are_refused() -> None:
    with pytest.raises(ClientError, match="1 witnesses are known"):
        witness_addresses([str(KEYS["w1"]), str(KEYS["w1"])], 2)
    with pytest.raises(ClientError, match="not a key"):
        witness_addresses(["w1"], 0)
    assert witness_addresses([f"{KEYS['w1']} https://w1.example/"], 1)[0].url == "https://w1.example"


FOREIGN = b"\x41" * 32


def foreign_seals(log: SealedLog) -> list[SealBody]:
    """What somebody without the log's key may publish: a key, a handover that it did not sign, seals, an invalidation."""
    identity, tree = log.hashes[0], Frontier()
    tree.extend([leaf_hash(bytes.fromhex(each)) for each in log.hashes[: SIZES[0]]])
    theirs = make_seal(FOREIGN, "pool-a", identity, tree, log.hashes[0], NOW, 0, Frontier())
    honest = [seal for seal in log.seals if isinstance(seal, LogSealed)]
    handover = make_key(FOREIGN, "pool-a", identity, KEY)
    return [
        make_key(FOREIGN, "pool-a", identity),
        handover.model_copy(update={"signature": "A" * 86}),
        theirs,
        theirs.model_copy(update={"key": honest[0].key}),  # in the log's name, with their signature
        honest[-1].model_copy(update={"checkpoint": theirs.checkpoint}),
        make_key(FOREIGN, "pool-a", "0" * 64),
        make_invalidation(FOREIGN, "pool-a", identity, None, honest[-1], 1, "lost", NOW),
    ]


async def test_what_the_trusted_key_never_vouched_for_is_ignored() -> None:
    log = SealedLog(OURS)
    trusted = log.seals[0].key
    foreign = foreign_seals(log)
    log.seals = [foreign[0], *log.seals, *foreign[1:]]
    found = await verified(log.source(), (trusted,))
    assert (found["ok"], found["seal_problem"], found["sealed"]) == (True, "", END)
    assert found["seals_ignored"] == len(foreign)
    assert not (await verified(log.source()))["ok"]  # without it the first key that was published counts


async def test_a_cut_tail_is_found_among_foreign_seals() -> None:
    log = SealedLog(OURS)
    source = log.source(END - 2)
    source.seals = [*foreign_seals(log), *log.seals]
    found = await verified(source, (log.seals[0].key,))
    assert "the log ends at record" in found["seal_problem"]


async def test_a_second_history_signed_with_the_log_s_key_is_not_ignored() -> None:
    log, fork = SealedLog(OURS), SealedLog(FORK)
    log.seals += fork.seals[1:]
    assert "different roots" in (await verified(log.source(), (log.seals[0].key,)))["seal_problem"]
