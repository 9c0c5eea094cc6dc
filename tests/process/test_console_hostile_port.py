"""A job serves a page that attacks the console: opened by an operator, in a real browser, it gets nothing."""

import sys
from urllib.parse import urlsplit

import pytest
import yaml
from playwright.async_api import Browser, Response, expect
from tests.kits import hostile_port_job
from tests.kits.browser import IN_ONE_BROWSER
from tests.kits.console_eyes import PATIENCE_MS, POOL, Seeing

from bailiff_devstack.ports import free_port
from bailiff_devstack.stack import Stack

pytestmark = [IN_ONE_BROWSER, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

JOB = "evil"
REFUSED = "refused: TypeError"


def is_request(answer: Response) -> bool:
    return answer.request.method == "POST" and answer.url.endswith(f"/api/pools/{POOL}/requests")


async def test_a_page_of_a_job_gets_nothing_of_the_console(stack: Stack, browser: Browser) -> None:
    port = free_port()
    job = {
        "name": JOB,
        "gpus": 1,
        "ports": [port],
        "env": {"CONSOLE": stack.console},
        "command": [sys.executable, hostile_port_job.__file__],
    }
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    console = await context.new_page()
    await console.request.get(stack.console_link)
    see = Seeing(console, stack.console)
    await see.submit(yaml.safe_dump(job), "would start immediately")
    await see.state("running")
    cookies, storage = await context.cookies(stack.console), await console.evaluate("JSON.stringify(localStorage)")
    where = console.url

    requests: list[Response] = []
    context.on("response", lambda answer: requests.append(answer) if is_request(answer) else None)
    async with (
        context.expect_event(
            "response", lambda answer: is_request(answer) and answer.request.is_navigation_request()
        ),  # the form
        context.expect_page() as opened,
    ):
        await console.get_by_role("link", name=f"port {port}").click()
    page = await opened.value
    await page.wait_for_function("document.title === 'finished'")
    assert urlsplit(page.url).hostname not in (None, urlsplit(stack.console).hostname)
    outcome = await page.evaluate("window.outcome")
    assert outcome.pop("window") in ("refused: closed", "refused: SecurityError")
    assert outcome == {
        "cookies": "",
        "storage": "[]",
        "databases": "0",
        "opener": "null",
        "top": "true",
        "read": REFUSED,
        "read without a preflight": REFUSED,
        "write": REFUSED,
        "write without a preflight": REFUSED,
        "websocket": "refused",
        "worker of the console": "refused: SecurityError",
        "own worker": "true",
        "frame": "no document",
    }
    assert {answer.status for answer in requests} == {403}

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
