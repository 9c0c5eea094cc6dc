"""No two pages state opposite things about a feature. README has the table of them, and index and comparison agree with it.

A feature that is new, or goes, changes its row here first; then this test names every page that still says otherwise.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tests.kits.pages import rows, section

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
        True,
        r"bailiff shell[^.|]*\bin (a|the) pods?\b",
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
        True,
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
        "saving a program that saves nothing",
        True,
        r"is \[saved by its node\]|node can save the whole running program",
        r"\b(cannot|never) saves? (a program|programs|jobs?) that (saves?|knows?) nothing",
        "a program that saves nothing is [saved by its node]",
        "It cannot save a program that saves nothing.",
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


# --- the table of README, which index repeats and comparison uses

TABLE = "What it has, and what it has not"
EVERYWHERE = ("bailiff list", "bailiff submit -f", "bailiff logs")
COMPARED = {
    "Project tree": ("bailiff project list", "bailiff project create", "`quota`", "over_quota_weight", "--project"),
    "Actions": ("actions `allocate", "action `preempt`", "action `reclaim`", "always on; one policy"),
    "Gangs": ("--tasks", "min-tasks", "times `tasks`"),
    "Parts of a GPU": ("--fraction", "--gpu-memory", "fraction:", "gpu-memory:", "--node-label", "--gpus"),
    "Victims": (),
    "Protections": ("preemptible: false", "--class", "class:", "priority classes"),
    "Backfill": ("`backfill", "--array", "--after", "--run-time-limit"),
    "Interactive jobs": ("--interactive", "bailiff attach", "bailiff shell", "--port"),
    "Checkpoint contract": (),
    "Evict": tuple(
        f"bailiff {name}" for name in ("evict", "pause", "resume", "migrate", "drain", "cancel", "delete", "set-priority-class")
    ),
    "Explanations": ("bailiff explain", "bailiff describe"),
    "[Histories": (),
    "Hash-chained log": (),
    "[Keys]": (),
    "Crash of any service": (),
    "Archive": ("bailiff events", "bailiff accounting"),
    "NVIDIA GPUs": ("bailiff nodes", "bailiff top", "--image"),
    "Memory isolation": (),
    "MIG devices": ("--mig",),
    "[Kubernetes]": (),
}
"""How each row of README's table begins, and the words of the comparison page that rest on it."""


def features(page: str) -> list[list[str]]:
    return rows(section((ROOT / page).read_text(encoding="utf-8"), TABLE).replace("](docs/", "]("))


def ours() -> list[str]:
    """What the comparison page says is typed or set here, cell by cell."""
    page = (ROOT / "docs/concepts/comparison.md").read_text(encoding="utf-8")
    return [
        row[1] for found in re.findall(r"^\| there \| here \|$.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL) for row in rows(found)
    ]


def test_readme_and_index_have_one_table_of_features() -> None:
    assert features("README.md") == features("docs/index.md")
    assert [[begin for begin in COMPARED if row[0].startswith(begin)] for row in features("README.md")] == [
        [each] for each in COMPARED
    ]


def test_the_comparison_offers_what_the_table_has_and_nothing_else() -> None:
    offered = ours()
    assert len(offered) > 50
    has = {
        begin
        for begin in COMPARED
        for what, state in features("README.md")
        if what.startswith(begin) and not state.startswith("no")
    }
    words = [word for begin, found in COMPARED.items() if begin in has for word in found]
    assert [word for word in words if not any(word in cell for cell in offered)] == [], "missing from the comparison"
    assert [cell for cell in offered if not any(word in cell for word in (*words, *EVERYWHERE))] == [], "in no row of the table"
