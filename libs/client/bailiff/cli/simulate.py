"""`bailiff simulate`: compares policies on a trace; the scheduling engine runs under virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.errors import UsageError
from bailiff.simulation import options
from bailiff.simulation.options import WorkloadOptions, opt

from .session import OFFLINE, SHARED, Session, command

BESIDE_AGAIN = ("again", "manifest", "report", "log", *SHARED)


Cluster = Annotated[str | None, opt("--cluster", help="Nodes, as in 16x8 or 4x8xH100-80GB,8x2, or a built-in cluster by name.")]
Manifest = Annotated[Path | None, typer.Option("--manifest", metavar="FILE", help="Write a manifest that reproduces the run.")]
Again = Annotated[
    Path | None, typer.Option("--again", metavar="MANIFEST", help="Repeat the run of a manifest, and compare the results.")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, max=100, help="Number of seeds, from 0, for --mix and --mtbf.")]


@command("simulate", leave_out=OFFLINE)
async def simulate(
    session: Session,
    context: typer.Context,
    trace: Annotated[str | None, typer.Argument(metavar="TRACE", help="A trace by name, or FORMAT:FILE; see --list.")] = None,
    cluster: Cluster = None,
    policy: Annotated[
        list[Path] | None, typer.Option("--policy", metavar="FILE", help="Policy file; repeatable, to compare.")
    ] = None,
    baseline: Annotated[
        list[str] | None, typer.Option("--baseline", metavar="NAME", help="Also run a built-in scheduler, or all; see --list.")
    ] = None,
    seeds: Seeds = 1,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write an HTML report with plots.")] = None,
    manifest: Manifest = None,
    again: Again = None,
    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Write the log of the first policy's run.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List traces, clusters, formats and baselines.")] = False,
    *,
    workload: WorkloadOptions,
    mtbf: Annotated[str, opt("--mtbf", metavar="DURATION", help="Mean time between failures of a node.")] = options.NO_LIMIT,
    retry: Annotated[str, opt("--retry", metavar="DURATION", help="Lower bound of a policy's selection_backoff.")] = "10m",
    daily_quotas: Annotated[bool, typer.Option("--daily-quotas", help="Daily project quotas, as in Helios Venus.")] = False,
    start_delay: Annotated[
        str, opt("--start-delay", metavar="DURATION", help="Time from the start command of a task until it runs.")
    ] = "0s",
    release_delay: Annotated[
        str, opt("--release-delay", metavar="DURATION", help="Time from the exit of a task until its GPUs are seen free.")
    ] = "0s",
) -> None:
    """Compare policies on a recorded trace: the engine runs under virtual time, without Kafka and without a pool.

    Compares waiting times, completion times, evictions, work lost, utilisation and fairness; writes a report and a manifest
    that reproduces the run byte for byte. docs/how-to/simulate.md is the guide.
    """
    from rich.console import Group
    from rich.text import Text

    from bailiff.client.safe_write import check
    from bailiff.simulation.options import simulator
    from bailiff.tables.style import results_table

    runs = simulator("runs")
    if listed:
        _list(session)
        return
    check(report, manifest, log)
    before: dict[str, Any] | None = None
    with options.simulator_errors(options.LIST_THEM):
        if again is not None:
            check_alone(context)
            before = options.manifest_of(again, "simulate")
            experiment = runs.experiment_from(before.get("experiment", {}))
            source = simulator("traces.catalogue").trace(experiment.trace)
        else:
            if trace is None:
                raise UsageError("expected a trace, found nothing", options.LIST_THEM)
            source = simulator("traces.catalogue").trace(trace)
            chosen = workload.choices(mtbf=mtbf, retry=retry, quotas=daily_quotas)
            delays = simulator("timeline").Delays(
                start=options.duration("--start-delay", start_delay) or 0,
                release=options.duration("--release-delay", release_delay) or 0,
            )
            experiment = runs.Experiment(
                trace,
                cluster or source.cluster,
                chosen,
                delays,
                options.policies(policy or ()),
                _baselines(runs.BASELINES, baseline or ()),
                tuple(range(seeds)),
            )
        with options.progress_bar(session.err) as progress:
            found, lines = _run(runs, experiment, source, progress, log)
        data = runs.summary(found)
        manifest_text = json.dumps(runs.manifest(experiment, source, found), indent=1, ensure_ascii=False)
        notes = [*_notes(experiment, source), *runs.refusals(found)]
    for note in notes:
        session.say(note, "dim")
    figures = simulator("tables")
    session.show(
        {"runs": data, "manifest": json.loads(manifest_text)},
        lambda: Group(
            results_table(*figures.compared(data)),
            "",
            Text("Waiting time by class", "bold"),
            results_table(*figures.by_key(data, "waiting", "class ")),
        ),
    )

    def page() -> str:
        return str(simulator("report").page(f"Simulation of {experiment.trace}", notes, found, data, manifest_text))

    write_files(
        session,
        {"report": (report, page), "manifest": (manifest, lambda: manifest_text + "\n"), "log": (log, lambda: "".join(lines))},
    )
    if before is not None:
        say_compared(session, before, manifest_text, _digests)


def write_files(session: Session, files: Mapping[str, tuple[Path | None, Callable[[], str]]]) -> None:
    """Writes the results that are wanted as files, and says where each is."""
    from bailiff.client.safe_write import write

    for what, (path, content) in files.items():
        if path is not None:
            write(path, content())
            session.say(f"{what}: {path}")


def say_compared(
    session: Session, before: Mapping[str, Any], manifest: str, digests: Callable[[Mapping[str, Any]], dict[str, str]]
) -> None:
    """Says that a repeated run has the digests of its manifest. Raises `ClientError` if not."""
    for line in options.compare(before, json.loads(manifest), digests):
        session.say(line)


def check_alone(context: typer.Context) -> None:
    """Raises `ClientError` if options are given that the manifest of `--again` already has."""
    others = []
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and source.name == "COMMANDLINE" and each.name not in BESIDE_AGAIN:
            others.append("the trace" if each.param_type_name == "argument" else each.opts[0])
    if others:
        text = f"--again: cannot be combined with {', '.join(others)}; the manifest has them"
        raise UsageError(text, "allowed are only the output files: --report, --manifest, --log")


def _run(runs: Any, experiment: Any, source: Any, progress: Any, log: Path | None) -> tuple[list[Any], list[str]]:
    from bailiff.simulation.options import simulator

    lines: list[str] = []
    if log is None:
        return runs.run_all(experiment, source, progress), lines
    log_export = simulator("log_export").LogExport(lines)
    first = next(iter(experiment.policies), None), experiment.seeds[0]
    return runs.run_all(experiment, source, progress, lambda *run: log_export if run == first else log_export.nothing), lines


def _baselines(known: tuple[str, ...], named: list[str] | tuple[str, ...]) -> list[str]:
    if list(named) == ["all"]:
        return list(known)
    unknown = [name for name in named if name not in known]
    if unknown:
        raise UsageError(f"--baseline: expected some of {', '.join(known)} or all, found {unknown[0]!r}")
    return list(dict.fromkeys(named))


def _notes(experiment: Any, source: Any) -> list[str]:
    """Notes printed before the results."""
    from bailiff.simulation.options import simulator

    assembled, catalogue = simulator("workload_builder"), simulator("traces.catalogue")
    workload = assembled.assemble(source, catalogue.cluster(experiment.cluster), experiment.choices, experiment.seeds[0])
    peak = assembled.peak_demand(workload)
    seeds = f", {len(experiment.seeds)} seeds" if len(experiment.seeds) > 1 else ""
    jobs = _many(workload.about["jobs"], "job")
    notes = [f"{jobs} of {experiment.trace} on {experiment.cluster} ({_many(workload.gpus, 'GPU')}){seeds}"]
    if peak <= workload.gpus:
        notes.append(
            f"if every job started as it arrives, {_many(peak, 'GPU')} would be in use at most, and there are {workload.gpus:,}: "
            "there is hardly any contention. Use a smaller --cluster, or --compress"
        )
    notes += source.notes
    no_class = [tier for tier, name in {**source.tiers, **experiment.choices.tiers}.items() if not name]
    if no_class:
        notes.append(
            f"{', '.join(no_class)}: jobs of this tier get the policy's default class, as it has no mapping; "
            f"map it with --class, as in --class {no_class[0]}=train"
        )
    if source.left_out:
        notes.append("left out: " + ", ".join(f"{count:,} {why}" for why, count in source.left_out.items()))
    return notes


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _list(session: Session) -> None:
    from bailiff.simulation.options import simulator

    catalogue, baselines = simulator("traces.catalogue"), simulator("baselines")
    data = {
        "traces": list(catalogue.SHIPPED),
        "formats": list(catalogue.FORMATS),
        "clusters": list(catalogue.CLUSTERS),
        "baselines": baselines.DESCRIPTIONS,
    }
    manifest_text = [
        "traces:",
        *(f"  {name}" for name in catalogue.SHIPPED),
        f"formats of a file, as in slurm:jobs.txt: {', '.join(catalogue.FORMATS)}",
        f"clusters: {', '.join(catalogue.CLUSTERS)}; or as in 16x8xH100-80GB",
        "baselines:",
        *(f"  {name}: {others}" for name, others in baselines.DESCRIPTIONS.items()),
    ]
    session.show(data, lambda: "\n".join(manifest_text))


def _digests(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {f"{run['label']}, seed {run['seed']}": run["digest"] for run in manifest["runs"]}
