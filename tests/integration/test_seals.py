"""Seals of the auditor, on a real PostgreSQL: published, continued, rejected if the key is unknown, verified against the log."""

import json
from pathlib import Path

import pytest
from tests.bench.synthetic import long_log
from tests.kits.archive import Auditor, Log, archived, query

from bailiff.audit import proofs
from bailiff.audit.chain_report import verify
from bailiff.audit.log_sources import Source, from_archive, from_file
from bailiff.audit.replay import replay
from bailiff.audit.segment_writer import write_segments
from bailiff.audit.verify import verified
from bailiff.client.errors import ClientError
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.seals import LogSealed, SealingKey
from bailiff_core.records import ChainHead
from bailiff_core.records.merkle import Frontier, subtrees_of
from bailiff_log.chain_verifier import Verification
from bailiff_log.keys import make_private_key
from bailiff_log.seals import (
    SealChain,
    SealVerifier,
    VerificationFailed,
    chain_of_bodies,
    check_proof,
    make_key,
    make_proof,
    make_seal,
    parse_seal,
)

WIRES = long_log(700)[:700]
OFTEN = {"seal_records": 100, "seal_seconds": 3600}
THEIRS = b"\x07" * 32  # another private key


async def given(messages):
    for message in messages:
        yield message


def published(log: Log) -> list[LogSealed | SealingKey]:
    return [body for message in log.seals() if (body := parse_seal(message, log.pool)) is not None]


def verified_seals(log: Log, trusted: tuple[str, ...] = ()) -> SealChain:
    chain = SealChain(log.pool, frozenset(trusted))
    for body in published(log):
        chain.take(body)
    return chain


async def test_each_seal_continues_the_previous_one_of_any_auditor(database: str, tmp_path: Path) -> None:
    log = Log()
    key = tmp_path / "key"
    make_private_key(key)
    for begin, end, every in ((0, 150, 3600), (150, 420, 0.001), (420, 700, 3600)):
        log.append(WIRES[begin:end])
        due = end if every < 1 else end // 100 * 100
        settings = {"seal_records": 100, "seal_seconds": every}
        async with Auditor(log, database, tmp_path / f"{begin}", seal_key=key, **settings).running() as auditor:
            await auditor.until("it is archived and sealed", lambda size=due: auditor.value("bailiff_sealed_records") == size)
    chain = verified_seals(log)
    assert len(chain.keys) == 1
    assert [seal.size for seal in chain.seals] == [
        100,
        200,
        300,
        400,
        420,
        500,
        600,
        700,
    ]  # at each multiple, and after the interval
    found = await verify(log.pool, given(log.messages()), SealVerifier(chain))
    assert found["ok"]
    assert (found["seals"], found["sealed"]) == (8, 700)
    rows = await query(database, "SELECT size FROM seal_list ORDER BY size")
    assert [row["size"] for row in rows] == [seal.size for seal in chain.seals]


async def test_a_restart_does_not_put_the_first_seal_off(database: str, tmp_path: Path) -> None:
    """The log began more than `seal_seconds` ago: who waits for a proof has waited enough."""
    log = Log()
    log.wait(seconds=-10 * 365 * 86400)  # the broker's clock of the tests is ahead of the auditor's
    log.append(WIRES[:50])
    async with Auditor(log, database, tmp_path, **OFTEN).running() as auditor:
        await auditor.until("it is archived", lambda: auditor.value("bailiff_archive_head_seq") == 49)
        assert not verified_seals(log).seals
    async with Auditor(log, database, tmp_path, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 50)


async def test_a_seal_whose_auditor_died_before_storing_it_is_found_and_continued(database: str, tmp_path: Path) -> None:
    log = Log()
    log.append(WIRES[:200])
    key = tmp_path / "key"
    make_private_key(key)
    async with Auditor(log, database, tmp_path / "a", seal_key=key, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 200)
    await query(database, "DELETE FROM seals")
    await query(database, "UPDATE pools SET seals_offset = 0")
    log.append(WIRES[200:320])
    async with Auditor(log, database, tmp_path / "b", seal_key=key, **OFTEN).running() as other:
        await other.until("it is sealed on", lambda: other.value("bailiff_sealed_records") == 300)
    assert [seal.size for seal in verified_seals(log).seals] == [100, 200, 300]
    assert [row["size"] for row in await query(database, "SELECT size FROM seals ORDER BY size")] == [100, 200, 300]


async def test_a_new_key_seals_once_the_old_one_has_signed_it_and_not_before(database: str, tmp_path: Path) -> None:
    log = Log()
    old, new = tmp_path / "old", tmp_path / "new"
    make_private_key(old)
    make_private_key(new)
    log.append(WIRES[:150])
    async with Auditor(log, database, tmp_path / "a", seal_key=old, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 100)
    log.append(WIRES[150:300])
    async with Auditor(log, database, tmp_path / "b", seal_key=new, **OFTEN).running() as strange:
        await strange.until("it is archived", lambda: strange.value("bailiff_archive_head_seq") == 299)
        await strange.until("the strange key is refused", log.alarms)
    assert log.alarms() == ["seal-key-unknown"]
    assert len(published(log)) == 2
    async with Auditor(log, database, tmp_path / "c", seal_key=new, seal_key_before=old, **OFTEN).running() as rotated:
        await rotated.until("it is sealed with the new key", lambda: rotated.value("bailiff_sealed_records") == 300)
    chain = verified_seals(log)
    assert len(chain.keys) == 2
    assert [seal.key for seal in chain.seals] == [chain.keys[0], chain.keys[1], chain.keys[1]]
    verified_seals(log, trusted=(chain.keys[0],))
    with pytest.raises(VerificationFailed, match="not a trusted key"):
        verified_seals(log, trusted=("A" * 43,))

    first, second = chain.keys  # a proof under the second key can be verified by trusting the first only, and vice versa
    source = Source(log.pool, 0, lambda: given(log.messages()), published(log), ChainHead(log.pool))
    proof = await proofs.prove(source, 250, chain.seals[2], chain.key_messages)
    assert check_proof(json.dumps(proof), [first]).keys == [first, second]
    assert check_proof(json.dumps(proof), [second]).keys == [second]
    with pytest.raises(VerificationFailed, match="not a trusted key"):
        check_proof(json.dumps(proof), ["A" * 43])
    others = [make_key(each, log.pool, chain.identity, before) for each, before in ((THEIRS, None), (THEIRS, THEIRS))]
    for handovers in (
        proof["keys"][:1],
        proof["keys"][1:],
        [proof["keys"][0], proof["keys"][1] | {"signature": "A" * 86}],
        [proof["keys"][0], others[1].to_data()],
        [*proof["keys"], others[0].to_data()],
        [proof["keys"][0] | {"identity": "00" * 32}, proof["keys"][1]],
        None,
    ):
        with pytest.raises(VerificationFailed):
            check_proof(json.dumps(proof | {"keys": handovers}), [first])


async def test_an_old_copy_of_the_archive_seals_nothing_before_it_has_caught_up(database: str, tmp_path: Path) -> None:
    log, key = Log(), tmp_path / "key"
    make_private_key(key)
    log.append(WIRES[:300])
    async with Auditor(log, database, tmp_path / "a", seal_key=key, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 300)
    await query(database, "TRUNCATE pools, records, jobs, attempts, evictions CASCADE")
    log.append(WIRES[300:450])
    async with Auditor(log, database, tmp_path / "b", seal_key=key, **OFTEN).running() as restored:
        await restored.until("it is sealed on", lambda: restored.value("bailiff_sealed_records") == 400)
        await restored.until("all is archived", lambda: restored.value("bailiff_archive_head_seq") == 449)
    assert [seal.size for seal in verified_seals(log).seals] == [100, 200, 300, 400]
    assert await archived(database) == log.messages()


async def test_a_tampered_archive_is_not_sealed_any_more(database: str, tmp_path: Path) -> None:
    log, key = Log(), tmp_path / "key"
    make_private_key(key)
    log.append(WIRES[:300])
    async with Auditor(log, database, tmp_path / "a", seal_key=key, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 300)
    await query(database, "UPDATE records SET hash = sha256(hash) WHERE seq = 150")
    await query(database, "DELETE FROM seals WHERE size > 100")  # so that the database stays consistent
    await query(database, "UPDATE pools SET seals_offset = 0")
    log.append(WIRES[300:450])
    async with Auditor(log, database, tmp_path / "b", seal_key=key, **OFTEN).running() as later:
        await later.until("all is archived", lambda: later.value("bailiff_archive_head_seq") == 449)
    assert log.alarms() == ["archive-not-sealed"]
    assert [seal.size for seal in verified_seals(log).seals] == [100, 200, 300]


async def test_a_seal_by_another_key_raises_an_alarm_and_is_skipped(database: str, tmp_path: Path) -> None:
    log, key = Log(), tmp_path / "key"
    make_private_key(key)
    log.append(WIRES[:150])
    async with Auditor(log, database, tmp_path / "a", seal_key=key, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: auditor.value("bailiff_sealed_records") == 100)
    ours = verified_seals(log).seals[0]
    for number, forged in enumerate(
        (
            ours.model_copy(update={"size": 120}),  # with a signature of other content
            make_seal(THEIRS, log.pool, ours.identity, Frontier(1, [b"\0" * 32]), ours.hash, ours.sealed_at),
            make_key(THEIRS, log.pool, ours.identity, THEIRS),
        )
    ):
        headers, value = wrap(forged, source="/elsewhere", id=f"{number}", pool=log.pool, time_us=ours.sealed_at)
        log.cluster.store(topics.SEALS.name, 0, log.pool.encode(), headers, value)
    log.append(WIRES[150:300])
    async with Auditor(log, database, tmp_path / "b", seal_key=key, **OFTEN).running() as later:
        await later.until("it seals again", lambda: later.value("bailiff_sealed_records") == 300)
    assert set(log.alarms()) == {"seal-foreign"}
    assert [row["size"] for row in await query(database, "SELECT size FROM seals ORDER BY size")] == [100, 200, 300]
    with pytest.raises(VerificationFailed):  # a reader of the topic gets an error
        verified_seals(log)


async def sealed_log(database: str, folder: Path, wires=WIRES) -> tuple[Log, str]:
    """A log with seals over all of it, archived; and the key's public half."""
    log, key = Log(), folder / "key"
    make_private_key(key)
    for begin in range(0, len(wires), 350):
        log.append(wires[begin : begin + 350])
        size = min(len(wires), begin + 350)
        async with Auditor(log, database, folder / f"{begin}", seal_key=key, seal_records=350).running() as auditor:
            await auditor.until("it is sealed", lambda size=size: auditor.value("bailiff_sealed_records") == size)
    return log, verified_seals(log).keys[0]


async def test_a_proof_holds_by_itself_and_no_changed_one_does(database: str, tmp_path: Path) -> None:
    log, key = await sealed_log(database, tmp_path)
    seals = published(log)
    chain = verified_seals(log)
    for seq in (0, 123, 349, 350, 699):
        seal = next(each for each in chain.seals if each.size > seq)
        source = Source(log.pool, 0, lambda: given(log.messages()), seals, ChainHead(log.pool))
        proof = await proofs.prove(source, seq, seal)
        proved = check_proof(json.dumps(proof), [key])
        assert (proved.seq, proved.wire.value) == (seq, log.messages()[seq].value)
        file = tmp_path / "proof.json"
        file.write_text(json.dumps(proof))
        assert proofs.checked(file, [key])["ok"]
        assert not proofs.checked(file, ["A" * 43])["ok"]
        for changed in tampered(proof):
            with pytest.raises(VerificationFailed):
                check_proof(json.dumps(changed))


def tampered(proof):
    """The proof with one change each."""
    value = proof["value"]
    yield proof | {"value": value[:-6] + ("AAAA" if value[-6:-2] != "AAAA" else "BBBB") + value[-2:]}
    yield proof | {"seq": proof["seq"] + 1}
    yield proof | {"pool": "pool-b"}
    yield proof | {"path": [*proof["path"], "00" * 32]}
    yield proof | {"path": ["00" * 32, *proof["path"][1:]]}
    yield proof | {"headers": [*proof["headers"], ["ce_more", ""]]}
    yield {name: part for name, part in proof.items() if name != "path"}
    for name, other in (("size", proof["seal"]["size"] + 1), ("root", "00" * 32), ("sealed_at", 1), ("key", "A" * 43)):
        yield proof | {"seal": proof["seal"] | {name: other}}


async def test_exported_segments_can_be_verified_years_later_by_themselves(database: str, tmp_path: Path) -> None:
    log, key = await sealed_log(database, tmp_path)
    folder = tmp_path / "kept"
    async with from_archive(database, None) as source:
        written = await write_segments(folder, 128, source.start, source.tree, 0, source.messages, source.seals)
    assert [segment.first_seq for segment in written] == [0, 128, 256, 384, 512]
    async with from_archive(database, None) as source:
        again = await write_segments(folder, 128, source.start, source.tree, 0, source.messages, source.seals)
    assert again == []
    found = await verify_folder(folder, key)
    assert (found["ok"], found["records"], found["sealed"]) == (True, 640, 640)
    replayed = await replay(log.pool, lambda: from_file(folder).messages)
    assert (replayed["ok"], replayed["records"]) == (True, 640)
    assert [message.value for message in log.messages()[:640]] == [each.value async for each in from_file(folder).messages]


async def verify_folder(folder: Path, key: str) -> Verification:
    """As `bailiff audit verify --file FOLDER --trust KEY`."""
    return await verified(from_file(folder), [key])


@pytest.mark.parametrize(("size", "seals"), [(100, 1), (175, 1), (350, 1), (300, 2)])
async def test_a_folder_whose_next_seal_is_beyond_it_is_verified_with_that_seal(
    size: int, seals: int, database: str, tmp_path: Path
) -> None:
    log, key = await sealed_log(database, tmp_path)
    folder = tmp_path / "kept"
    upto = 350 * seals
    sealed = [body for body in published(log) if isinstance(body, SealingKey) or body.size <= upto]
    await write_segments(folder, size, ChainHead(log.pool), Frontier(), 0, given(log.messages()), sealed)
    found = await verify_folder(folder, key)
    covered = upto // size * size
    assert (found["ok"], found["records"], found["sealed"]) == (True, covered, covered), found["seal_problem"]

    manifest = json.loads((folder / "manifest.json").read_text())
    if covered == upto:
        assert "closing" not in manifest
        return
    path = manifest["closing"]["path"]
    for changed in ({"path": path[:-1], "size": covered}, {"path": ["00" * 32, *path[1:]], "size": covered}, None):
        (folder / "manifest.json").write_text(json.dumps(manifest | {"closing": changed}))
        assert not (await verify_folder(folder, key))["ok"]


async def test_segments_of_another_log_are_never_overwritten(database: str, tmp_path: Path) -> None:
    log, _ = await sealed_log(database, tmp_path, WIRES[:350])
    folder = tmp_path / "kept"
    await write_segments(folder, 100, ChainHead(log.pool), Frontier(), 0, given(log.messages()), published(log))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["segments"][1]["after"] = "00" * 32
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ClientError, match="another record 199"):
        await write_segments(folder, 100, ChainHead(log.pool), Frontier(), 0, given(log.messages()), published(log))


def test_a_proof_under_a_seal_that_is_too_short_cannot_be_made() -> None:
    seal = LogSealed(
        identity="00" * 32, size=3, root="00" * 32, hash="00" * 32, sealed_at=1, key="A" * 43, signature="A" * 86, checkpoint=""
    )
    with pytest.raises(ValueError, match="no leaf 3"):
        make_proof("pool-a", 3, (), b"", seal, subtrees_of([b""] * 3))


def test_the_topic_of_seals_is_kept_for_ever() -> None:
    assert topics.SEALS.settings_for(1)["retention.ms"] == "-1"
    assert topics.SEALS.settings_for(1)["cleanup.policy"] == "delete"


@pytest.mark.parametrize("holds", ["nothing", "a copy", "more than before"])
@pytest.mark.parametrize("auditor_is", ["down", "running"])
async def test_a_topic_of_seals_made_anew_gets_back_what_is_archived_and_loses_nothing(
    database: str, tmp_path: Path, auditor_is: str, holds: str
) -> None:
    """Also a new key, which may stand where another message stood in the topic before."""
    log, old, new = Log(), tmp_path / "old", tmp_path / "new"
    make_private_key(old)
    make_private_key(new)
    log.append(WIRES[:200])

    def made_anew() -> None:
        copy = [(each.key, each.headers, each.value) for each in log.seals()]
        log.cluster.delete_topic(topics.SEALS.name)
        log.cluster.create_topics(1)
        junk = wrap(make_key(THEIRS, log.pool, "0" * 64), source="/x", id="x", pool=log.pool, time_us=1)
        others = {"nothing": [], "a copy": copy, "more than before": [(b"x", *junk)] * 7}[holds]
        for key, headers, value in others:
            log.cluster.store(topics.SEALS.name, 0, key, headers, value)

    def has_sealed(size: int) -> bool:
        found = [seal.size for seal in seals_in_topic(log).seals]
        return found[-1:] == [size] and found[:2] == [100, 200]

    async with Auditor(log, database, tmp_path / "a", seal_key=old, **OFTEN).running() as auditor:
        await auditor.until("it is sealed", lambda: has_sealed(200))
        if auditor_is == "running":
            made_anew()
            log.append(WIRES[200:300])
            await auditor.until("it is sealed on", lambda: has_sealed(300))
    if auditor_is == "down":
        made_anew()
        log.append(WIRES[200:300])
    rotated = {"seal_key": new, "seal_key_before": old}
    async with Auditor(log, database, tmp_path / "b", **rotated, **OFTEN).running() as other:
        await other.until("it is sealed on", lambda: has_sealed(300))
        log.append(WIRES[300:400])
        await other.until("it is sealed with the new key", lambda: has_sealed(400))
        await other.until("and archived", lambda: other.value("bailiff_sealed_records") == 400)
    chain = seals_in_topic(log)
    assert [seal.size for seal in chain.seals] == [100, 200, 300, 400]
    assert len(chain.keys) == 2
    assert set(log.alarms()) == {"topic-made-anew"} | ({"seal-foreign"} if holds == "more than before" else set())
    async with from_archive(database, None) as source:
        found = await verified(source, (chain.keys[0],), 0)
    assert (found["ok"], found["sealed"], found["seals"]) == (True, 400, 4)
    tables = ("seals", "sealing_keys")
    offsets = [row["offset"] for table in tables for row in await query(database, f'SELECT "offset" FROM {table}')]
    assert len(set(offsets)) == len(offsets) == 6


def seals_in_topic(log: Log) -> SealChain:
    """As commands read them, with the first key of the log as trusted one."""
    bodies = published(log)
    return chain_of_bodies(log.pool, bodies, [])[0]
