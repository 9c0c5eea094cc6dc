"""Witnesses over HTTP: one built from its Go module cosigns our seals, its client accepts ours, and each refuses a fork."""

import asyncio
import base64
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.kits.witness import IDENTITY, RunningWitness, Seals, Topics, go_witness, go_witness_binary

from bailiff.audit.cosignatures import CosignatureVerifier
from bailiff.witness.witnesses import HttpWitness, Unreachable, WitnessAddress, newest_of, request
from bailiff_bus.messages.seals import CheckpointCosigned
from bailiff_core.records import ChainHead
from bailiff_log.checkpoints import Checkpoint, log_key, origin_of
from bailiff_log.cosigner import Refusal, Refused
from bailiff_log.seals import SealChain
from bailiff_log.signed_notes import Note

ORIGIN = origin_of("pool-a", IDENTITY)


def vkey(seals: Seals, losses: int = 0) -> str:
    """The key of the log's checkpoints, as a witness's operator configures it."""
    return str(log_key(origin_of(seals.pool, seals.identity, losses), seals.key))


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go witness."""
    try:
        found = go_witness_binary(tmp_path_factory.mktemp("go"))
    except subprocess.CalledProcessError as error:
        if b"dial tcp" in error.stderr or b"proxy" in error.stderr:
            pytest.skip("the witness's Go modules cannot be downloaded here")
        raise
    if found is None:
        pytest.skip("there is no Go here to build a witness from its module")
    return found


@pytest.fixture
def go(binary: Path) -> Iterator[str]:
    """`VKEY URL` of a running Go witness that knows the log."""
    with go_witness(binary, "witness.example/go", vkey(Seals())) as found:
        yield found


def by_witness(log: Topics) -> dict[str, list[int]]:
    """The sizes that each witness cosigned."""
    found: dict[str, list[int]] = {}
    for body in log.bodies():
        if isinstance(body, CheckpointCosigned):
            found.setdefault(body.witness.split("+")[0], []).append(Checkpoint.parse(Note.parse(body.checkpoint).text).size)
    return found


async def test_a_real_witness_cosigns_the_seals_and_both_count(go: str, tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(3), seals.seal(8))
    async with RunningWitness(log, tmp_path, witness_submit_to=(go,)).running() as witness:
        await witness.until(lambda: by_witness(log) == {"bailiff-witness": [8], "witness.example/go": [8]})
        for size in (9, 21, 64, 65):
            log.publish(seals.seal(size))
            await witness.until(lambda size=size: [each[-1] for each in by_witness(log).values()] == [size, size])
        own = WitnessAddress(witness.service.key)
    assert log.refused() == []

    chain = SealChain("pool-a")
    chain.identity = IDENTITY
    both = [own, WitnessAddress(WitnessAddress.parse(go).key)]
    bodies = [body for body in log.bodies() if isinstance(body, CheckpointCosigned)]
    verifier = CosignatureVerifier(chain, both, bodies, wanted=2)
    verifier.add(ChainHead("pool-a", next_seq=65), seals.tree)
    found = verifier.finish()
    assert (found["cosigned"], found["by"], found["problems"]) == (65, ["bailiff-witness", "witness.example/go"], [])


async def test_a_real_witness_that_missed_seals_is_given_them_one_after_another(go: str, tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(3))
    async with RunningWitness(log, tmp_path / "a", witness_submit_to=(go,)).running() as witness:
        await witness.until(lambda: by_witness(log).get("witness.example/go") == [3])
    log.publish(*map(seals.seal, (5, 11, 12, 30)))
    async with RunningWitness(log, tmp_path / "b", witness_submit_to=(go,)).running() as witness:
        await witness.until(lambda: by_witness(log)["witness.example/go"] == [3, 30])


async def test_a_real_witness_refuses_what_does_not_continue(go: str) -> None:
    seals = Seals()
    first = seals.seal(5)
    fork, external = seals.copy(), HttpWitness(WitnessAddress.parse(go))
    await external.add_checkpoint(first.checkpoint, (), 0, [])
    second, other = seals.seal(9), fork.seal(9, "other ")
    cases = [
        (other.checkpoint, 5, second.consistency, Refusal.INCONSISTENT),
        (second.checkpoint, 5, (), Refusal.INCONSISTENT),
        (second.checkpoint, 0, (), Refusal.STALE),
        (Seals(pool="pool-b").seal(9).checkpoint, 5, second.consistency, Refusal.NOT_SIGNED),
    ]
    for checkpoint, old, proof, why in cases:
        with pytest.raises(Refused) as caught:
            await external.add_checkpoint(checkpoint, (), old, [bytes.fromhex(each) for each in proof])
        assert caught.value.why is why
    with pytest.raises((Refused, Unreachable)):  # its answer to another key is the status 500
        await external.add_checkpoint(Seals(private=b"\x12" * 32).seal(9).checkpoint, (), 5, [])
    assert external.size(ORIGIN) == 5


async def test_a_fork_that_a_real_witness_was_shown_before_is_reported(go: str, tmp_path: Path) -> None:
    log, seals = Topics(), Seals()
    log.publish(seals.published_key(), seals.seal(5))
    fork = seals.copy()
    external = HttpWitness(WitnessAddress.parse(go))
    await external.add_checkpoint(fork.seal(9, "other ").checkpoint, (), 0, [])
    async with RunningWitness(log, tmp_path, witness_submit_to=(go,)).running() as witness:
        log.publish(seals.seal(9), seals.seal(12))
        await witness.until(lambda: b'code="witness-refused"' in witness.metrics.text())
        await witness.until(lambda: by_witness(log).get("bailiff-witness", [0])[-1] == 12)
    assert "witness.example/go" not in by_witness(log)


def submitted(binary: Path, address: str, old: int, proof: Sequence[str], checkpoint: str) -> tuple[int, str]:
    """What the Go client says about our witness."""
    url, key = address.split(" ")[1], address.split(" ")[0]
    hashes = [base64.b64encode(bytes.fromhex(each)).decode() for each in proof]
    command = [str(binary), "submit", key, url, str(old), *hashes]
    done = subprocess.run(command, input=checkpoint, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stdout or done.stderr


async def test_the_client_of_real_witnesses_accepts_our_witness(binary: Path, tmp_path: Path) -> None:
    seals = Seals()
    settings = {"witness_kafka": False, "witness_port": 0, "witness_logs": (vkey(seals),)}
    first = seals.seal(5)
    fork = seals.copy()
    second = seals.seal(9)
    async with RunningWitness(Topics(), tmp_path, **settings).running() as witness:
        await witness.until(lambda: witness.service.http_address)
        address = f"{witness.service.key} {witness.service.http_address}"

        async def bring(old: int, proof: Sequence[str], checkpoint: str) -> tuple[int, str]:
            return await asyncio.to_thread(submitted, binary, address, old, proof, checkpoint)

        assert await bring(0, (), first.checkpoint) == (0, f"{Note.parse(first.checkpoint).text}1 cosignature\n")
        assert await bring(5, second.consistency, second.checkpoint) == (
            0,
            f"{Note.parse(second.checkpoint).text}1 cosignature\n",
        )
        for old, proof, checkpoint, error in (
            (5, second.consistency, second.checkpoint, "old size != current (9)"),
            (9, (), fork.seal(9, "other ").checkpoint, "consistency proof invalid"),
            (9, (), Seals(private=b"\x12" * 32).seal(9).checkpoint, "no valid signatures"),
            (9, (), Seals(pool="pool-b").seal(9).checkpoint, "unknown log"),
            (10, (), second.checkpoint, "old size > current"),
        ):
            code, text = await bring(old, proof, checkpoint)
            assert code == 1
            assert error in text
        newest = await asyncio.to_thread(newest_of, WitnessAddress.parse(address), ORIGIN)
        assert newest is not None
        assert Checkpoint.parse(newest.text).size == 9
        assert await asyncio.to_thread(newest_of, WitnessAddress.parse(address), "another log") is None
    with pytest.raises(Unreachable):
        newest_of(WitnessAddress.parse(address), ORIGIN)


async def test_requests_that_are_no_checkpoints_are_refused_and_bounded(tmp_path: Path) -> None:
    seals = Seals()
    checkpoint = seals.seal(5).checkpoint
    settings = {"witness_kafka": False, "witness_port": 0, "witness_logs": (vkey(seals),)}
    async with RunningWitness(Topics(), tmp_path, **settings).running() as witness:
        await witness.until(lambda: witness.service.http_address)
        url = f"{witness.service.http_address}/add-checkpoint"

        async def answered(body: bytes) -> int:
            return (await asyncio.to_thread(request, "POST", url, body))[0]

        proof = base64.b64encode(bytes(32)).decode()
        for body in (
            *(b"", b"old 0", b"old 0\n\n", f"old -1\n\n{checkpoint}".encode(), f"old 00\n\n{checkpoint}".encode()),
            *(f"old 0\nAAAA\n\n{checkpoint}".encode(), f"old 0\n!\n\n{checkpoint}".encode(), b"\xff\xfe"),
            *(f"old {10**16}\n\n{checkpoint}".encode(), ("old 0\n" + f"{proof}\n" * 64 + f"\n{checkpoint}").encode()),
        ):
            assert await answered(body) in (400, 404), body
        assert await answered(b"old 0\n\n" + b"x" * 100_000) == 413
        assert await answered(f"old 0\n{proof}\n\n{checkpoint}".encode()) == 422
        assert await answered(f"old 0\n\n{checkpoint[:-9]}\n".encode()) == 403
        assert await answered(f"old 0\n\n{checkpoint}".encode()) == 200
