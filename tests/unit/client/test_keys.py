"""`bailiff key` and `bailiff node enrol`: the key ceremony, enrolment, revocation, and what doctor says about them."""

import json
from pathlib import Path

import pytest
from tests.unit.client.kit import MINUTE, NOON, AnsweringBus, LogWriter, Run, command_on

from bailiff.client.errors import ExitCode
from bailiff.doctor.checks import enrolment_checks
from bailiff_core.records import facts
from bailiff_log.certificates import issue_certificate
from bailiff_log.credentials import make_credentials, read_credentials
from bailiff_log.enrolment import read_token
from bailiff_log.keys import key_id, read_private_key


@pytest.fixture
def root_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a new root key."""
    run = command_on(lambda: AnsweringBus(LogWriter()), monkeypatch, str(tmp_path / "cache"))
    file = tmp_path / "root"
    assert run("key", "root", str(file)).exit_code == 0
    return file


@pytest.fixture
def log_writer(root_file: Path, tmp_path: Path) -> LogWriter:
    """A pool with this root key and one enrolled node."""
    root, terms = read_private_key(root_file), {"not_before": NOON - MINUTE, "expires": NOON + 60 * MINUTE}
    made = LogWriter(credentials=make_credentials(tmp_path / "writer", root, role="admission", name="a1", **terms))
    made.begin()
    made.cycle(facts.NodeEnrolled(node="gpu-01", key="k" * 43, encryption_key="e" * 43, by="certificate"))
    made.node("gpu-01")
    return made


def test_the_root_key_certifies_a_service(bailiff: Run, root_file: Path, tmp_path: Path) -> None:
    assert root_file.stat().st_mode & 0o777 == 0o600
    folder = tmp_path / "admission"
    made = bailiff("key", "certify", str(folder), "--root", str(root_file), "--role", "admission", "--name", "a1", "--days", "30")
    assert made.exit_code == 0, made.output
    found = read_credentials(folder)
    assert (found.certificate.role, found.certificate.name, found.certificate.pool) == ("admission", "a1", "*")
    assert found.root_key == key_id(read_private_key(root_file))
    wrong = bailiff("key", "certify", str(tmp_path / "x"), "--root", str(root_file), "--role", "king", "--name", "a1")
    assert wrong.exit_code == ExitCode.USAGE
    assert "role: expected" in wrong.stderr


def test_a_token_names_the_root_key_and_is_nowhere_in_the_log(bailiff: Run, log_writer: LogWriter, root_file: Path) -> None:
    made = json.loads(bailiff("node", "enrol", "gpu-02", "--valid", "1h", "-o", "json").output)
    token = read_token(made["token"])
    permit = log_writer.state.permits["gpu-02"]
    assert token.root_key == key_id(read_private_key(root_file))
    assert permit.token_key == key_id(token.private_key)
    assert bailiff("node", "enrol", "gpu-02", "--valid", "soon").exit_code == ExitCode.USAGE


def test_an_unsigned_pool_has_no_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log_writer = LogWriter()
    log_writer.begin()
    run = command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "other"))
    assert "has no root key" in run("node", "enrol", "gpu-02").stderr
    assert "no-root-key" in run("key", "revoke", "k" * 43).stderr


def test_a_waiting_node_is_shown_and_approved(bailiff: Run, log_writer: LogWriter) -> None:
    key = "w" * 43
    log_writer.cycle(facts.NodeWaiting(node="gpu-02", key=key))
    shown = bailiff("nodes")
    said = " ".join((shown.output + shown.stderr).split())
    (check,) = enrolment_checks(log_writer.state)
    for text, where in ((said, said), (check["found"], check["advice"])):
        assert f"with the key {key}" in text
        assert "compare the key with the one in the agent's log on gpu-02 itself" in where
        assert "bailiff node approve gpu-02 KEY" in where
        assert f"approve gpu-02 {key}" not in where
    assert bailiff("node", "approve", "gpu-02", key).output.startswith("gpu-02 may enrol with this key")
    assert log_writer.state.permits["gpu-02"].key == key


def test_who_vouched_for_a_node(bailiff: Run, log_writer: LogWriter, root_file: Path) -> None:
    root, made = read_private_key(root_file), key_id(b"\x07" * 32)
    terms = {"role": "node", "name": "gpu-02", "not_before": NOON - MINUTE, "expires": NOON + 60 * MINUTE}
    shown = issue_certificate(root, key=made, encryption_key=made, **terms)
    log_writer.cycle(facts.NodeEnrolled(node="gpu-02", key=made, encryption_key=made, by="certificate", certificate=shown))
    log_writer.node("gpu-02")
    text = " ".join(bailiff("node", "describe", "gpu-02", "--enrolment").output.split())
    assert f"enrolled with the key {made}" in text
    until = f"Enrolled by a certificate of the root key (#{log_writer.state.seq - 1}), which enrols until 2026-"
    assert until in text, text

    assert bailiff("node", "approve", "gpu-01", "w" * 43).exit_code == 0
    permit = log_writer.state.permits["gpu-01"].seq
    log_writer.cycle(facts.NodeEnrolled(node="gpu-01", key="w" * 43, encryption_key="e" * 43, by="operator", permitted_by=permit))
    found = json.loads(bailiff("node", "describe", "gpu-01", "--enrolment", "-o", "json").output)
    assert found["key"] == found["enrolment"]["key"] == "w" * 43  # not how the earlier key was
    assert (found["enrolment"]["by"], found["enrolment"]["permit_seq"]) == ("operator", permit)
    assert found["enrolment"]["permitted_by"]

    assert bailiff("key", "revoke", "w" * 43, "--reason", "stolen").exit_code == 0
    assert "gpu-01 has no valid key" in bailiff("nodes").output
    assert json.loads(bailiff("node", "describe", "gpu-01", "--enrolment", "-o", "json").output)["enrolment"] is None


def test_a_revoked_key(bailiff: Run, log_writer: LogWriter) -> None:
    assert bailiff("key", "revoke", "k" * 43, "--reason", "stolen").output.startswith(f"{'k' * 43} is revoked")
    assert bailiff("key", "revoke", "k" * 43).exit_code == ExitCode.REJECTED
    (check,) = enrolment_checks(log_writer.state)
    assert check["found"] == "gpu-01 has no valid key: its key was revoked"
    assert bailiff("node", "approve", "gpu-01", "k" * 43).exit_code == ExitCode.REJECTED


def test_another_root_key(bailiff: Run, log_writer: LogWriter, root_file: Path, tmp_path: Path) -> None:
    new = tmp_path / "new-root"
    bailiff("key", "root", str(new))
    assert bailiff("key", "rotate-root", "--root", str(new), "--new", str(new)).exit_code == ExitCode.REJECTED
    made = bailiff("key", "rotate-root", "--root", str(root_file), "--new", str(new))
    assert made.exit_code == 0, made.output
    assert log_writer.state.root_key == key_id(read_private_key(new))
