"""The command that generates the event reference."""

import argparse
import sys
from pathlib import Path

from .files import stale, write


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns its exit code; 1: `--check` found stale files."""
    parser = argparse.ArgumentParser(prog="python -m bailiff_service.event_reference", description="Writes the event reference.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="write nothing; list stale files and exit with 1")
    options = parser.parse_args(arguments)
    names = stale(options.folder) if options.check else write(options.folder)
    for name in names:
        sys.stdout.write(f"{'stale' if options.check else 'written'}: {options.folder / name}\n")
    return 1 if options.check and names else 0


if __name__ == "__main__":
    sys.exit(main())
