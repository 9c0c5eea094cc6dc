"""Google's Lighthouse, from npm, on the console's main pages: scores of 0 to 100."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page
from tests.kits.browser import browser_path, node_package

Category = Literal["accessibility", "performance"]
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
GOOD = 95
PATIENCE_S, ATTEMPTS = 180, 3
BUSY = b"NO_NAVSTART"
"""Chromium's trace began too late, on a busy machine: Lighthouse says to run it again. Or it lacks a paint: then an audit has no
score."""

MOST = {"total-byte-weight": 200_000, "network-requests": 50, "dom-size": 1_400}
"""What a page may load and hold, so that a laptop shows it at once: bytes, requests, elements."""
SIMULATED = ("first-contentful-paint", "largest-contentful-paint", "cumulative-layout-shift")
"""The parts of the score of performance that are the same however busy a machine is: Lighthouse computes when the page shows from
what loads after what, on one network. The rest is processor time, which is measured, and judged by the bench."""
COUNTED = (
    f"--only-audits={','.join((*MOST, *SIMULATED))}",  # beside the category's
    "--throttling.cpuSlowdownMultiplier=0.01",
    f"--precomputed-lantern-data-path={Path(__file__).with_suffix('.json')}",
)
"""Neither this machine's processor nor how long its server takes to answer (30 ms each) counts."""


@dataclass(frozen=True)
class Report:
    """One page.

    Attributes:
        score: Of the category.
        faults: The audits that lower it, one line each.
        slow: What the page has more of than `MOST`, and what of `SIMULATED` is not `GOOD`.
    """

    score: int
    faults: list[str]
    slow: list[str]


async def lighthouse(address: str, cookie: str, category: Category, *, counted: bool = False) -> Report:
    """Load the page as a signed-in user does, with Lighthouse's desktop preset: a laptop on a fast network.

    Args:
        counted: Say also how fast it is, counted and simulated.
    """
    command = [
        "node",
        str(node_package("lighthouse", "cli", "index.js")),
        address,
        f"--only-categories={category}",
        "--preset=desktop",
        "--output=json",
        "--quiet",
        "--no-enable-error-reporting",
        "--disable-full-page-screenshot",
        "--chrome-flags=--headless=new --no-sandbox",
        "--extra-headers=" + json.dumps({"Cookie": cookie}),
        *(COUNTED if counted else ()),
    ]
    for _ in range(ATTEMPTS):
        status, out, errors = await _run(command)
        if BUSY in errors:
            continue
        assert status == 0, errors.decode()[-2000:]
        found = json.loads(out)
        if not counted or all(found["audits"][name]["score"] is not None for name in SIMULATED):
            return _report(found, category, counted)
    raise AssertionError(f"Lighthouse could not judge {address}: {errors.decode()[-2000:]}")


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


def _report(found: dict[str, Any], category: Category, counted: bool) -> Report:
    assert found.get("runtimeError") is None, found["runtimeError"]
    judged = found["categories"][category]
    low = [found["audits"][each["id"]] for each in judged["auditRefs"] if each["weight"]]
    faults = [
        f"{each['id']}: {each['score']}: {each.get('displayValue') or each['title']}"
        for each in low
        if each["score"] not in (None, 1)
    ]
    return Report(round(judged["score"] * 100), faults, _slow(found["audits"]) if counted else [])


def _slow(audits: dict[str, Any]) -> list[str]:
    requests = len(audits["network-requests"]["details"]["items"])
    found = {name: requests if name == "network-requests" else audits[name]["numericValue"] for name in MOST}
    much = [f"{name}: {count}, of at most {MOST[name]}" for name, count in found.items() if count > MOST[name]]
    return much + [f"{name}: {audits[name]['displayValue']}" for name in SIMULATED if audits[name]["score"] * 100 < GOOD]
