"""Both verifiers of a receipt, the command's and the page's, judge the same altered receipts alike. The page runs offline."""

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request, ViewportSize
from tests.kits.browser import IN_ONE_BROWSER, PHONE, faults_of_access
from tests.kits.receipts import ALTERATIONS, KNOWN, MALFORMED, PINNED, STORIES, SealedStory, altered, usual_text

from bailiff.audit.receipt.check import CheckedReceipt, Trust, check_receipt
from bailiff.audit.receipt.collect import collect
from bailiff.audit.receipt.page import page_of
from bailiff.audit.receipt.rules import CHECKS, NOT_CHECKED

pytestmark = IN_ONE_BROWSER
MINE = Trust((KNOWN["root"],), (KNOWN["sealing"],), (KNOWN["witness"],))


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page of a browser without network."""
    async with await browser.new_context(offline=True) as context:
        yield await context.new_page()


async def opened(page: Page, folder: Path, text: str) -> tuple[str, dict[str, str]]:
    """The page's verdict, and the status of each check."""
    file = folder / "receipt.html"
    file.write_text(page_of(text), encoding="utf-8")
    await page.goto(file.as_uri())
    return await judged(page)


async def judged(page: Page) -> tuple[str, dict[str, str]]:
    verdict, checks = await page.evaluate("[document.body.dataset.verdict, document.body.dataset.checks]")
    return verdict, json.loads(checks or "{}")


def difference(found: CheckedReceipt, verdict: str, checks: dict[str, str]) -> str:
    """How the page judges otherwise than the command. Of a record that Python cannot read, another check may fail in the page."""
    if verdict != found["verdict"]:
        return f"{verdict} instead of {found['verdict']}"
    if any("cannot be read" in each["detail"] for each in found["checks"]):
        return ""
    expected = {each["id"]: each["status"] for each in found["checks"]}
    return ", ".join(f"{name} is {checks.get(name)}" for name, status in expected.items() if checks.get(name) != status)


@pytest.mark.slow
async def test_an_altered_receipt_has_the_same_verdict_in_the_page(page: Page, tmp_path: Path) -> None:
    different = {}
    for name, (change, _) in ALTERATIONS.items():
        text = altered(usual_text(), change)
        different[name] = difference(check_receipt(text), *await opened(page, tmp_path, text))
    assert {name: what for name, what in different.items() if what} == {}


async def test_json_that_two_readers_may_read_differently_is_refused_by_the_page(page: Page, tmp_path: Path) -> None:
    for number, change in enumerate(MALFORMED):
        assert (await opened(page, tmp_path, change(usual_text())))[0] == "unreadable", number


async def test_keys_that_the_reader_pastes_count_as_those_of_the_command(page: Page, tmp_path: Path) -> None:
    for name in ("nothing", "another root key, sealed again", *PINNED):
        text = altered(usual_text(), ALTERATIONS[name][0])
        await opened(page, tmp_path, text)
        for label, key in (("Root key", "root"), ("Sealing key", "sealing"), ("Witness", "witness")):
            await page.get_by_label(label, exact=True).fill(KNOWN[key])
            await page.keyboard.press("Enter")
        assert difference(check_receipt(text, MINE), *await judged(page)) == "", name


async def test_a_byte_of_each_record_counts_for_the_page(page: Page, tmp_path: Path) -> None:
    for number, record in enumerate(json.loads(usual_text())["records"]):
        position = (37 * number) % len(record["value"])
        changed = record["value"][:position] + chr(ord(record["value"][position]) ^ 1) + record["value"][position + 1 :]
        text = altered(usual_text(), lambda data, number=number, changed=changed: data["records"][number].update(value=changed))
        assert difference(check_receipt(text), *await opened(page, tmp_path, text)) == ""


# --- what happens in a pool


@pytest.mark.parametrize("tell", STORIES)
async def test_what_happens_in_a_pool_is_judged_alike(page: Page, tmp_path: Path, tell: Callable[[Path], SealedStory]) -> None:
    log = tell(tmp_path)
    for about, decision in (("train-2", None), ("", log.decision)):
        text = (await collect(log.source, about, decision)).receipt.to_text()
        found = check_receipt(text)
        assert found["ok"], found["checks"]
        assert difference(found, *await opened(page, tmp_path, text)) == ""
        unfinished = await page.get_by_text("The eviction had not ended when this receipt was written.").count()
        assert bool(unfinished) != found["finished"]
        shown = await page.eval_on_selector_all("[data-open]", "all => all.map(each => each.dataset.open)")
        assert sorted(shown) == sorted(each["id"] for each in found["not_checked"])


# --- the page itself


async def test_the_page_says_what_happened_what_was_checked_and_what_was_not(page: Page, tmp_path: Path) -> None:
    await opened(page, tmp_path, usual_text())
    text = await page.inner_text("main")
    order = ["Consistent", "What happened", "What was checked, and what it proves", "What was not checked", "To repeat it"]
    assert [text.index(each) for each in order] == sorted(text.index(each) for each in order)
    for part in (
        "took GPUs from train-1 for serve-1",
        "4.1 GPU-h of work lost and restarts",
        "exited with code 85",
        KNOWN["root"],
    ):
        assert part in text
    for each in CHECKS.values():
        assert each["proves"] in text
    assert NOT_CHECKED["rules"] in text
    assert "bailiff audit check-receipt receipt.html --root KEY --trust KEY" in text


async def test_the_page_asks_nobody_and_runs_nothing_but_its_own_script(page: Page, tmp_path: Path) -> None:
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    await opened(page, tmp_path, usual_text())
    assert [each.url for each in asked] == [(tmp_path / "receipt.html").as_uri()]
    content = page_of(usual_text())
    assert len(re.findall(r"<script", content)) == 2
    assert "default-src 'none'" in content
    for added in (
        "<script>document.body.dataset.verdict='proven'</script>",
        "<img src=x onerror=\"document.body.dataset.verdict='proven'\">",
    ):
        (tmp_path / "added.html").write_text(content.replace("</main>", f"</main>{added}"), encoding="utf-8")
        await page.goto((tmp_path / "added.html").as_uri())
        assert (await judged(page))[0] == "consistent"
    blocked = await page.evaluate("fetch('https://example.org').then(() => 'reached', () => 'blocked')")
    assert blocked == "blocked"


async def test_a_script_that_was_changed_does_not_run(page: Page, tmp_path: Path) -> None:
    content = page_of(usual_text())
    (tmp_path / "changed.html").write_text(content.replace("</script>\n</body>", ";1</script>\n</body>"), encoding="utf-8")
    await page.goto((tmp_path / "changed.html").as_uri())
    assert "This receipt has not been checked" in await page.inner_text("main")


async def test_hostile_names_are_shown_as_text(page: Page, tmp_path: Path) -> None:
    markup = "</script><img src=x onerror=alert(1)>\u202e<b>bold</b>"

    def change(data: dict) -> None:
        for record in data["records"]:
            if "PreemptionRequested" in str(record["headers"]):
                value = json.loads(record["value"])
                record["value"] = json.dumps(value | {"reason": markup}, ensure_ascii=False)

    verdict, _ = await opened(page, tmp_path, altered(usual_text(), change))
    assert verdict == "refuted"
    assert await page.locator("main b, main img").count() == 0
    assert "</script><img src=x onerror=alert(1)>�<b>bold</b>" in await page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_can_be_read_by_everybody_also_on_a_phone(
    browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    phone = ViewportSize(width=PHONE[0], height=PHONE[1])
    async with await browser.new_context(color_scheme=scheme, viewport=phone, bypass_csp=True) as context:
        narrow = await context.new_page()
        await opened(narrow, tmp_path, altered(usual_text(), ALTERATIONS["a witness of another size"][0]))
        assert await narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await faults_of_access(narrow) == []
