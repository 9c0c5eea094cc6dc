"""Lighthouse's score of performance for each main page of the console.

Skipped, with a line, where there is no Chromium, Node, or Lighthouse.
"""

import asyncio

import pytest
from tests.kits.browser import chromium
from tests.kits.console_demo import POOL, Demo
from tests.kits.console_pictures import preemption
from tests.kits.lighthouse import GOOD, MAIN_PAGES, lighthouse, signed_in

from .table import Row, Run

QUICK = ("overview", "job", "timeline")


def measure(run: Run) -> list[Row]:
    """A whole system with four machines, jobs, preemptions and an archive."""
    demo = Demo(run.folder, 4, run.say)
    try:
        demo.start()
        scores = asyncio.run(_scores(demo, run))
    except pytest.skip.Exception as missing:
        run.say(str(missing))
        return []
    finally:
        demo.stack.close()
    return [Row(f"Lighthouse, performance: {name}", score, "of 100", f"≥ {GOOD}") for name, score in scores.items()]


async def _scores(demo: Demo, run: Run) -> dict[str, int]:
    async with demo.client() as client, chromium() as browser:
        await demo.play(client)
        demo.console.wait_ready()
        page = await browser.new_page(base_url=demo.console.address)
        cookie = await signed_in(page, demo.console.link)
        evicted = await preemption(page)
        found = {}
        for name, path in MAIN_PAGES.items():
            if run.quick and name not in QUICK:
                continue
            address = demo.console.address + path.format(
                pool=POOL, node="node-0", job=evicted["job"], decision=evicted["decided_seq"]
            )
            report = await lighthouse(address, cookie, "performance")
            run.say(f"{name}: {report.score}  {'; '.join(report.faults)}")
            found[name] = report.score
        return found
