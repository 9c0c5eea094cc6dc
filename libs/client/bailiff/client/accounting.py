"""Accounting: asks the query interface for GPU-hours, and writes them as CSV. `bailiff accounting`, and the Python client."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bailiff_core.humanize import user_text
from bailiff_core.records.wire import time_text

from .errors import ClientError, ExitCode, InvalidRequest, how_to_reach

if TYPE_CHECKING:
    from bailiff.client.http_connection import HttpConnection

    from .settings import ClientSettings

PERIODS = ("minute", "hour", "day", "month")
KEYS = ("user", "project", "class", "job", "preemptor", "preemptor-project", *PERIODS)
FIGURES = ("used", "borrowed", "lost", "lost_other", "restart", "waiting")
COUNTS = ("preemptions", "jobs")
PARAMETERS = {"class": "priority_class", "preemptor-project": "preemptor_project"}
COLUMNS = PARAMETERS | dict.fromkeys(PERIODS, "time")
MAX_ROWS = 100_000
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


async def accounting(settings: ClientSettings, pool: str | None, wanted: Wanted) -> dict[str, Any]:
    """The answer of the query interface, with `pool`. Raises `ClientError`."""
    from urllib.parse import quote

    connection = _connection(settings)
    try:
        name = pool or settings.pool or await _only_pool(connection)
        found = await connection.get(f"/pools/{quote(name, safe='')}/accounting", **wanted.parameters())
    finally:
        connection.close()
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


async def _only_pool(connection: HttpConnection) -> str:
    names = [str(each["pool"]) for each in (await connection.get("/pools"))["items"]]
    if len(names) != 1:
        known = f"pools: {', '.join(names)}" if names else "the archive has no pool yet"
        raise ClientError(ExitCode.USAGE if names else ExitCode.NOT_FOUND, "which pool?", f"--pool POOL; {known}")
    return names[0]


def _connection(settings: ClientSettings) -> HttpConnection:
    from bailiff.client.http_connection import HttpConnection
    from bailiff_bus.kafka_settings import secret_of
    from bailiff_service.access_tokens import client_token

    if not settings.api:
        text = "accounting reads the archive, and BAILIFF_API is not set, the address of the query interface"
        raise ClientError(ExitCode.USAGE, text, how_to_reach("BAILIFF_API"))
    token = client_token(settings.api, secret_of(settings.api_token), settings.api_token_file, settings.state_dir)
    return HttpConnection(settings.api, token, settings.kafka.request_timeout)
