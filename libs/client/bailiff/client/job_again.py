"""The specification of a submitted job, to submit it again: the demand from the log, the rest from admission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bailiff_core.humanize import thousandths_text
from bailiff_core.model.amounts import cores, gpu_fraction
from bailiff_core.model.job_spec import ADDED_LABELS
from bailiff_core.model.state import ENDED

from .answers import free_name
from .job_parser import GROUP_FIELDS, JOB_FIELDS, duration, gpus, memory
from .job_spec import read_spec

if TYPE_CHECKING:
    from bailiff_core.model.job_spec import JobSpec
    from bailiff_core.model.state import Job, PoolState

    from .client import Client

AMOUNTS = ("gpus", "fraction", "gpu_memory")


@dataclass(frozen=True, slots=True)
class Again:
    """The fields of the job as in a job file.

    Attributes:
        missing: Why the fields that are not in the log could not be read; empty if they were.
    """

    document: Mapping[str, Any]
    missing: str = ""


async def job_again(client: Client, state: PoolState, job: Job) -> Again:
    """The job's fields, under a free name, without its user and met dependencies. What cannot be read is left out."""
    spec, missing = await read_spec(client, state.pool, job)
    return Again(document_again(state, job, spec), missing)


def document_again(state: PoolState, job: Job, spec: JobSpec | None) -> dict[str, Any]:
    """The job as a job file, to submit it again.

    Args:
        spec: Its private part, if it could be read.
    """
    demand = job.demand.to_data()
    document = _fields(JOB_FIELDS, "demand", demand)
    groups = [_group(each) for each in demand["tasks"]]
    document |= {"groups": groups} if len(groups) > 1 else groups[0]
    if spec is not None:
        document |= _fields(JOB_FIELDS, "spec", spec.to_data())
    for name in ("user", "after"):
        document.pop(name, None)
    if after := _unmet(state, job):
        document["after"] = after
    return {**document, "name": free_name(state, job.id)}


def changed(again: Again, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with these changes. Another kind of GPU amount replaces the job's."""
    document = dict(again.document)
    if any(name in changes for name in AMOUNTS):
        for name in (*AMOUNTS, "gpu_devices"):
            document.pop(name, None)
    return {**document, **changes}


def _unmet(state: PoolState, job: Job) -> list[str]:
    """What the job waits for and is still to be waited for; with a job that has failed, the submission is rejected."""
    found = []
    for each in job.demand.after:
        other = state.jobs.get(each.job)
        if other is not None and other.phase != "succeeded" and not (each.until == "ended" and other.phase in ENDED):
            found.append(f"{each.job}:{each.until}")
    return found


def _fields(known: Mapping[str, Any], part: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _text(field.read, data[field.path[1]])
        for name, field in known.items()
        if field.path[0] == part and field.path[1] in data
    }


def _group(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a task group. Node labels that admission added are left out."""
    found = {name: _text(field.read, data[field.path[0]]) for name, field in GROUP_FIELDS.items() if field.path[0] in data}
    labels = {name: value for name, value in data.get("node_labels", {}).items() if not name.startswith(ADDED_LABELS)}
    found.pop("node_labels", None)
    if found.get("gpus") == "0":
        del found["gpus"]
    return found | ({"node_labels": labels} if labels else {})


def _text(read: Any, value: Any) -> Any:
    """The value as the parser `read` expects it in a job file."""
    if read is duration and isinstance(value, int):
        return f"{value}us"
    if read is memory:
        return f"{value}B"
    if read is cores:
        return f"{value}m"
    if read in (gpus, gpu_fraction):
        return thousandths_text(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
