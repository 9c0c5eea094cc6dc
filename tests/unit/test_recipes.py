"""CONTRIBUTING's "How to add …" names every product file that an addition needs: each is tried on a copy of the packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE, CLIENT = "libs/core/bailiff_core", "libs/client/bailiff"
Change = tuple[str, str]
"""A text of a file, and what follows it in the copy; an empty text is the end of the file."""

RECORD: dict[str, list[Change]] = {
    f"{CORE}/records/job_requests.py": [
        (
            "",
            '''

class NoteJob(JobChange):
    """Write a note about this job."""

    SENDER = "note"
    VERB = "note"
    DONE = "noted: {note}"
    note: Annotated[str, Field(max_length=100, description="The note."), PRIVATE]


class JobNoted(RequestFact, NoteJob):
    """A note about the job."""
''',
        )
    ],
    f"{CORE}/fold/jobs.py": [
        (
            "",
            """

@folds(facts.JobNoted)
def job_noted(state: PoolState, fact: facts.JobNoted) -> None:
    remember(state, fact.request)
""",
        )
    ],
    f"{CLIENT}/render/record_text/requests.py": [
        (
            "",
            """

@describes(facts.JobNoted, event="Noted")
def _job_noted(fact: facts.JobNoted, _state: PoolState) -> Statement:
    return Statement("job noted", fact.job, fact.note)
""",
        )
    ],
}
"""A request and its record: both declared in one file, folded and described; its types say what datasets have."""

COMMAND: dict[str, list[Change]] = {
    **RECORD,
    f"{CORE}/model/identity.py": [
        ('JobAction = Literal["cancel"', ', "note"'),
        ("    scale: Subjects = RESPONSIBLE\n", "    note: Subjects = RESPONSIBLE\n"),
    ],
    f"{CORE}/admission/jobs.py": [
        (
            "",
            """

@admits_job(facts.NoteJob)
def note(context: Context, job: Job, body: facts.NoteJob) -> Fact | Rejected:
    return context.record(body) if body.note else Rejected("no-note", f"{job.id}: the note is empty", job.id)
""",
        ),
    ],
    f"{CLIENT}/cli/command_table.py": [
        (
            "COMMANDS: Mapping[str, CommandEntry] = {\n",
            '    "note": CommandEntry("requests", JOBS, "Write a note about a job."),\n',
        )
    ],
    f"{CLIENT}/aio/job.py": [
        (
            "        return await self._request(job_requests.SetPriorityClass(job=self.name, priority_class=priority_class))\n",
            '''
    async def note(self, text: str) -> Accepted:
        """Writes a note about it."""
        return await self._request(job_requests.NoteJob(job=self.name, note=text))
''',
        ),
    ],
    f"{CLIENT}/sync.py": [("    scale = _blocking(aio.Job.scale)\n", "    note = _blocking(aio.Job.note)\n")],
}
"""As above, with its permission, what admits it, its command and its Python functions; its form over HTTP follows."""

POLICY_FIELD: dict[str, list[Change]] = {
    f"{CORE}/model/policy.py": [("    window: Annotated[Duration, Field(ge=1)]\n", "    spares_reserved: bool = True\n")],
    f"{CORE}/protections/eviction_cap.py": [("    return times[-cap.evictions] + cap.window if ", "cap.spares_reserved and ")],
}

PROTECTION: dict[str, list[Change]] = {
    f"{CORE}/protections/evenings.py": [
        (
            "",
            '''"""`evenings`: protects every job, as long as the policy says so."""

from bailiff_core.model.policy import Action
from bailiff_core.model.state import Job, PoolState

from .rule import Rule, Shield

NAME = "evenings"


def shield(state: PoolState, action: Action, preemptor: Job) -> Shield | None:
    return (lambda unit: True) if state.rules.protections.evenings else None


PROTECTION = Rule(999, NAME, shield, "runs in the evening")
''',
        )
    ],
    f"{CORE}/model/policy.py": [("    cooldown: Cooldown = Cooldown.model_construct()\n", "    evenings: bool = False\n")],
}

OF_RECORD = """
from bailiff.render.record_text.lines import statements
from bailiff_core.model.privacy import PRIVATE, treatments
from bailiff_core.records import AUDIT_TYPES, facts
from tests.kits.log_builder import Story

story = Story()
story.node("n1", gpus=1)
story.submit("a", gpus=1)
story.cycle(facts.JobNoted(request=story.request(), job="a", note="hello"))
record = next(each for each in story.records if isinstance(each.data, facts.JobNoted))
assert [each.detail for each in statements(record, story.state)] == ["hello"]
assert "bailiff.audit.JobNoted.v1" in AUDIT_TYPES and treatments(facts.JobNoted)["note"] == PRIVATE
assert facts.JobNoted.model_json_schema()["properties"]["note"]
"""
OF_COMMAND = """
from typer.testing import CliRunner

from bailiff import aio, sync
from bailiff.cli.root import app
from bailiff_bus.topics import REQUESTS
from bailiff_console.actions.previews import preview
from bailiff_console.actions.request_parser import parse_request
from bailiff_console.auth.permissions import ACTIONS
from bailiff_core.admission import Context, Rejected, admit
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.permissions import Requester
from bailiff_core.records import facts
from tests.kits.log_builder import Story

story = Story()
story.node("n1", gpus=1)
story.submit("a", gpus=1)
found = admit(Context(story.state, Requester("ada"), story.request()), facts.NoteJob(job="a", note="hello"))
assert isinstance(found, facts.JobNoted), found
story.cycle(found)
rejected = admit(Context(story.state, Requester("ada"), story.request()), facts.NoteJob(job="a", note=""))
assert isinstance(rejected, Rejected) and rejected.code == "no-note"
assert facts.NoteJob.TYPE in REQUESTS.schemas
body = parse_request(b'{"kind":"note","job":"a","note":"hello"}').body
assert body == facts.NoteJob(job="a", note="hello") and ACTIONS["note"] == "note"
assert DEFAULT_POLICY.identity.permissions.note
assert not preview(story.state, Requester("ada"), body, story.time).errors
assert aio.Job.note and sync.Job.note
shown = CliRunner().invoke(app, ["note", "--help"])
assert shown.exit_code == 0 and "Write a note about this job" in shown.output and "The note." in shown.output
assert "note" in CliRunner().invoke(app, ["--help"]).output
"""
OF_POLICY_FIELD = """
from bailiff_core.model.policy import EvictionCap
from bailiff_core.model.privacy import PUBLIC, treatments

assert EvictionCap(evictions=1, window=1).spares_reserved and treatments(EvictionCap)["spares_reserved"] == PUBLIC
"""
OF_PROTECTION = """
from bailiff_core.model.policy import Protections
from bailiff_core.model.privacy import PUBLIC, treatments
from bailiff_core.protections import RULES

assert "evenings" in [rule.name for rule in RULES] and treatments(Protections)["evenings"] == PUBLIC
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("additions", "files", "proof"),
    [(RECORD, 3, OF_RECORD), (COMMAND, 8, OF_COMMAND), (POLICY_FIELD, 2, OF_POLICY_FIELD), (PROTECTION, 2, OF_PROTECTION)],
    ids=["a record of a request", "a command with HTTP and Python", "a policy field", "a protection"],
)
def test_the_recipe_names_all_files(tmp_path: Path, additions: dict[str, list[Change]], files: int, proof: str) -> None:
    assert len(additions) == files
    recipes = (ROOT / "CONTRIBUTING.md").read_text().partition("## How to add")[2]
    for name in additions:
        assert Path(name).name in recipes or Path(name).parent.name + "/" in recipes, f"CONTRIBUTING does not name {name}"
    run_in_copy(tmp_path, additions, proof)


def run_in_copy(folder: Path, additions: dict[str, list[Change]], proof: str) -> None:
    packages = [path.parent for path in ROOT.glob("*/*/*/__init__.py") if path.parts[-4] in ("libs", "services")]
    for package in packages:
        shutil.copytree(package, folder / package.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__", "static"))
    for name, changes in additions.items():
        path = folder / name
        text = path.read_text() if path.exists() else ""
        for anchor, added in changes:
            assert not anchor or text.count(anchor) == 1, f"{name}: {anchor}"
            text = text.replace(anchor, anchor + added) if anchor else text + added
        path.write_text(text)
    roots = [str(folder / package.parent.relative_to(ROOT)) for package in packages]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, str(ROOT)]), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", proof], env=env, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
