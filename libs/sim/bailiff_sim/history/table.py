"""A table of jobs of any scheduler, with a mapping that says which column is what."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from zoneinfo import ZoneInfo

import yaml

from .lines import text_of
from .records import SECOND, AttemptRow, BadLine, Found, Site, Skipped, Source, State, Tier
from .slurm_config import model_name
from .values import Unreadable, elapsed, moment, shown, zone

COLUMNS = (
    "job", "submitted", "started", "ended", "run_time", "gpus", "nodes", "node_count", "user", "project", "class", "state",
    "preempted_by", "gpu_model", "time_limit",
)  # fmt: skip
NEEDED = ("job", "submitted", "started", "gpus")
STATES: dict[str, State] = {
    name: name for name in ("succeeded", "failed", "cancelled", "preempted", "lost", "requeued", "running", "pending")
}
UNITS = {"seconds": SECOND, "milliseconds": 1000, "minutes": 60 * SECOND, "hours": 3600 * SECOND}
KEYS = ("columns", "delimiter", "times", "timezone", "durations", "states", "priorities", "not_preemptible", "scheduler")


@dataclass(frozen=True)
class Mapped:
    """columns: of the table, by our name. times: `iso`, `seconds` or `milliseconds` since 1970, or a format of strptime.

    durations: a unit, or `clock` for 1-02:03:04. states: our state by theirs. priorities: value by class.
    """

    columns: Mapping[str, str]
    delimiter: str = ","
    times: str = "iso"
    timezone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    durations: str = "seconds"
    states: Mapping[str, State] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    not_preemptible: tuple[str, ...] = ()
    scheduler: str = "the old scheduler"


def mapping(path: Path) -> Mapped:
    """Reads the file. Raises `ValueError` with the field that is wrong."""
    try:
        with text_of(path) as text:
            found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected fields such as columns, found {shown(str(found))}")
    _among(path, "", found, KEYS)
    columns = found.get("columns") or {}
    _among(path, "columns.", columns, COLUMNS)
    missing = [name for name in NEEDED if name not in columns]
    if "ended" not in columns and "run_time" not in columns:
        missing.append("ended or run_time")
    if missing:
        raise ValueError(f"{path}: columns: expected also {', '.join(missing)}")
    states = {str(theirs): str(ours) for theirs, ours in (found.get("states") or {}).items()}
    for theirs, ours in states.items():
        if ours not in STATES:
            raise ValueError(f"{path}: states.{theirs}: expected one of {', '.join(STATES)}, found {shown(ours)}")
    durations = found.get("durations", "seconds")
    if durations != "clock" and durations not in UNITS:
        raise ValueError(f"{path}: durations: expected clock or one of {', '.join(UNITS)}, found {shown(str(durations))}")
    priorities = found.get("priorities") or {}
    if not all(isinstance(value, int) for value in priorities.values()):
        raise ValueError(f"{path}: priorities: expected a whole number for each class")
    delimiter = str(found.get("delimiter", ","))
    if len(delimiter) != 1:
        raise ValueError(f"{path}: delimiter: expected one character, found {shown(delimiter)}")
    return Mapped(
        {name: str(column) for name, column in columns.items()}, delimiter, str(found.get("times", "iso")),
        zone(str(found.get("timezone", "UTC"))), durations, {theirs: STATES[ours] for theirs, ours in states.items()},
        {str(name): value for name, value in priorities.items()}, tuple(map(str, found.get("not_preemptible") or ())),
        str(found.get("scheduler", Mapped.scheduler)),
    )  # fmt: skip


def read(path: Path, how: Mapped) -> Source:
    """The rows of the table."""
    site = Site(
        how.scheduler, tiers={name: Tier(value, name not in how.not_preemptible) for name, value in how.priorities.items()}
    )
    for name, meaning in (
        ("preempted_by", "which job preempted which: no column preempted_by"),
        ("nodes", "on which machines jobs ran: no column nodes"),
        ("state", "how jobs ended: no column state, so all count as succeeded"),
    ):  # fmt: skip
        if name not in how.columns:
            site.unknown.append(meaning)
    if "class" in how.columns and not how.priorities:
        site.unknown.append("which class outranks which: no priorities in the mapping")
    site.not_simulated.append("dependencies between jobs: each arrives when it was submitted")
    return Source(site, _rows(path, how, site))


def _rows(path: Path, how: Mapped, site: Site) -> Iterator[Found]:
    with text_of(path) as text:
        lines = csv.reader(text, delimiter=how.delimiter, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            missing = [column for column in how.columns.values() if column not in header]
            if missing:
                there = ", ".join(header)[:200] or "nothing"
                raise ValueError(f"{path}:1: expected the columns of the mapping; it lacks {', '.join(missing)}, found {there}")
            for values in lines:
                where = f"{path.name}:{lines.line_num}"
                if not values:
                    continue
                if len(values) != len(header):
                    yield BadLine(where, "line", f"expected {len(header)} values, found {len(values)}")
                    continue
                row = dict(zip(header, (value.strip() for value in values), strict=True))
                yield _attempt(where, {name: row[column] for name, column in how.columns.items()}, how, site)
        except csv.Error as error:
            yield BadLine(f"{path.name}:{lines.line_num}", "line", f"{error}; the rest of the file is not read")


def _attempt(where: str, row: Mapping[str, str], how: Mapped, site: Site) -> Found:
    column = "job"
    try:
        if not row["job"]:
            raise Unreadable("expected an id, found nothing")
        column = "state"
        state = _state(row.get("state", ""), how) if "state" in row else "succeeded"
        if state == "pending" or not row["started"]:
            return Skipped("never started")
        column = "gpus"
        gpus, gpu_milli = _gpus(row["gpus"])
        if not gpus:
            return Skipped("without a GPU")
        column = "submitted"
        submitted = _time(row["submitted"], how)
        column = "started"
        start = _time(row["started"], how)
        column = "run_time"
        ran = _duration(row["run_time"], how) if row.get("run_time") else None
        column = "ended"
        end = _time(row["ended"], how) if row.get("ended") else None if ran is None else start + ran
        if end is None:
            raise Unreadable("expected a time, found nothing")
        if end < start:
            raise Unreadable(f"the job ends ({row['ended']}) before it starts ({row['started']})")
        column = "node_count"
        nodes = tuple(filter(None, row.get("nodes", "").replace(";", " ").replace(",", " ").split()))
        count = _whole(row["node_count"]) if row.get("node_count") else len(nodes) or 1
        column = "time_limit"
        limit = _duration(row["time_limit"], how) if row.get("time_limit") else None
    except Unreadable as error:
        return BadLine(where, how.columns.get(column, column), str(error))
    tier, model = row.get("class", ""), row.get("gpu_model", "")
    if tier:
        site.tiers.setdefault(tier, Tier(None, tier not in how.not_preemptible))
    return AttemptRow(
        row["job"], min(submitted, start), start, end, state, gpus, ran=ran, node_count=max(1, count), nodes=nodes,
        user=row.get("user", ""), project=row.get("project", ""), tier=tier, model=model_name(model) if model else "",
        limit=limit, preemptor=row.get("preempted_by", ""), gpu_milli=gpu_milli,
    )  # fmt: skip


def _state(text: str, how: Mapped) -> State:
    found = how.states.get(text, STATES.get(text.lower()))
    if found is None:
        raise Unreadable(
            f"expected a state that the mapping names under states, or one of {', '.join(STATES)}; found {shown(text)}"
        )
    return found


def _gpus(text: str) -> tuple[int, int]:
    """GPUs, and thousandths of one for a job with a share: 0.5 is half a GPU."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise Unreadable(f"expected a number of GPUs, found {shown(text)}") from None
    if not found.is_finite() or not 0 <= found <= 100_000:
        raise Unreadable(f"expected a number of GPUs, 0 or more, found {shown(text)}")
    if 0 < found < 1:
        return 1, max(100, int(found * 1000))
    if found != found.to_integral_value():
        raise Unreadable(f"expected whole GPUs, or a part of one, found {shown(text)}")
    return int(found), 1000


def _time(text: str, how: Mapped) -> int:
    if how.times == "iso":
        return moment(text, how.timezone)
    if how.times in ("seconds", "milliseconds"):
        return _scaled(text, UNITS[how.times], "a time")
    try:
        found = datetime.strptime(text, how.times)  # noqa: DTZ007 - the zone follows
    except ValueError:
        raise Unreadable(f"expected a time as {how.times}, found {shown(text)}") from None
    return moment(found.isoformat(), how.timezone)


def _duration(text: str, how: Mapped) -> int:
    return elapsed(text) if how.durations == "clock" else _scaled(text, UNITS[how.durations], "a duration")


def _scaled(text: str, unit: int, what: str) -> int:
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise Unreadable(f"expected {what}, found {shown(text)}") from None
    if not found.is_finite() or not 0 <= found < Decimal(10) ** 14:
        raise Unreadable(f"expected {what}, 0 or more, found {shown(text)}")
    return int(found * unit)


def _whole(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise Unreadable(f"expected a whole number, 1 or more, found {shown(text)}")
    return int(text)


def _among(path: Path, prefix: str, found: object, known: tuple[str, ...]) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{path}: {prefix or 'file'}: expected fields, found {shown(str(found))}")
    for name in found:
        if name not in known:
            raise ValueError(f"{path}: {prefix}{name}: no such field; expected some of {', '.join(known)}")
