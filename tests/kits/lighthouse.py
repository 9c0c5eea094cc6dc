"""Google's Lighthouse, from npm, on the console's main pages: scores of 0 to 100."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from dataclasses import dataclass
from typing import Any, Literal

from playwright.async_api import Page
from tests.kits.browser import browser_path, node_package

Category = Literal["accessibility", "performance", "accessibility,performance"]
MAIN_PAGES = {
    "overview": "/{pool}/overview",
    "jobs": "/{pool}/jobs",
    "job": "/{pool}/jobs/{job}",
    "pool": "/{pool}",
    "node": "/{pool}/nodes/{node}",
    "queue": "/{pool}/queue",
    "timeline": "/{pool}/timeline",
    "decision": "/{pool}/decisions/{decision}",
    "projects": "/{pool}/projects",
    "accounting": "/{pool}/accounting",
    "record": "/{pool}/record",
    "policy": "/{pool}/policy",
    "what-if": "/{pool}/what-if",
    "submit": "/{pool}/submit",
}
"""Each page of the console's menu, and those that they lead to."""
MEASURED = ("overview", "job", "timeline", "decision")
"""Those with most to load and to draw."""
GOOD = 95
PATIENCE_S, ATTEMPTS = 180, 3
BUSY = b"NO_NAVSTART"
"""Chromium's trace began too late, on a busy machine: Lighthouse says to run it again."""


MOST = {"total-byte-weight": 200_000, "network-requests": 50, "dom-size": 1_400, "cumulative-layout-shift": 0.1}
"""What a page may load, hold and move, so that a laptop shows it at once: bytes, requests, elements, and how much moves as it
loads. The same on every machine, however busy: the score of performance is made of times, and is a bench."""


@dataclass(frozen=True)
class Report:
    """One page.

    Attributes:
        score: Of the first category.
        faults: The audits that lower it, one line each.
        too_much: What of it is more than `MOST`.
    """

    score: int
    faults: list[str]
    too_much: list[str]


async def lighthouse(address: str, cookie: str, category: Category) -> Report:
    """Load the page as a signed-in user does, with Lighthouse's desktop preset: a laptop on a fast network."""
    command = [
        "node",
        str(node_package("lighthouse", "cli", "index.js")),
        address,
        f"--only-categories={category}",
        "--preset=desktop",
        "--output=json",
        "--quiet",
        "--no-enable-error-reporting",
        "--chrome-flags=--headless=new --no-sandbox",
        "--extra-headers=" + json.dumps({"Cookie": cookie}),
    ]
    for _ in range(ATTEMPTS):
        status, out, errors = await _run(command)
        if BUSY not in errors:
            break
    assert status == 0, errors.decode()[-2000:]
    return _report(json.loads(out), category)


async def _run(command: list[str]) -> tuple[int | None, bytes, bytes]:
    environment = {**os.environ, "CHROME_PATH": browser_path()}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
    try:
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)  # it ends its browser, too
    return process.returncode, out, errors


async def signed_in(page: Page, link: str) -> str:
    """The header that makes a request one of the user whom this link signs in."""
    await page.request.get(link)
    return "; ".join(f"{each['name']}={each['value']}" for each in await page.context.cookies())


def _report(found: dict[str, Any], category: Category) -> Report:
    assert found.get("runtimeError") is None, found["runtimeError"]
    judged = found["categories"][category.split(",")[0]]
    low = [found["audits"][each["id"]] for each in judged["auditRefs"] if each["weight"]]
    faults = [
        f"{each['id']}: {each['score']}: {each.get('displayValue') or each['title']}"
        for each in low
        if each["score"] not in (None, 1)
    ]
    return Report(round(judged["score"] * 100), faults, _too_much(found["audits"]) if "performance" in category else [])


def _too_much(audits: dict[str, Any]) -> list[str]:
    requests = len(audits["network-requests"]["details"]["items"])
    found = {name: requests if name == "network-requests" else audits[name]["numericValue"] for name in MOST}
    return [f"{name}: {count}, of at most {MOST[name]}" for name, count in found.items() if count > MOST[name]]
