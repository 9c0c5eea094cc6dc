"""`bailiff explain`, on a log in Kafka and on one in a file."""

import json
from pathlib import Path

import pytest
from tests.unit.client.kit import AnsweringBus, Run, Scribe, command_on, preemption_story

from bailiff import explaining
from bailiff.problem import ExitCode
from bailiff_core.records import facts


@pytest.fixture
def scribe() -> Scribe:
    made = Scribe()
    preemption_story(made)
    return made


@pytest.fixture
def bailiff(scribe: Scribe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return command_on(lambda: AnsweringBus(scribe), monkeypatch, str(tmp_path / "cache"))


def test_a_job_is_explained_with_the_records_to_check_it_by(bailiff: Run) -> None:
    found = bailiff("explain", "train-8")
    assert found.exit_code == ExitCode.DONE
    told = " ".join(found.output.split())
    assert "Why did it have to leave?" in told
    assert "serve-2 needed room and did not fit: " in told
    assert "was told to make room for serve-2 (inference 125), by the verb preempt" in told
    assert "(#21, #19)" in told
    assert "condition DisruptionTarget, reason PreemptionByScheduler" in told


def test_programs_get_questions_sentences_and_records(bailiff: Run) -> None:
    found = json.loads(bailiff("explain", "train-8", "-o", "json").output)
    assert [section["question"] for section in found["sections"]] == [
        "Where does it stand?", "Why did it have to leave?", "When is it back, and what protects it then?",
    ]  # fmt: skip
    assert found["condition"]["type"] == "DisruptionTarget"
    assert found["candidates"] is None


@pytest.mark.parametrize("number", ["21", "#21"])
def test_a_decision_is_explained_by_its_number(bailiff: Run, number: str) -> None:
    told = " ".join(bailiff("explain", number).output.split())
    assert "Who leaves, for whom, and why these?" in told
    assert "train-7, train-8 were told to leave for serve-2 (inference 125)" in told


def test_any_other_record_says_its_line(bailiff: Run) -> None:
    told = bailiff("explain", "3").output
    assert "What does it say?" in told
    assert "pool-a#3" in told


def test_what_is_not_there(bailiff: Run) -> None:
    assert bailiff("explain", "nobody").exit_code == ExitCode.NOT_FOUND
    missing = bailiff("explain", "9999")
    assert (missing.exit_code, "its log ends at #" in missing.stderr) == (ExitCode.NOT_FOUND, True)
    assert "no decision about victims to look into" in bailiff("explain", "train-9", "--all").stderr


def test_an_exported_log_explains_itself(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    bailiff("audit", "export", str(file))
    assert bailiff("explain", "train-8", "--file", str(file)).output == bailiff("explain", "train-8").output


def test_all_lists_everybody_that_was_considered(bailiff: Run) -> None:
    found = json.loads(bailiff("explain", "train-8", "--all", "-o", "json").output)
    assert [(row["job"], row["rule"], row["chosen"]) for row in found["candidates"]] == [
        ("train-7", "", True),
        ("train-8", "", True),
    ]
    lines = [line.split() for line in bailiff("explain", "#21", "--all").output.splitlines()]
    assert ["train-7", "all", "train", "50", "-", "4", "20.0", "GPU-min", "taken"] in lines


def test_a_job_that_was_rejected_says_so(bailiff: Run, scribe: Scribe) -> None:
    where = {"topic": "bailiff.requests", "partition": 0, "offset": 0, "digest": "d" * 64, "source": "x", "id": "y"}
    scribe.turn(facts.InputRejected(**where, code="never-fits", reason="it needs 99 GPUs", job="big"))
    for command in ("explain", "describe"):
        told = " ".join(bailiff(command, "big").stderr.split())
        assert "there is no job 'big' in pool-a: it was rejected at #" in told
        assert "it needs 99 GPUs" in told


def test_it_decodes_only_what_concerns_the_question(bailiff: Run, scribe: Scribe, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        scribe.submit(f"other-{number}", gpus=8)
    decoded: list[object] = []
    decode = explaining.decode
    monkeypatch.setattr(explaining, "decode", lambda wire: decoded.append(wire) or decode(wire))
    assert bailiff("explain", "train-8").exit_code == ExitCode.DONE
    assert 0 < len(decoded) < len(scribe.records) // 3


@pytest.mark.parametrize("number", ["19", "21", "22"])
def test_a_record_is_told_with_what_came_of_it(bailiff: Run, number: str) -> None:
    told = " ".join(bailiff("explain", number).output.split())
    assert "What came of it?" in told
