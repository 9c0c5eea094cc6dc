"""The console writes receipts: over HTTP, and by the buttons of a decision's and a job's page."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kits.archive import Log
from tests.kits.browser import chromium
from tests.kits.console import TOKEN, Console
from tests.kits.receipts import KNOWN, POOL, SealedStory, SignedStory, preempted, sealed, usual

from bailiff.audit.receipt.check import Trust, check_receipt
from bailiff.audit.receipt.page import is_own_page, text_in
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.seals import CheckpointCosigned
from bailiff_console.history import receipts
from bailiff_log.checkpoints import cosign, witness_key
from bailiff_log.signed_notes import Note

MINE = Trust((KNOWN["root"],), (KNOWN["sealing"],))


@asynccontextmanager
async def console_of(log: SealedStory, folder: Path, **settings: Any) -> AsyncIterator[Console]:
    """A console of this pool: its log, its seals and what its witness published."""
    stored = Log(POOL)
    stored.append(log.story.wires)
    for topic, bodies in ((topics.SEALS, log.bodies), (topics.COSIGNATURES, log.cosignatures)):
        for number, body in enumerate(bodies):
            headers, value = wrap(body, source="/test", id=f"{topic.name}-{number}", pool=POOL, time_us=1)
            stored.cluster.store(topic.name, 0, POOL.encode(), headers, value)
    console = Console(stored.cluster.client("console"), stored.cluster.client("watch"), folder / "state", **settings)
    async with console.running(POOL):
        yield console


async def test_a_victim_and_a_decision_have_receipts_that_the_command_proves(tmp_path: Path) -> None:
    decision = usual().decision
    async with console_of(usual(), tmp_path) as console:
        for parameters, victims in (
            ({"job": "train-1"}, ["train-1"]),
            ({"job": "train-2", "decision": decision}, ["train-2"]),
            ({"decision": decision}, ["train-1", "train-2"]),
        ):
            reply = await console.get(f"/pools/{POOL}/receipt", **parameters)
            assert reply["file"] == f"receipt-{POOL}-{decision}.html"
            found = check_receipt(text_in(reply["page"]), MINE)
            assert (found["verdict"], [each["job"] for each in found["victims"]]) == ("proven", victims)
            assert is_own_page(reply["page"])


async def test_a_receipt_is_of_the_seal_that_a_named_witness_cosigned(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    log = sealed(story, len(story.wires) - 1, len(story.wires))
    first, second = log.cosignatures
    log.cosignatures = [*(CheckpointCosigned(witness=witness, checkpoint=note) for witness, note in invented(first)), second]
    for named, size in (([], len(story.wires) - 1), ([second.witness], len(story.wires))):
        async with console_of(log, tmp_path / str(size), witness_keys=named) as console:
            reply = await console.get(f"/pools/{POOL}/receipt", job="train-1")
        receipt = json.loads(text_in(reply["page"]))
        assert receipt["seal"]["size"] == size
        assert (second.witness in {each["witness"] for each in receipt["cosignatures"]}) == bool(named)


def invented(of: CheckpointCosigned) -> list[tuple[str, str]]:
    """Keys that anybody can make, and this checkpoint as they cosigned it."""
    note, found = Note.parse(of.checkpoint), []
    for number in range(3):
        private = bytes([number]) * 32
        key = witness_key(f"invented-{number}", private)
        found.append((str(key), str(note.with_signatures([cosign(note.text, key, private, 1)]))))
    return found


async def test_a_receipt_that_cannot_be_written_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    unsealed = SealedStory(story, sealed(story, 6).bodies, [])
    async with console_of(unsealed, tmp_path) as console:
        path = f"/pools/{POOL}/receipt"
        assert "is not sealed yet: the last seal is over 6 records" in (await console.refused(404, path, job="train-1"))["detail"]
        assert "no decision preempts nobody" in (await console.refused(404, path, job="nobody"))["detail"]
        assert (await console.refused(400, path))["errors"][0]["location"] == "job"
        assert (await console.refused(400, path, job="x" * 64))["status"] == 400
        monkeypatch.setattr(receipts, "WHOLE_LOG", 3)
        assert "run: bailiff audit receipt train-1" in (await console.refused(409, path, job="train-1"))["detail"]


async def test_one_receipt_is_written_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    collect_from = receipts.collect_from

    async def slow(*arguments, **options):
        begun.set()
        await may_end.wait()
        return await collect_from(*arguments, **options)

    monkeypatch.setattr(receipts, "collect_from", slow)
    async with console_of(usual(), tmp_path) as console:
        first = asyncio.ensure_future(console.get(f"/pools/{POOL}/receipt", job="train-1"))
        await begun.wait()
        assert "another receipt" in (await console.refused(503, f"/pools/{POOL}/receipt", job="train-2"))["detail"]
        may_end.set()
        assert (await first)["file"].endswith(".html")
        assert await console.get(f"/pools/{POOL}/receipt", job="train-2")


@pytest.mark.slow
async def test_the_pages_of_a_decision_and_a_job_save_receipts(tmp_path: Path) -> None:
    decision = usual().decision
    async with console_of(usual(), tmp_path) as console, chromium() as browser:
        page = await (await browser.new_context(accept_downloads=True)).new_page()
        await page.goto(f"{console.http.base_url}/auth/sign-in?token={TOKEN}")
        await page.goto(f"{console.http.base_url}/{POOL}/decisions/{decision}")
        async with page.expect_download() as saving:
            await page.get_by_role("button", name="Receipt").click()
        saved = await saving.value
        assert saved.suggested_filename == f"receipt-{POOL}-{decision}.html"
        await saved.save_as(tmp_path / "receipt.html")
        assert check_receipt(text_in((tmp_path / "receipt.html").read_text()), MINE)["verdict"] == "proven"
