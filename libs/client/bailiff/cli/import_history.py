"""`bailiff import`: another scheduler's record, into what `simulate` and `what-if` read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.errors import UsageError
from bailiff.simulation import options
from bailiff.simulation.history import ImportOptions, run_import
from bailiff.simulation.options import opt

from .session import OFFLINE, Session, command

Timezone = Annotated[str, opt("--timezone", metavar="ZONE", help="Time zone of times without one, as in Europe/Berlin.")]

Objects = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="JSON of kubectl get -o json, or audit logs, plain or gzipped.")
]


@command("import slurm", leave_out=OFFLINE)
def slurm(
    session: Session,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Output of sacct -P, plain or gzipped.")],
    conf: Annotated[Path | None, opt("--conf", metavar="FILE", help="slurm.conf: machines, partitions, what preempts.")] = None,
    gres: Annotated[Path | None, opt("--gres", metavar="FILE", help="gres.conf, if slurm.conf does not count the GPUs.")] = None,
    qos: Annotated[Path | None, opt("--qos", metavar="FILE", help="Output of sacctmgr show qos -P.")] = None,
    assoc: Annotated[
        Path | None, opt("--assoc", metavar="FILE", help="Output of sacctmgr show assoc -P: accounts and limits.")
    ] = None,
    timezone: Timezone = "UTC",
    delimiter: Annotated[str, opt("--delimiter", metavar="TEXT", help="What separates the columns.")] = "|",
    fields: Annotated[
        str | None, opt("--fields", metavar="NAMES", help="Columns of a file without header, as in sacct --format.")
    ] = None,
    tier: Annotated[
        str | None,
        opt(
            "--tier",
            metavar="COLUMN",
            help="qos or partition: what ranks jobs. Default: what preemption goes by in --conf, else qos.",
        ),
    ] = None,
    *,
    chosen: ImportOptions,
) -> None:
    """Read Slurm's accounting: sacct --allusers --duplicates --parsable2 --format=…

    Prints how often Slurm preempted whom, the GPU-hours lost to that, what Bailiff would have done with the same jobs, and
    what is unknown. docs/how-to/import-history.md is the guide.
    """
    if tier not in (None, "qos", "partition"):
        raise UsageError(f"--tier: expected qos or partition, found {tier!r}")
    reader, config, values = (options.simulator(f"history.{name}") for name in ("slurm", "slurm_config", "values"))
    with options.simulator_errors():
        named = fields.split(",") if fields else ()
        how = reader.Options(values.zone(timezone), delimiter, named, tier or config.tier_column(conf))
        source = reader.read(files, config.site(conf, gres, qos, assoc, how.tier), how)
        _report(session, source, chosen)


@command("import kueue", leave_out=OFFLINE)
def kueue(session: Session, files: Objects, chosen: ImportOptions) -> None:
    """Read Kueue's Workloads: kubectl get workloads,events,nodes,clusterqueues,localqueues -A -o json

    Both v1beta1 and v1beta2. Add workloadpriorityclasses, and files of the API server's audit log, where there are any: a
    Workload keeps only its last eviction.
    """
    _of_objects("kueue", session, files, chosen)


@command("import kubernetes", leave_out=OFFLINE)
def kubernetes(session: Session, files: Objects, chosen: ImportOptions) -> None:
    """Read what kube-scheduler did: kubectl get pods,events,nodes,priorityclasses -A -o json

    A preempted pod is deleted, and Events are kept for an hour: add files of the API server's audit log for more.
    """
    _of_objects("kubernetes", session, files, chosen)


@command("import csv", leave_out=OFFLINE)
def csv(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table with a header, plain or gzipped.")],
    mapping: Annotated[
        Path, opt("--mapping", metavar="FILE", help="Which column is what (YAML); see docs/how-to/import-history.md.")
    ],
    *,
    chosen: ImportOptions,
) -> None:
    """Read a table of jobs of any scheduler, with a file that says which column is what.

    Each row is one attempt: rows with the same job are its attempts.
    """
    reader = options.simulator("history.table")
    with options.simulator_errors():
        source = reader.read(file, reader.mapping(mapping))
        _report(session, source, chosen)


def _of_objects(scheduler: str, session: Session, files: list[Path], chosen: ImportOptions) -> None:
    source = options.simulator(f"history.{scheduler}").Reader().read(files)
    with options.simulator_errors():
        _report(session, source, chosen)


def _report(session: Session, source: Any, chosen: ImportOptions) -> None:
    from bailiff.client.safe_write import check
    from bailiff.tables.history import history_report

    check(chosen.errors)
    if chosen.folder.exists() and not chosen.folder.is_dir():
        raise UsageError(f"--out: {chosen.folder} is not a folder")
    with options.progress_bar(session.err) as progress:
        found = run_import(source, chosen, session.note, progress)
    session.show(found, lambda: history_report(found))
    session.say(
        f"{chosen.folder}: bailiff simulate history:{chosen.folder}, or bailiff what-if --file {chosen.folder} --policy FILE"
    )
