"""A job serves a page that attacks the console: opened by an operator, in a real browser, it gets nothing."""

import asyncio
import sys
from urllib.parse import urlsplit

import pytest
import yaml
from playwright.async_api import Browser, Response, expect
from tests import hostile_port_job
from tests.browser import chromium
from tests.console_eyes import IN_ONE_BROWSER, PATIENCE_MS, POOL, Seeing
from tests.console_eyes import browser as browser
from tests.console_eyes import stack as stack

from bailiff_devstack import free_port
from bailiff_devstack.stack import Stack

pytestmark = [IN_ONE_BROWSER, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

JOB = "evil"
REFUSED = "refused: TypeError"


async def test_a_page_of_a_job_gets_nothing_of_the_console(stack: Stack, browser: Browser) -> None:
    port = free_port()
    job = {
        "name": JOB, "gpus": 1, "ports": [port], "env": {"CONSOLE": stack.console},
        "command": [sys.executable, hostile_port_job.__file__],
    }  # fmt: skip
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    console = await context.new_page()
    await console.request.get(stack.console_link)
    see = Seeing(console, stack.console)
    await see.submit(yaml.safe_dump(job), "would start immediately")
    await see.state("running")
    cookies, storage = await context.cookies(stack.console), await console.evaluate("JSON.stringify(localStorage)")
    where = console.url

    answers: list[Response] = []
    context.on("response", lambda answer: answers.append(answer) if answer.url.startswith(stack.console) else None)
    async with context.expect_page() as opened:
        await console.get_by_role("link", name=f"port {port}").click()
    page = await opened.value
    await page.wait_for_function("document.title === 'finished'")
    assert urlsplit(page.url).hostname not in (None, urlsplit(stack.console).hostname)

    outcome = await page.evaluate("window.outcome")
    assert outcome == {
        "cookies": "", "storage": "[]", "databases": "0", "opener": "null", "top": "true",
        "read": REFUSED, "read without a preflight": REFUSED, "write": REFUSED, "write without a preflight": REFUSED,
        "websocket": "refused", "worker of the console": "refused: SecurityError", "own worker": "true",
        "frame": "no document", "window": "refused: SecurityError", "form": "sent",
    }  # fmt: skip

    async def form_is_answered() -> bool:
        return any(each.request.method == "POST" and each.request.is_navigation_request() for each in answers)

    for _ in range(int(PATIENCE_MS / 100)):
        if await form_is_answered():
            break
        await asyncio.sleep(0.1)
    posts = {each.status for each in answers if each.request.method == "POST" and "/requests" in each.url}
    assert posts <= {401, 403}
    assert await form_is_answered()
    assert not any(await each.all_headers() and "pwned" in await each.text() for each in answers if each.request.method == "GET" and "/api/me" in each.url)

    # The console's own page is where it was, with its cookies and storage, no worker, and no such job.
    assert console.url == where
    assert await context.cookies(stack.console) == cookies
    assert await console.evaluate("JSON.stringify(localStorage)") == storage
    assert await console.evaluate("navigator.serviceWorker.getRegistrations().then((found) => found.length)") == 0
    await console.reload()
    assert await console.evaluate("navigator.serviceWorker.controller") is None
    await see.open(f"/{POOL}/jobs")
    await expect(console.get_by_role("link", name=JOB)).to_be_visible()
    await expect(console.get_by_role("link", name="pwned")).to_have_count(0)
    await context.close()
