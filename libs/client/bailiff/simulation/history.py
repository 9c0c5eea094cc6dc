"""`bailiff import`: writes the folder, names the lines that cannot be read, and simulates policies on what was recorded."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff.client.errors import ClientError, ExitCode
from bailiff.policy.policy_files import read_policy

from . import options

Say = Callable[[str], None]


@dataclass(frozen=True)
class ImportOptions:
    """Options of all formats. errors: file for all lines that cannot be read; most_errors: how many of them are printed.

    policies: to simulate; none: the one that the import writes.
    """

    folder: Path
    errors: Path | None
    most_errors: int
    checkpoint_every: str
    policies: Sequence[Path]
    classes: Sequence[str]
    cluster: str | None
    first: int | None
    simulate: bool


@contextmanager
def import_errors() -> Any:
    """Converts errors about the given files to `ClientError`."""
    try:
        with options.simulator_errors():
            yield
    except ClientError as error:
        if error.advice == "list them: bailiff simulate --list":
            raise ClientError(error.exit_code, error.text) from None
        raise


class BadLines:
    """Prints the first lines that cannot be read, and writes all of them to a file."""

    def __init__(self, most: int, path: Path | None, say: Say) -> None:
        self._most, self._path, self._say = most, path, say
        self._file = None if path is None else path.open("w", encoding="utf-8")
        self._count = 0

    def __call__(self, line: object) -> None:
        """Takes one."""
        self._count += 1
        if self._count <= self._most:
            self._say(str(line))
        if self._file is not None:
            self._file.write(f"{line}\n")

    def close(self) -> None:
        """Says how many there are beyond those printed."""
        if self._count > self._most:
            where = f"all are in {self._path}" if self._path is not None else "--errors FILE writes all"
            self._say(f"and {self._count - self._most:,} more lines that cannot be read: {where}")
        if self._file is not None:
            self._file.close()


def run_import(source: Any, chosen: ImportOptions, warn: Say, progress: Any) -> dict[str, Any]:
    """Imports, and simulates unless told otherwise. Returns the report as data. Raises `ClientError`."""
    importing = options.simulator("history.importing")
    every = options.duration("--checkpoint-every", chosen.checkpoint_every, 1)
    with import_errors():
        bad = BadLines(chosen.most_errors, chosen.errors, warn)
        try:
            history = importing.import_history(source, chosen.folder, importing.Assumptions(every), bad)
        finally:
            bad.close()
        report: dict[str, Any] = {
            "scheduler": history.scheduler, "folder": str(chosen.folder), "recorded": dict(history.recorded),
            "left_out": dict(history.left_out), "bad_lines": history.bad_lines, "certainty": list(history.certainty),
            "not_simulated": list(history.not_simulated),
            "machines": len(history.machines), "gpus": sum(each.gpus for each in history.machines),
            "machines_seen": history.machines_seen,
        }  # fmt: skip
        if chosen.simulate:
            report |= _simulate(chosen, history, progress)
    return report


def _simulate(chosen: ImportOptions, history: Any, progress: Any) -> dict[str, Any]:
    runs, catalogue, builder = (options.simulator(name) for name in ("runs", "traces.catalogue", "workload_builder"))
    load = options.simulator("history.load")
    if not history.machines and chosen.cluster is None:
        raise ClientError(
            ExitCode.USAGE, "the record names no machines, so there is nothing to simulate on",
            f"it is imported: add --cluster 16x8, or read it later: bailiff simulate history:{chosen.folder} --cluster 16x8",
        )  # fmt: skip
    files = list(chosen.policies) or [chosen.folder / options.simulator("history.folder").POLICY]
    policies = options.policies(files)
    if not chosen.policies:
        policies = {"Bailiff": next(iter(policies.values()))}
    source = catalogue.trace(f"history:{chosen.folder}")
    choices = builder.Choices(
        tiers=options.pairs("--class", chosen.classes), first=chosen.first, checkpoint_every=history.checkpoint_every
    )
    cluster = chosen.cluster or f"history:{chosen.folder}"
    delays = options.simulator("timeline").Delays()
    experiment = runs.Experiment(f"history:{chosen.folder}", cluster, choices, delays, policies, (), range(1))
    found = runs.run_all(experiment, source, progress)
    workload = builder.assemble(source, catalogue.cluster(cluster), choices, 0)
    was = load.recorded_run(chosen.folder, workload, next(iter(policies.values())))
    return {
        "runs": runs.summary([was, *found]), "rejected": runs.refusals(found), "simulated_jobs": len(was.jobs),
        "policies": [str(path) for path in files],
    }  # fmt: skip


def history_what_if(folder: Path, policy: Path, progress: Any) -> tuple[Any, dict[str, Any]]:
    """Both simulations of an imported history, and their comparison as data. Raises `ClientError`."""
    load, comparing = options.simulator("history.load"), options.simulator("what_if")
    with import_errors():
        known = options.simulator("history.folder").read_manifest(folder)
        own = read_policy(folder / options.simulator("history.folder").POLICY)
        rules = read_policy(policy)
        choices = options.simulator("workload_builder").Choices(checkpoint_every=known.checkpoint_every)
        log = load.from_history(folder, own, choices)
        found = comparing.what_if(log, rules, None, progress)
        compared: Mapping[str, Any] = comparing.compared(found)
    return found, dict(compared)
