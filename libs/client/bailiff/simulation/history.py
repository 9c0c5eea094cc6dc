"""`bailiff import`: writes the folder, names the lines that cannot be read, and simulates policies on what was recorded."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from bailiff.client.errors import UsageError
from bailiff.client.safe_write import replacing
from bailiff.policy.policy_files import read_policy
from bailiff_core.model.policy import Policy

from . import options
from .comparison import SettingEffect, WaitDifference
from .options import opt

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of all formats."""

    folder: Annotated[Path, opt("--out", metavar="FOLDER", help="Folder for the result, created if missing.")] = Path("history")
    errors: Annotated[Path | None, opt("--errors", metavar="FILE", help="Write all lines that cannot be read to this file.")] = (
        None
    )
    most_errors: Annotated[
        int, opt("--max-errors", metavar="N", min=0, help="Number of lines that cannot be read that are printed.")
    ] = 20
    checkpoint_every: Annotated[
        str, opt("--checkpoint-every", metavar="DURATION", help="Checkpoint interval of the jobs, or never.")
    ] = "30m"
    policies: Annotated[
        list[Path] | None,
        opt("--policy", metavar="FILE", help="Policy to simulate; repeatable. Default: the policy.yaml that is written."),
    ] = None
    classes: Annotated[
        list[str] | None, opt("--class", metavar="TIER=CLASS", help="Class of a tier under --policy; repeatable.")
    ] = None
    cluster: Annotated[
        str | None, opt("--cluster", help="Machines to simulate on, as in 16x8. Default: those of the record.")
    ] = None
    first: Annotated[
        int | None, opt("--jobs", metavar="N", min=1, help="Simulate only the first N jobs; the report covers all.")
    ] = None
    simulate: Annotated[bool, opt("--simulate/--no-simulate", help="Simulate the jobs with Bailiff.")] = True


class BadLines:
    """Prints the first lines that cannot be read, and writes all of them to a file."""

    def __init__(self, most: int, path: Path | None, say: Say) -> None:
        self._most, self._path, self._say = most, path, say
        self._stack = ExitStack()
        self._file = None if path is None else self._stack.enter_context(replacing(path))
        self._count = 0

    def __call__(self, line: object) -> None:
        """Takes one."""
        self._count += 1
        if self._count <= self._most:
            self._say(str(line))
        if self._file is not None:
            self._file.write(f"{line}\n".encode())

    def close(self) -> None:
        """Says how many there are beyond those printed."""
        if self._count > self._most:
            where = f"all are in {self._path}" if self._path is not None else "--errors FILE writes all"
            self._say(f"and {self._count - self._most:,} more lines that cannot be read: {where}")
        self._stack.close()


def run_import(source: Any, chosen: ImportOptions, warn: Say, progress: Any) -> dict[str, Any]:
    """Imports, and simulates unless told otherwise. Returns the report as data. Raises `ClientError`."""
    importing = options.simulator("history.importing")
    every = options.duration("--checkpoint-every", chosen.checkpoint_every, 1)
    with options.simulator_errors():
        bad = BadLines(chosen.most_errors, chosen.errors, warn)
        try:
            history = importing.import_history(source, chosen.folder, importing.Assumptions(every), bad)
        finally:
            bad.close()
        report: dict[str, Any] = {
            "scheduler": history.scheduler,
            "folder": str(chosen.folder),
            "recorded": dict(history.recorded),
            "left_out": dict(history.left_out),
            "bad_lines": history.bad_lines,
            "certainty": list(history.certainty),
            "not_simulated": list(history.not_simulated),
            "machines": len(history.machines),
            "gpus": sum(each.gpus for each in history.machines),
            "machines_seen": history.machines_seen,
        }
        if chosen.simulate:
            report |= _simulate(chosen, history, progress)
    return report


def _simulate(chosen: ImportOptions, history: Any, progress: Any) -> dict[str, Any]:
    runs, catalogue, builder = (options.simulator(name) for name in ("runs", "traces.catalogue", "workload_builder"))
    load = options.simulator("history.load")
    if not history.machines and chosen.cluster is None:
        raise UsageError(
            "the record names no machines, so there is nothing to simulate on",
            f"it is imported: add --cluster 16x8, or read it later: bailiff simulate history:{chosen.folder} --cluster 16x8",
        )
    files = chosen.policies or [chosen.folder / options.simulator("history.folder").POLICY]
    policies = options.policies(files)
    if not chosen.policies:
        policies = {"Bailiff": next(iter(policies.values()))}
    source = catalogue.trace(f"history:{chosen.folder}")
    choices = builder.Choices(
        tiers=options.pairs("--class", chosen.classes or ()), first=chosen.first, checkpoint_every=history.checkpoint_every
    )
    cluster = chosen.cluster or f"history:{chosen.folder}"
    delays = options.simulator("timeline").Delays()
    experiment = runs.Experiment(f"history:{chosen.folder}", cluster, choices, delays, policies, (), range(1))
    found = runs.run_all(experiment, source, progress)
    workload = builder.assemble(source, catalogue.cluster(cluster), choices, 0)
    was = load.recorded_run(chosen.folder, workload, next(iter(policies.values())))

    def simulated(label: str, policy: Policy) -> Any:
        tried = replace(experiment, policies={label: policy}, baselines=())
        return runs.run_all(tried, source, progress)[0]

    return {
        "waiting": _why_waits_differ(found[0].label, next(iter(policies.values())), was, found[0], simulated),
        "runs": runs.summary([was, *found]),
        "rejected": runs.refusals(found),
        "simulated_jobs": len(was.jobs),
        "policies": [str(path) for path in files],
    }


def _why_waits_differ(
    label: str, policy: Policy, was: Any, found: Any, simulated: Callable[[str, Policy], Any], other: Policy | None = None
) -> WaitDifference | None:
    """The settings that move the mean waiting time, if it differs.

    Args:
        label: Of the policy that makes the difference.
        policy: That of `found`, or of `was` if that is simulated, too.
        simulated: Runs the same jobs under another policy.
        other: The policy of `found`, if `was` is simulated.
    """
    trying = options.simulator("wait_settings")
    before, after = trying.mean_wait(was), trying.mean_wait(found)
    if not trying.is_significant(before, after):
        return None
    settings: list[SettingEffect] | None = None
    if len(found.jobs) <= trying.MAX_JOBS:
        base = found if other is None else was
        moving = trying.wait_settings(policy, base, simulated, other)
        settings = [SettingEffect(setting=each.setting, change=each.change, waited_mean=each.waited_mean) for each in moving]
    return {
        "label": label,
        "before": before,
        "after": after,
        "changed_from": "after" if other is None else "before",
        "settings": settings,
        "most": trying.MAX_JOBS,
    }


def history_what_if(folder: Path, policy: Path, progress: Any) -> tuple[Any, dict[str, Any]]:
    """Both simulations of an imported history, and their comparison as data. Raises `ClientError`."""
    load, comparing = options.simulator("history.load"), options.simulator("what_if")
    with options.simulator_errors():
        known = options.simulator("history.folder").read_manifest(folder)
        own = read_policy(folder / options.simulator("history.folder").POLICY)
        rules = read_policy(policy)
        choices = options.simulator("workload_builder").Choices(checkpoint_every=known.checkpoint_every)
        log = load.from_history(folder, own, choices)
        found = comparing.what_if(log, rules, None, progress)
        compared: Mapping[str, Any] = comparing.compared(found)

        def simulated(label: str, policy: Policy) -> Any:
            return comparing.simulated_under(log, found, label, policy, progress)

        waits = (
            _why_waits_differ("Bailiff", own, found.recorded, found.again, simulated),
            _why_waits_differ("the other policy", own, found.again, found.changed, simulated, rules),
        )
    return found, {**compared, "waiting": [each for each in waits if each is not None]}
