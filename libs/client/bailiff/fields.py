"""A job as Python values: a command, a job file or a mapping, and fields such as `gpus=0.5` and `memory="8GiB"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from bailiff.client.errors import InvalidRequest

if TYPE_CHECKING:
    from bailiff.client.job_parser import Source
    from bailiff_core.model.state import PoolState
    from bailiff_core.records.job_requests import SubmitJob

Amount = int | float | str
Times = datetime | timedelta | str | None
"""A time with its time zone, how long ago (a timedelta, or a text such as "2d"), or a text as in 2026-01-31T12:00:00Z."""
Names = str | Sequence[str] | None
"""One name or several."""
Duration = str | timedelta


class JobFields(TypedDict, total=False):
    """The fields of a job, each as in a job file (docs/reference/job-file.md), with underscores.

    `priority_class` is `class` there. Durations are text such as "2h", or a timedelta.

    Attributes:
        gpus: GPUs per task; below 1 the fraction of a shared one.
        cpu: Cores, as in 2 or "500m".
        memory: Memory per task, as in "8GiB".
        gpu_memory: Part of a shared GPU, as in "8GiB".
        nodes: The nodes on which it may run, one or several.
        exclude_nodes: Nodes on which it may not run, one or several.
        gpu_model: The GPU models on which it may run, one or several.
        groups: For tasks of several kinds, a list of mappings with the fields of a group.
    """

    name: str
    priority_class: str
    project: str
    user: str
    labels: Mapping[str, str]
    tasks: int
    min_tasks: int
    gpus: Amount
    fraction: Amount
    gpu_memory: int | str
    gpu_devices: int
    mig: str
    gpu_model: str | Sequence[str]
    cpu: Amount
    memory: int | str
    nodes: str | Sequence[str]
    exclude_nodes: str | Sequence[str]
    node_labels: Mapping[str, str]
    groups: Sequence[Mapping[str, Any]]
    sub_groups: Sequence[Mapping[str, Any]]
    topology: Mapping[str, str]
    after: str | Sequence[str]
    ports: int | Sequence[int]
    pack: str
    placement: str
    preemptible: bool
    elastic: str
    tty: bool
    grace: Duration
    kill_after: Duration
    begin: str | datetime
    run_time_limit: Duration
    restart_backoff: Duration
    preemption_delay: Duration
    stale_grace: Duration
    max_failures: int
    on_failure: str
    on_eviction: str
    on_term: str
    checkpoint: str
    checkpoint_every: Duration
    env: Mapping[str, Amount]
    secrets: Mapping[str, str]
    working_dir: str | Path
    image: str
    runtime: str
    sim_run_for: Duration


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file (YAML). Fields that are given beside it override it."""

    path: str | Path


Job = str | Sequence[str] | JobFile | Mapping[str, Any]
"""A command as one line for the shell or as a program with its arguments, a job file, or the fields of a job."""


def request_of(
    job: Job | None, fields: Mapping[str, Any], project: str | None = None, waiting: tuple[PoolState, str] | None = None
) -> SubmitJob:
    """The request to submit this job.

    Args:
        project: The project if the job names none.
        waiting: The pool's state, in which the job finds those that it waits for, and the user.

    Raises:
        InvalidRequest: It is invalid; names every fault.
    """
    from bailiff.client.dependencies import named_dependencies
    from bailiff.client.job_parser import checked
    from bailiff.client.job_request import from_here, in_project, named

    document, source = _written(job)
    given = document_of(fields)
    document |= given
    in_project(document, project)
    from_here(document)
    named(document)
    if waiting is not None:
        state, user = waiting
        document["after"] = named_dependencies(state, document["after"], document.get("user") or user, document["name"])
    request, faults = checked(document)
    if request is None:
        texts = (
            f"{source.where(place) if source.file and place[:1] and place[0] not in given else _field(place)}: {text}"
            for place, text in faults
        )
        raise InvalidRequest(list(dict.fromkeys(texts)))
    return request


def leaves_open(name: str, job: Job | None, fields: Mapping[str, Any]) -> bool:
    """Whether neither the job nor the fields beside it have this field."""
    return not (_written(job)[0] | document_of(fields)).get(name)


def _written(job: Job | None) -> tuple[dict[str, Any], Source]:
    """The job's own fields, and where they are written. Raises `InvalidRequest`."""
    from bailiff.client.job_parser import Source, read_job_file

    match job:
        case JobFile():
            return read_job_file(Path(job.path))
        case Mapping():
            return document_of(job), Source()
        case str() | Sequence():
            return {"command": job if isinstance(job, str) else [str(word) for word in job]}, Source()
        case None:
            return {}, Source()
    raise InvalidRequest([f"job: expected a command, a list, a JobFile or a mapping, found {type(job).__name__}"])


def document_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as a job file has them."""
    found = {str(name).replace("-", "_"): as_in_a_file(value) for name, value in fields.items() if value is not None}
    if "priority_class" in found:
        found["class"] = found.pop("priority_class")
    if isinstance(found.get("env"), dict):
        found["env"] = {name: value if isinstance(value, str) else str(value) for name, value in found["env"].items()}
    return found


def as_in_a_file(value: Any) -> Any:
    """The value as a job file has it."""
    match value:
        case timedelta():
            return f"{value // timedelta(microseconds=1)}us"
        case Path() | datetime():
            return str(value)
        case Mapping():
            return {str(name): as_in_a_file(each) for name, each in value.items()}
        case str() | bytes():
            return value
        case Sequence():
            return [as_in_a_file(each) for each in value]
        case _:
            return value


def _field(place: Sequence[str | int]) -> str:
    text = ".".join("priority_class" if part == "class" else str(part) for part in place)
    return text or "job"


def seconds_of(value: float | str | timedelta | None, name: str) -> float | None:
    """Seconds of a number, of a text such as "2h", or of a timedelta; None for None. Raises `InvalidRequest`."""
    from bailiff.client.job_parser import seconds

    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return None if value is None else float(seconds(value))
    except ValueError as error:
        raise InvalidRequest([f"{name}: {error}"]) from None


def micros_of(value: Times, name: str) -> int | None:
    """A time, µs UTC: a datetime with its time zone, how long ago (a timedelta, or "2d"), or a text as in RFC 3339."""
    from bailiff.audit.log_positions import EPOCH_START, MICROSECOND, point_in_time, wall_clock

    match value:
        case None:
            return None
        case datetime():
            if value.tzinfo is None:
                raise InvalidRequest([f"{name}: expected a time with a time zone, found {value.isoformat()}"])
            return (value - EPOCH_START) // MICROSECOND
        case timedelta():
            return wall_clock() - value // MICROSECOND
        case _:
            return point_in_time(str(value), name, wall_clock())


def several(value: Names) -> Sequence[str]:
    """One or several values, as a list."""
    return [] if value is None else [value] if isinstance(value, str) else list(value)
