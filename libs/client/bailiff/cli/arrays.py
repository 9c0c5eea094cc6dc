"""The option `--array`: which jobs an array has, and how many of them run at the same time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bailiff.client.errors import UsageError

if TYPE_CHECKING:
    from bailiff.client import job_parser
    from bailiff_core.records.job_requests import SubmitJob

MOST = 10_000
ARRAY_INDEX, ARRAY_SIZE = "BAILIFF_ARRAY_INDEX", "BAILIFF_ARRAY_SIZE"
FORM = re.compile(r"(?P<indices>[0-9,:-]+)(?:%(?P<limit>[0-9]+))?")
PART = re.compile(r"(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9})(?::(?P<step>[0-9]{1,9}))?)?")


@dataclass(frozen=True, slots=True)
class Array:
    """The jobs of an array.

    Attributes:
        indices: In the order of their submission.
        limit: How many run at the same time; None: all that fit.
    """

    indices: tuple[int, ...]
    limit: int | None = None


def array_in(text: str) -> Array:
    """The array of `8` (0 to 7), `1,3,7-9`, `0-99:10` or, with at most eight at a time, `0-99%8`. Raises `ClientError`."""
    form = FORM.fullmatch(text)
    wanted = "a number of jobs or their indices, as in 8, 1,3,7-9 or, with at most 8 at a time, 0-99%8"
    if form is None:
        raise UsageError(f"--array: expected {wanted}; found {text!r}")
    indices = range(int(form["indices"][:9])) if form["indices"].isdigit() else _listed(form["indices"].split(","))
    if indices is None or form["limit"] in ("", "0"):
        raise UsageError(f"--array: expected {wanted}; found {text!r}")
    if not 1 <= len(indices) <= MOST:
        raise UsageError(f"--array: expected 1 to {MOST} jobs, found {len(indices)}")
    return Array(tuple(indices), int(form["limit"][:9]) if form["limit"] else None)


def _listed(parts: list[str]) -> dict[int, None] | None:
    """The indices of these parts, each once; more than `MOST` are not all listed."""
    found: dict[int, None] = {}
    for part in parts:
        at = PART.fullmatch(part)
        if at is None or at["step"] == "0" or int(at["last"] or at["first"]) < int(at["first"]):
            return None
        named = range(int(at["first"]), int(at["last"] or at["first"]) + 1, int(at["step"] or 1))
        found |= dict.fromkeys(named[: MOST + 1 - len(found)])
    return found


def jobs_of(document: Mapping[str, Any], source: job_parser.Source, array: Array) -> list[SubmitJob]:
    """The jobs of an array: they differ in name and index, and with a limit each waits for the one so many before it."""
    from bailiff.client import job_parser

    jobs: list[SubmitJob] = []
    for at, index in enumerate(array.indices):
        env = job_parser.merged(document.get("env"), {ARRAY_INDEX: str(index), ARRAY_SIZE: str(len(array.indices))})
        job = {**document, "name": f"{document['name']}-{index}", "env": env}
        if array.limit is not None and at >= array.limit:
            before = {"job": jobs[at - array.limit].demand.job, "until": "ended"}
            job["after"] = [*job_parser.dependencies(document.get("after") or []), before]
        jobs.append(job_parser.job_from(job, source))
    return jobs
