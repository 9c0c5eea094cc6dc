"""Builds the request for a job from YAML text, with defaults for name and project; used by `bailiff submit` and the console."""

import contextlib
import re
import secrets
import string
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff_core.model.state import PoolState
from bailiff_core.records.job_requests import SubmitJob
from bailiff_service.yaml_files import UnreadableFile, line_of, parse_untrusted_yaml

from .dependencies import named_dependencies
from .errors import InvalidRequest
from .job_parser import checked, fields_of, lines_of, not_a_job

SUBMIT_DIR = "BAILIFF_SUBMIT_DIR"


@dataclass(frozen=True, slots=True)
class Fault:
    """An invalid part of the text.

    Attributes:
        line: From 1.
        field: Empty for the whole text.
    """

    line: int
    field: str
    text: str


def job_in(
    text: str, project: str | None = None, waiting: tuple[PoolState, str] | None = None
) -> tuple[SubmitJob | None, list[Fault]]:
    """The request for this YAML, or None and all faults by line. Missing name and project are filled in.

    Args:
        waiting: The pool's state, in which the job finds those that it waits for, and the user.
    """
    try:
        value, lines = parse_untrusted_yaml(text, "")
    except UnreadableFile as error:
        return None, [fault_of(error)]
    if not isinstance(value, dict):
        return None, [Fault(1, "", not_a_job(value))]
    document, known_lines = fields_of(value), lines_of(lines)
    in_project(document, project)
    named(document)
    unknown = []
    if waiting is not None and document.get("after"):
        (state, user), at = waiting, line_of(known_lines, ("after",))
        try:
            document["after"] = named_dependencies(state, document["after"], user, str(document["name"]))
        except InvalidRequest as problem:
            unknown = [Fault(at, "after", str(problem).removeprefix("after: "))]
            del document["after"]
    job, faults = checked(document)
    found = unknown + [
        Fault(line_of(known_lines, place), ".".join(map(str, place)).replace("_", "-"), message) for place, message in faults
    ]
    return None if unknown else job, sorted(dict.fromkeys(found), key=lambda fault: fault.line)


def fault_of(error: UnreadableFile) -> Fault:
    """The fault of a text that is not YAML. The error is of a text with an empty file name: `:3: not YAML: …`."""
    match = re.match(r":([0-9]+): (.*)", str(error), re.DOTALL)
    return Fault(int(match[1]), "", match[2]) if match else Fault(1, "", str(error).removeprefix(": "))


def in_project(document: MutableMapping[str, Any], project: str | None) -> None:
    """Sets the requester's project if the job names none."""
    if "project" not in document and project is not None:
        document["project"] = project


def named(document: MutableMapping[str, Any]) -> None:
    """Sets a generated name if the job has none."""
    if "name" not in document:
        document["name"] = made_name(document.get("command"))


def from_here(document: MutableMapping[str, Any]) -> None:
    """Has a job of the runtime `process` run in the caller's folder, where the node has it, unless the job says another."""
    if document.get("runtime", "process") == "process" and not document.keys() & {"working_dir", "image", "sim_run_for"}:
        with contextlib.suppress(OSError):  # the folder is gone
            here, given = str(Path.cwd()), document.get("env") or {}
            document["env"] = {SUBMIT_DIR: here, **given} if isinstance(given, dict) else given


def made_name(command: object) -> str:
    """A name with a random suffix: `train-x3k9` for `python train.py`."""
    words = command.split() if isinstance(command, str) else [str(word) for word in command] if isinstance(command, list) else []
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    stem = Path(scripts[0] if scripts else words[0] if words else "job").stem
    base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:50].strip("-") or "job"
    return f"{base}-{''.join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(4))}"
