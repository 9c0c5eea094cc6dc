"""The command line of programs that generate files: it writes them, or lists those that are out of date."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def main(about: str, files: Mapping[str, str], removable: str = "", arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns 1 if `--check` found files that are out of date.

    about: the program's docstring. files: text by name below the given folder; a single one is the given file. removable: glob of
    the files in the folder that are removed once they are generated no more.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; list the files that are out of date")
    parser.add_argument("path", type=Path)
    options = parser.parse_args(arguments)
    folder = options.path
    if len(files) == 1:
        [text] = files.values()
        folder, files = folder.parent, {folder.name: text}
    names = stale(folder, files, removable) if options.check else write(folder, files, removable)
    for name in names:
        sys.stdout.write(f"{folder / name} {'is out of date: make docs' if options.check else 'written'}\n")
    return 1 if options.check and names else 0


def write(folder: Path, files: Mapping[str, str], removable: str = "") -> list[str]:
    """Bring the folder up to date. Returns the names of the changed files."""
    changed = stale(folder, files, removable)
    for name in changed:
        path = folder / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name], encoding="utf-8", newline="\n")
        else:
            path.unlink()
    return changed


def stale(folder: Path, files: Mapping[str, str], removable: str = "") -> list[str]:
    """Names of files that are missing or outdated, and of those that are generated no more."""
    found = {path.relative_to(folder).as_posix() for path in folder.glob(removable)} if removable else set()
    return sorted((found - files.keys()) | {name for name, text in files.items() if _read(folder / name) != text.encode()})


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
