"""Writes the OpenAPI document of the query API.

python -m bailiff_auditor.api.openapi docs/schemas/api.json            write
python -m bailiff_auditor.api.openapi --check docs/schemas/api.json    check that it is current
"""

import argparse
import json
import sys
from pathlib import Path

from bailiff_service.metrics import Metrics

from .app import application, description


def text() -> str:
    """The document."""
    return json.dumps(description(application(None, None, Metrics(), token="")), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if not arguments.check:
        arguments.file.write_text(text(), encoding="utf-8")
    elif not arguments.file.exists() or arguments.file.read_text(encoding="utf-8") != text():
        sys.stdout.write(f"{arguments.file} is out of date: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
