"""`bailiff policy tune`: a few knobs of a policy turned on a trace, and what that costs whom."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from bailiff import simulating
from bailiff.simulating import simulator
from bailiff.written import write

from .session import Session
from .simulate import Cluster, Compress, Every, Jobs, Length, Mix, Restart, Save, Seeds, Skip, Tiers


async def tune(
    session: Session,
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="As for bailiff simulate.")],
    knob: Annotated[
        list[str] | None, typer.Option("--knob", metavar="PLACE=VALUE,...", help="A place of the policy and values; repeat it.")
    ] = None,
    knobs: Annotated[
        Path | None, typer.Option("--knobs", metavar="FILE", help="The same as YAML: lists of values by place.")
    ] = None,
    policy: Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="The policy whose knobs these are.")] = None,
    high: Annotated[int | None, typer.Option("--high", help="Classes of this value and above are the high ones.")] = None,
    most: Annotated[
        int, typer.Option("--most", min=2, max=1000, help="At most so many settings, by chance if there are more.")
    ] = 32,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML page with the frontier.")] = None,
    manifest: Annotated[Path | None, typer.Option("--manifest", metavar="FILE", help="Write what was run.")] = None,
    cluster: Cluster = None,
    seeds: Seeds = 1,
    jobs: Jobs = None,
    compress: Compress = 1.0,
    skip: Skip = "0s",
    length: Length = None,
    tiers: Tiers = None,
    mix: Mix = None,
    checkpoint_every: Every = "30m",
    save_time: Save = "30s",
    restart_cost: Restart = "1m",
) -> None:
    """Which settings of a few knobs are worth a thought? Work lost against how long the high classes wait, on a trace.

    It shows the frontier, and no best: which point on it is right is for the owners of the pool to say.
    """
    tuning, runs = simulator("tune"), simulator("runs")
    turned = simulating.knobs(knob or (), knobs)
    with simulating.told():
        source = simulator("traces.catalogue").trace(trace)
        chosen = simulating.choices(
            first=jobs, compress=compress, skip=skip, length=length, tiers=tiers or (), mix=mix or (),
            checkpoint_every=checkpoint_every, save_time=save_time, restart_cost=restart_cost, mtbf=simulating.NO_LIMIT,
            retry="10m", quotas=False,
        )  # fmt: skip
        base = simulating.policies([policy] if policy is not None else [])
        ask = runs.Ask(trace, cluster or source.cluster, chosen, simulator("timeline").Delays(), base, (), range(seeds))
        with simulating.progress_bar(session.err) as tell:
            points = tuning.tune(ask, turned, most, high, tell)
    data = {"ask": ask.as_json(), "knobs": turned, "most": most, "high": high, "points": [asdict(point) for point in points]}
    told = json.dumps(data, indent=1, ensure_ascii=False)
    if manifest is not None:
        write(manifest, told + "\n")
    if report is not None:
        notes = [f"{len(points)} settings on {trace}, cluster {ask.cluster}, {seeds} seed{'s' if seeds > 1 else ''}"]
        write(report, simulator("report").frontier_page(f"Knobs of a policy on {trace}", notes, points, told))
    session.show(data, lambda: _table(points, list(turned)))
    if report is not None:
        session.say(f"report: {report}")


def _table(points: list[Any], names: list[str]) -> Table:
    hours = simulator("report").hours_text
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("frontier", *names, "GPU-h lost", "high classes wait", "p95", "others wait", "evictions"):
        table.add_column(name, justify="left" if name == "frontier" else "right", overflow="fold")
    for point in points:
        table.add_row(
            "*" if point.frontier else "", *(str(point.setting[name]) for name in names), f"{point.lost:,.1f}",
            hours(point.waited), hours(point.waited_p95), hours(point.others_waited), f"{point.evictions:,.1f}",
        )  # fmt: skip
    return table
