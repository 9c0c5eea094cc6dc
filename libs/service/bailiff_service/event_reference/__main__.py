"""The command that writes the event reference."""

import argparse
import sys
from pathlib import Path

from .files import stale, write


def main(arguments: list[str] | None = None) -> int:
    """The command. 1: `--check` found stale files."""
    parser = argparse.ArgumentParser(prog="python -m bailiff_service.event_reference", description="Writes the event reference.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="change nothing; name stale files and end with 1")
    given = parser.parse_args(arguments)
    names = stale(given.folder) if given.check else write(given.folder)
    for name in names:
        sys.stdout.write(f"{'stale' if given.check else 'written'}: {given.folder / name}\n")
    return 1 if given.check and names else 0


if __name__ == "__main__":
    sys.exit(main())
