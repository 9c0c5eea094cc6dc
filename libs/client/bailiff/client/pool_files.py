"""Adds a pool to the pools file as text, so that comments and order are preserved."""

import re
from collections.abc import Collection
from pathlib import Path

from pydantic import ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_service.settings import PoolDeclaration, SettingsError, read_pools

from .errors import UsageError
from .safe_write import replacing

HEADER = "# The node pools. The log of each is that partition of bailiff.audit, permanently.\npools:\n"


def with_pool(path: Path, name: str, partition: int | None, description: str, taken: Collection[int]) -> tuple[str, int]:
    """Adds a pool to the file.

    Args:
        taken: Partitions that have a log already.

    Returns:
        The new text of the file, and the partition of the new pool.

    Raises:
        ClientError: The pool cannot be added to this file.
    """
    declared = read_pools(path) if path.exists() else ()
    if any(pool.name == name for pool in declared):
        raise UsageError(f"{path} declares a pool {name!r} already", "list pools: bailiff pool list")
    used = {**dict.fromkeys(taken), **dict.fromkeys(pool.partition for pool in declared)}
    if partition is not None and partition in used:
        raise UsageError(f"--partition: {partition} belongs to another pool permanently", "omit it for the next free one")
    number = max(used, default=-1) + 1 if partition is None else partition
    try:
        PoolDeclaration(name=name, partition=number, description=description)
    except ValidationError as error:
        raise UsageError(f"pool create: {describe_errors(error.errors(include_url=False))}") from None
    before = path.read_text(encoding="utf-8") if path.exists() else HEADER
    return _appended(before, name, number, description), number


def _appended(before: str, name: str, partition: int, description: str) -> str:
    indents = re.findall(r"^( *)- ", before, re.MULTILINE)
    indent = indents[-1] if indents else "  "
    lines = [f"{indent}- name: {name}", f"{indent}  partition: {partition}"]
    lines += [f"{indent}  description: {_quoted(description)}"] if description else []
    return before.rstrip("\n") + "\n" + "\n".join(lines) + "\n"


def write_pools(path: Path, text: str, name: str, partition: int) -> None:
    """Replaces the file if the text parses to the expected pools.

    Raises:
        ClientError: It does not; with the entry to add manually.
    """
    advice = f"add it manually: {{name: {name}, partition: {partition}}}"
    with replacing(path) as draft:
        draft.write(text.encode())
        draft.flush()
        try:
            before = read_pools(path) if path.exists() else ()
            after = read_pools(Path(f"/proc/self/fd/{draft.fileno()}"))
        except SettingsError:
            raise UsageError(f"{path}: not written as a plain list of pools", advice) from None
        if [(pool.name, pool.partition) for pool in after] != [
            *((pool.name, pool.partition) for pool in before),
            (name, partition),
        ]:
            raise UsageError(f"{path}: not written as a plain list of pools", advice)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
