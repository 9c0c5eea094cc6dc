"""Messages of participants who may not send them, or that are not true: on the console's pages in a real browser, and in
`bailiff doctor`.
"""

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.kits.archived_pool import command
from tests.kits.browser import IN_ONE_BROWSER
from tests.kits.console_eyes import HOSTILE, POOL, Seeing

from bailiff.client.client import Client
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.kafka import KafkaBus
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.messages.progress import StartEviction
from bailiff_core.records import Record, Wire, encode
from bailiff_core.records.facts import ClockAdvanced
from bailiff_devstack.stack import Stack
from bailiff_log.credentials import read_credentials
from bailiff_log.message_signatures import wrap_signed

pytestmark = [IN_ONE_BROWSER, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

FALSE = {
    "proposal-not-reproduced": "#12: the search gives other victims",
    "request-not-verified": "pool-a: the request of #14 is not verified (wrong-requester): ada signed it, the record names bob",
}
"""Alarms of the auditor about an admission and a victim selection that lie."""
NOT_VERIFIED = "not verified"


def after(record: Record, prev: str) -> Wire:
    """A record that somebody without a key appends."""
    data = ClockAdvanced()
    return encode(
        replace(
            record,
            seq=record.seq + 1,
            prev=prev,
            type=data.type_name(),
            data=data,
            writer="intruder",
            next_content="",
            signature="",
        )
    )


def alarms(stack: Stack) -> Iterable[Wire]:
    """Those of the auditor, and one of somebody without a key."""
    auditor = read_credentials(stack.folder / "credentials" / "auditor")
    about = {"source": "/bailiff/pool-a/auditor", "id": "story", "pool": POOL, "time_us": time.time_ns() // 1000}
    for code, text in FALSE.items():
        yield Wire(*wrap_signed(auditor, Alarm(severity="critical", code=code, text=text), **about))
    yield Wire(*wrap(Alarm(severity="critical", code="seal-foreign", text=HOSTILE), **about))


async def attack(stack: Stack) -> None:
    """A forged record, a forged eviction from a hostile source, and the alarms."""
    async with Client(KafkaBus(stack.kafka.bootstrap), source="/story") as client:
        partition = (await client.pool(POOL)).partition
        (*_, last) = [entry async for entry in client.follow(POOL, 0, on=False)]
        forged = after(last.record, last.hash)
        about = {"source": f"/{HOSTILE}", "id": "story", "pool": POOL, "time_us": time.time_ns() // 1000}
        eviction = Wire(*wrap(StartEviction(job="low", attempt=1, decided_by=1), **about))
        producer = await client.bus.producer()
        await (await producer.send(topics.AUDIT.name, forged.value, headers=forged.headers, partition=partition))
        sent = [(topics.EVICTION_PROGRESS.name, eviction), *((topics.ALARMS.name, each) for each in alarms(stack))]
        for topic, wire in sent:
            await (await producer.send(topic, wire.value, key=POOL.encode(), headers=wire.headers))
        await producer.close(5.0)


async def test_every_refused_message_is_on_the_pages_and_in_doctor(stack: Stack, page: Page, tmp_path: Path) -> None:
    await attack(stack)
    pictures = Path(os.environ.get("BAILIFF_TEST_PICTURES", tmp_path))
    senders = {**dict.fromkeys((*FALSE, "record-not-signed"), "auditor"), "seal-foreign": NOT_VERIFIED, "not-signed": ""}

    see = Seeing(page, stack.console)
    await see.open(f"/{POOL}")
    table = page.get_by_role("table", name="Rejected and refused messages, by code and source")
    for code, sender in senders.items():
        await expect(table.get_by_role("row").filter(has=page.get_by_text(code, exact=True))).to_contain_text(sender)
    codes = await table.locator("tbody tr td:first-child").all_inner_texts()
    assert codes[-1] == "not-signed", codes  # what anybody can cause comes last
    await see.accessible("a pool with refused messages")
    await page.screenshot(path=pictures / "refused.png", full_page=True)

    await see.open(f"/{POOL}/overview")
    for code in (*FALSE, "record-not-signed", "seal-foreign (sender not verified)"):
        await see.text(f"Alarm {code}")
    await see.accessible("what needs attention")
    await page.screenshot(path=pictures / "attention.png", full_page=True)

    found = await asyncio.to_thread(command, stack, "doctor")
    for code, sender in senders.items():
        assert f"{code} from {sender}" in found, f"{code}: {found}"
