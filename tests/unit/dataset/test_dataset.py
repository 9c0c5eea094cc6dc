"""A published dataset: what its folder contains, and what it does not."""

import csv
import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from tests.kits.dataset import bailiff, write_log
from tests.kits.log_builder import SECOND, Story, folded, policy
from tests.kits.story_script import play

from bailiff.client.errors import ExitCode
from bailiff.dataset import Pseudonyms
from bailiff.dataset.anonymise import MONDAY, WEEK, Anonymiser
from bailiff_core.records import decode, facts
from bailiff_log.engine_identity import EngineIdentity

PROJECTS = [{"name": "apollo", "quota": {"gpus": 4}, "created": 1_795_262_400}, {"name": "gemini", "quota": {"gpus": 4}}]


def moonshot() -> Story:
    """A pool whose every name would identify a person: a preemption from request to resumed, and jobs that end."""
    rules = policy(
        projects=PROJECTS,
        preemption={"scope": "pool", "quota_shields": False},
        protections={
            "min_runtime": {"preempt": "1m", "reclaim": "1m"}
        },  # so that lander, just started, is not displaced by docking on its return
    )
    story = Story(rules, pool="houston")
    story.node("eagle-07", gpus=8, labels={"rack": "tranquility"}, model="NVIDIA H100 80GB s/n july", checkpoints="armstrong")
    play(
        "+5d; runs lander: 8 gpus, project apollo, user neil, grant=NAS-9",
        "+10m; submit docking: interactive, 4 gpus, project gemini, user buzz; +1s; propose; +2s; yields lander",
        '+1s; started docking; +1m; evict docking reason="neil asked me to"; +1s; yields docking; +1s; started lander',
        "+1h; ends lander 3; +1s; started docking; +1h; ends docking 0",
        story=story,
    )
    return story


SECRETS = (
    *("houston", "eagle", "tranquility", "rack", "july", "armstrong", "lander", "apollo", "neil", "grant", "NAS-9", "docking"),
    *("gemini", "buzz", "laptop", "1795262400", "2026-", "bailiff.requests"),
)


@pytest.fixture(scope="module")
def story() -> Story:
    return moonshot()


@pytest.fixture
def log(story: Story, tmp_path: Path) -> Path:
    return write_log(story, tmp_path / "log.jsonl")


def export(log: Path, folder: Path, *options: object):
    return bailiff("audit", "export", folder, "--anonymise", "--file", log, *options)


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8") as rows:
        return list(csv.DictReader(rows))


def contents(folder: Path) -> str:
    return "\n".join(
        path.name + (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
        for path in sorted(folder.iterdir())
    )


def test_the_folder_contains_no_names(log: Path, tmp_path: Path):
    done = export(log, tmp_path / "set", "--licence", "CC-BY-4.0")
    assert done.exit_code == 0, done.output
    text = contents(tmp_path / "set")
    assert not [secret for secret in SECRETS if secret in text]
    assert "review before publishing: 2 users with fewer than 5 jobs" in done.output


def test_what_a_study_of_preemption_needs_is_there(log: Path, tmp_path: Path):
    export(log, tmp_path / "set")
    docking, lander = sorted(table(tmp_path / "set", "jobs"), key=lambda row: row["class"])
    assert (lander["gpu_milli"], lander["class"], lander["attempts"], lander["outcome"]) == ("8000", "train", "2", "failed")
    assert (docking["class"], docking["outcome"], docking["evictions"]) == ("interactive", "succeeded", "1")
    assert int(docking["first_started"]) - int(docking["submitted"]) == 4 * SECOND
    first, second = table(tmp_path / "set", "evictions")[:2]
    assert (first["job"], first["for_job"], first["cause"]) == (lander["job"], docking["job"], "preemption")
    assert (int(first["work_lost_gpu_ms"]), int(first["restart_gpu_ms"])) == (8 * 601_000, 8 * 60_000)
    assert [int(first[name]) - int(first["decided"]) for name in ("started", "term_sent", "released")] == [2 * SECOND] * 3
    assert int(first["resumed"]) > int(first["released"])
    assert (second["job"], second["cause"]) == (docking["job"], "requested")
    first_request, again = table(tmp_path / "set", "requests")
    assert again["result"] == "timed-out"
    assert (first_request["result"], first_request["victims"], first_request["victim_work_lost_gpu_ms"]) == (
        "decided",
        "1",
        first["work_lost_gpu_ms"],
    )
    apollo, gemini = table(tmp_path / "set", "projects")
    assert (apollo["created"], gemini["created"], apollo["quota_gpu_milli"]) == ("1", "0", "4000")
    assert table(tmp_path / "set", "nodes")[0]["gpu_model"].startswith("H100-")


def test_the_manifest_is_a_dictionary_of_every_file_and_column(log: Path, tmp_path: Path):
    export(log, tmp_path / "set", "--licence", "CC-BY-4.0")
    manifest = json.loads((tmp_path / "set" / "dataset.json").read_text())
    assert {*manifest["files"], "dataset.json"} == {path.name for path in (tmp_path / "set").iterdir()}
    for name, about in manifest["tables"].items():
        rows = table(tmp_path / "set", name)
        assert len(rows) == about["rows"]
        assert not rows or list(rows[0]) == [column["name"] for column in about["columns"]]
    assert manifest["licence"] == "CC-BY-4.0"
    assert "original" not in manifest


def test_the_log_in_it_is_whole_and_can_be_folded(log: Path, story: Story, tmp_path: Path):
    """It has a chain of its own; nothing is decided again, because texts and names are not those that were decided on."""
    export(log, tmp_path / "set")
    file = tmp_path / "set" / "log.jsonl.gz"
    assert bailiff("audit", "verify", "--file", file).exit_code == 0
    replayed = bailiff("audit", "replay", "--file", file, "-o", "json")
    assert replayed.exit_code == ExitCode.ENGINE_MISSING
    assert json.loads(replayed.stdout)["cycles_replayed"] <= 1
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()[1:]
    assert story.head.hash not in "".join(lines)
    assert len(lines) == len(story.wires)


def test_one_key_gives_one_set_of_names_and_another_key_others(log: Path, tmp_path: Path):
    key = tmp_path / "key"
    for name in ("one", "two"):
        assert export(log, tmp_path / name, "--keep-key", key).exit_code == 0
    export(log, tmp_path / "other")
    names = {name: {row["job"] for row in table(tmp_path / name, "jobs")} for name in ("one", "two", "other")}
    assert names["one"] == names["two"]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert not names["one"] & names["other"]
    assert key.stat().st_mode & 0o077 == 0
    key.chmod(0o644)
    refused = export(log, tmp_path / "three", "--keep-key", key)
    assert refused.exit_code == 2
    assert "other users can read it" in refused.output


def test_pseudonyms_keep_no_order_and_no_kind_leads_to_another():
    names = Pseudonyms(b"k" * 32)
    jobs = [names.name("job", f"train-{number:03}") for number in range(100)]
    assert len(set(jobs)) == 100
    assert jobs != sorted(jobs)
    assert names.digits("job", "neil") != names.digits("user", "neil")
    assert names.name("project", "") == ""


def test_days_of_the_week_and_durations_stay_and_the_date_goes(story: Story):
    anonymiser = Anonymiser(Pseudonyms(b"k" * 32))
    made = [record for each in story.records for record, _ in anonymiser.take(each)]
    assert 0 <= made[0].time - MONDAY < WEEK
    assert {(then.time - now.time) % WEEK for then, now in zip(story.records, made, strict=True)} == {0}
    assert len({then.time - now.time for then, now in zip(story.records, made, strict=True)}) == 1


@pytest.mark.parametrize("engine", [str(EngineIdentity("0.1.0", "ab" * 32, 5)), f"0.1.0+{'ab' * 6}/5"])
def test_release_and_logic_of_an_engine_stay_and_the_digest_of_its_code_goes(engine: str, story: Story):
    anonymiser = Anonymiser(Pseudonyms(b"k" * 32))
    made = [record for each in story.records for record, _ in anonymiser.take(dataclasses.replace(each, engine=engine))]
    assert {record.engine for record in made} == {engine.replace("ab" * 6, "0" * 12)}


def test_seqs_close_up_where_a_record_is_left_out(story: Story):
    """What a decision answers is found at its new place."""
    anonymiser = Anonymiser(Pseudonyms(b"k" * 32))
    rejected = facts.InputRejected(topic="bailiff.requests", partition=0, offset=1, digest="0" * 64, code="bad", reason="neil?")
    fresh = Story(pool="houston")
    fresh.node("eagle", gpus=8)
    fresh.cycle(rejected)
    fresh.runs("lander", gpus=8)
    fresh.cycle(rejected, fresh.submitted("docking", gpus=8, cls="interactive"))
    fresh.propose()
    made = [pair for record in map(decode, fresh.wires) for pair in anonymiser.take(record)]
    assert anonymiser.dropped == 2
    assert [record.seq for record, _ in made] == list(range(len(fresh.wires) - 2))
    assert [record.cycle for record, _ in made] == sorted(record.cycle for record, _ in made)
    decided = next(record for record, _ in made if record.type.endswith("PreemptionDecided.v1"))
    assert made[decided.data.request][0].type.endswith("PreemptionRequested.v1")
    state = folded(wire for _, wire in made)
    assert sorted(job.phase for job in state.jobs.values()) == sorted(job.phase for job in fresh.state.jobs.values())


def test_the_original_is_named_only_where_somebody_asks(log: Path, story: Story, tmp_path: Path):
    export(log, tmp_path / "set", "--name-original")
    original = json.loads((tmp_path / "set" / "dataset.json").read_text())["original"]
    assert original == {"pool": "houston", "records": len(story.wires), "hash": story.head.hash}


def test_a_log_that_was_changed_and_a_folder_of_somebody_else_are_refused(log: Path, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert export(log, tmp_path / "mine").exit_code == 2
    log.write_text(log.read_text().replace("lander", "linder", 3))
    changed = export(log, tmp_path / "set")
    assert changed.exit_code == 1
    assert "the chain is broken" in changed.output
    assert not (tmp_path / "set").exists()
