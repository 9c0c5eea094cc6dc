"""The witness on the in-memory bus: what it cosigns, what it refuses, and what it remembers."""

from pathlib import Path

import pytest
from tests.kits.witness import IDENTITY, RunningWitness, Seals, Topics

from bailiff_log.checkpoints import Checkpoint, cosigned_at
from bailiff_log.seals import SealChain, make_invalidation, make_key
from bailiff_log.signed_notes import Note
from bailiff_service.exit_code import MustStop


async def test_each_seal_is_cosigned_as_it_is_published(tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(5), seals.seal(9))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [9])  # of those before, the newest one
        log.publish(seals.seal(12))
        await witness.until(lambda: log.cosigned() == [9, 12])
        assert witness.service.readiness() == {"pool-a": None}
    body = log.bodies()[-1]
    note = Note.parse(body.checkpoint)
    assert cosigned_at(note, witness.service.key) is not None
    assert Checkpoint.parse(note.text) == Checkpoint(f"bailiff/pool-a/{IDENTITY}", 12, seals.tree.root())


@pytest.mark.slow
async def test_a_witness_that_was_away_continues_from_what_it_remembers(tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(5))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [5])
    log.publish(seals.seal(8), seals.seal(13), seals.seal(14))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [5, 14])
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [5, 14, 14])  # the cosignature might have been lost
    assert log.refused() == []


async def refusal(log: Topics, folder: Path, **settings: object) -> str:
    """What a witness with this memory refuses."""
    async with RunningWitness(log, folder, **settings).running() as witness:
        await witness.until(log.refused)
        assert "refuses" in (witness.service.readiness()["pool-a"] or "")
    (reason,) = log.refused()
    assert log.cosigned() == []
    return reason


@pytest.fixture
async def remembered(tmp_path: Path) -> Seals:
    """The seals of a log of which 9 records were cosigned; the last seal is over 9."""
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(5))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [5])
        log.publish(seals.seal(9))
        await witness.until(lambda: log.cosigned() == [5, 9])
    return seals


async def test_seals_whose_tail_was_cut_are_refused(remembered: Seals, tmp_path: Path) -> None:
    log, cut = Topics(), Seals()
    log.publish(remembered.published_key(), cut.seal(5))
    assert await refusal(log, tmp_path) == "the seals end with 5 records"


async def test_a_log_that_was_continued_after_its_tail_was_cut_is_refused(remembered: Seals, tmp_path: Path) -> None:
    log, cut = Topics(), Seals()
    log.publish(remembered.published_key(), cut.seal(5), cut.seal(12, "other "), cut.seal(14, "other "))
    assert await refusal(log, tmp_path) == "the seals continue from 5 to 12 records"


async def test_another_history_of_the_same_size_is_refused(remembered: Seals, tmp_path: Path) -> None:
    log, fork = Topics(), Seals()
    log.publish(remembered.published_key(), fork.seal(5), fork.seal(9, "other "))
    assert await refusal(log, tmp_path) == "the checkpoint over 9 records does not continue the cosigned one over 9"


async def test_another_history_that_grows_on_is_refused(remembered: Seals, tmp_path: Path) -> None:
    log, fork = Topics(), Seals()
    log.publish(remembered.published_key(), fork.seal(5), fork.seal(9, "other "), fork.seal(11, "other "))
    assert await refusal(log, tmp_path) == "the checkpoint over 11 records does not continue the cosigned one over 9"


async def test_another_log_of_the_pool_is_refused(remembered: Seals, tmp_path: Path) -> None:
    log, new = Topics(), Seals(private=remembered.private, identity="a5" * 32)
    log.publish(new.published_key(), new.seal(20))
    assert "of another log" in await refusal(log, tmp_path)


async def test_seals_signed_anew_with_another_key_are_refused(remembered: Seals, tmp_path: Path) -> None:
    log, stolen = Topics(), Seals(private=b"\x12" * 32)
    log.publish(stolen.published_key(), stolen.seal(5), stolen.seal(9), stolen.seal(11))
    assert await refusal(log, tmp_path) == "the seals are signed with other keys"
    assert remembered.key != stolen.key


@pytest.mark.slow
async def test_seals_that_are_gone_are_refused(remembered: Seals, tmp_path: Path) -> None:
    log = Topics()
    assert await refusal(log, tmp_path) == "there are no seals"
    assert remembered.tree.size == 9


async def test_two_seals_of_one_size_by_the_log_s_key_are_an_alarm(tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(5))
    fork = seals.copy()
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [5])
        log.publish(seals.seal(9), fork.seal(9, "other "))
        await witness.until(log.refused)
        log.publish(seals.seal(11))
        await witness.until(lambda: log.cosigned()[-1] == 11)
    assert log.refused() == ["two seals over 9 records have different roots"]
    refused = next(body for body in log.bodies() if hasattr(body, "refused"))
    assert Checkpoint.parse(Note.parse(refused.refused).text).root == fork.tree.root()


async def test_messages_of_others_have_no_effect(tmp_path: Path) -> None:
    log, seals, foreign = Topics(), Seals(), Seals(private=b"\x13" * 32)
    log.publish(seals.published_key(), seals.seal(5))
    log.publish(foreign.published_key(), foreign.seal(7), Seals(private=b"\x13" * 32, identity="a5" * 32).seal(3))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [5])
        log.publish(foreign.seal(9), seals.seal(6))
        await witness.until(lambda: log.cosigned() == [5, 6])
        assert witness.service.readiness() == {"pool-a": None}
    assert log.refused() == []


async def test_only_the_trusted_key_s_log_is_cosigned(tmp_path: Path) -> None:
    log, seals, first = Topics(), Seals(), Seals(private=b"\x13" * 32)
    log.publish(first.published_key(), first.seal(7), seals.published_key(), seals.seal(5))
    async with RunningWitness(log, tmp_path, witness_trust=(seals.key,)).running() as witness:
        await witness.until(lambda: log.cosigned() == [5])


async def test_after_an_accepted_loss_the_checkpoints_have_another_origin(remembered: Seals, tmp_path: Path) -> None:
    log, again = Topics(), Seals()
    log.publish(remembered.published_key())
    valid, lost = again.seal(5), None
    kept = again.copy()
    lost = again.seal(9)
    kept.losses = 1
    lost_again = make_invalidation(kept.private, kept.pool, kept.identity, valid, lost, 6, "a disk failed", 1_800_000_000_000_000)
    log.publish(valid, lost, lost_again, kept.seal(7, "new "))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [7])
        log.publish(kept.seal(8, "new "))
        await witness.until(lambda: log.cosigned() == [7, 8])
    assert log.refused() == []
    note = Note.parse(log.bodies()[-1].checkpoint)
    assert Checkpoint.parse(note.text).origin == f"bailiff/pool-a/{IDENTITY}/1"


async def test_the_next_key_continues_once_the_one_before_signed_it(remembered: Seals, tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(5), seals.seal(9))
    before, seals.private = seals.private, b"\x14" * 32
    log.publish(make_key(seals.private, seals.pool, seals.identity, before), seals.seal(12))
    async with RunningWitness(log, tmp_path).running() as witness:
        await witness.until(lambda: log.cosigned() == [12])
    assert log.refused() == []


def test_a_seal_with_the_checkpoint_of_another_is_not_taken() -> None:
    seals = Seals()
    chain = SealChain("pool-a")
    chain.take(seals.published_key())
    first = seals.seal(5)
    chain.take(first)
    second = seals.seal(9)
    with pytest.raises(Exception, match="another size or root"):
        chain.take(second.model_copy(update={"checkpoint": first.checkpoint}))
    with pytest.raises(Exception, match="signature"):
        chain.take(second.model_copy(update={"checkpoint": second.checkpoint.replace("\n9\n", "\n8\n")}))
    chain.take(second)


async def test_invalid_settings_stop_it_with_a_sentence(tmp_path: Path) -> None:
    for wrong in ({"witness_submit_to": ("w1",)}, {"witness_name": "two words"}, {"witness_logs": ("x+y+z",)}):
        with pytest.raises(MustStop):
            RunningWitness(Topics(), tmp_path, **wrong)
