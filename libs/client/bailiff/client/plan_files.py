"""Reads snapshots for `bailiff plan` from YAML or JSON; each fault names file, line and field."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bailiff_core.humanize import value_text
from bailiff_core.model.references import names_of
from bailiff_core.plan import Snapshot, read_snapshot
from bailiff_service.policy_files import Faults, fault_lines, faults_of, reference_faults, strict_faults
from bailiff_service.yaml_files import Lines, UnreadableFile, parse_yaml, read_text

from .errors import ClientError, UsageError

ADVICE = "fields of a snapshot: docs/reference/snapshot.md, docs/schemas/snapshot.json"


class Source:
    """A parsed document with the line of each field, for error texts."""

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
                    return json.loads(self.text, object_pairs_hook=_reject_duplicate_keys)
                except json.JSONDecodeError as error:
                    if self.name.endswith(".json"):
                        raise UsageError(f"{self.name}:{error.lineno}: not JSON: {error.msg}", ADVICE) from None
                except (_DuplicateKey, RecursionError):
                    pass  # read as YAML, for the line
            value, self.lines = parse_yaml(self.text, self.name)
        except UnreadableFile as fault:
            raise UsageError(str(fault), ADVICE) from None
        return value

    def problem(self, faults: Faults, whole: str = "snapshot") -> ClientError:
        """The error with all faults, one per line.

        Args:
            whole: Name of the document as a whole.
        """
        if not self.lines:
            try:
                _, self.lines = parse_yaml(self.text.replace("\t", " "), self.name)  # JSON without tabs is YAML
            except UnreadableFile:
                self.lines = {}
        return UsageError("\n".join(fault_lines(self.name, self.lines, faults, whole)), ADVICE)


class _DuplicateKey(Exception):
    """An object has a duplicate key."""


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _DuplicateKey
    return found


def read_source(file: str) -> Source:
    """The file, or standard input for `-`. Raises `ClientError`."""
    if file == "-":
        return Source("standard input", sys.stdin.read())
    try:
        return Source(file, read_text(Path(file)))
    except UnreadableFile as fault:
        raise UsageError(str(fault)) from None


def snapshot_from(source: Source) -> Snapshot:
    """The snapshot in the document.

    Raises:
        ClientError: The document is invalid; with all faults.
    """
    if not isinstance(source.value, dict):
        found = "nothing" if source.value is None else value_text(source.value)
        raise source.problem([((), f"expected the fields of a snapshot (nodes, jobs, projects, policy, now), found {found}")])
    faults = strict_faults(Snapshot, source.value)
    try:
        snapshot = read_snapshot(source.value)
    except ValidationError as error:
        ends = reference_faults(source.value.get("policy"), names_of(source.value.get("projects")))
        faults += [(("policy", *place), text) for place, text in ends]
        faults += [fault for fault in faults_of(error) if fault[0] != ("policy",) or not ends]
        raise source.problem(faults) from None
    if faults:
        raise source.problem(faults)
    return snapshot


def contradictions(source: Source, error: Any) -> ClientError:
    """The error for an inconsistent snapshot, with each contradiction at its line."""
    return source.problem(error.faults)
