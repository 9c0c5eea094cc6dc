"""The console's page in a real browser at 1,000 nodes and 200 records a second: first paint, record → seen, memory after an hour.

Seen: the number of the record stands in the frame that the browser has just painted, beside the map that it changed. The baseline
is the same page of a pool of one node. Skipped, with a line, where there is no Chromium.
"""

import asyncio
import time
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaProducer
from playwright.async_api import CDPSession, Page
from tests.kits.browser import chromium
from tests.kits.console import ConsoleProcess

from bailiff_devstack.stack import Plan, Stack

from .console import RATE, hour_long, hour_of, hour_text, paced, write
from .console_log import POOL, BusyLog
from .system import publishing
from .table import Row, Run, percentile

PAINTED = """() => {
  const seen = (window.seen = []);
  const look = () => {
    const found = /#(\\d+)/.exec(document.querySelector('.connection').textContent);
    if (found && (!seen.length || seen.at(-1)[0] !== Number(found[1]))) seen.push([Number(found[1]), Date.now()]);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
SHOWS = "() => /record #\\d+/.test(document.querySelector('.connection')?.textContent ?? '') && document.querySelector('canvas')"
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


@dataclass
class Seen:
    """Milliseconds: first paint, until the map is there, per record until painted. Heap in MB after a third, and all of it."""

    paint: float
    map: float
    waits: list[float]
    heap: float
    heap_after: float


def measure(run: Run) -> list[Row]:
    """Kafka and the console alone, and a browser."""
    nodes = 100 if run.quick else 1000
    try:
        one, all_of_them = (asyncio.run(_measured(run, count)) for count in (1, nodes))
    except pytest.skip.Exception as missing:
        run.say(str(missing))
        return []
    what = f"{nodes:,} nodes, {nodes * 8:,} GPUs"
    rows = [
        Row(f"first paint of the page, {what}", all_of_them.paint, "ms", "-", one.paint, "ms: 1 node"),
        Row(f"until its map is there, {what}", all_of_them.map, "ms", "-", one.map, "ms: 1 node"),
    ]
    for name, figure in (("p50", 50), ("p95", 95), ("p99", 99)):
        baseline = percentile(one.waits, figure)
        label = f"record written → painted, {what}, {RATE} records/s, {name}"
        rows.append(
            Row(label, percentile(all_of_them.waits, figure), "ms", {"p95": "≤ 300 ms"}.get(name, "-"), baseline, "ms: 1 node")
        )
    after = f"heap of the page, {what}, after {hour_text(run)}"
    return [*rows, Row(after, all_of_them.heap_after, "MB", "< 300 MB, and the same", all_of_them.heap, "MB: first third")]


async def _measured(run: Run, nodes: int) -> Seen:
    stack = Stack(run.folder / f"page-{nodes}", Plan(pools=(POOL,)))
    try:
        await asyncio.to_thread(stack.start_kafka)
        log = BusyLog(nodes, time.time_ns() // 1000)
        async with publishing(stack.kafka.bootstrap) as producer, chromium() as browser:
            await write(producer, log.fill())
            console = ConsoleProcess(stack)
            console.start()
            await asyncio.to_thread(console.wait_ready)
            page = await browser.new_page(viewport={"width": 1440, "height": 900})
            await page.goto(f"{console.link}&to=/{POOL}")
            await page.wait_for_function(SHOWS)
            began = time.perf_counter()
            await page.reload()
            await page.wait_for_function(SHOWS)
            shown = (time.perf_counter() - began) * 1000
            paint = await page.evaluate(FIRST_PAINT)
            await page.evaluate(PAINTED)
            behind = time.time() - time.perf_counter()
            sent = await paced(producer, log, 6 if run.quick else 40)
            await page.wait_for_function("last => window.seen.at(-1)[0] >= last", arg=max(sent))
            waits = _waits(await page.evaluate("() => window.seen"), {seq: (at + behind) * 1000 for seq, at in sent.items()})
            tools = await page.context.new_cdp_session(page)
            heap = await _heap(tools)
            if nodes > 1:
                hour = hour_of(run)
                await _read(hour // 3, page, producer, log)
                heap = await _heap(tools)
                await _read(hour - hour // 3, page, producer, log)
            return Seen(paint, shown, waits, heap, await _heap(tools))
    finally:
        await asyncio.to_thread(stack.close)


async def _read(records: int, page: Page, producer: AIOKafkaProducer, log: BusyLog) -> None:
    await page.evaluate("() => { window.seen.length = 0 }")
    await write(producer, hour_long(log, records))
    await page.wait_for_function(
        "last => Number(/#(\\d+)/.exec(document.querySelector('.connection').textContent)[1]) >= last",
        arg=log.state.seq,
        timeout=900_000,
    )


def _waits(seen: list[tuple[int, float]], sent: dict[int, float]) -> list[float]:
    found, at = [], 0
    for seq, when in sorted(sent.items()):
        while seen[at][0] < seq:
            at += 1
        found.append(seen[at][1] - when)
    return found


async def _heap(tools: CDPSession) -> float:
    await tools.send("HeapProfiler.collectGarbage")
    await tools.send("Performance.enable")
    found = await tools.send("Performance.getMetrics")
    return next(each["value"] for each in found["metrics"] if each["name"] == "JSHeapUsedSize") / 1e6
