"""Who may ask for what: every verb for every role, and how a role is given."""

import re
from pathlib import Path

import pytest
from tests.unit.console.door.kit import roles_file

from bailiff_bus.settings import SettingsError
from bailiff_console.door.person import Person
from bailiff_console.door.rights import OF_JOBS, OF_NODES, refusal
from bailiff_console.door.roles import read_roles
from bailiff_core.model.policy import DEFAULT_POLICY, Policy

POLICY = Policy.model_validate_json(
    DEFAULT_POLICY.model_copy(
        update={
            "projects": tuple(
                Policy.model_fields["projects"].annotation.__args__[0].model_validate(each)  # type: ignore[union-attr]
                for each in ({"name": "research"}, {"name": "vision", "parent": "research"}, {"name": "speech"})
            )
        }
    ).model_dump_json()
)
VIEWER = Person("vic")
OF_VISION = Person("sue", projects=("vision",))
OF_RESEARCH = Person("rik", projects=("research",))
OF_ALL = Person("al", projects=None)
OPERATOR = Person("op", operator=True, projects=None)

MAY = {  # person: projects on whose jobs they may act
    VIEWER: (),
    OF_VISION: ("vision",),
    OF_RESEARCH: ("research", "vision"),
    OF_ALL: ("research", "vision", "speech", ""),
    OPERATOR: ("research", "vision", "speech", ""),
}


@pytest.mark.parametrize("kind", OF_JOBS)
@pytest.mark.parametrize("person", MAY, ids=lambda person: person.name)
def test_each_verb_on_jobs_for_each_role(person: Person, kind: str) -> None:
    allowed = tuple(p for p in ("research", "vision", "speech", "") if refusal(person, kind, p, POLICY) is None)
    assert allowed == MAY[person]


@pytest.mark.parametrize("kind", [*OF_NODES, "apply-policy"])
@pytest.mark.parametrize("person", MAY, ids=lambda person: person.name)
def test_nodes_are_for_operators(person: Person, kind: str) -> None:
    assert (refusal(person, kind, "", POLICY) is None) == (person is OPERATOR)


def test_a_refusal_says_who_what_and_what_one_may() -> None:
    assert refusal(OF_VISION, "pause", "speech", POLICY) == (
        "sue may not pause a job of the project speech: sue may act on jobs of vision"
    )
    assert refusal(VIEWER, "submit", "", None) == "vic may not submit a job without a project: vic may only look"


def test_a_project_that_the_policy_does_not_have_gives_no_rights_but_its_own() -> None:
    assert refusal(OF_VISION, "submit", "vision", None) is None
    assert refusal(OF_RESEARCH, "submit", "vision", None) is not None


def test_roles_come_from_names_and_from_groups(tmp_path: Path) -> None:
    roles = read_roles(
        roles_file(
            tmp_path,
            operators={"users": ["op"], "groups": ["platform"]},
            submitters={"vision": {"users": ["sue"], "groups": ["v"]}, "speech": {"groups": ["v"]}, "*": {"groups": ["ml"]}},
            viewers={"groups": ["staff"]},
        )
    )
    assert roles.person("op") == Person("op", (), operator=True, projects=None)
    assert roles.person("x", ["platform"]) == Person("x", ("platform",), operator=True, projects=None)
    assert roles.person("sue") == Person("sue", (), projects=("vision",))
    assert roles.person("x", ["v"]) == Person("x", ("v",), projects=("speech", "vision"))
    assert roles.person("x", ["ml"]) == Person("x", ("ml",), projects=None)
    assert roles.person("x", ["staff"]) == Person("x", ("staff",), projects=())
    assert roles.person("v", ["op", "sue"]) is None  # a group is no user, and a user is no group


def test_without_viewers_everybody_who_can_sign_in_may_look(tmp_path: Path) -> None:
    assert read_roles(roles_file(tmp_path, operators={"users": ["op"]})).person("x") == Person("x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("operators:\n  user: [ada]\n", r"roles.yaml:2: operators.user: .*no such field"),
        ("submitters:\n  vision: [ada]\n", r"roles.yaml:2: submitters.vision"),
        ("viewers:\n  users: ada\n", r"roles.yaml:2: viewers.users: expected a list"),
        ("operators: [\n", r"roles.yaml:\d: not YAML"),
        ("- a\n", r"roles.yaml:1: "),
    ],
)
def test_a_fault_in_the_file_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "roles.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said):
        read_roles(path)


def test_a_file_that_is_not_there_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_roles(tmp_path / "none.yaml")


def test_the_file_in_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/console.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"<!-- example: roles -->\n```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "roles.yaml").write_text(text)
    roles = read_roles(tmp_path / "roles.yaml")
    assert roles.person("ada") == Person("ada", (), operator=True, projects=None)
    assert roles.person("x", ["vision-team"]) == Person("x", ("vision-team",), projects=("vision",))
    assert roles.person("x") is None
