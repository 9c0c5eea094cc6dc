"""`bailiff audit receipt` and `check-receipt`: what a receipt holds, what finds an altered one, and what it does not show."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.kits.log_builder import SECOND, Story
from tests.kits.receipts import (
    ALTERATIONS,
    KNOWN,
    MALFORMED,
    PINNED,
    POOL,
    SealedStory,
    SignedStory,
    altered,
    messages_of,
    preempted,
    sealed,
    usual,
    usual_text,
)
from typer.testing import CliRunner, Result

from bailiff.audit.log_files import write_log
from bailiff.audit.receipt.check import CheckedReceipt, Trust, check_receipt
from bailiff.audit.receipt.collect import collect
from bailiff.audit.receipt.page import DATA, END, page_of, text_in
from bailiff.audit.receipt.rules import CHECKS, PURPOSES, RULES
from bailiff.audit.segments import seal_to
from bailiff.cli import app
from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus.messages.seals import CheckpointCosigned
from bailiff_core.model.demand import JobDemand
from bailiff_core.model.document import Document
from bailiff_core.model.job_spec import ADDED_LABELS
from bailiff_core.records import AUDIT_TYPES, facts
from bailiff_log.seals import SealChain
from bailiff_log.signed_requests import FILLED_DEMAND

MINE = Trust((KNOWN["root"],), (KNOWN["sealing"],), (KNOWN["witness"],))


def failed(found: CheckedReceipt) -> list[str]:
    return [each["id"] for each in found["checks"] if each["status"] == "failed"]


async def checked(log: SealedStory, about: str, decision: int | None = None) -> CheckedReceipt:
    return check_receipt((await collect(log.source, about, decision)).receipt.to_text(), Trust())


# --- what it shows


def test_a_receipt_shows_who_took_the_gpus_at_which_price_and_how_the_eviction_ended() -> None:
    found = check_receipt(usual_text(), MINE)
    assert (found["verdict"], found["finished"]) == ("proven", True)
    assert {each["id"]: each["status"] for each in found["checks"]} == dict.fromkeys(CHECKS, "passed")
    assert (found["preemptor"], found["action"], found["decision"]) == ("serve-1", "preempt", usual().decision)
    assert len(page_of(usual_text()).encode()) < 150_000
    (victim,) = found["victims"]
    assert victim == {"job": "train-1", "attempt": 1, "tasks": "", "gpus": 4, "lost_gpu_ms": 14_640_000, "outcome": "preempted"}
    assert found["others"] == 1
    assert [each["id"] for each in found["not_checked"]] == [
        "rules",
        "permissions",
        "candidates",
        "prices",
        "stages",
        "revocations",
        "page",
    ]


def test_without_a_key_that_the_reader_knows_nothing_is_proven() -> None:
    found = check_receipt(usual_text())
    assert (found["verdict"], found["ok"]) == ("consistent", True)
    assert "trust" in [each["id"] for each in found["not_checked"]]


async def test_a_decision_gives_the_receipt_of_all_its_victims() -> None:
    found = await checked(usual(), "", usual().decision)
    assert [(each["job"], each["outcome"]) for each in found["victims"]] == [("train-1", "preempted"), ("train-2", "preempted")]
    assert (found["verdict"], found["others"]) == ("consistent", 0)


def test_the_file_has_what_the_eviction_needs_and_no_more() -> None:
    jobs = {record["seq"]: record["value"] for record in json.loads(usual_text())["records"]}
    assert not any('"train-3"' in value for value in jobs.values())
    assert len(page_of(usual_text())) < 1_000_000


async def test_an_eviction_that_goes_on_is_said_to_be_unfinished(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story, finished=False)
    found = await checked(sealed(story), "train-2")
    assert (found["ok"], found["finished"], found["victims"][0]["outcome"]) == (True, False, "")
    done = await checked(sealed(story), "train-1")
    assert (done["finished"], done["victims"][0]["outcome"]) == (True, "preempted")


async def test_what_the_newest_seal_does_not_cover_is_left_out(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    decision = sealed(story).decision
    found = await checked(sealed(story, decision + 2), "train-1")
    assert (found["ok"], found["finished"], found["sealed_records"]) == (True, False, decision + 2)
    with pytest.raises(ClientError, match="is not sealed yet") as no:
        await collect(sealed(story, decision).source, "train-1")
    assert no.value.exit_code is ExitCode.NOT_FOUND


async def test_a_log_without_keys_is_believed_as_far_as_its_seal(tmp_path: Path) -> None:
    del tmp_path
    story = Story(pool="pool-a")
    preempted(story)
    found = await checked(sealed(story, witnesses=0), "train-1")
    assert found["ok"]
    assert {each["id"] for each in found["checks"] if each["status"] == "not-checked"} == {
        "writer",
        "requesters",
        "cosignatures",
        "trust",
    }
    assert {"unsigned", "requesters", "cosignatures"} <= {each["id"] for each in found["not_checked"]}
    pinned = check_receipt((await collect(sealed(story).source, "train-1")).receipt.to_text(), Trust(roots=(KNOWN["root"],)))
    assert failed(pinned) == ["trust"]


async def test_surplus_tasks_that_are_evicted_are_a_preemption_of_their_own(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    story.node("n1", gpus=4)
    story.runs("train-1", gpus=1, tasks=4, min_tasks=1, elastic="live")
    story.submit("serve-1", gpus=2, cls="inference", after=3600 * SECOND)
    story.propose()
    story.yields("train-1")
    story.expect("JobShrunk")
    found = await checked(sealed(story), "train-1")
    assert (found["ok"], found["finished"]) == (True, True)
    assert (found["victims"][0]["tasks"], found["victims"][0]["outcome"]) == ("2-3", "shrunk, preempted")


async def test_a_job_that_was_moved_has_a_receipt(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    story.node("n1", gpus=8)
    story.runs("low", gpus=4)
    story.submit("high", gpus=8, cls="interactive")
    story.node("n2", gpus=4)
    story.propose()
    assert story.expect("PreemptionDecided").victims[0].moved_to
    story.yields("low")
    found = await checked(sealed(story), "low")
    assert (failed(found), found["finished"], found["victims"][0]["outcome"]) == ([], True, "preempted")


async def test_surplus_of_which_one_task_was_spared_has_an_end(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    story.node("n1", gpus=8)
    story.runs("wide", gpus=2, tasks=4, min_tasks=1, elastic="live")
    story.submit("high", gpus=4, cls="interactive")
    story.propose()
    story.begin("wide")
    story.cancel("high")
    story.eviction_cancelled("wide", task=2)
    assert not (await checked(sealed(story), "wide"))["finished"]
    story.cancel_eviction_refused("wide", task=3)
    story.ends("wide", task=3, code=85)
    found = await checked(sealed(story), "wide")
    assert (failed(found), found["victims"][0]["outcome"]) == ([], "shrunk, preempted")


async def test_a_preemption_that_was_called_off_says_so(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story, finished=False)
    story.cancel("serve-1")
    found = await checked(sealed(story), "train-2")
    assert (failed(found), found["victims"][0]["outcome"]) == ([], "eviction cancelled")


async def test_the_latest_preemption_counts_unless_another_is_named(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    log = sealed(story)
    first = log.decision
    with pytest.raises(ClientError, match="train-1 was preempted 1 time") as no:
        await collect(log.source, "train-1", eviction=2)
    assert no.value.advice == "that one: without --eviction"
    story.started("serve-1")
    story.ends("serve-1")
    story.started("train-1", after=SECOND)
    story.submit("serve-2", gpus=8, cls="inference", after=3 * 3600 * SECOND)
    story.propose(after=SECOND)
    log = sealed(story)
    assert log.decision > first
    assert (await checked(log, "train-1"))["decision"] == log.decision
    assert (await checked(log, "train-1", first))["decision"] == first
    for number, wanted in ((1, first), (2, log.decision), (None, log.decision)):
        found = await collect(log.source, "train-1", eviction=number)
        assert (found.receipt.decision, found.evictions) == (wanted, [first, log.decision])
    with pytest.raises(ClientError, match="train-1 was preempted 2 times") as no:
        await collect(log.source, "train-1", eviction=3)
    assert no.value.advice == "give one of them: --eviction 1 to 2"
    with pytest.raises(ClientError, match=f"#{first} is no decision that preempts train-3"):
        await collect(log.source, "train-3", first)
    with pytest.raises(ClientError, match="#1 is no decision that preempts a job"):
        await collect(log.source, "", 1)
    with pytest.raises(ClientError, match="no decision preempts train-3"):
        await collect(log.source, "train-3")


async def test_before_the_first_seal_only_a_job_that_was_preempted_is_told_to_wait_for_it(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    log = sealed(story)
    unsealed = replace(log.source, chain=SealChain(POOL))
    with pytest.raises(ClientError, match="has no seal yet"):
        await collect(unsealed, "train-1")
    with pytest.raises(ClientError, match="no decision preempts serve-1"):
        await collect(unsealed, "serve-1")


async def test_the_command_says_which_of_several_preemptions_it_wrote(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    story.started("serve-1")
    story.ends("serve-1")
    story.started("train-1", after=SECOND)
    story.submit("serve-2", gpus=8, cls="inference", after=3 * 3600 * SECOND)
    story.propose(after=SECOND)
    log, file = sealed(story), tmp_path / "log.jsonl"
    with file.open("w", encoding="utf-8") as out:
        await write_log(out, POOL, 0, log.source.read(), [seal_to(each) for each in log.bodies], [])

    async def said(*options: str) -> str:
        page = ("--file", str(file), "--to", str(tmp_path / "page.html"))
        return (await asyncio.to_thread(CliRunner().invoke, app, ["audit", "receipt", *options, *page])).output

    assert "train-1 was preempted 2 times; this is preemption 2 of 2. Others: --eviction N" in await said("train-1")
    assert "this is preemption 1 of 2" in await said("train-1", "--eviction", "1")
    assert "times" not in await said(f"#{log.decision}")
    assert "--decision and --eviction name the same" in await said("train-1", "--eviction", "1", "--decision", "9")


async def test_a_log_that_is_not_the_sealed_one_gives_no_receipt(tmp_path: Path) -> None:
    story, other = SignedStory(tmp_path / "a"), SignedStory(tmp_path / "b")
    preempted(story)
    preempted(other)
    mixed = SealedStory(story, sealed(other).bodies, [])
    with pytest.raises(ClientError, match="not those that were sealed") as no:
        await collect(mixed.source, "train-1")
    assert no.value.exit_code is ExitCode.FOUND_WRONG


async def test_the_seal_that_witnesses_cosigned_is_preferred() -> None:
    log = usual()
    found = json.loads((await collect(log.source, "train-1")).receipt.to_text())
    assert [each["witness"] for each in found["cosignatures"]] == [KNOWN["witness"]]


async def test_the_seal_that_a_named_witness_cosigned_is_preferred_to_one_with_many_invented(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story)
    log = sealed(story, len(story.wires) - 1, len(story.wires))
    first, second = log.cosignatures
    log.cosignatures = [second, *(CheckpointCosigned(witness=f"invented-{n}", checkpoint=first.checkpoint) for n in range(3))]
    for named, wanted in (([], 3), ([second.witness], 1)):
        found, _ = await collect(replace(log.source, named=named), "train-1")
        assert len(found.cosignatures) == wanted, f"named: {named}"


async def test_a_writer_that_was_replaced_in_the_middle_is_followed(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    preempted(story, finished=False)
    story.restart(after=SECOND)
    story.yields("train-2", after=SECOND)
    found = await checked(sealed(story), "train-2")
    assert (failed(found), found["finished"]) == ([], True)


async def test_a_gang_of_many_tasks_leaves_stages_out_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff.audit.receipt.collect.MAX_STAGE_BYTES", 25_000)
    story = SignedStory(tmp_path)
    story.node("n1", gpus=64)
    story.runs("train-1", gpus=1, tasks=64)
    story.submit("serve-1", gpus=8, cls="inference", after=3600 * SECOND)
    story.propose()
    story.yields("train-1")
    found = await checked(sealed(story), "train-1")
    assert (found["ok"], found["finished"]) == (True, True)
    assert "left_out" in [each["id"] for each in found["not_checked"]]


@pytest.mark.slow
async def test_the_receipt_of_a_gang_of_512_tasks_is_whole_and_below_a_megabyte(tmp_path: Path) -> None:
    story = SignedStory(tmp_path)
    for node in range(8):
        story.node(f"n{node}", gpus=64)
    story.runs("train-1", gpus=1, tasks=512)
    story.submit("serve-1", gpus=64, tasks=8, cls="inference", after=3600 * SECOND)
    story.propose()
    story.yields("train-1")
    text = (await collect(sealed(story).source, "train-1")).receipt.to_text()
    found = check_receipt(text)
    assert (found["verdict"], found["finished"]) == ("consistent", True)
    assert "left_out" not in [each["id"] for each in found["not_checked"]]
    assert len(page_of(text).encode()) < 1_000_000


async def test_an_eviction_of_too_many_records_has_no_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff.audit.receipt.collect.MAX_RECORDS", 10)
    with pytest.raises(ClientError, match="needs more than 10 records: at most 10, "):
        await collect(usual().source, "train-1")


@pytest.mark.slow
async def test_a_flood_in_the_cycles_of_an_eviction_keeps_its_receipt_readable(tmp_path: Path) -> None:
    """Others' records of the same cycle stand in it, as its signature covers them."""
    story = SignedStory(tmp_path)
    story.node("n1", gpus=8)
    story.runs("train-1", gpus=8)
    story.submit("serve-1", gpus=8, cls="inference", after=3600 * SECOND)
    story.propose()
    story.begin("train-1")
    about = {"topic": "bailiff.requests", "partition": 0, "digest": "0" * 64, "code": "bad-json", "reason": "\x00" * 300}
    flood = [facts.InputRejected(offset=number, **about) for number in range(2_000)]
    story.cycle(*flood, facts.TaskExited(**story.at("train-1", 0), exit_code=85))
    story.cycle(*flood, facts.TaskReleased(**story.at("train-1", 0)))
    receipt, _ = await collect(sealed(story).source, "train-1")
    found = check_receipt(receipt.to_text())
    assert (found["verdict"], found["finished"]) == ("consistent", True)
    assert len(receipt.records) > 2_000


async def test_a_receipt_that_nobody_could_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiff.audit.receipt.collect.MAX_KEPT_BYTES", 5_000)
    with pytest.raises(ClientError, match="of 5000 bytes, fit into a receipt"):
        await collect(usual().source, "train-1")


# --- what an altered one is found by


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_alteration_is_found_by_its_check(name: str) -> None:
    change, expected = ALTERATIONS[name]
    found = check_receipt(altered(usual_text(), change))
    match expected:
        case "":
            assert (found["verdict"], failed(found)) == ("consistent", [])
        case "unreadable":
            assert found["verdict"] == "unreadable"
        case "refuted":
            assert found["verdict"] == "refuted"
        case _:
            assert found["verdict"] == "refuted"
            assert expected in failed(found)


@pytest.mark.parametrize("name", PINNED)
def test_an_alteration_by_others_with_keys_is_found_by_the_keys_that_the_reader_knows(name: str) -> None:
    found = check_receipt(altered(usual_text(), ALTERATIONS[name][0]), MINE)
    assert (found["verdict"], failed(found)) == ("refuted", [PINNED[name]])


@pytest.mark.parametrize("kind", ["roots", "sealing", "witnesses"])
def test_each_key_that_the_reader_knows_counts(kind: str) -> None:
    known = {"roots": KNOWN["root"], "sealing": KNOWN["sealing"], "witnesses": KNOWN["witness"]}
    assert failed(check_receipt(usual_text(), Trust(**{kind: (known[kind],)}))) == []
    others = {**known, "witnesses": "other.example/w+00000000+AAAA"} | ({} if kind == "witnesses" else {kind: "A" * 43})
    assert failed(check_receipt(usual_text(), Trust(**{kind: (others[kind],)}))) == ["trust"]


def test_of_a_record_that_cannot_be_read_nothing_is_concluded() -> None:
    found = check_receipt(altered(usual_text(), lambda data: data["records"][3].update(value="{")))
    assert found["verdict"] == "refuted"
    assert "record 5 cannot be read" in found["checks"][0]["detail"]
    assert {each["status"] for each in found["checks"][1:]} == {"not-checked"}


@pytest.mark.slow
def test_every_byte_of_every_record_counts() -> None:
    data = json.loads(usual_text())
    for record in range(len(data["records"])):
        for position in range(0, len(data["records"][record]["value"]), 37):

            def change(found: dict[str, Any], record: int = record, position: int = position) -> None:
                value = found["records"][record]["value"]
                found["records"][record]["value"] = value[:position] + chr(ord(value[position]) ^ 1) + value[position + 1 :]

            assert check_receipt(altered(usual_text(), change))["verdict"] == "refuted"


@pytest.mark.parametrize("change", MALFORMED)
def test_json_that_two_readers_may_read_differently_is_refused(change: Callable[[str], str]) -> None:
    assert check_receipt(change(usual_text()))["verdict"] == "unreadable"


def test_what_both_verifiers_share_names_real_types_and_defaults() -> None:
    assert set(PURPOSES) <= {each.__name__ for each in AUDIT_TYPES.values()}
    assert (RULES["filled"], RULES["added_labels"]) == (list(FILLED_DEMAND), list(ADDED_LABELS))
    defaults: dict[str, Any] = {}

    def collect_defaults(model: type[Document]) -> None:
        for name, about in model.model_fields.items():
            value = about.get_default(call_default_factory=True)
            if value not in (None, 0, "", (), {}) and not about.is_required():
                defaults[name] = value
            for part in (about.annotation, *get_args(about.annotation)):
                for kind in (part, *get_args(part)):
                    if isinstance(kind, type) and issubclass(kind, Document) and kind is not model:
                        collect_defaults(kind)

    collect_defaults(JobDemand)
    assert defaults == RULES["defaults"]


# --- the command


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """The usual log as an exported file."""
    path, usual_log = tmp_path / "log.jsonl", usual()

    async def messages():
        for message in messages_of(usual_log.story.wires):
            yield message

    with path.open("w", encoding="utf-8") as out:
        seals = [seal_to(each) for each in usual_log.bodies]
        await write_log(out, "pool-a", 0, messages(), seals, [each.to_data() for each in usual_log.cosignatures])
    return path


def bailiff(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def pins() -> list[str]:
    return ["--root", KNOWN["root"], "--trust", KNOWN["sealing"], "--witness", KNOWN["witness"]]


def test_the_command_writes_a_page_and_checks_it_offline(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "receipt.html"
    written = bailiff("audit", "receipt", "train-1", "--file", log, "--to", page)
    assert written.exit_code == 0, written.output
    assert "train-1 of decision pool-a#15, 15 records under the seal over 33 records" in written.output
    found = bailiff("audit", "check-receipt", page, *pins())
    assert found.exit_code == 0, found.output
    assert found.output.startswith("proven: the log has this preemption as the receipt shows it\n")
    for part in (
        "serve-1, action preempt",
        "4 GPUs, 4.1 GPU-h of work lost and restarts; stopped in time",
        "train-1: stopped in time",
        "Not checked:",
    ):
        assert part in found.output
    assert f"bailiff audit check-receipt {page}" in found.output
    shown = json.loads(bailiff("audit", "check-receipt", page, "-o", "json").output)
    assert (shown["verdict"], shown["page"]) == ("consistent", "own")
    other = tmp_path / "other.html"
    before, mark, rest = page.read_text().partition(DATA)
    text, end, after = rest.partition(END)
    other.write_text(f"{before}{mark}{text}{end}<meta http-equiv=refresh content='0;url=https://example.com'>{end}{after}")
    shown = json.loads(bailiff("audit", "check-receipt", other, "-o", "json").output)
    assert (shown["verdict"], shown["page"]) == ("consistent", "other"), "its maker has added something to the page"


def test_a_witness_may_be_given_with_its_address_and_a_key_that_is_none_refutes_nothing(tmp_path: Path) -> None:
    """`make up` writes both, as `audit verify --witness-key` takes them."""
    path = tmp_path / "receipt.json"
    path.write_text(usual_text())
    with_address = bailiff("audit", "check-receipt", path, "--witness", f"{KNOWN['witness']} http://127.0.0.1:8632")
    assert with_address.exit_code == 0, with_address.output
    none = bailiff("audit", "check-receipt", path, "--witness", "no-key")
    assert (none.exit_code, "--witness: " in none.output, "refuted" in none.output) == (ExitCode.USAGE, True, False)


def test_a_receipt_of_a_decision_is_named_after_it(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = bailiff("audit", "receipt", "#15", "--file", log)
    assert written.exit_code == 0, written.output
    assert check_receipt(text_in((tmp_path / "receipt-pool-a-15.html").read_text()))["ok"]
    assert bailiff("audit", "receipt", "15", "--decision", "15", "--file", log).exit_code == ExitCode.USAGE
    assert bailiff("audit", "receipt", "train-3", "--file", log).exit_code == ExitCode.NOT_FOUND


def test_exit_codes_tell_a_refuted_receipt_from_a_later_one(tmp_path: Path) -> None:
    def code(text: str, *options: str) -> int:
        (tmp_path / "receipt.html").write_text(page_of(text), encoding="utf-8")
        return bailiff("audit", "check-receipt", tmp_path / "receipt.html", *options).exit_code

    def with_change(name: str) -> str:
        return altered(usual_text(), ALTERATIONS[name][0])

    assert code(usual_text(), *pins()) == ExitCode.DONE
    assert code(usual_text(), "--root", KNOWN["sealing"]) == ExitCode.FOUND_WRONG
    assert code(with_change("another root")) == ExitCode.FOUND_WRONG
    assert code(with_change("an unknown member")) == ExitCode.FOUND_WRONG
    assert code(with_change("a later format")) == ExitCode.UNREADABLE
    assert bailiff("audit", "check-receipt", tmp_path / "none.html").exit_code == ExitCode.USAGE


def test_a_page_that_says_what_its_maker_wanted_is_named(tmp_path: Path) -> None:
    page = page_of(usual_text()).replace("This receipt has not been checked", "Proven")
    (tmp_path / "receipt.html").write_text(page, encoding="utf-8")
    found = bailiff("audit", "check-receipt", tmp_path / "receipt.html")
    assert found.exit_code == 0
    assert "do not believe what a browser shows of it" in " ".join(found.output.split())


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"<html></html>", b"{" * 5_000, page_of("{}").encode() * 2])
def test_what_is_no_receipt_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "receipt.html").write_bytes(raw)
    found = bailiff("audit", "check-receipt", tmp_path / "receipt.html")
    assert found.exit_code == ExitCode.FOUND_WRONG
    assert "not a receipt" in found.output


def test_names_that_are_markup_cannot_leave_the_receipts_element(tmp_path: Path) -> None:
    story = SignedStory(tmp_path, key=None)
    assert "<" not in usual_text()
    del story
    text = altered(usual_text(), lambda data: data["records"][3].update(value="</script><img src=x onerror=alert(1)>"))
    assert "<" not in text
    assert text_in(page_of(text)) == text
