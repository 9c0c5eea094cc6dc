"""`python -m tests.kits.console_pictures [--at ADDRESS]`: the pictures of docs/how-to/console.md, taken from the real page.

Starts a system with running jobs (tests/console_demo), or with --at uses one that runs already. A picture that is too large for
the repository, or of a page that shows a failure, is an error.
"""

import argparse
import asyncio
import contextlib
import signal
import tempfile
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.async_api import Browser, Page, expect
from tests.kits.browser import LAPTOP, PHONE, chromium
from tests.kits.console_demo import POOL, Demo

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
LARGEST_BYTES = 200_000
PATIENCE_MS = 30_000
FREQUENT = 192
URGENT = (
    "name: nightly-report\nclass: inference\nproject: product-batch\ngpus: 2\ncpu: 8\nmemory: 32GiB\n"
    "command: [python, report.py]\n"
)

Prepare = Callable[[Page], Awaitable[object]]


async def archived(page: Page, what: str) -> list[dict[str, Any]]:
    """Items of the archive, requested as a page requests them."""
    answer = await page.request.get(f"/api/archive/pools/{POOL}/{what}")
    assert answer.ok, await answer.text()
    items: list[dict[str, Any]] = (await answer.json())["items"]
    return items


async def preemption(page: Page) -> dict[str, Any]:
    """An eviction for the urgent class whose victim has resumed, or else any finished one."""
    for _ in range(120):
        found = await archived(page, "evictions?reason=preemption&limit=100")
        carried = [each for each in found if "released" in each["stages"]]
        if carried:
            return max(carried, key=lambda each: ("resumed" in each["stages"], each["for_job"] == "serve-1", each["gpus"]))
        await asyncio.sleep(0.5)
    raise TimeoutError("no job was evicted")


async def choose_a_job(page: Page) -> None:
    """Hover over a GPU of the map, so that its tooltip is shown."""
    await page.locator(".map-frame").hover(position={"x": 150, "y": 190})


async def open_first(page: Page) -> None:
    """Open what would unblock the first pending job."""
    await page.get_by_role("button", name="What would unblock it?").first.click()
    await page.locator(".explanation").first.wait_for()


async def verify(page: Page) -> None:
    """Verify the record in the page, then scroll to the top."""
    await page.get_by_role("button", name="Verify this record").click()
    await expect(page.locator(".verdict")).to_contain_text("✓", timeout=PATIENCE_MS)
    await page.evaluate("scrollTo(0, 0)")


async def edit(page: Page) -> None:
    """Open the YAML: the editor takes the place of the text area."""
    await page.locator("summary", has_text="YAML").click()
    await page.mouse.move(5, 5)
    await page.locator(".cm-content").wait_for()


async def drawn(page: Page) -> None:
    """Wait for the bars of the timeline, which come from the archive."""
    await page.locator(".timeline-bar").first.wait_for()


async def write(page: Page) -> None:
    """Enter a job as YAML, with its preview beside it."""
    await page.get_by_role("button", name="YAML").click()
    await page.locator(".cm-content").fill(URGENT)
    await page.locator(".plan[aria-busy=false] .computed").wait_for()


def make_small(file: Path) -> None:
    """Reduce the picture to 256 colours, without a visible difference: the most frequent, and the farthest from them."""
    with Image.open(file) as picture:
        seen = np.asarray(picture.convert("RGB"), dtype=np.int64)
    codes, where, often = np.unique(seen @ (1 << 16, 1 << 8, 1), return_inverse=True, return_counts=True)
    colours = np.stack((codes >> 16, codes >> 8 & 255, codes & 255), axis=1)
    frequent = np.argsort(-often, kind="stable")[:FREQUENT]
    distances = np.array([((colours[frequent] - colour) ** 2).sum(axis=1) for colour in colours])
    nearest, far, palette = distances.argmin(axis=1), distances.min(axis=1), list(colours[frequent])
    while len(palette) < 256 and far.any():
        palette.append(colours[far.argmax()])
        distance = ((colours - palette[-1]) ** 2).sum(axis=1)
        nearest, far = np.where(distance < far, len(palette) - 1, nearest), np.minimum(distance, far)
    small = Image.fromarray(nearest.astype(np.uint8)[where].reshape(seen.shape[:2]), mode="P")
    small.putpalette(np.array(palette, dtype=np.uint8).tobytes())
    small.save(file, optimize=True)


class Camera:
    """Takes pictures of one console. link: the URL that signs in to it."""

    def __init__(self, browser: Browser, link: str, folder: Path) -> None:
        self.browser, self.link, self.folder = browser, link, folder
        self.address = link.partition("/auth/")[0]

    async def take(
        self, name: str, path: str, ready: str, prepare: Prepare | None = None, dark: bool = False, size: tuple[int, int] = LAPTOP
    ) -> None:
        """ready: a selector that must match first."""
        async with await self.browser.new_context(
            base_url=self.address,
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        ) as context:
            context.set_default_timeout(PATIENCE_MS)
            await context.request.get(self.link)
            page = await context.new_page()
            await page.goto(f"/{POOL}{path}")
            await page.get_by_text("live, record").wait_for()
            await page.locator(ready).first.wait_for()
            await expect(page.locator(".state[data-kind=loading]")).to_have_count(0, timeout=PATIENCE_MS)
            if prepare is not None:
                await prepare(page)
            await expect(page.locator(".state[data-kind=failure]")).to_have_count(0)
            await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            file = self.folder / f"console-{name}.png"
            await page.screenshot(path=file)
            make_small(file)
        kilobytes = file.stat().st_size / 1000
        print(f"{file.name}: {kilobytes:.0f} kB", flush=True)
        assert file.stat().st_size <= LARGEST_BYTES, (
            f"{file.name} has {kilobytes:.0f} kB, the limit is {LARGEST_BYTES / 1000:.0f}"
        )

    async def all(self) -> None:
        """One picture per page; the pool also in the dark scheme and at phone size."""
        async with await self.browser.new_context(base_url=self.address) as context:
            await context.request.get(self.link)
            page = await context.new_page()
            await page.goto(f"/{POOL}")
            await page.get_by_text("live, record").wait_for()
            evicted = await preemption(page)
        job, seq = evicted["job"], evicted["decided_seq"]
        await self.take("overview", "/overview", ".chart-plot canvas")
        await self.take("jobs", "/jobs", "main .badge")
        await self.take("policy", "/policy", ".policy-projects", edit, size=(LAPTOP[0], 1300))
        await self.take("pool", "", "canvas", choose_a_job)
        await self.take("pool-dark", "", "canvas", dark=True)
        await self.take("queue", "/queue", ".pending-job", open_first)
        await self.take("job", f"/jobs/{job}?tab=evictions", ".eviction-card :text('Restart cost')")
        await self.take("decision", f"/decisions/{seq}", "table", verify)
        await self.take("projects", "/projects", "table")
        began, released = (datetime.fromisoformat(text) for text in (evicted["decided_at"], evicted["stages"]["released"]))
        around = (released - began) * 3
        span = urlencode({"from": (began - around).isoformat(), "to": (released + around).isoformat(), "at": seq})
        await self.take("timeline", f"/timeline?{span}", ".verifier .good", drawn, size=(LAPTOP[0], 1620))
        await self.take("submit", "/submit", ".submit", write)
        await self.take("phone", f"/jobs/{job}?tab=evictions", ".eviction-card :text('Restart cost')", size=PHONE)


async def _take(link: str, folder: Path) -> None:
    async with chromium() as browser:
        await Camera(browser, link, folder).all()


async def _stage_and_take(demo: Demo, folder: Path) -> None:
    async with demo.client() as client:
        await demo.play(client)
        demo.console.wait_ready()
        await _take(demo.console.link, folder)


def main() -> None:
    """Once."""
    parser = argparse.ArgumentParser(prog="python -m tests.kits.console_pictures")
    parser.add_argument("--at", metavar="LINK", help="URL that signs in to a console that runs already, as `make up` prints it")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="target folder (default docs/pictures)")
    options = parser.parse_args()
    if options.at:
        return asyncio.run(_take(options.at, options.folder))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bailiff-console-pictures-") as folder, contextlib.ExitStack() as ending:
        demo = Demo(Path(folder), 4, lambda text: print(text, flush=True))
        ending.callback(demo.stack.close)
        demo.start()
        asyncio.run(_stage_and_take(demo, options.folder))
    return None


if __name__ == "__main__":
    main()
