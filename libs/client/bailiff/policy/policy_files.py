"""Reads policy files, and converts a policy to the form of a file."""

from pathlib import Path

from bailiff.client.errors import ClientError, ExitCode, UsageError
from bailiff_core.model.policy import Policy
from bailiff_service import policy_files
from bailiff_service.policy_files import InvalidPolicy
from bailiff_service.yaml_files import UnreadableFile


def read_policy(path: Path, code: ExitCode = ExitCode.USAGE) -> Policy:
    """Reads the policy in this file.

    Args:
        code: Exit code for an invalid policy.

    Raises:
        ClientError: With all faults, each with file, line and field.
    """
    try:
        return policy_files.read_policy(path)
    except UnreadableFile as fault:
        raise UsageError(str(fault)) from None
    except InvalidPolicy as fault:
        raise ClientError(code, str(fault), "start from: bailiff policy show -o yaml") from None
