"""No two pages state opposite things about a feature: what each says of it is compared with one table.

A feature that is new, or goes, changes its row here first; then this test names every page that still says otherwise.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ("docs/events", "docs/schemas")


@dataclass(frozen=True)
class Feature:
    """Whether Bailiff has it, how a page says so, and how a page says the opposite; with a sentence that each pattern finds."""

    name: str
    has: bool
    yes: str
    no: str
    says_yes: str
    says_no: str


FEATURES = [
    Feature(
        "Kubernetes",
        True,
        r"\bjobs as pods\b",
        r"\b(does not|cannot|never) runs? on kubernetes|\bno kubernetes\b",
        "jobs as pods",
        "It does not run on Kubernetes.",
    ),
    Feature(
        "input to an interactive job",
        True,
        r"bailiff attach",
        r"(interactive|attach)[^.|]*\b(takes?|accepts?) no (input|typing)",
        "bailiff attach comes back to its terminal",
        "`--interactive` prints the output and takes no input",
    ),
    Feature(
        "a shell in a container",
        True,
        r"beside a task in a container",
        r"(container|image)[^.|]*\bno shell\b|\bno shell\b[^.|]*container|in a container: docker exec",
        "Beside a task in a container it is what",
        "A job in a container has no shell.",
    ),
    Feature(
        "a shell in a pod",
        False,
        r"bailiff shell[^.|]*\bin a pod\b",
        r"in a pod use `kubectl exec`",
        "`bailiff shell` in a pod",
        "In a pod use `kubectl exec`",
    ),
    Feature(
        "a shell in the console",
        True,
        r"in the console, \*shell\*",
        r"\bno shell in the console\b|console (has|opens) no shell",
        "In the console, *Shell* on a job's page opens one",
        "The console has no shell.",
    ),
    Feature(
        "a terminal of a job in a container",
        False,
        r"terminal[^.|]*\balso (of|for) (jobs|tasks) in (a )?containers?",
        r"jobs with a container image have no terminal",
        "a terminal, also of jobs in containers",
        "Jobs with a container image have no terminal.",
    ),
    Feature(
        "arrays with a limit",
        True,
        r"--array 0-99%8",
        r"\barrays? (have|has|take|takes) no limit",
        "`--array 0-99%8`",
        "Arrays have no limit of concurrent tasks",
    ),
    Feature(
        "waiting for an array or a pattern",
        True,
        r"--after 'prep-\*'",
        r"--after[^.|]*\b(no|not) (arrays|patterns|globs)",
        "`--after 'prep-*'` for all that match now",
        "`--after` takes no patterns",
    ),
    Feature(
        "parts of a GPU",
        True,
        r"\bparts of a gpu\b",
        r"\b(only whole gpus|gpus cannot be shared)\b",
        "Parts of a GPU",
        "There are only whole GPUs.",
    ),
    Feature(
        "partitioning of MIG cards",
        False,
        r"(?<!not )\bpartitions (the )?cards\b(?! for it)",
        r"does not partition cards|partitions no card",
        "It partitions cards",
        "it does not partition cards",
    ),
    Feature(
        "a run on a real GPU",
        False,
        r"\b(was|has been) (run|measured) on a real gpu\b",
        r"not (yet )?(been )?run on a real gpu",
        "It was run on a real GPU.",
        "not yet run on a real GPU",
    ),
    Feature(
        "supervision by make up",
        True,
        r"keeps it running",
        r"make up[^.|]*\b(does not|nothing) restarts?\b",
        "starts what does not run, and keeps it running",
        "`make up` does not restart a service",
    ),
    Feature(
        "moves of running jobs",
        True,
        r"\bmigrate\b",
        r"\b(cannot|never) (moves?|migrates?) (a )?running jobs?\b",
        "bailiff migrate JOB",
        "It cannot move running jobs.",
    ),
    Feature(
        "a player over the log",
        True,
        r"player",
        r"\bconsole\b[^.|]*\bshows only the present\b",
        "The player below steps through evictions",
        "The console shows only the present.",
    ),
]


@cache
def sentences(page: Path) -> list[str]:
    """The page's sentences and cells, in one line each and in small letters."""
    text = re.sub(r"\s+", " ", re.sub(r"\n\s*\n|\n[|*#-]", " . ", page.read_text(encoding="utf-8"))).lower()
    return re.split(r"(?<=[.:;])\s|\|", text)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_no_page_states_the_opposite(feature: Feature) -> None:
    assert re.search(feature.yes, feature.says_yes.lower())
    assert re.search(feature.no, feature.says_no.lower())
    wrong, right = (feature.no, feature.yes) if feature.has else (feature.yes, feature.no)
    found = {
        f"{page.relative_to(ROOT)}: {each.strip()}"
        for page in PAGES
        if not str(page.relative_to(ROOT)).startswith(GENERATED)
        for each in sentences(page)
        if re.search(wrong, each)
    }
    assert found == set(), f"{feature.name}: Bailiff {'has' if feature.has else 'does not have'} it"
    assert any(re.search(right, each) for page in PAGES for each in sentences(page)), "no page says so"
