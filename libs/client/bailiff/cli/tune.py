"""`bailiff policy tune`: tries settings of a few policy fields on a trace, and shows the Pareto frontier."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.errors import UsageError
from bailiff.simulation.options import WorkloadOptions
from bailiff_core.humanize import count_text

from .session import OFFLINE, Session, command
from .simulate import Again, Cluster, Manifest, Seeds, check_alone, say_compared, write_files


@command("policy tune", leave_out=OFFLINE)
async def tune(
    session: Session,
    context: typer.Context,
    trace: Annotated[str | None, typer.Argument(metavar="TRACE", help="As for bailiff simulate.")] = None,
    knob: Annotated[
        list[str] | None, typer.Option("--knob", metavar="PLACE=VALUE,...", help="A policy field and values to try; repeatable.")
    ] = None,
    knobs: Annotated[
        Path | None, typer.Option("--knobs", metavar="FILE", help="The same as YAML: lists of values by field.")
    ] = None,
    policy: Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="The base policy.")] = None,
    high: Annotated[int | None, typer.Option("--high", help="Lowest value of the high priority classes.")] = None,
    most: Annotated[
        int, typer.Option("--most", min=2, max=1000, help="Maximum number of settings; a random sample if there are more.")
    ] = 32,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML report with the frontier.")
    ] = None,
    manifest: Manifest = None,
    again: Again = None,
    cluster: Cluster = None,
    seeds: Seeds = 1,
    *,
    workload: WorkloadOptions,
) -> None:
    """Compare settings of a policy on a trace: work lost against the waiting time of the high classes.

    Shows the Pareto frontier; choosing a point on it is up to the owners of the pool.
    """
    from bailiff.client.safe_write import check
    from bailiff.simulation import options
    from bailiff.simulation.options import simulator
    from bailiff.tables.style import results_table

    tuning, runs, catalogue = simulator("tune"), simulator("runs"), simulator("traces.catalogue")
    check(report, manifest)
    before: dict[str, Any] | None = None
    with options.simulator_errors(options.LIST_THEM):
        if again is not None:
            check_alone(context)
            before = options.manifest_of(again, "policy tune")
            search = tuning.search_from(before)
            source = catalogue.trace(search.experiment.trace)
        else:
            if trace is None:
                raise UsageError("expected a trace, found nothing", options.LIST_THEM)
            knob_values = options.knobs(knob or (), knobs)
            source = catalogue.trace(trace)
            base = options.policies([policy] if policy is not None else [])
            delays = simulator("timeline").Delays()
            experiment = runs.Experiment(
                trace, cluster or source.cluster, workload.choices(), delays, base, (), tuple(range(seeds))
            )
            search = tuning.Search(experiment, knob_values, most, high)
        with options.progress_bar(session.err) as progress:
            points = tuning.tune(search, source, progress)
    data = tuning.manifest(search, source, points)
    manifest_text = json.dumps(data, indent=1, ensure_ascii=False)
    session.show(data, lambda: results_table(*simulator("tables").points_table(points)))

    def page() -> str:
        tried = search.experiment
        seeded = count_text(len(tried.seeds), "seed")
        notes = [f"{len(points)} settings on {tried.trace}, cluster {tried.cluster}, {seeded}", *source.notes]
        return str(simulator("report").frontier_page(f"Knobs of a policy on {tried.trace}", notes, points, manifest_text))

    write_files(session, {"report": (report, page), "manifest": (manifest, lambda: manifest_text + "\n")})
    if before is not None:
        say_compared(session, before, manifest_text, _digests)


def _digests(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"{', '.join(f'{name}={value}' for name, value in point['setting'].items())}, seed {seed}": digest
        for point in manifest["points"]
        for seed, digest in zip(manifest["experiment"]["seeds"], point["digests"], strict=True)
    }
