"""Shared by `bailiff simulate` and `bailiff policy tune`: parsing of options, progress bar, manifests."""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bailiff.client.errors import CheckFailed, UsageError
from bailiff.client.job_parser import read_yaml
from bailiff.policy.policy_files import read_policy
from bailiff_core.model.document import parse_duration
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_log.extras import how_to_install

if TYPE_CHECKING:
    from bailiff_sim.workload_builder import Choices

LIST_THEM = "list them: bailiff simulate --list"
INSTALL = how_to_install("sim")
NO_LIMIT = "never"
MARKS = {"simulate": "bailiff_simulation", "policy tune": "bailiff_tuning"}  # the key that marks the manifest of each command


def simulator(module: str) -> Any:
    """A module of the simulator, imported when a command needs it.

    Raises:
        ClientError: The extra `sim` is not installed.
    """
    try:
        return importlib.import_module(f"bailiff_sim.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "matplotlib":
            raise UsageError("reports need matplotlib, which is not installed", INSTALL) from None
        raise


@contextmanager
def simulator_errors(advice: str = "") -> Iterator[None]:
    """Converts errors of the simulator about traces, clusters and options to `ClientError`."""
    rows = simulator("traces.rows")
    try:
        yield
    except rows.TraceProblem as problem:
        raise UsageError(str(problem), advice) from None
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar for each run, if the console is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def progress(label: str, done: int, of: int) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=of)
            bar.update(tasks[label], completed=done)

        yield progress


def policies(files: Sequence[Path]) -> dict[str, Policy]:
    """Policies by file name; the default policy if there are no files."""
    found: dict[str, Policy] = {}
    for path in files:
        label = path.stem if path.stem not in found else str(path)
        found[label] = read_policy(path)
    return found or {"default": DEFAULT_POLICY}


def duration(option: str, text: str | None, least: int = 0) -> int | None:
    """Duration in µs from `30s`; None for `never`.

    Args:
        least: Minimum in µs.
    """
    if text is None or text == NO_LIMIT:
        return None
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    assert isinstance(found, int)
    if found < least:
        raise UsageError(f"{option}: expected more than 0s, or {NO_LIMIT}, found {text}")
    return found


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """A mapping from `NAME=VALUE` options."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not value:
            raise UsageError(f"{option}: expected NAME=VALUE, found {each!r}")
        found[name] = value
    return found


def opt(*names: str, help: str, **more: Any) -> Any:  # noqa: A002 - typer's name
    """An option with its default in the help."""
    return typer.Option(*names, help=help, show_default=True, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """How the jobs of a trace are taken."""

    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Only the first N jobs.")] = None
    compress: Annotated[float, typer.Option("--compress", min=0.001, help="Divide the time between arrivals by this.")] = 1.0
    skip: Annotated[str, opt("--skip", metavar="DURATION", help="Skip the beginning of the trace.")] = "0s"
    length: Annotated[str | None, opt("--length", metavar="DURATION", help="Use only this much of the trace.")] = None
    tiers: Annotated[
        list[str] | None, opt("--class", metavar="TIER=CLASS", help="Map a tier of the trace to a priority class; repeatable.")
    ] = None
    mix: Annotated[
        list[str] | None, opt("--mix", metavar="CLASS=PERCENT", help="Random classes for a trace without classes; repeatable.")
    ] = None
    checkpoint_every: Annotated[
        str, opt("--checkpoint-every", metavar="DURATION", help="Checkpoint interval of jobs, or never.")
    ] = "30m"
    save_time: Annotated[
        str, opt("--save-time", metavar="DURATION", help="Time that an evicted job takes to save a checkpoint, or never.")
    ] = "30s"
    restart_cost: Annotated[str, opt("--restart-cost", metavar="DURATION", help="Time lost by each restart of a job.")] = "1m"

    def choices(self, *, mtbf: str = NO_LIMIT, retry: str = "10m", quotas: bool = False) -> "Choices":
        """The options as the simulator takes them. Raises `ClientError`."""
        shares = pairs("--mix", self.mix or ())
        if any(not share.isdecimal() for share in shares.values()):
            raise UsageError(f"--mix: expected CLASS=PERCENT with a whole number, found {', '.join(self.mix or ())}")
        found: Choices = simulator("workload_builder").Choices(
            compress=round(self.compress * 1000),
            first=self.jobs,
            skip=duration("--skip", self.skip) or 0,
            length=duration("--length", self.length),
            tiers=pairs("--class", self.tiers or ()),
            mix={name: int(share) for name, share in shares.items()},
            checkpoint_every=duration("--checkpoint-every", self.checkpoint_every, 1),
            save_time=duration("--save-time", self.save_time),
            restart_cost=duration("--restart-cost", self.restart_cost) or 0,
            mtbf=duration("--mtbf", mtbf, 1),
            retry=duration("--retry", retry) or 0,
            quotas="helios-venus" if quotas else "",
        )
        return found


def manifest_of(path: Path, command: str) -> dict[str, Any]:
    """The manifest in the file.

    Raises:
        ClientError: This command did not write it.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: it is not a manifest of bailiff {command}: {error}") from None
    for name, mark in MARKS.items():
        if isinstance(found, dict) and mark in found:
            if name != command:
                raise UsageError(
                    f"{path}: expected a manifest of bailiff {command}, found one of bailiff {name}",
                    f"bailiff {name} --again {path}",
                )
            return found
    raise UsageError(f"{path}: it is not a manifest of bailiff {command}, which has {MARKS[command]!r} in it")


def compare(
    before: Mapping[str, Any], now: Mapping[str, Any], digests: Callable[[Mapping[str, Any]], dict[str, str]]
) -> list[str]:
    """Compares a repeated run with its manifest.

    Args:
        digests: Digests of the manifest's runs, by label.

    Returns:
        Messages for the person.

    Raises:
        ClientError: A run differs.
    """
    was, found = digests(before), digests(now)
    changed = [
        f"{name} was {before.get(name)}, and is {now[name]}"
        for name in ("release", "logic", "trace_digest")
        if before.get(name) != now[name]
    ]
    for name in dict.fromkeys([*was, *found]):
        if was.get(name) != found.get(name):
            text = f"{name}: expected the digest {was.get(name, 'of no run')[:16]}…, found {found.get(name, 'no run')[:16]}…"
            raise CheckFailed(text, "; ".join([*changed, "run it with the same release and the same trace file"]))
    return [*changed, f"reproduced: {len(found)} runs have the digests of the manifest"]


def knobs(given: Sequence[str], file: Path | None) -> dict[str, list[object]]:
    """Values by policy field, from `protections.cooldown.job=0s,10m` or a YAML file."""
    found: dict[str, list[object]] = {}
    if file is not None:
        document, _ = read_yaml(file)
        if not isinstance(document, dict) or not all(isinstance(each, list) and each for each in document.values()):
            raise UsageError(f"{file}: expected policy fields, each with a list of values to try")
        found |= {str(name): list(values) for name, values in document.items()}
    for name, values in pairs("--knob", given).items():
        found[name] = [int(each) if each.isdecimal() else each for each in values.split(",") if each]
    if not found:
        raise UsageError(
            "name a policy field and values",
            "--knob protections.min_runtime.preempt=0s,10m,1h --knob eviction.grace=30s,150s",
        )
    return found
