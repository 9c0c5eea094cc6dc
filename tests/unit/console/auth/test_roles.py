"""Permissions: every action for every role, and the roles file."""

import re
from pathlib import Path

import pytest
from tests.unit.console.auth.kit import roles_file

from bailiff_console.auth.permissions import OF_JOBS, OF_NODES, refusal
from bailiff_console.auth.principal import Principal
from bailiff_console.auth.roles import read_roles
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_service.settings import SettingsError

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
VIEWER = Principal("vic")
OF_VISION = Principal("sue", projects=("vision",))
OF_RESEARCH = Principal("rik", projects=("research",))
OF_ALL = Principal("al", projects=None)
OPERATOR = Principal("op", operator=True, projects=None)

MAY = {  # principal: projects on whose jobs it may act
    VIEWER: (),
    OF_VISION: ("vision",),
    OF_RESEARCH: ("research", "vision"),
    OF_ALL: ("research", "vision", "speech", ""),
    OPERATOR: ("research", "vision", "speech", ""),
}


@pytest.mark.parametrize("kind", OF_JOBS)
@pytest.mark.parametrize("principal", MAY, ids=lambda principal: principal.name)
def test_each_job_action_for_each_role(principal: Principal, kind: str) -> None:
    allowed = tuple(p for p in ("research", "vision", "speech", "") if refusal(principal, kind, p, POLICY) is None)
    assert allowed == MAY[principal]


@pytest.mark.parametrize("kind", [*OF_NODES, "apply-policy"])
@pytest.mark.parametrize("principal", MAY, ids=lambda principal: principal.name)
def test_node_actions_require_an_operator(principal: Principal, kind: str) -> None:
    assert (refusal(principal, kind, "", POLICY) is None) == (principal is OPERATOR)


def test_a_refusal_names_user_action_and_permissions() -> None:
    assert refusal(OF_VISION, "pause", "speech", POLICY) == (
        "sue may not pause a job of project speech: sue may act on jobs of vision"
    )
    assert refusal(VIEWER, "submit", "", None) == "vic may not submit a job without a project: vic has read access only"


def test_without_a_policy_a_role_covers_its_own_project_only() -> None:
    assert refusal(OF_VISION, "submit", "vision", None) is None
    assert refusal(OF_RESEARCH, "submit", "vision", None) is not None


def test_roles_are_given_by_user_and_group(tmp_path: Path) -> None:
    roles = read_roles(
        roles_file(
            tmp_path,
            operators={"users": ["op"], "groups": ["platform"]},
            submitters={"vision": {"users": ["sue"], "groups": ["v"]}, "speech": {"groups": ["v"]}, "*": {"groups": ["ml"]}},
            viewers={"groups": ["staff"]},
        )
    )
    assert roles.principal("op") == Principal("op", (), operator=True, projects=None)
    assert roles.principal("x", ["platform"]) == Principal("x", ("platform",), operator=True, projects=None)
    assert roles.principal("sue") == Principal("sue", (), projects=("vision",))
    assert roles.principal("x", ["v"]) == Principal("x", ("v",), projects=("speech", "vision"))
    assert roles.principal("x", ["ml"]) == Principal("x", ("ml",), projects=None)
    assert roles.principal("x", ["staff"]) == Principal("x", ("staff",), projects=())
    assert roles.principal("v", ["op", "sue"]) is None  # a group is no user, and a user is no group


def test_without_viewers_every_signed_in_user_may_read(tmp_path: Path) -> None:
    assert read_roles(roles_file(tmp_path, operators={"users": ["op"]})).principal("x") == Principal("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("operators:\n  user: [ada]\n", r"roles.yaml:2: operators.user: .*no such field"),
        ("submitters:\n  vision: [ada]\n", r"roles.yaml:2: submitters.vision"),
        ("viewers:\n  users: ada\n", r"roles.yaml:2: viewers.users: expected a list"),
        ("operators: [\n", r"roles.yaml:\d: not YAML"),
        ("- a\n", r"roles.yaml:1: "),
    ],
)
def test_faults_of_the_roles_file_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "roles.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        read_roles(path)


def test_a_missing_roles_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_roles(tmp_path / "none.yaml")


def test_the_roles_file_in_the_docs_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/how-to/console-sign-in.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"<!-- example: roles -->\n```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "roles.yaml").write_text(text)
    roles = read_roles(tmp_path / "roles.yaml")
    assert roles.principal("ada") == Principal("ada", (), operator=True, projects=None)
    assert roles.principal("x", ["vision-team"]) == Principal("x", ("vision-team",), projects=("vision",))
    assert roles.principal("x") is None
