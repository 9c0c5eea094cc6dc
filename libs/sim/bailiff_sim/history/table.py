"""A table of jobs of any scheduler, with a mapping that says which column is what."""

import csv
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError
from pydantic_core import PydanticCustomError

from bailiff_bus.validation_errors import describe_errors
from bailiff_sim.text_files import text_of

from .records import SECOND, AttemptRow, BadLine, Found, Site, Skipped, Source, State, Tier
from .slurm_config import model_name
from .values import Unreadable, elapsed, moment, shown, zone

UNITS = {"seconds": SECOND, "milliseconds": 1000, "minutes": 60 * SECOND, "hours": 3600 * SECOND}
Column = Literal[
    "job",
    "submitted",
    "started",
    "ended",
    "run_time",
    "gpus",
    "nodes",
    "node_count",
    "user",
    "project",
    "class",
    "state",
    "preempted_by",
    "gpu_model",
    "time_limit",
]
NEEDED: tuple[Column, ...] = ("job", "submitted", "started", "gpus")


def _has_needed(columns: Mapping[Column, str]) -> Mapping[Column, str]:
    missing: list[str] = [name for name in NEEDED if name not in columns]
    if "ended" not in columns and "run_time" not in columns:
        missing.append("ended or run_time")
    if missing:
        raise PydanticCustomError("columns_missing", "also {missing}", {"missing": ", ".join(missing)})
    return columns


MAX_MAPPING = 20_000


class Mapped(BaseModel):
    """The file that says which column is what.

    Attributes:
        columns: Of the table, by our name.
        times: `iso`, `seconds` or `milliseconds` since 1970, or a format of strptime.
        durations: A unit, or `clock` for 1-02:03:04.
        states: Our state by theirs.
        priorities: Value by class.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    columns: Annotated[dict[Column, str], AfterValidator(_has_needed)]
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    times: str = "iso"
    timezone: Annotated[ZoneInfo, BeforeValidator(lambda name: zone(str(name)))] = ZoneInfo("UTC")
    durations: Literal["clock", "seconds", "milliseconds", "minutes", "hours"] = "seconds"
    states: dict[str, State] = {}
    priorities: dict[str, StrictInt] = {}
    not_preemptible: tuple[str, ...] = ()
    scheduler: str = "the old scheduler"


def mapping(path: Path) -> Mapped:
    """Reads the file. Raises `ValueError` with the field that is wrong."""
    with text_of(path) as file:
        text = file.read(MAX_MAPPING + 1)
    if len(text) > MAX_MAPPING:
        raise ValueError(f"{path}: more than {MAX_MAPPING} characters: not a mapping of columns")
    try:
        return Mapped.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: nested too deeply") from None
    except ValidationError as error:
        raise ValueError(f"{path}: {describe_errors(error.errors(include_url=False))}") from None


def read(path: Path, how: Mapped) -> Source:
    """The rows of the table."""
    site = Site(
        how.scheduler, tiers={name: Tier(value, name not in how.not_preemptible) for name, value in how.priorities.items()}
    )
    for name, meaning in (
        ("preempted_by", "which job preempted which: no column preempted_by"),
        ("nodes", "on which machines jobs ran: no column nodes"),
        ("state", "how jobs ended: no column state, so all count as succeeded"),
    ):
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
    column: Column = "job"
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
        row["job"],
        min(submitted, start),
        start,
        end,
        state,
        gpus,
        ran=ran,
        node_count=max(1, count),
        nodes=nodes,
        user=row.get("user", ""),
        project=row.get("project", ""),
        tier=tier,
        model=model_name(model) if model else "",
        limit=limit,
        preemptor=row.get("preempted_by", ""),
        gpu_milli=gpu_milli,
    )


STATES: tuple[State, ...] = get_args(State)


def _state(text: str, how: Mapped) -> State:
    found = how.states.get(text, text.lower())
    if found not in STATES:
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
