"""`make test-gpu`: measure this machine's first GPU, and write docs/measurements.md. Where a check fails, the exit code is 1."""

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from bailiff_node_agent.devices import NoDriver
from bailiff_service.logs import configure_logs

from . import evictions, steps
from .machine import Machine, open_machine
from .page import Row, Section, write, written
from .pool import Pool, running_pool

PAGE = Path(__file__).parents[2] / "docs" / "measurements.md"
LIMIT_S = 470.0
Step = Callable[[Pool, Machine], Awaitable[Section]]
NOT_STARTED = "not run: no time was left"


class Run:
    """Writes the page after each step, so that a run that is stopped leaves what it has measured."""

    def __init__(self, machine: Machine, page: Path, limit_s: float) -> None:
        self.machine, self.page = machine, page
        self.deadline, self.sections = time.monotonic() + limit_s, list[Section]()
        self.about = machine.facts()

    @property
    def left_s(self) -> float:
        """Time that is left."""
        return self.deadline - time.monotonic()

    async def step(self, title: str, work: Callable[[], Awaitable[Section]], limit_s: float) -> None:
        """Run it, but no longer than this, nor than there is time. A failure is a row, and the next step runs."""
        began = time.monotonic()
        try:
            section = await asyncio.wait_for(work(), min(limit_s, self.left_s)) if self.left_s > 10 else Section(title, [])
            if not section.rows:
                section.rows.append(Row(title, outcome=NOT_STARTED))
        except TimeoutError:
            section = Section(title, [Row(title, outcome="FAILED: it took too long", failed=True)])
        except Exception as problem:  # noqa: BLE001 - whatever fails in one step must not lose the others
            traceback.print_exc()
            section = Section(title, [Row(title, outcome=f"FAILED: {first_line(problem)}", failed=True)])
        self.sections.append(section)
        write(self.page, written(self.about, self.sections, has_card=self.machine.has_card))
        failed = "".join(f"\n    {row.what}: {row.outcome}" for row in section.rows if row.failed)
        sys.stdout.write(f"{title}: {time.monotonic() - began:.0f} s{failed}\n")
        sys.stdout.flush()


def first_line(problem: BaseException) -> str:
    """For a table's cell."""
    lines = str(problem).splitlines()
    return f"{type(problem).__name__}: {lines[0] if lines else ''}".replace("|", "/")[:200]


async def in_pool(work: Callable[[Pool], Awaitable[Section]]) -> Section:
    """In a pool and a folder of its own, so that a failed step leaves nothing for the next."""
    with tempfile.TemporaryDirectory(prefix="bailiff-gpu-", ignore_cleanup_errors=True) as folder:
        async with running_pool(Path(folder)) as pool:
            return await work(pool)


async def measure(run: Run, evicted: int | None) -> None:
    """All steps, the short ones first."""
    machine = run.machine
    others: tuple[tuple[str, Step, float], ...] = (
        ("Telemetry", steps.telemetry, 30),
        ("Sharing by MPS", steps.shared_by_mps, 45),
        ("Two ranks on one GPU", steps.two_ranks, 90),
    )
    for title, step, limit_s in others:
        await run.step(title, partial(in_pool, partial(step, machine=machine)), limit_s)
    for case in evictions.CASES:
        work = partial(in_pool, partial(evictions.section, machine=machine, case=case, runs=evicted))
        await run.step(case.title, work, case.most_s + 45)
    await run.step("Checkpoint of the GPU's memory", partial(in_pool, partial(steps.checkpoint, machine=machine)), 200)
    await run.step("Tests", lambda: steps.own_tests(machine), 120)
    await run.step("Demo", lambda: steps.demo(run.left_s - 40), max(1.0, run.left_s))


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description="Measure this machine's first GPU.")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write (docs/measurements.md)")
    parser.add_argument("--evictions", type=int, help="evictions of each kind, if fewer")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds in all")
    options = parser.parse_args()
    configure_logs("text", "ERROR", service="measurements", instance="")
    try:
        machine = open_machine()
    except NoDriver as reason:
        sys.stderr.write(f"no GPU here: {reason}\n")
        return 2
    run = Run(machine, options.page, options.limit)
    asyncio.run(measure(run, options.evictions))
    sys.stdout.write(f"{options.page} is written\n")
    return 1 if any(row.failed for section in run.sections for row in section.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
