"""`bailiff explain`, on a log in Kafka and on an exported one."""

import json
from pathlib import Path

import jsonschema
import pytest
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, preemption_story

from bailiff.client.errors import ExitCode
from bailiff.explain import explanations
from bailiff.render.record_text.lines import sentence
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.proposal import Explanation
from bailiff_core.records import decisions, facts
from bailiff_core.records.payload import Payload


def test_a_job_is_explained_with_record_numbers(bailiff: Run) -> None:
    found = bailiff("explain", "train-8")
    assert found.exit_code == ExitCode.DONE
    output = " ".join(found.output.split())
    assert "Why was it evicted?" in output
    assert "serve-2 was unschedulable: " in output
    assert "was preempted by serve-2 (inference 125), action preempt" in output
    assert "(#21, #19)" in output
    assert "condition DisruptionTarget, reason PreemptionByScheduler" in output


def test_json_output_has_questions_sentences_and_records(bailiff: Run) -> None:
    found = json.loads(bailiff("explain", "train-8", "-o", "json").output)
    assert [section["question"] for section in found["sections"]] == [
        "What is its state?",
        "Why was it evicted?",
        "When does it resume, and what protects it then?",
    ]
    assert found["condition"]["type"] == "DisruptionTarget"
    assert found["candidates"] is None


@pytest.mark.parametrize("number", ["21", "#21"])
def test_a_decision_is_explained_by_its_number(bailiff: Run, number: str) -> None:
    output = " ".join(bailiff("explain", number).output.split())
    assert "Which jobs are preempted, by which job, and why these?" in output
    assert "train-7, train-8 were preempted by serve-2 (inference 125)" in output


def test_a_decision_says_what_is_a_claim_and_whether_searching_again_gives_the_same(
    bailiff: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest = json.loads(bailiff("explain", "21", "-o", "json").output)
    assert honest["reproduced"] is True
    text = " ".join(sentence["text"] for section in honest["sections"] for sentence in section["sentences"])
    assert "Victim selection claims that this is proven" in text
    assert "the proof, the runner-up and the candidates are claims of victim selection" in text
    assert "Yes: a search on the state after #" in text
    lying = LogWriter()
    preemption_story(
        lying, lambda each: each.model_copy(update={"explanation": Explanation(proven=True, cost=each.explanation.cost)})
    )
    false = command_on(lambda: AnsweringBus(lying), monkeypatch, str(tmp_path / "other"))
    found = json.loads(false("explain", "21", "-o", "json").output)
    assert found["reproduced"] is False
    (section,) = [each for each in found["sections"] if each["question"] == "Does searching again give the same?"]
    assert section["sentences"][0]["text"] == "No: what victim selection sent is not what its engine computes."
    assert "explanation.candidates" in section["sentences"][-1]["text"]


def test_any_other_record_is_explained_by_its_text(bailiff: Run) -> None:
    output = bailiff("explain", "3").output
    assert "What does the record say?" in output
    assert "At 11-21 12:00:00: Node joined: gpu-01, 8 × H100-80GB, 64 CPU, 512GiB." in output
    assert "(#3)" in output


@pytest.mark.parametrize("kind", [decisions.JobPending, decisions.PreemptionRequested])
def test_the_sentence_of_a_decision_is_the_text_of_its_record(bailiff: Run, log_writer: LogWriter, kind: type[Payload]) -> None:
    record = next(each for each in log_writer.records if isinstance(each.data, kind))
    (section,) = json.loads(bailiff("explain", str(record.seq), "-o", "json").output)["sections"][:1]
    assert section["question"] == explanations.QUESTIONS[kind]
    assert section["sentences"][0]["text"].endswith(sentence(record))


def test_unknown_jobs_and_records_are_reported(bailiff: Run) -> None:
    assert bailiff("explain", "nobody").exit_code == ExitCode.NOT_FOUND
    missing = bailiff("explain", "9999")
    assert (missing.exit_code, "its log ends at #" in missing.stderr) == (ExitCode.NOT_FOUND, True)
    assert "no decision with victims found" in bailiff("explain", "train-9", "--all").stderr


def test_an_exported_log_gives_the_same_explanation(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    bailiff("audit", "export", str(file))
    assert bailiff("explain", "train-8", "--file", str(file)).output == bailiff("explain", "train-8").output


def test_all_lists_every_candidate(bailiff: Run) -> None:
    found = json.loads(bailiff("explain", "train-8", "--all", "-o", "json").output)
    assert [(row["job"], row["rule"], row["chosen"]) for row in found["candidates"]] == [
        ("train-7", "", True),
        ("train-8", "", True),
    ]
    lines = [line.split() for line in bailiff("explain", "#21", "--all").output.splitlines()]
    assert ["train-7", "all", "train", "50", "-", "4", "20.0", "GPU-min", "yes"] in lines


def test_a_rejected_job_is_reported_with_the_reason(bailiff: Run, log_writer: LogWriter) -> None:
    rejected = {"topic": "bailiff.requests", "partition": 0, "offset": 0, "digest": "d" * 64, "source": "x", "id": "y"}
    log_writer.cycle(facts.InputRejected(**rejected, code="never-fits", reason="it needs 99 GPUs", job="big"))
    for command in ("explain", "describe"):
        output = " ".join(bailiff(command, "big").stderr.split())
        assert "there is no job 'big' in pool-a: it was rejected at #" in output
        assert "it needs 99 GPUs" in output


def test_a_rejected_request_about_no_job_is_not_said_to_be_its_rejection(bailiff: Run, log_writer: LogWriter) -> None:
    rejected = {"topic": "bailiff.requests", "partition": 0, "offset": 0, "digest": "d" * 64, "source": "x", "id": "y"}
    log_writer.cycle(facts.InputRejected(**rejected, code="no-such-job", reason="there is no job 'typo'", job="typo"))
    for command in ("explain", "describe"):
        output = " ".join(bailiff(command, "typo").stderr.split())
        assert output.startswith("bailiff: there is no job 'typo' in pool-a there are ")


def test_a_job_above_a_limit_is_reported_with_the_limit_and_when_to_retry(bailiff: Run, log_writer: LogWriter) -> None:
    rejected = {"topic": "bailiff.requests", "partition": 0, "offset": 0, "digest": "d" * 64, "source": "x", "id": "y"}
    reason = "user ada: 2 jobs have not ended, and the policy allows 2 (limits.user.open_jobs)"
    again = Rejected.later("too-many-jobs", reason, log_writer.state.now + 60_000_000, "third")
    log_writer.cycle(facts.InputRejected(**rejected, code=again.code, reason=again.text, job="third", retry_at=again.retry_at))
    for command in ("explain", "describe"):
        output = " ".join(bailiff(command, "third").stderr.split())
        assert again.reason in output
        assert "send it again after 20" in output


def test_only_related_records_are_decoded(bailiff: Run, log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        log_writer.submit(f"other-{number}", gpus=8)
    decoded: list[object] = []
    decode = explanations.decode
    monkeypatch.setattr(explanations, "decode", lambda wire: decoded.append(wire) or decode(wire))
    assert bailiff("explain", "train-8").exit_code == ExitCode.DONE
    assert 0 < len(decoded) < len(log_writer.records) // 3


@pytest.mark.parametrize("number", ["19", "21", "22"])
def test_a_record_is_explained_with_its_consequences(bailiff: Run, number: str) -> None:
    output = " ".join(bailiff("explain", number).output.split())
    assert "What happened next?" in output


# --- counterfactuals and next victims


def test_why_not_searches_without_the_named_job(bailiff: Run, log_writer: LogWriter) -> None:
    found = json.loads(bailiff("explain", "#21", "--not", "train-7", "-o", "json").output)
    assert found["counterfactual"]["chosen"]
    assert found["sections"][-1]["question"] == "What would have happened without train-7?"
    output = " ".join(bailiff("explain", "train-8", "--why-not", "train-7").output.split())
    assert "Searched again without train-7, no set of victims is sufficient" in output
    missing = bailiff("explain", "21", "--not", "train-9")
    assert (missing.exit_code, "there was no job 'train-9' when #21 was decided" in missing.stderr) == (ExitCode.NOT_FOUND, True)


@pytest.mark.slow
def test_next_victims_are_given_for_a_decision_and_on_request_for_a_job(bailiff: Run) -> None:
    asked = "Which jobs would another job like serve-2 preempt?"
    for arguments in (["21"], ["train-8", "--next"]):
        found = json.loads(bailiff("explain", *arguments, "-o", "json").output)
        assert asked in [section["question"] for section in found["sections"]]
        assert found["next"]["jobs"] == []
        assert "is waiting for resources reserved for it" in found["next"]["why"]
    assert json.loads(bailiff("explain", "train-8", "-o", "json").output)["next"] is None


# --- GPU allocation at a time


def test_gpu_allocation_at_a_time_is_the_same_from_kafka_and_from_a_file(
    bailiff: Run, log_writer: LogWriter, tmp_path: Path
) -> None:
    file = tmp_path / "log.jsonl"
    bailiff("audit", "export", str(file))
    asked = "gpu-01/gpu2@2026-11-21T12:04:00Z"
    output = bailiff("explain", asked).output
    assert "Allocated to train-8 (attempt 1, task 0) since 11-21 12:02:00" in output
    assert bailiff("explain", asked, "--file", str(file)).output == output
    at_the_end = json.loads(bailiff("explain", "gpu-01@now", "--file", str(file), "-o", "json").output)
    assert at_the_end["then"]["time"] == log_writer.now
    assert len(at_the_end["then"]["devices"]) == 8
    assert {stay["job"] for stay in at_the_end["then"]["devices"][0]["states"]} == {"train-8", "serve-2"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("gpu-09@now", "there is no node 'gpu-09' in pool-a did you mean"),
        ("gpu-01/gpu8@now", "gpu-01 has no GPU 8: it has 8, counted from 0"),
        ("gpu-01@soon", "NODE@TIME: expected a time as in 2026-01-31T12:00:00Z, or how long ago, as in -10m; found 'soon'"),
    ],
)
def test_unknown_nodes_gpus_and_times_are_reported(bailiff: Run, asked: str, expected: str) -> None:
    found = bailiff("explain", asked)
    assert found.exit_code in (ExitCode.NOT_FOUND, ExitCode.USAGE)
    assert expected in " ".join(found.stderr.split())


def test_decision_options_are_rejected_for_a_node(bailiff: Run) -> None:
    assert bailiff("explain", "gpu-01@now", "--all").exit_code == ExitCode.USAGE


@pytest.mark.parametrize("asked", [["train-8"], ["21", "--not", "train-7", "--all"], ["3"], ["gpu-01@2026-11-21T12:04:00Z"]])
def test_json_output_matches_the_published_schema(bailiff: Run, asked: list[str]) -> None:
    schema = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "explain.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(bailiff("explain", *asked, "-o", "json").output), schema)
