"""Parser of job files and submit options: `8GiB`, `500m` CPU or half a GPU become the integers of `SubmitJob`.

A job file is YAML with the fields of `JOB_FIELDS`. The fields of one task group are at the top level (`tasks`, `gpus`, `cpu`,
`memory`, each per task), those of several in the list `groups`. Dashes and underscores in field names are equivalent.
Every error names the field, the value found and what is allowed; for a file also the line.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.model.amounts import InvalidValue, cores, found_text, gpu_fraction, thousandths
from bailiff_core.model.demand import JobDemand, SubGroup, TopologyRule
from bailiff_core.model.document import BYTES, SHORTEST_UNITLESS, SMALLEST_UNITLESS, parse_duration
from bailiff_core.model.job_spec import SET_BY_BAILIFF, JobSpec
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.wire import EPOCH_START, MICROSECOND
from bailiff_service import yaml_files
from bailiff_service.yaml_files import Lines, Place

from .errors import UsageError

MEMORY_UNITS = {**BYTES, "B": 1, "KB": 10**3, **{unit[:2]: size for unit, size in BYTES.items() if unit.endswith("iB")}}
LONGEST_NUMBER = 24  # digits


def gpus(value: object) -> int:
    """Thousandths of a GPU from `4`, or from `0.5` for a part of one."""
    return thousandths(value, "a number of GPUs per task, as in 4, or 0.5 for a part of one")


def memory(value: object) -> int:
    """Bytes from `8GiB`, `512MiB`, `16GB`, or from a whole number of bytes of at least 1 MiB."""
    wanted = "an amount of memory per task with its unit, as in 8GiB (KiB, MiB, GiB, TiB; kB, MB, GB, TB)"
    text = _text(value, wanted)
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text, re.ASCII)
    if match is None or match[2] not in MEMORY_UNITS:
        raise InvalidValue(f"expected {wanted}, found {found_text(text)}")
    if len(match[1]) > LONGEST_NUMBER:
        raise InvalidValue(f"expected {wanted}, found a number of {len(match[1])} digits")
    amount = Decimal(match[1]) * MEMORY_UNITS[match[2]]
    if amount != amount.to_integral_value():
        raise InvalidValue(f"expected {wanted} that is a whole number of bytes, found {found_text(text)}")
    if not match[2] and 0 < amount < SMALLEST_UNITLESS:
        raise InvalidValue(f"expected {wanted}, found {text}, which would be a number of bytes")
    return int(amount)


def seconds(value: object) -> str:
    """Seconds as text, for `BAILIFF_SIM_RUN_FOR`, from `90`, `90s` or `5m`."""
    wanted = "a time, as in 90s or 5m"
    text = _text(value, wanted)
    try:
        if len(text) > LONGEST_NUMBER:
            raise ValueError(text)
        micros = parse_duration(text if text[-1:].isalpha() else f"{int(Decimal(text) * 1000)}ms")
    except (ValueError, ArithmeticError):
        raise InvalidValue(f"expected {wanted}, found {found_text(text)}") from None
    assert isinstance(micros, int)
    return f"{micros / 1_000_000:g}"


def duration(value: object) -> object:
    """A duration for `SubmitJob`.

    Raises:
        InvalidValue: A small number has no unit: it would be microseconds.
    """
    if type(value) is int and 0 < value < SHORTEST_UNITLESS:
        raise InvalidValue(f"expected a time with its unit, as in {value}s (us, ms, s, m, h, d), found {value}")
    return value


def moment(value: object) -> int:
    """A time, µs UTC, from `2026-12-24T08:00:00Z` or another time zone; without one it is UTC."""
    if type(value) is int:
        return value
    try:
        found = datetime.fromisoformat(str(value).strip())
        return (found.replace(tzinfo=found.tzinfo or UTC) - EPOCH_START) // MICROSECOND
    except (ValueError, OverflowError):
        raise InvalidValue(f"expected a time, as in 2026-12-24T08:00:00Z; found {found_text(value)}") from None


def pair(text: str) -> tuple[str, str]:
    """Name and value from `NAME=VALUE`."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidValue(f"expected NAME=VALUE, found {found_text(text)}")
    return name, value


def merged(before: object, more: dict[str, str]) -> object:
    """The mapping with these entries added. Anything but a mapping is returned as it is, for validation to reject."""
    return {**(before or {}), **more} if before is None or isinstance(before, dict) else before


def _text(value: object, wanted: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue(f"expected {wanted}, found {found_text(value)}")
    return str(value).strip()


# --- a job


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """Maps a field of a job file to its path in `SubmitJob`.

    Attributes:
        read: Parses the value.
    """

    path: tuple[str, ...]
    read: Callable[[object], object] = _same


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _one_or_more_numbers(value: object) -> object:
    return [value] if isinstance(value, int) else value


def dependencies(value: object) -> list[object]:
    """Jobs to wait for: `prep-1`, `prep-1:ended`, or mappings with `job` and `until`; one, or a list."""
    found: list[object] = []
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, dict):
            found.append(each)
            continue
        name, _, until = _text(each, "a job, as in prep-1 or prep-1:ended").partition(":")
        if until not in ("", "succeeded", "ended"):
            raise InvalidValue(f"expected JOB, JOB:succeeded or JOB:ended; found {found_text(each)}")
        found.append({"job": name, "until": until or "succeeded"})
    return found


def _underscored(fields: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name).replace("-", "_"): value for name, value in fields.items()}


def _underscored_all(value: object) -> object:
    return [_underscored(each) if isinstance(each, dict) else each for each in value] if isinstance(value, list) else value


def _is_duration(kind: Any) -> bool:
    return any(getattr(each, "func", None) is parse_duration or _is_duration(each) for each in get_args(kind))


NAMES = {"job": "name", "priority_class": "class"}
READ = {"sub_groups": _underscored_all, "after": dependencies, "begin": moment, "ports": _one_or_more_numbers}
NO_FIELDS = ("tasks", "workload")
JOB_FIELDS: Mapping[str, Field] = {
    NAMES.get(name, name): Field((part, name), READ.get(name, duration if _is_duration(field.rebuild_annotation()) else _same))
    for part, model in (("demand", JobDemand), ("spec", JobSpec))
    for name, field in model.model_fields.items()
    if name not in NO_FIELDS
}
"""The fields of demand and spec, but for those of a task group."""
GROUP_FIELDS: Mapping[str, Field] = {
    "tasks": Field(("count",)),
    "gpus": Field(("gpu_milli",), gpus),
    "fraction": Field(("gpu_share_milli",), gpu_fraction),
    "gpu_memory": Field(("gpu_share_bytes",), memory),
    "gpu_devices": Field(("gpu_devices",)),
    "mig": Field(("mig_profile",)),
    "cpu": Field(("cpu_milli",), cores),
    "memory": Field(("memory_bytes",), memory),
    "gpu_model": Field(("gpu_models",), _one_or_more),
    "node_labels": Field(("node_labels",)),
    "nodes": Field(("nodes",), _one_or_more),
    "exclude_nodes": Field(("excluded_nodes",), _one_or_more),
    "sub_group": Field(("sub_group",)),
    "order": Field(("order",)),
}
SHARES = ("fraction", "gpu_memory")
WHOLE_GPU = 1000  # thousandths
SIM_RUN_FOR = "BAILIFF_SIM_RUN_FOR"
PORT = "BAILIFF_PORT"


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a job's fields: the file with the line of each field, and the fields given as options."""

    file: str = ""
    lines: Mapping[Place, int] | None = None
    options: frozenset[str] = frozenset()

    def where(self, place: Place) -> str:
        """`job.yaml:7: groups.0.gpus`, or `--gpus` if it was given as an option."""
        name = ".".join(str(part).replace("_", "-") for part in place)
        if not self.file or (place and place[0] in self.options):
            return {"": "the job", "command": "the command, after --"}.get(name, f"--{name}")
        known = place
        while known and known not in (self.lines or {}):
            known = known[:-1]
        line = (self.lines or {}).get(known, 1)
        return f"{self.file}:{line}: {name}" if name else f"{self.file}:{line}"


def read_job_file(path: Path) -> tuple[dict[str, Any], Source]:
    """The fields of a job file, with underscores in their names, and the source of each. Raises `ClientError`."""
    value, lines = read_yaml(path)
    if not isinstance(value, dict):
        raise UsageError(f"{path}:1: {not_a_job(value)}", _ADVICE)
    return fields_of(value), Source(str(path), lines_of(lines))


def not_a_job(value: object) -> str:
    """Error text for a document that is not a mapping."""
    return f"expected the fields of a job, found {found_text(value)}"


def fields_of(value: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields, with underscores in their names."""
    document = _underscored(value)
    if isinstance(document.get("groups"), list):
        document["groups"] = [_underscored(group) if isinstance(group, dict) else group for group in document["groups"]]
    return document


def lines_of(lines: Lines) -> Lines:
    """The lines, with underscores in the names of places."""
    return {tuple(part.replace("-", "_") if isinstance(part, str) else part for part in at): line for at, line in lines.items()}


def job_from(document: Mapping[str, Any], source: Source | None = None) -> SubmitJob:
    """The request for a job's fields.

    Raises:
        ClientError: The fields are invalid; with all faults, one per line.
    """
    source = source or Source()
    job, faults = checked(document)
    if job is None:
        sentences = dict.fromkeys(f"{source.where(place)}: {text}" for place, text in faults)
        is_form = not source.file and any(text.startswith("expected ") for _, text in faults)
        raise UsageError("\n".join(sentences), _ADVICE if is_form else "")
    return job


Faults = list[tuple[Place, str]]


def checked(document: Mapping[str, Any]) -> tuple[SubmitJob | None, Faults]:
    """The request for a job's fields, or None and all faults with their places."""
    faults: Faults = []
    demand: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    known = {*JOB_FIELDS, *GROUP_FIELDS, "groups", "sim_run_for"}
    faults += [((name,), _no_such_field(name, known)) for name in document if name not in known]
    for name, field in JOB_FIELDS.items():
        if name in document:
            part, key = field.path
            try:
                (demand if part == "demand" else spec)[key] = field.read(document[name])
            except InvalidValue as error:
                faults.append(((name,), str(error)))
    if demand.get("ports") and isinstance(spec.get("env", {}), dict):
        spec["env"] = {PORT: str(demand["ports"][0]), **spec.get("env", {})}
    if "image" in document:
        spec.setdefault("runtime", "docker")
    if "sim_run_for" in document:
        spec["runtime"] = "simulated"
        spec.setdefault("command", ["true"])
        try:
            spec["env"] = merged(spec.get("env"), {SIM_RUN_FOR: seconds(document["sim_run_for"])})
        except InvalidValue as error:
            faults.append((("sim_run_for",), str(error)))
    if "command" not in spec and "command" not in document:
        faults.append((("command",), "expected a value, found nothing"))
    if not _program(spec.get("command", "given")):
        faults.append((("command",), "expected a program, found an empty text"))
    for variables in ("env", "secrets"):
        given = spec.get(variables)
        for variable in given if isinstance(given, dict) else ():
            if variable in SET_BY_BAILIFF:
                faults.append(((variables,), f"{variable} is set by Bailiff for each task"))
    faults += [(place, _no_such_field(str(place[-1]), known)) for place, known in _unknown_inside(document)]
    demand["tasks"] = _groups(document, faults)
    if demand.get("placement") == "prefer nvlink" and not any(group.get("gpu_milli") for group in demand["tasks"]):
        faults.append((("placement",), "is about whole GPUs of one task or several: also set gpus"))
    try:
        job = SubmitJob.model_validate_json(json.dumps({"demand": demand, "spec": spec}, default=str))
    except ValidationError as error:
        for each in error.errors(include_url=False):
            if text := describe_errors([each]).partition(": ")[2]:  # a consequence of another fault has none
                faults.append((_job_file_field(each["loc"], "groups" in document), text))
        return None, faults
    except ValueError as error:  # a number of thousands of digits
        return None, [*faults, ((), f"a value cannot be read: {error}")]
    return (None if faults else job), faults


def _program(command: object) -> object:
    """The program or the line for the shell; falsy if it is empty."""
    first = command[0] if isinstance(command, list | tuple) and command else command
    return first.strip() if isinstance(first, str) else True


_ADVICE = "an example: bailiff submit --gpus 4 --memory 8GiB -- python train.py"


def _unknown_inside(document: Mapping[str, Any]) -> Iterator[tuple[Place, Iterable[str]]]:
    """Unknown fields of sub-groups and topology rules, which validation of `SubmitJob` ignores."""
    listed = document.get("sub_groups")
    listed = list(enumerate(listed)) if isinstance(listed, list) else []
    groups: list[tuple[Place, Any]] = [(("sub_groups", at), _underscored(each)) for at, each in listed if isinstance(each, dict)]
    rules: list[tuple[Place, Any]] = [(("topology",), document.get("topology"))]
    rules += [((*place, "topology"), group.get("topology")) for place, group in groups]
    for kind, found in ((SubGroup, groups), (TopologyRule, rules)):
        for place, fields in found:
            unknown = [name for name in fields if name not in kind.model_fields] if isinstance(fields, dict) else []
            for name in unknown:
                yield (*place, name), kind.model_fields


def _groups(document: Mapping[str, Any], faults: Faults) -> list[dict[str, Any]]:
    top = [name for name in GROUP_FIELDS if name in document]
    if "groups" not in document:
        return [_group(document, (), faults)]
    groups = document["groups"]
    if top:
        faults.append(((top[0],), "cannot be combined with groups; move it into each group"))
    if not isinstance(groups, list) or not groups:
        faults.append((("groups",), f"expected a list of task groups, found {found_text(groups)}"))
        return []
    found = []
    for index, group in enumerate(groups):
        if not isinstance(group, dict):
            faults.append((("groups", index), f"expected the fields of a group, found {found_text(group)}"))
            continue
        unknown = [name for name in group if name not in GROUP_FIELDS]
        faults += [(("groups", index, name), _no_such_field(name, GROUP_FIELDS)) for name in unknown]
        found.append(_group(group, ("groups", index), faults))
    return found


def _with_fraction(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a group; `gpus: 0.5` becomes `fraction: 0.5`."""
    try:
        less_than_one = 0 < gpus(fields.get("gpus")) < WHOLE_GPU
    except InvalidValue:
        return fields
    if not less_than_one or any(name in fields for name in SHARES):
        return fields
    return {("fraction" if name == "gpus" else name): value for name, value in fields.items()}


def _group(fields: Mapping[str, Any], place: Place, faults: Faults) -> dict[str, Any]:
    fields = _with_fraction(fields)
    group: dict[str, Any] = {}
    for name, field in GROUP_FIELDS.items():
        if name not in fields:
            continue
        try:
            group[field.path[0]] = field.read(fields[name])
        except InvalidValue as error:
            faults.append(((*place, name), str(error)))
    shares = [name for name in SHARES if name in fields]
    conflict = "gpus" if "gpus" in fields else "fraction" if len(shares) > 1 else ""
    if shares and conflict:
        advice = "remove one; for a fraction of each of several GPUs use gpu-devices"
        faults.append(((*place, shares[-1]), f"cannot be combined with {conflict}: {advice}"))
    elif "mig" in fields and (shares or "gpus" in fields):
        faults.append(
            ((*place, "mig"), f"cannot be combined with {shares[0] if shares else 'gpus'}: a task uses GPUs or MIG devices")
        )
    elif "gpu_devices" in fields and not shares and "mig" not in fields:
        faults.append(((*place, "gpu_devices"), "is the number of shared GPUs: also set fraction or gpu-memory"))
    if fields.get("gpu_model") and not any(group.get(GROUP_FIELDS[name].path[0]) for name in ("gpus", *SHARES, "mig")):
        faults.append(((*place, "gpu_model"), "is the model of a task's GPUs: also set gpus, fraction, gpu-memory or mig"))
    return group


INSIDE = ("labels", "env", "secrets", "topology", "sub_groups")


def _job_file_field(path: Place, grouped: bool) -> Place:
    """The field of the job file for this path in `SubmitJob`."""
    if path[:2] == ("demand", "tasks"):
        names = {field.path[0]: name for name, field in GROUP_FIELDS.items()}
        inner = tuple(names.get(str(part), part) for part in path[3:4])
        return ("groups", *path[2:3], *inner) if grouped else inner
    for name, field in JOB_FIELDS.items():
        if path[:2] == field.path:
            return (name, *path[2:]) if name in INSIDE else (name,)
    return ()


def _no_such_field(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"no such field; did you mean {close[0].replace('_', '-')}?"
    return f"no such field; known fields: {', '.join(sorted(each.replace('_', '-') for each in known))}"


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """Parsed content of the file, and the line of every place in it.

    Raises:
        ClientError: The file is invalid; with file and line.
    """
    try:
        return yaml_files.read_yaml(path)
    except yaml_files.UnreadableFile as fault:
        raise UsageError(str(fault)) from None
