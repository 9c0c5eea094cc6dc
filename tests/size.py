"""Counts the lines of product and tests, by package and by folder: `make size`, or `python tests/size.py COMMIT`."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRONTEND = "services/console/frontend"
SECTIONS = {
    "product, Python": ("libs/*.py", "services/*.py"),
    "product, console pages": tuple(f"{FRONTEND}/*.{end}" for end in ("ts", "tsx", "css")),
    "tests, Python": ("tests/*.py",),
    "tests, console pages": tuple(f"{FRONTEND}/*.test.{end}" for end in ("ts", "tsx")),
}


def lines(patterns: tuple[str, ...], commit: str) -> dict[str, int]:
    """Lines of each file that git has at the commit ("": in the working tree)."""
    command = ["git", "grep", "--null", "-c", "", *([commit] if commit else []), "--", *patterns]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {path.removeprefix(f"{commit}:"): int(count) for path, count in (line.split("\0") for line in found.splitlines())}


def part(path: str) -> str:
    """The package, folder of tests, or folder of the frontend in which the file lies."""
    folders = Path(path.removeprefix(f"{FRONTEND}/src/")).parent.parts
    return "/".join(folders[: 2 if folders[:1] in (("libs",), ("services",), ("tests",)) else 1]) or "."


def main(commit: str) -> None:
    """Print each section's total, then its parts, largest first."""
    for title, patterns in SECTIONS.items():
        counted = lines(patterns, commit)
        if title.startswith("product"):
            counted = {path: count for path, count in counted.items() if ".test." not in path}
        sums: Counter[str] = Counter()
        for path, count in counted.items():
            sums[part(path)] += count
        print(f"{title}: {sums.total():,}")
        for name, total in sums.most_common():
            print(f"  {total:>8,}  {name}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
