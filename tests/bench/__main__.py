"""`python -m tests.bench [NAME…] [--keep] [--json FILE] [--quick] [--records N] [--check | --record]`."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bailiff_core.engine import LOGIC

from . import (
    archive,
    cli_start,
    console,
    console_page,
    control,
    core,
    disk,
    engine,
    fairness,
    fleet,
    flood,
    fold,
    hosted,
    intake,
    job,
    kubernetes,
    launches,
    lighthouse,
    listing,
    notice,
    parking,
    pause,
    placements,
    pools,
    preemptions,
    projects,
    replaying,
    replicas,
    restart,
    rollup,
    signing,
    sim,
    slurm,
    snapshot,
    trace_fairness,
    wasted,
    weight,
)
from .figures import Measurement, figure_of, keep
from .regression import measured, read_figures, worse, write_figures
from .table import Row, Run, show

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # measured commands are compiled once, as installed ones

BENCHES: dict[str, Callable[[Run], list[Row]]] = {
    "core": core.measure,
    "engine": engine.measure,
    "projects": projects.measure,
    "intake": intake.measure,
    "fold": fold.measure,
    "signing": signing.measure,
    "replay": replaying.measure,
    "notice": notice.measure,
    "slurm": slurm.measure,
    "placements": placements.measure,
    "preemptions": preemptions.measure,
    "replicas": replicas.measure,
    "fairness": fairness.measure,
    "trace-fairness": trace_fairness.measure,
    "fleet": fleet.measure,
    "flood": flood.measure,
    "restart": restart.measure,
    "job": job.measure,
    "control": control.measure,
    "wasted": wasted.measure,
    "parking": parking.measure,
    "pause": pause.measure,
    "snapshot": snapshot.measure,
    "hosted": hosted.measure,
    "launches": launches.measure,
    "archive": archive.measure,
    "rollup": rollup.measure,
    "console": console.measure,
    "console-page": console_page.measure,
    "lighthouse": lighthouse.measure,
    "sim": sim.measure,
    "cli-start": cli_start.measure,
    "listing": listing.measure,
    "weight": weight.measure,
    "kubernetes": kubernetes.measure,
    "disk": disk.measure,
    "pools": pools.measure,
}


ON_REQUEST = ("kubernetes", *(() if snapshot.usable_criu() else ("snapshot",)), *(() if os.geteuid() == 0 else ("parking",)))
"""Measured only where they are named: they need more than `make install-dev` brings."""


def main() -> None:
    """Measure what was asked for, or everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measures Bailiff on this machine.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; by default all but {', '.join(ON_REQUEST)}"
    )
    parser.add_argument("--json", type=Path, help="write all figures here, too")
    parser.add_argument("--keep", action="store_true", help="replace the figures of docs/reference/figures.md by these")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller logs: about a minute")
    parser.add_argument("--records", type=int, help="length of the log that a service is restarted on")
    check = parser.add_mutually_exclusive_group()
    check.add_argument("--check", action="store_true", help="compare the short forms with the figures in git; 1 if one is worse")
    check.add_argument("--record", action="store_true", help="replace the figures in git by those of the short forms")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"there is no bench {unknown[0]!r}; there is {', '.join(BENCHES)}")
    console = Console(width=150)
    if options.keep and options.quick:
        parser.error("the figures of a short form are not kept")
    if options.check or options.record:
        sys.exit(_compare(options.names, console, record=options.record))
    records = options.records or (10_500 if options.quick else 100_500)
    rows: list[Row] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="bailiff-bench-") as folder:
        for name in options.names or (name for name in BENCHES if name not in ON_REQUEST):
            began, load = time.monotonic(), os.getloadavg()[0]
            console.print(f"• {name} (load {load:.1f} on {os.cpu_count()} cores)", highlight=False)
            run = Run(options.quick, Path(folder) / name, records, console)
            try:
                measured = BENCHES[name](run)
            except Exception:  # noqa: BLE001 - told, and the exit status is 1; the others can be measured
                console.print(f"FAILED {name}\n{traceback.format_exc()}", style="bold red", highlight=False, markup=False)
                failed = True
                continue
            for row in measured:
                row.detail["load_before"] = load
            rows += measured
            if options.keep and measured:  # a bench that cannot run here says why, and its figures stay
                words = f"{name} --records {options.records}" if options.records else name
                figures = tuple(figure_of(row) for row in measured)
                keep(Measurement(words, time.strftime("%Y-%m-%d", time.gmtime()), load_text(load), commit(), LOGIC, figures))
            run.say(f"{time.monotonic() - began:.0f} s")
    show(console, rows)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "rows": [row.to_data() for row in rows]}, indent=2))
    sys.exit(failed)


def _compare(names: list[str], console: Console, *, record: bool) -> int:
    """Measure the short form of each bench a few times. Returns the exit status."""
    before, now, lines = read_figures(), {}, list[str]()
    for name in names or before:
        with tempfile.TemporaryDirectory(prefix="bailiff-bench-") as folder:
            console.print(f"• {name} (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)", highlight=False)
            places = iter(Path(folder) / str(number) for number in range(1000))
            now[name], better = measured(lambda: BENCHES[name](Run(True, next(places), 10_500, console)))  # noqa: B023 - called at once
        for what, ratio in now[name].items():
            console.print(
                f"  {what}: {ratio:.3g}× its baseline, in git {before.get(name, {}).get(what, 0):.3g}×", highlight=False
            )
        lines += worse(before.get(name, {}), now[name], better)
    if record:
        write_figures({**before, **now})
        return 0
    for line in lines:
        console.print(f"WORSE {line}", style="bold red", highlight=False)
    return 1 if lines else 0


def machine() -> dict[str, object]:
    """Where and what was measured."""
    return {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "commit": commit(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def commit() -> str:
    """What was measured; with `-dirty` if it is not in git as it is."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def load_text(load: float) -> str:
    """How loaded the machine was before."""
    return "idle" if load < 0.5 else f"load {load:.0f}"


if __name__ == "__main__":
    main()
