"""The files of `bailiff audit verify --resume` and `replay --resume`: JSON, written as a whole or not at all."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from bailiff.client import safe_write
from bailiff.client.errors import ClientError, ExitCode

from .segments import Strict

Content = TypeVar("Content", bound=Strict)


def read(path: Path, content: type[Content], command: str) -> Content | None:
    """None where there is no file. command: `verify` or `replay`. Raises `ClientError` for another file."""
    try:
        return content.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientError(ExitCode.USAGE, f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        text = f"{path}: not a file of `bailiff audit {command} --resume`: {error.errors()[0]['msg']}"
        raise ClientError(ExitCode.USAGE, text, f"name another file, or remove it to {command} everything") from None


def write(path: Path, content: Strict) -> None:
    """Replaces the file."""
    safe_write.put(path, (json.dumps(content.model_dump(), indent=1) + "\n").encode())
