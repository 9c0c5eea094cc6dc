"""A witness's memory: what continues is cosigned, what does not is refused, and nothing is forgotten by a restart."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bailiff_core.records.merkle import consistency_path, leaf_hash, root_of, subtrees_of
from bailiff_log.checkpoints import Checkpoint, cosigned_at, log_key, origin_of, sign_checkpoint, witness_key
from bailiff_log.cosigner import Cosigner, MemoryUnusable, Refusal, Refused
from bailiff_log.keys import key_id
from bailiff_log.signed_notes import Note

LOG, WITNESS = b"\x01" * 32, b"\x02" * 32
ORIGIN = origin_of("pool-a", "5a" * 32)
KEYS = [log_key(ORIGIN, key_id(LOG))]
W1 = witness_key("w1", WITNESS)
LEAVES = [leaf_hash(b"%d" % number) for number in range(20)]
OTHERS = [leaf_hash(b"other %d" % number) for number in range(20)]
NOW = 1_800_000_000


def opened(folder: Path) -> Cosigner:
    return Cosigner(folder, W1, WITNESS, lambda: NOW * 1_000_000)


@pytest.fixture
def cosigner(tmp_path: Path) -> Iterator[Cosigner]:
    made = opened(tmp_path)
    yield made
    with contextlib.suppress(OSError):
        made.close()


def checkpoint(size: int, leaves: list[bytes] = LEAVES, private: bytes = LOG) -> str:
    return sign_checkpoint(Checkpoint(ORIGIN, size, root_of(leaves[:size])), private)


def proof(old: int, size: int, leaves: list[bytes] = LEAVES) -> list[bytes]:
    return consistency_path(old, size, subtrees_of(leaves[:size])) if old else []


def add(cosigner: Cosigner, old: int, size: int, leaves: list[bytes] = LEAVES, private: bytes = LOG) -> Note:
    return cosigner.add_checkpoint(checkpoint(size, leaves, private), KEYS, old, proof(old, size, leaves))


def refused(cosigner: Cosigner, old: int, size: int, leaves: list[bytes] = LEAVES, private: bytes = LOG) -> Refused:
    with pytest.raises(Refused) as caught:
        add(cosigner, old, size, leaves, private)
    return caught.value


def test_each_checkpoint_that_continues_the_last_is_cosigned(cosigner: Cosigner) -> None:
    for old, size in ((0, 3), (3, 8), (8, 8), (8, 13)):
        assert cosigned_at(add(cosigner, old, size), W1) == NOW
    assert cosigner.size(ORIGIN) == 13


def test_another_history_is_refused_at_every_size(cosigner: Cosigner) -> None:
    add(cosigner, 0, 8)
    for size in range(8, 20):
        assert refused(cosigner, 8, size, LEAVES[:7] + OTHERS[7:]).why is Refusal.INCONSISTENT
    assert cosigner.size(ORIGIN) == 8


def test_a_smaller_checkpoint_is_refused_with_the_size_that_was_cosigned(cosigner: Cosigner) -> None:
    add(cosigner, 0, 8)
    error = refused(cosigner, 5, 6)
    assert (error.why, error.size) == (Refusal.STALE, 8)
    with pytest.raises(Refused, match="after the checkpoint's 5"):
        cosigner.add_checkpoint(checkpoint(5), KEYS, 8, [])


def test_a_proof_that_is_cut_or_too_long_is_refused(cosigner: Cosigner) -> None:
    with pytest.raises(Refused, match="does not continue"):
        cosigner.add_checkpoint(checkpoint(3), KEYS, 0, [LEAVES[0]])
    add(cosigner, 0, 3)
    whole = proof(3, 8)
    for wrong in (whole[:-1], [*whole, LEAVES[0]], []):
        with pytest.raises(Refused, match="does not continue"):
            cosigner.add_checkpoint(checkpoint(8), KEYS, 3, wrong)


def test_only_the_log_s_own_key_counts(cosigner: Cosigner) -> None:
    assert refused(cosigner, 0, 3, private=b"\x03" * 32).why is Refusal.NOT_SIGNED


def test_a_restarted_witness_remembers(tmp_path: Path) -> None:
    first = opened(tmp_path)
    cosigned = add(first, 0, 8)
    first.close()
    again = opened(tmp_path)
    assert again.newest(ORIGIN) == cosigned
    assert refused(again, 8, 8, OTHERS).why is Refusal.INCONSISTENT
    add(again, 8, 9)
    again.close()


def test_a_memory_that_cannot_be_read_stops_the_witness(tmp_path: Path) -> None:
    first = opened(tmp_path)
    add(first, 0, 8)
    first.close()
    (file,) = tmp_path.glob("*.note")
    text = file.read_text()
    for changed in ("", text[:40], text.replace("pool-a", "pool-b")):
        file.write_text(changed)
        with pytest.raises(MemoryUnusable, match=r"not a signed note|expected 1 to|another log"):
            opened(tmp_path)


def test_two_witnesses_cannot_share_a_memory(tmp_path: Path, cosigner: Cosigner) -> None:
    assert cosigner.logs is not None
    with pytest.raises(MemoryUnusable, match="another witness is running"):
        opened(tmp_path)


def test_what_cannot_be_kept_is_not_cosigned(tmp_path: Path, cosigner: Cosigner, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MemoryUnusable, match="No space left"):
        add(cosigner, 0, 8)
    assert cosigner.size(ORIGIN) == 0
    assert not list(tmp_path.glob("*.note"))
    cosigner.close()
    opened(tmp_path).close()
