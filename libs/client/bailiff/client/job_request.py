"""A job as somebody described it in a text, made into the request: what `bailiff submit` and the console do with it."""

import re
import secrets
import string
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff_bus.messages import SubmitJob
from bailiff_service.policy_files import line_of
from bailiff_service.yaml_files import UnreadableFile, parse_foreign_yaml

from .job_parser import checked, fields_of, lines_of, no_job


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a text that does not fit: line from 1, the field, and what is wrong."""

    line: int
    field: str
    text: str


def job_in(text: str, project: str | None = None) -> tuple[SubmitJob | None, list[Fault]]:
    """The job that this YAML describes, or every fault. What it leaves out is filled in: its name, its project."""
    try:
        value, lines = parse_foreign_yaml(text, "")
    except UnreadableFile as error:
        return None, [fault_of(error)]
    if not isinstance(value, dict):
        return None, [Fault(1, "", no_job(value))]
    document, spelled = fields_of(value), lines_of(lines)
    in_project(document, project)
    named(document)
    job, faults = checked(document)
    found = [Fault(line_of(spelled, place), ".".join(map(str, place)).replace("_", "-"), said) for place, said in faults]
    return job, sorted(dict.fromkeys(found), key=lambda fault: fault.line)


def fault_of(error: UnreadableFile) -> Fault:
    """Why a text that was called the empty name is no YAML: `:3: not YAML: …`."""
    match = re.match(r":([0-9]+): (.*)", str(error), re.DOTALL)
    return Fault(int(match[1]), "", match[2]) if match else Fault(1, "", str(error).removeprefix(": "))


def in_project(document: MutableMapping[str, Any], project: str | None) -> None:
    """The project of whoever asks, where the job names none."""
    if "project" not in document and project is not None:
        document["project"] = project


def named(document: MutableMapping[str, Any]) -> None:
    """A name of its own, where the job has none."""
    if "name" not in document:
        document["name"] = made_name(document.get("command"))


def made_name(command: object) -> str:
    """`train-x3k9` for `python train.py`."""
    words = command.split() if isinstance(command, str) else [str(word) for word in command] if isinstance(command, list) else []
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    stem = Path(scripts[0] if scripts else words[0] if words else "job").stem
    base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50].strip("-") or "job"
    return f"{base}-{''.join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(4))}"
