"""Reads policy files, and converts a policy to the form of a file."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bailiff.client.errors import ClientError, ExitCode
from bailiff_core.model.document import MICROSECONDS
from bailiff_core.model.policy import Policy
from bailiff_service import policy_files
from bailiff_service.policy_files import InvalidPolicy, is_duration
from bailiff_service.yaml_files import UnreadableFile


def read_policy(path: Path, code: ExitCode = ExitCode.USAGE) -> Policy:
    """The policy in this file. Raises `ClientError` with all faults: file, line, field. code: exit code for an invalid policy."""
    try:
        return policy_files.read_policy(path)
    except UnreadableFile as fault:
        raise ClientError(ExitCode.USAGE, str(fault)) from None
    except InvalidPolicy as fault:
        raise ClientError(code, str(fault), "start from: bailiff policy show -o yaml") from None


def policy_document(document: BaseModel) -> dict[str, Any]:
    """The policy in the form of a file: all fields, durations with units."""
    found: dict[str, Any] = {}
    for name, field in type(document).model_fields.items():
        value = getattr(document, name)
        if isinstance(value, BaseModel):
            found[name] = policy_document(value)
        elif isinstance(value, tuple):
            found[name] = [policy_document(each) if isinstance(each, BaseModel) else each for each in value]
        elif isinstance(value, dict):
            found[name] = {key: list(each) if isinstance(each, tuple) else each for key, each in value.items()}
        else:
            found[name] = exact_duration(value) if isinstance(value, int) and is_duration(field) else value
    return found


def exact_duration(micros: int) -> str:
    """`90s`, `10m`, `7d`: in the largest unit that gives a whole number."""
    unit = max((unit for unit, size in MICROSECONDS.items() if micros % size == 0), key=lambda unit: MICROSECONDS[unit])
    return f"{micros // MICROSECONDS[unit]}{unit}" if micros else "0s"
