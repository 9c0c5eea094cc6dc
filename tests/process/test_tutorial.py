"""The tutorial and the README as one script, and the how-to pages as another: each command as it is typed, in the order of the
pages, in one fresh system.

Only what a person does is different: jobs that sleep a minute sleep two seconds, what follows for ever is ended, a program
edits the policy, and placeholders of the how-to pages are what is there.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kits.make_up import Up

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
TUTORIAL = ("index", "preemption", "explain-and-prove", "teams", "what-if", "training-script")
NOT_TYPED = ("git clone", "cd bailiff", "make ", "export BAILIFF_KAFKA")  # the fixture did it
CHANGED = {
    "bailiff audit tail -f": "timeout 5 bailiff audit tail -f || [ $? = 124 ]",
    "bailiff list --watch": "timeout 5 bailiff list --watch || [ $? = 124 ]",
    "bailiff logs hero -f": "bailiff logs hero -f > followed & until [[ $(bailiff describe hero) = *STEP* ]]; do sleep 1; done",
    "SEQ": "$(bailiff audit tail --from 0 --type PreemptionDecided -o json | python -c "
    "'import json, sys; print(json.loads(list(sys.stdin)[-1])[\"seq\"])')",
    "bailiff audit prove": "until bailiff audit prove",
    "--to proof.json": "--to proof.json; do sleep 0.2; done",
    "rm -r ~/bailiff-tutorial": "",
    "bailiff policy check calm": "sed -i '/min_runtime:/,/consolidate/ s/: [a-z0-9]*$/: 10m/' calm.yaml; "
    "bailiff policy check calm",
}


def commands(page: Path, heading: str = "") -> list[str]:
    """What the page's indented blocks tell to type, and files that it tells to save."""
    text = page.read_text().partition(heading)[2] if heading else page.read_text()
    found: list[str] = []
    typed = re.compile(r"(?:Save this as|Write) `([\w.]+)`:\n\n```\w+\n(.*?)```|^    (\S[^\n]*)$", re.DOTALL | re.MULTILINE)
    for match in typed.finditer(text):
        name, content, line = match.groups()
        found.append(f"cat > {name} <<'END'\n{content}END" if name else line)
    return found


def script(lines: list[str]) -> str:
    """Bash that says each command before it runs it, and stops at the first that fails."""
    typed = []
    for line in lines:
        if line.startswith(NOT_TYPED):
            continue
        for text, other in CHANGED.items():
            line = line.replace(text, other)
        line = re.sub(r"sleep [26]0\b", "sleep 2", line)
        typed += [f"echo {shlex.quote('@ ' + line)}", line]
    return "set -e -o pipefail\n" + "\n".join(typed) + "\nwait\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder as a checkout after `make up`."""
    monkeypatch.setenv("BAILIFF_SEAL_SECONDS", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    tmp_path /= "bailiff"
    tmp_path.mkdir()
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    system = Up(tmp_path / ".bailiff")
    system.up()
    yield tmp_path
    system.run("down")


def run(folder: Path, text: str) -> str:
    environment = Up(folder / ".bailiff").environment()
    done = subprocess.run(["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def git_status(folder: Path) -> str:
    return subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_readme_and_tutorial_work_as_typed_one_after_the_other_in_one_system_and_leave_the_checkout_clean(folder: Path) -> None:
    before = git_status(folder)
    pages = [commands(ROOT / "docs" / "tutorial" / f"{name}.md") for name in TUTORIAL]
    assert all(len(lines) > 2 for lines in pages)
    readme = [line for line in commands(ROOT / "README.md", "## Keep it running") if line.startswith("bailiff ")]
    said = run(folder, script([line for lines in [readme, *pages] for line in lines]))
    assert "it was preempted by chat-1" in said.partition("@ bailiff doctor")[0]
    assert "No problems now" in said
    assert "preemption decided   train-" in said
    assert "by serve-1 (inference 125), action preempt" in said
    assert "the chain is unbroken" in said
    assert "every byte is identical" in said
    assert "8/4 over quota" in said
    assert "big (4 GPUs) would" in said
    assert "min_runtime" in said.partition("@ bailiff policy diff")[2].partition("@ bailiff what-if")[0]
    weights = sum(number * number for number in range(1200))
    assert (folder.parent / "home" / "bailiff-tutorial" / "followed").read_text().count(f"weights {weights}") == 1
    assert git_status(folder) == before


def test_what_make_up_prints_works_as_typed_and_again(folder: Path) -> None:
    printed = Up(folder / ".bailiff").up().split("\nMetrics:")[0]
    lines = [line.partition("  #")[0].strip() for line in re.findall(r"^  ((?:bailiff|export|curl) .*)$", printed, re.MULTILINE)]
    cosigned = "bailiff audit verify --witnesses"
    lines = [f"until {line}; do sleep 0.2; done" if line.startswith(cosigned) else line for line in lines]
    assert any(line.startswith("bailiff accounting") for line in lines)
    said = run(folder, script([*lines, *lines]))
    assert all(said.count(shown) >= 2 for shown in ("by bailiff-witness", "GPU-hours, ", '"sealed_at"'))


HOW_TO = (
    *("projects", "submit", "policy", "explain", "eviction-times", "receipt", "nodes", "accounting", "prove", "retention"),
    *("reserve", "replay", "what-if", "archive", "dataset", "permissions", "security", "survive-preemption"),
    *("witness", "years-of-record"),
)
"""Pages whose commands a user of `make up` can type."""
ELSEWHERE = (
    *("--mig", "--interactive", "nvlink", "-f train-7.yaml", "--install-completion", "bailiff top", "list --watch"),
    *("node enrol", "gpu-07", "bailiff engine keep", "pool create", "topics create", "node return", "node replace", "drain NODE"),
    *("check-receipt", "--root ROOT_KEY", "LOG.jsonl", "--from 2026-11-01", "--name net-2", "witness --state"),
)
"""What needs other machines, other programs, or what only a later week has."""
PLACEHOLDERS = {
    "s3://audit/pool-a/proofs/NAME.json": "$(ls years/proofs/* | sed -n 1p)",
    "s3://audit/pool-a": "years",
    'verify --witnesses 1 --witness-key "VKEY URL"': 'verify --witnesses 1 --witness-key "$(cat .bailiff/witness)"',
    "postgresql://…": "$(cat .bailiff/archive)",
    "postgresql://bailiff:…@db.example/bailiff": "$(cat .bailiff/archive)",
    "export FOLDER --anonymise --keep-key KEYFILE": "export dataset-with-key --anonymise --keep-key keyfile",
    "export FOLDER --anonymise": "export dataset --anonymise",
    "~/.bailiff/ada.key": "ada.key",
    "FOLDER": "segments",
    "--segment 100000": "--segment 10",
    "--trust KEY": "--trust $(bailiff audit seals | awk 'END { print $NF }')",
    "NEW.yaml": "policy.yaml",
    "torchrun train.py": "sleep 600",
    "explain train-7 --not": "explain serve-1 --not",
    "policy diff FILE": "policy diff policy.yaml",
    "JOB": "train-7",
    "--project vision --user ada": "--project vision --user $(id -un)",
    "gpu-03": "node-1",
    "gpu-01": "node-1",
    "node-3": "node-1",
    "2026-11-22T08:00:00Z": "-1s",
    "@-10m": "@-1s",
    "'#1187'": "serve-1",
    "bailiff audit receipt train-5": "until bailiff audit receipt train-5; do sleep 0.2; done",
    "audit prove 1187": "audit prove 16",
    "#48000": "#20",
    "--deadline 2h": "--deadline 2h --yes",
    "project create research": "project create research --yes",
}
PREEMPTED = """bailiff cancel grow
bailiff submit --name train-3 --gpus 4 -- sleep 600
until [[ $(bailiff list -s running -o name) = *train-3* ]]; do sleep 0.2; done
bailiff submit --name train-5 --gpus 4 -- sleep 600
until [[ $(bailiff list -s running -o name) = *train-5* ]]; do sleep 0.2; done
bailiff submit --name serve-1 --gpus 4 --class inference -- sleep 600
until [[ $(bailiff list -s running -o name) = *serve-1* ]]; do sleep 0.2; done"""
STATUS = "python -m bailiff_devstack.updown status --state .bailiff"
API = (
    f"export BAILIFF_API=http://$({STATUS} | awk '$1 == \"api\" {{ print $5 }}') BAILIFF_API_TOKEN_FILE=.bailiff/state/api.token"
)
AFTER = {
    "nodes": API,
    "projects": "bailiff project create vision --gpus 8 --yes\nexport BAILIFF_PROJECT=vision",
    "submit": PREEMPTED,
}


def test_how_to_pages_can_be_typed_on_a_running_system(folder: Path) -> None:
    for name in ("train", "prepare", "try"):
        (folder / f"{name}.py").write_text("import time; time.sleep(1)\n")
    lines = []
    for page in HOW_TO:
        typed = [each for each in commands(ROOT / "docs" / "how-to" / f"{page}.md") if each.startswith("bailiff ")]
        mine = [each for each in typed if not any(text in each for text in ELSEWHERE)]
        assert mine, page
        lines += [*mine, *AFTER.get(page, "").splitlines()]
    for text, other in PLACEHOLDERS.items():
        lines = [line.replace(text, other) for line in lines]
    said = run(folder, script(lines))
    assert "train-3" in said.partition("@ bailiff explain serve-1 --not train-3")[2].partition("@ ")[0]
    assert "every byte is identical" in said.partition("@ bailiff audit replay --file segments --processes 2")[2]
