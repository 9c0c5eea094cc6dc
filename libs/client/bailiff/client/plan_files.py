"""Snapshots as files: YAML or JSON, every fault told with its file, line and field."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bailiff_bus.validation_errors import value_text
from bailiff_core.plan import Snapshot, read_snapshot
from bailiff_core.plan.snapshot import names_of
from bailiff_service.policy_files import Faults, fault_lines, faults_of, loose_ends, slips
from bailiff_service.yaml_files import Lines, UnreadableFile, parse_yaml, read_text

from .errors import ExitCode, Problem

ADVICE = "what a snapshot may hold: docs/reference/snapshot.md, docs/schemas/snapshot.json"


class Source:
    """A document and where each of its fields stands, for telling faults."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.lines: Lines = {}
        self.value = self._read()

    def _read(self) -> Any:
        looks_like_json = self.name.endswith(".json") or self.text.lstrip()[:1] in ("{", "[")
        try:
            if looks_like_json:
                try:
                    return json.loads(self.text, object_pairs_hook=_no_key_twice)
                except json.JSONDecodeError as error:
                    if self.name.endswith(".json"):
                        raise Problem(ExitCode.USAGE, f"{self.name}:{error.lineno}: not JSON: {error.msg}", ADVICE) from None
                except (_StandsTwice, RecursionError):
                    pass  # read as YAML, which knows lines
            value, self.lines = parse_yaml(self.text, self.name)
        except UnreadableFile as fault:
            raise Problem(ExitCode.USAGE, str(fault), ADVICE) from None
        return value

    def problem(self, faults: Faults, whole: str = "snapshot") -> Problem:
        """All faults, one per line."""
        if not self.lines:
            try:
                _, self.lines = parse_yaml(self.text.replace("\t", " "), self.name)  # JSON is YAML but for its tabs
            except UnreadableFile:
                self.lines = {}
        return Problem(ExitCode.USAGE, "\n".join(fault_lines(self.name, self.lines, faults, whole)), ADVICE)


class _StandsTwice(Exception):
    """An object has one key twice."""


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _StandsTwice
    return found


def read_source(file: str) -> Source:
    """The file of that name, or what comes in where it is `-`. Raises `Problem`."""
    if file == "-":
        return Source("standard input", sys.stdin.read())
    try:
        return Source(file, read_text(Path(file)))
    except UnreadableFile as fault:
        raise Problem(ExitCode.USAGE, str(fault)) from None


def snapshot_from(source: Source) -> Snapshot:
    """The snapshot that the document is. Raises `Problem` with every fault."""
    if not isinstance(source.value, dict):
        found = "nothing" if source.value is None else value_text(source.value)
        raise source.problem([((), f"expected the fields of a snapshot (nodes, jobs, projects, policy, now), found {found}")])
    faults = slips(Snapshot, source.value)
    try:
        snapshot = read_snapshot(source.value)
    except ValidationError as error:
        ends = loose_ends(source.value.get("policy"), names_of(source.value.get("projects")))
        faults += [(("policy", *place), said) for place, said in ends]
        faults += [fault for fault in faults_of(error) if fault[0] != ("policy",) or not ends]
        raise source.problem(faults) from None
    if faults:
        raise source.problem(faults)
    return snapshot


def contradictions(source: Source, error: Any) -> Problem:
    """What the snapshot says against itself, each at its line."""
    return source.problem([(fault.place, fault.text) for fault in error.faults])
