"""Checkpoints and cosignatures: the same bytes as those of the Go implementation; anything changed is refused."""

import json
from pathlib import Path

import pytest

from bailiff_log.checkpoints import (
    Checkpoint,
    checkpoint_signed_by,
    cosign,
    cosigned_at,
    log_key,
    origin_of,
    parse_origin,
    sign_checkpoint,
    witness_key,
)
from bailiff_log.keys import from_text, key_id
from bailiff_log.signed_notes import KeyKind, Note, NoteError, NoteKey

VECTORS = json.loads((Path(__file__).parents[2] / "tlog_witness" / "vectors.json").read_text())
LOG, WITNESS = from_text(VECTORS["log_private_key"]), from_text(VECTORS["witness_private_key"])
ORIGIN = origin_of("pool-a", "5a" * 32)
CHECKPOINT = Checkpoint(ORIGIN, 1234, bytes(32))
LOG_KEY = log_key(ORIGIN, key_id(LOG))
W1 = witness_key("witness.example/w1", WITNESS)


def test_a_log_signs_as_the_go_implementation_does() -> None:
    assert sign_checkpoint(CHECKPOINT, LOG) == VECTORS["checkpoint"]
    assert str(LOG_KEY) == VECTORS["log_vkey"]
    assert NoteKey.parse(VECTORS["log_vkey"], KeyKind.NOTE) == LOG_KEY


def test_a_witness_cosigns_as_the_go_implementation_does() -> None:
    note, checkpoint = checkpoint_signed_by(VECTORS["cosigned"], [LOG_KEY])
    assert checkpoint == CHECKPOINT
    time = cosigned_at(note, W1)
    assert time is not None
    assert note == Note.parse(VECTORS["checkpoint"]).with_signatures([cosign(note.text, W1, WITNESS, time)])
    assert str(note) == VECTORS["cosigned"]
    assert str(W1) == VECTORS["witness_vkey"]
    assert NoteKey.parse(VECTORS["witness_vkey"], KeyKind.COSIGNATURE) == W1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1234", "1235"),
        ("AAAA=\n", "AAAE=\n"),
        ("pool-a/5a", "pool-a/5b"),
        ("uLh3yDIu", "uLh3yDIv"),
        ("p+EhRAAAAABr", "p+EhRAAAAABs"),
    ],
    ids=["size", "root", "origin", "signature", "time"],
)
def test_a_note_that_was_changed_is_refused(old: str, new: str) -> None:
    changed = VECTORS["cosigned"].replace(old, new)
    assert changed != VECTORS["cosigned"]
    with pytest.raises(NoteError):
        cosigned_at(checkpoint_signed_by(changed, [LOG_KEY])[0], W1)


def test_signatures_of_other_keys_count_for_nobody() -> None:
    other = witness_key("witness.example/w2", b"\x07" * 32)
    namesake = witness_key(W1.name, b"\x07" * 32)
    note = Note.parse(VECTORS["cosigned"])
    assert cosigned_at(note, other) is None
    assert cosigned_at(note, namesake) is None
    with pytest.raises(NoteError, match="no key of the log"):
        checkpoint_signed_by(VECTORS["checkpoint"], [log_key(ORIGIN, key_id(WITNESS))])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "text\n",
        "text\n\n",
        "text\n\nno signature\n",
        "text\n\n\u2014 name !!!\n",
        "text\n\n\u2014 name AAAA\n",
        "text\n\n\u2014  AAAAAAAA\n",
        "text\n\n\u2014 na+me AAAAAAAA\n",
        "text\n\n\u2014 name AAAAAAAA",
        "te\txt\n\n\u2014 name AAAAAAAA\n",
        "te\x7fxt\n\n\u2014 name AAAAAAAA\n",
        "\ud800\n\n\u2014 name AAAAAAAA\n",
        "text\n\n" + "\u2014 name AAAAAAAA\n" * 33,
        "text" * 5000 + "\n\n\u2014 name AAAAAAAA\n",
    ],
)
def test_what_is_not_a_note_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        Note.parse(text)


@pytest.mark.parametrize(
    "text", ["o\n1\n", "o\n01\nAA==\n", "o\n-1\n{}\n", "o\n1\nAA==\n", "\n1\n{}\n", f"o\n{2**53}\n{{}}\n", "o\n1\n{}\n\n"]
)
def test_what_is_not_a_checkpoint_is_refused(text: str) -> None:
    root = str(CHECKPOINT).split("\n")[2]
    with pytest.raises(NoteError):
        Checkpoint.parse(text.format(root))


def test_a_checkpoint_may_have_extension_lines() -> None:
    assert Checkpoint.parse(f"{CHECKPOINT}more\n") == CHECKPOINT


@pytest.mark.parametrize("text", ["", "name", "na me+00000000+AAAA", "+00000000+AAAA", "name+00000000+AAAA"])
def test_what_is_not_a_key_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        NoteKey.parse(text, KeyKind.COSIGNATURE)


def test_a_key_with_a_changed_letter_or_for_another_purpose_is_refused() -> None:
    with pytest.raises(NoteError, match="incomplete or changed"):
        NoteKey.parse(VECTORS["witness_vkey"].replace("/w1", "/w2"), KeyKind.COSIGNATURE)
    with pytest.raises(NoteError, match="expected an Ed25519 key"):
        NoteKey.parse(VECTORS["witness_vkey"], KeyKind.NOTE)


def test_an_origin_names_pool_identity_and_accepted_losses() -> None:
    assert parse_origin(ORIGIN) == ("pool-a", "5a" * 32, 0)
    assert parse_origin(origin_of("pool-a", "5a" * 32, 2)) == ("pool-a", "5a" * 32, 2)
    assert parse_origin("go.sum database tree") is None
    assert parse_origin(f"{ORIGIN}/0") is None
