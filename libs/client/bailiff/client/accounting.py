"""Accounting: asks the HTTP API for GPU-hours, and writes them as CSV. `bailiff accounting`, and the Python client."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bailiff_core.humanize import user_text
from bailiff_core.records.wire import time_text

from .errors import (
    NAMES_COMPARED,
    ClassNotFound,
    ClientError,
    ExitCode,
    InvalidRequest,
    JobNotFound,
    NotFound,
    PoolNotFound,
    ProjectNotFound,
    UsageError,
    UserNotFound,
    how_to_reach,
)

if TYPE_CHECKING:
    from bailiff.client.http_connection import HttpConnection

    from .settings import ClientSettings

PERIODS = ("minute", "hour", "day", "month")
KEYS = ("user", "project", "class", "job", "model", "preemptor", "preemptor-project", *PERIODS)
FIGURES = ("used", "borrowed", "lost", "lost_other", "restart", "waiting")
COUNTS = ("preemptions", "jobs")
PARAMETERS = {"class": "priority_class", "model": "gpu_model", "preemptor-project": "preemptor_project"}
COLUMNS = PARAMETERS | dict.fromkeys(PERIODS, "time")
MAX_ROWS = 100_000
FILTERS: Mapping[str, type[NotFound]] = {
    "user": UserNotFound,
    "project": ProjectNotFound,
    "priority_class": ClassNotFound,
    "job": JobNotFound,
}
"""The parameters that filter, each with the error for an unknown name."""
EVER = "1970-01-01T00:00:00Z"
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested rows of accounting. Fields that are not described here are filters.

    Attributes:
        by: The columns to group by, of `KEYS`.
        since: µs UTC; None: seven days ago.
        until: µs UTC; None: now.
    """

    by: Sequence[str] = ()
    since: int | None = None
    until: int | None = None
    users: Sequence[str] = ()
    projects: Sequence[str] = ()
    classes: Sequence[str] = ()
    jobs: Sequence[str] = ()

    def __post_init__(self) -> None:
        unknown = [key for key in self.by if key not in KEYS]
        if unknown:
            raise InvalidRequest([f"by: there is no {unknown[0]!r}"], f"by: {', '.join(KEYS)}")
        periods = [key for key in self.by if key in PERIODS]
        if len(periods) > 1:
            raise InvalidRequest([f"by: {' and '.join(periods)} exclude each other"], f"at most one of {', '.join(PERIODS)}")

    def parameters(self) -> dict[str, Any]:
        """The parameters of the request."""
        found: dict[str, Any] = {
            "by": [PARAMETERS.get(key, key) for key in self.by],
            "user": self.users,
            "project": self.projects,
            "priority_class": self.classes,
            "job": self.jobs,
            "from": time_text(self.since) if self.since is not None else None,
            "to": time_text(self.until) if self.until is not None else None,
        }
        return {name: value for name, value in found.items() if value} | {"limit": MAX_ROWS}


async def month_report(settings: ClientSettings, pool: str | None, month: str | None) -> dict[str, Any]:
    """The report of a month, as in `2026-12`; None: the newest. Raises `ClientError`."""
    async with _pool_of_api(settings, pool) as (connection, name):
        return {"pool": name, **await connection.get(f"/pools/{name}/month", month=month)}


async def accounting(settings: ClientSettings, pool: str | None, wanted: Wanted) -> dict[str, Any]:
    """The answer of the HTTP API, with `pool`. Raises `ClientError`, such as `NotFound` for a name that never was."""
    parameters = wanted.parameters()
    async with _pool_of_api(settings, pool) as (connection, name):
        found = await connection.get(f"/pools/{name}/accounting", **parameters)
        for parameter in [each for each in FILTERS if each in parameters]:
            if not found["totals"]["jobs"] or len(parameters[parameter]) > 1:
                await _require_known(connection, name, parameter, parameters[parameter])
    return {"pool": name, **found}


def as_csv(answer: Mapping[str, Any], by: Sequence[str]) -> str:
    """Rows as CSV with a header, GPU-hours; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*by, *(f"{name}_gpu_hours" for name in FIGURES), *COUNTS])
    for row in answer["rows"]:
        texts = [cell(row, key) for key in by]
        writer.writerow(
            [
                *(f"'{text}" if text.startswith(FORMULA) else text for text in texts),
                *(f"{row[name]:.6f}" for name in FIGURES),
                *(row[name] for name in COUNTS),
            ]
        )
    return out.getvalue()


def cell(row: Mapping[str, Any], key: str) -> str:
    """The value of this key in a row, as a text: a day as `2026-01-31`, a month as `2026-01`, times in UTC."""
    if key == "user":
        return user_text(row["user"] or "", row["user_verified"] is not False)
    value = str(row[COLUMNS.get(key, key)] or "")
    length = {"month": 7, "day": 10, "hour": 16, "minute": 16}.get(key)
    return value if length is None else value[:length].replace("T", " ")


async def _require_known(connection: HttpConnection, pool: str, parameter: str, names: Sequence[str]) -> None:
    """Raises `NotFound` for a name that no job had at any time, and that is not in the policy either."""
    path = f"/pools/{pool}"
    ever = {"by": [parameter], "from": EVER}
    counted = {row[parameter] for row in (await connection.get(f"{path}/accounting", **ever, **{parameter: names}))["rows"]}
    for name in names:
        if name in counted or (await connection.get(f"{path}/jobs", **{parameter: name}, limit=1))["items"]:
            continue
        applied = (await connection.get(f"{path}/records", type="PolicyApplied", order="desc", limit=1))["items"]
        policy = applied[0]["data"]["policy"] if applied else {}
        field = {"project": "projects", "priority_class": "priority_classes"}.get(parameter, "")
        known = {each["name"] for each in policy.get(field, ())}
        if name not in known:
            rows = (await connection.get(f"{path}/accounting", **ever, limit=NAMES_COMPARED))["rows"]
            known.update(row[parameter] for row in rows if row[parameter])
            raise FILTERS[parameter].named(name, sorted(known), pool)


@asynccontextmanager
async def _pool_of_api(settings: ClientSettings, pool: str | None) -> AsyncIterator[tuple[HttpConnection, str]]:
    """A connection to the HTTP API, and the pool's name there. Raises `ClientError`."""
    from bailiff.client.http_connection import HttpConnection

    if not settings.api:
        text = "accounting reads the archive through the HTTP API, and its address, BAILIFF_API, is not set"
        raise UsageError(text, how_to_reach("BAILIFF_API"))
    connection = HttpConnection(settings.api, settings.token_of_api(), settings.kafka.request_timeout)
    try:
        names = [str(each["pool"]) for each in (await connection.get("/pools"))["items"]]
        name = pool or settings.pool or _only_pool(names)
        if name not in names:
            raise PoolNotFound.named(name, names)
        yield connection, name
    finally:
        connection.close()


def _only_pool(names: Sequence[str]) -> str:
    if len(names) != 1:
        known = f"pools: {', '.join(names)}" if names else "the archive has no pool yet"
        raise ClientError(ExitCode.USAGE if names else ExitCode.NOT_FOUND, "which pool?", f"--pool POOL; {known}")
    return names[0]
