"""`bailiff audit replay`: identical bytes or the first difference; ranges; engines of other releases, stored by digest."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.property.busy_stories import Busy
from tests.unit.client.chains import log, message, stream
from tests.unit.client.kit import SECOND, AnsweringBus, LogWriter, Run, command_on, finished_story, preemption_story

from bailiff.audit import chain_report
from bailiff.audit.log_files import about_line, message_line
from bailiff.audit.log_positions import Point
from bailiff.audit.replay import Replayed, replay
from bailiff.audit.replay_difference import differing_fields
from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus.port import Message
from bailiff_core.engine import STATE_SCHEMA
from bailiff_core.model.proposal import Proposal
from bailiff_core.records import Record, Wire, decisions, encode, facts, record_hash
from bailiff_core.records.wire import time_text
from bailiff_log import engine_store


@pytest.fixture(scope="module")
def _finished() -> LogWriter:
    return finished_story(LogWriter())


@pytest.fixture
def log_writer(_finished: LogWriter) -> LogWriter:
    return _finished.copied()


async def replayed(
    messages: list[Message], store: Path | None = None, from_: Point | None = None, to: Point | None = None
) -> Replayed:
    return await replay("pool-a", lambda: stream(messages), store=store, from_=from_, to=to)


async def test_replay_of_a_valid_log_finds_the_same_bytes(log_writer: LogWriter) -> None:
    found = await replayed(log(log_writer))
    assert found["ok"], found
    assert found["cycles_replayed"] == found["cycles"] > 20
    assert found["decisions"] > 10
    (engine,) = found["engines"]
    assert (engine["decided_by"], engine["from_seq"], engine["to_seq"]) == ("this release", 0, found["records"] - 1)


def forged(log_writer: LogWriter, seq: int, *more: int, **fields: object) -> list[Message]:
    """The log with these records' data changed and the hashes recomputed from the first on: a valid chain, false data."""
    messages, prev = log(log_writer)[:seq], prev_hash_at(log_writer, seq)
    for record in log_writer.records[seq:]:
        data = record.data
        if record.seq in (seq, *more) and data is not None:
            data = data.model_copy(update=fields)
        wire = encode(dataclasses.replace(record, prev=prev, data=data))
        prev = record_hash(wire)
        messages.append(message(wire, record.seq))
    return messages


def prev_hash_at(log_writer: LogWriter, seq: int) -> str:
    before = log(log_writer)[seq - 1]
    return record_hash(Wire(before.headers, before.value))


def seq_of(log_writer: LogWriter, name: str) -> int:
    return next(record.seq for record in log_writer.records if record.data is not None and name == record.data.NAME)


async def test_replay_names_the_forged_decision_and_its_fields() -> None:
    log_writer = preemption_story(LogWriter())
    seq = seq_of(log_writer, "PreemptionDecided")
    messages = forged(log_writer, seq, expires=1)
    assert (await chain_report.verify("pool-a", stream(messages)))["ok"]  # the chain alone cannot detect it
    found = await replayed(messages)
    assert not found["ok"]
    difference = found["difference"]
    assert difference is not None
    assert difference["seq"] == seq
    assert (difference["engine"], difference["decided_by"]) == (str(engine_store.running_engine()), "this release")
    (field,) = difference["fields"]
    assert field.startswith("expires: 1 was decided, replay gives ")
    assert all("train-7" in " ".join(sentences) for sentences in (difference["recorded"], difference["now"]))


# --- proposals


def explained_falsely(honest: Proposal) -> Proposal:
    """The victims are right, and fewer other jobs could have been preempted than it says."""
    why = honest.explanation
    return honest.model_copy(update={"explanation": why.model_copy(update={"candidates": why.candidates + 5})})


def lying_log(lie: Callable[[Proposal], Proposal] = explained_falsely) -> LogWriter:
    log_writer = LogWriter()
    preemption_story(log_writer, lie)
    return log_writer


async def test_every_proposal_is_searched_again(log_writer: LogWriter) -> None:
    found = await replayed(log(log_writer))
    assert (found["proposals"], found["proposals_searched"], found["proposals_not_reproduced"]) == (1, 1, 0)
    assert found["proposal_differences"] == []


async def test_a_false_claim_is_a_difference_although_every_decision_follows_from_it() -> None:
    log_writer = lying_log()
    found = await replayed(log(log_writer))
    assert found["difference"] is None
    assert not found["ok"]
    assert found["proposals_not_reproduced"] == 1
    (difference,) = found["proposal_differences"]
    assert difference["seq"] == seq_of(log_writer, "ProposalReceived")
    assert difference["computed_at"] == difference["seq"] - 1
    assert "explanation.candidates" in difference["differing"]
    assert difference["proposed"]["explanation"]["candidates"] == difference["computed"]["explanation"]["candidates"] + 5
    proposed, computed, fields = difference["text"]
    assert proposed.startswith(f"Proposed for request #{difference['request']} of serve-2, on the state after ")
    assert computed.startswith("Searched again on the same state: preempt evicts ")
    assert "explanation.candidates" in fields


async def test_a_proposal_is_searched_on_its_state_although_the_range_begins_later() -> None:
    log_writer = lying_log()
    seq = seq_of(log_writer, "ProposalReceived")
    found = await replayed(log(log_writer), from_=Point(seq=seq), to=Point(seq=seq))
    assert (found["proposals_searched"], found["proposals_not_reproduced"]) == (1, 1)
    assert found["proposal_differences"][0]["computed_at"] < seq
    earlier = await replayed(log(log_writer), to=Point(seq=seq - 1))
    assert earlier["ok"]
    assert earlier["proposals"] == 0


async def test_a_proposal_that_names_another_state_is_a_difference() -> None:
    log_writer = preemption_story(LogWriter())
    seq = seq_of(log_writer, "ProposalReceived")
    for computed_at, problem in ((3, "no selection was open after #3"), (seq, "is not before it")):
        found = await replayed(forged(log_writer, seq, computed_at=computed_at))
        assert found["proposals_not_reproduced"] == 1
        assert problem in found["proposal_differences"][0]["text"][0]


async def test_proposals_under_a_missing_engine_are_not_searched_again(tmp_path: Path) -> None:
    log_writer = lying_log()
    messages = forged(log_writer, seq_of(log_writer, "WriterStarted"), logic=999, digest="f" * 64)
    found = await replayed(messages, store=tmp_path)
    assert found["cycles_of_other_engines"] == found["cycles"]
    assert (found["proposals"], found["proposals_searched"], found["proposals_not_reproduced"]) == (1, 0, 0)


async def test_replay_of_a_broken_log_says_that_it_is_broken(log_writer: LogWriter) -> None:
    messages = log(log_writer)
    found = await replayed([*messages[:9], *messages[10:]])
    assert not found["ok"]
    assert found["difference"] is None
    assert "record 9 is missing" in found["error"]


async def test_cycles_of_a_missing_engine_are_folded_only_with_advice(tmp_path: Path) -> None:
    log_writer = LogWriter()
    log_writer.begin(logic=999)
    log_writer.node("gpu-01")
    found = await replayed(log(log_writer), store=tmp_path)
    assert found["ok"]
    assert found["cycles_of_other_engines"] == found["cycles"] == 3
    assert found["cycles_replayed"] == 0
    (engine,) = found["engines"]
    assert engine["decided_by"] == ""
    assert engine["digest"] in engine["advice"]
    assert "bailiff engine keep" in engine["advice"]


async def test_a_log_that_cannot_be_folded_gives_a_one_line_error(log_writer: LogWriter) -> None:
    record = Record(
        **{
            **_fields(log_writer.records[-1]),
            "seq": log_writer.head.next_seq,
            "prev": log_writer.head.hash,
            "time": log_writer.now + SECOND,
        }
    )
    odd = facts.DecisionFailed(job="nobody", error="-")
    wire = encode(dataclasses.replace(record, cycle=log_writer.state.cycle + 1, data=odd, type=odd.type_name()))
    found = await replayed([*log(log_writer), message(wire)])
    assert not found["ok"]
    assert found["error"].startswith(f"#{log_writer.head.next_seq}: KeyError")


def _fields(record: Record) -> dict[str, object]:
    return {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}


def test_fields_are_compared_deeply() -> None:
    again = 'T.v1 {"a":{"b":[1,2]},"c":1}'
    assert differing_fields(again, 'T.v1 {"a":{"b":[1,3]},"c":1}') == ["a.b.1: 3 was decided, replay gives 2"]
    assert differing_fields(again, "U.v1 {}") == []
    assert differing_fields("the end of the cycle", again) == []


# --- ranges


def last_release(log_writer: LogWriter, seq: int) -> int:
    """First seq of the last cycle up to this record in which a task was released, a policy was applied or a writer started."""
    fresh = ("TaskReleased.v1", "PolicyApplied.v1", "WriterStarted.v1")
    cycle = max(record.cycle for record in log_writer.records[: seq + 1] if record.type.endswith(fresh))
    return next(record.seq for record in log_writer.records if record.cycle == cycle)


async def test_a_range_covers_whole_cycles_on_the_folded_state(log_writer: LogWriter) -> None:
    decided = log_writer.records[seq_of(log_writer, "PreemptionDecided")]
    cycle = [record.seq for record in log_writer.records if record.cycle == decided.cycle]
    found = await replayed(log(log_writer), from_=Point(seq=decided.seq), to=Point(seq=decided.seq))
    assert found["ok"], found
    assert (found["from_seq"], found["to_seq"]) == (last_release(log_writer, decided.seq), cycle[-1])
    assert 1 <= found["cycles"] == found["cycles_replayed"] < decided.cycle


async def test_a_range_by_time_ends_with_the_last_cycle_of_that_time(log_writer: LogWriter) -> None:
    decided = log_writer.records[seq_of(log_writer, "PreemptionDecided")]
    found = await replayed(log(log_writer), from_=Point(time=decided.time), to=Point(time=decided.time))
    same = [record.seq for record in log_writer.records if record.time == decided.time]
    assert found["from_seq"] <= same[0]
    assert found["to_seq"] == same[-1]


@pytest.mark.parametrize("seed", [4, 12, 23])
@pytest.mark.slow
async def test_cached_engine_state_does_not_affect_a_range(seed: int) -> None:
    """A full pool: the engine caches what did not fit, and why, until resources are released."""
    rng = Random(seed)
    story = Busy().play([(rng.randrange(16), rng.randrange(10), rng.randrange(8)) for _ in range(120)])
    messages = [message(wire, seq) for seq, wire in enumerate(story.wires)]
    for seq in range(40, len(messages), 23):
        found = await replay(story.pool, lambda: stream(messages), from_=Point(seq=seq))
        assert found["ok"], (seq, found["difference"])
        assert found["from_seq"] <= seq


async def test_every_range_of_a_log_decides_the_same(log_writer: LogWriter) -> None:
    cycles = 0
    for seq in range(0, len(log_writer.records), 7):
        found = await replayed(log(log_writer), from_=Point(seq=seq), to=Point(seq=seq + 9))
        assert found["ok"], found
        assert found["from_seq"] <= seq
        assert found["to_seq"] >= min(seq + 9, len(log_writer.records) - 1)
        cycles += found["cycles_replayed"]
    assert cycles > 20


async def test_records_before_a_range_are_not_replayed(log_writer: LogWriter) -> None:
    seq = seq_of(log_writer, "PreemptionDecided")
    messages = forged(log_writer, seq, explanation=log_writer.records[seq].data.explanation.model_copy(update={"steps": 7}))
    assert not (await replayed(messages))["ok"]
    assert not (await replayed(messages, from_=Point(seq=seq)))["ok"]
    later = next(record.seq for record in log_writer.records[seq:] if record.type.endswith("TaskReleased.v1"))
    assert (await replayed(messages, from_=Point(seq=later)))["ok"]
    assert (await replayed(messages, to=Point(seq=seq - 4)))["ok"]


# --- other engines


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> engine_store.Engine:
    """This engine as another release, with logic 999."""
    sources = dict(engine_store.running_engine().sources)
    sources["engine.py"] = sources["engine.py"].replace(b"LOGIC = ", b"LOGIC = 999  # ")
    return engine_store.engine_from_sources(
        {**sources, "engine.py": b'LOGIC = 999\nRELEASE = "9.9.9"\n' + _schema(sources["engine.py"])}
    )


def _schema(text: bytes) -> bytes:
    return next(line for line in text.splitlines(keepends=True) if line.startswith(b"STATE_SCHEMA"))


def two_releases(other: engine_store.Engine) -> LogWriter:
    """A log written by this engine and then by another."""
    log_writer = LogWriter()
    log_writer.begin()
    log_writer.node("gpu-01")
    log_writer.submit("first", gpus=4)
    log_writer.engine, log_writer.state.writer = str(other), "writer-2"
    started = facts.WriterStarted(
        writer="writer-2", release=other.release, digest=other.digest, logic=other.logic, state_schema=STATE_SCHEMA
    )
    log_writer.cycle(started, epoch=log_writer.state.epoch + 1)
    log_writer.submit("second", gpus=4)
    log_writer.start("second")
    return log_writer


@pytest.mark.slow
async def test_each_part_is_replayed_by_its_own_engine(other: engine_store.Engine, tmp_path: Path) -> None:
    engine_store.store_engine(tmp_path, other)
    log_writer = two_releases(other)
    found = await replayed(log(log_writer), store=tmp_path)
    assert found["ok"], found
    assert [engine["decided_by"] for engine in found["engines"]] == ["this release", "its wheel"]
    assert found["cycles_replayed"] == found["cycles"]
    assert found["cycles_of_other_engines"] == 0
    assert found["decisions"] == sum(record.data.KIND == "decision" for record in log_writer.records if record.data is not None)


@pytest.mark.slow
async def test_proposals_are_searched_again_by_the_engine_of_their_part(tmp_path: Path) -> None:
    sources = dict(engine_store.running_engine().sources)
    twin = engine_store.engine_from_sources({**sources, "engine.py": sources["engine.py"] + b"\n# built elsewhere\n"})
    engine_store.store_engine(tmp_path, twin)
    log_writer = lying_log()
    messages = forged(log_writer, seq_of(log_writer, "WriterStarted"), digest=twin.digest, release=twin.release)
    found = await replayed(messages, store=tmp_path)
    assert [engine["decided_by"] for engine in found["engines"]] == ["its wheel"]
    assert found["difference"] is None
    assert (found["proposals_searched"], found["proposals_not_reproduced"]) == (1, 1)
    assert "explanation.candidates" in found["proposal_differences"][0]["differing"]


async def test_an_engine_of_the_same_logic_that_is_not_at_hand_is_left_to_a_person(tmp_path: Path) -> None:
    log_writer = lying_log()
    messages = forged(log_writer, seq_of(log_writer, "WriterStarted"), digest="0" * 64)
    found = await replayed(messages, store=tmp_path)
    assert [engine["decided_by"] for engine in found["engines"]] == ["this release, by the same logic"]
    (sentence,) = found["to_judge"]
    assert "was not at hand" in sentence


@pytest.mark.slow
async def test_a_difference_under_another_engine_names_it(other: engine_store.Engine, tmp_path: Path) -> None:
    engine_store.store_engine(tmp_path, other)
    log_writer = two_releases(other)
    seq = next(record.seq for record in log_writer.records if getattr(record.data, "job", "") == "second")
    found = await replayed(forged(log_writer, seq, attempt=7), store=tmp_path)
    assert found["difference"] is not None
    assert (found["difference"]["seq"], found["difference"]["engine"]) == (seq, str(other))
    assert found["difference"]["fields"] == ["attempt: 7 was decided, replay gives 1"]


@pytest.mark.slow
async def test_the_first_difference_in_the_log_is_reported_across_engines(other: engine_store.Engine, tmp_path: Path) -> None:
    engine_store.store_engine(tmp_path, other)
    log_writer = two_releases(other)
    log_writer.submit("third", gpus=8)
    log_writer.engine = str(engine_store.running_engine())
    log_writer.writer("writer-3")
    log_writer.submit("fourth", gpus=8)
    first, later = (record.seq for record in log_writer.records if isinstance(record.data, decisions.JobPending))
    found = await replayed(forged(log_writer, first, later, reason="for no reason"), store=tmp_path)
    assert found["difference"] is not None
    assert (found["difference"]["seq"], found["difference"]["engine"]) == (first, str(other))


@pytest.mark.parametrize(
    ("corrupt", "advice"),
    [
        (lambda raw: engine_store.build_wheel(engine_store.running_engine()), "does not match its folder: it is not used"),
        (lambda raw: raw.replace(b"return min(times", b"return max(times"), "is not a wheel: Bad CRC-32"),
    ],
)
async def test_a_wheel_with_another_digest_than_its_folder_is_refused(
    other: engine_store.Engine, tmp_path: Path, corrupt: Callable[[bytes], bytes], advice: str
) -> None:
    wheel = engine_store.store_engine(tmp_path, other)
    wheel.write_bytes(corrupt(wheel.read_bytes()))
    found = await replayed(log(two_releases(other)), store=tmp_path)
    assert found["cycles_of_other_engines"] > 0
    assert advice in found["engines"][1]["advice"]
    assert ["was refused" in each for each in found["to_judge"]] == [True]


@pytest.mark.slow
async def test_an_engine_that_opens_a_file_is_stopped(other: engine_store.Engine, tmp_path: Path) -> None:
    sources = dict(other.sources)
    sources["decision_cycle.py"] += (
        b"\n\n_decide = decide\n\n\ndef decide(pool):\n    open('/tmp/replay-was-here', 'w')\n    return _decide(pool)\n"
    )
    modified = engine_store.engine_from_sources(sources)
    engine_store.store_engine(tmp_path, modified)
    found = await replayed(log(two_releases(modified)), store=tmp_path)
    assert not found["ok"]
    assert "an engine does not do this: open" in found["error"]


# --- the command


@pytest.fixture
def bailiff(log_writer: LogWriter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("BAILIFF_ENGINES", str(tmp_path / "engines"))
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "cache"))


@pytest.mark.slow
def test_the_command_accepts_numbers_and_times(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    decided = log_writer.records[seq_of(log_writer, "PreemptionDecided")]
    by_seq = json.loads(bailiff("audit", "replay", "--from", f"#{decided.seq}", "-o", "json").output)
    by_time = json.loads(bailiff("audit", "replay", "--from", time_text(decided.time), "-o", "json").output)
    assert by_seq["ok"]
    assert by_time["ok"]
    assert by_seq["to_seq"] == by_time["to_seq"] == len(log_writer.records) - 1
    assert by_time["from_seq"] <= by_seq["from_seq"] <= decided.seq
    file = tmp_path / "log.jsonl"
    bailiff("audit", "export", str(file))
    at_the_end = json.loads(bailiff("audit", "replay", "--file", str(file), "--from", "-1s", "-o", "json").output)
    assert 0 < at_the_end["cycles"] < by_seq["cycles"]
    wrong = bailiff("audit", "replay", "--from", "yesterday")
    assert (wrong.exit_code, "--from: expected a record's number" in wrong.stderr) == (ExitCode.USAGE, True)


def test_the_command_shows_both_results_and_its_exit_code_says_so(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(about_line("pool-a", 0) + "".join(map(message_line, log(lying_log()))))
    found = bailiff("audit", "replay", "--file", str(file))
    assert found.exit_code == ExitCode.FOUND_WRONG
    output = " ".join(found.output.split())
    assert "pool-a: 1 proposal record cannot be reproduced by searching again" in output
    assert "proposals 1, 1 searched again" in output
    assert output.count("preempt evicts train-7 and train-8") + output.count("preempt evicts train-7, train-8") == 2


def test_with_strict_a_script_learns_that_another_engine_replayed(bailiff: Run, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    log_writer = LogWriter()
    log_writer.begin()
    log_writer.node("gpu-01")
    messages = forged(log_writer, seq_of(log_writer, "WriterStarted"), digest="0" * 64)
    file.write_text(about_line("pool-a", 0) + "".join(map(message_line, messages)))
    assert bailiff("audit", "replay", "--file", str(file)).exit_code == ExitCode.DONE
    found = bailiff("audit", "replay", "--file", str(file), "--strict")
    assert found.exit_code == ExitCode.TO_JUDGE
    assert "to judge: the engine" in " ".join(found.output.split())


@pytest.mark.slow
def test_engines_are_kept_and_listed(bailiff: Run, other: engine_store.Engine, tmp_path: Path) -> None:
    mine = engine_store.running_engine()
    assert str(mine) in bailiff("engine", "keep").output
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(engine_store.build_wheel(other))
    refused = bailiff("engine", "keep", str(wheel), "--digest", mine.digest)
    assert (refused.exit_code, "not stored" in refused.stderr) == (ExitCode.FOUND_WRONG, True)
    assert bailiff("engine", "keep", str(wheel), "--digest", other.digest[:12]).exit_code == ExitCode.DONE
    found = json.loads(bailiff("engine", "list", "-o", "json").output)
    assert {row["digest"]: row["running"] for row in found["engines"]} == {mine.digest: True, other.digest: False}
    (tmp_path / "engines" / mine.digest / mine.wheel_name).write_bytes(engine_store.build_wheel(other))
    listed = bailiff("engine", "list")
    assert (listed.exit_code, "it is not used" in " ".join(listed.output.split())) == (ExitCode.FOUND_WRONG, True)


async def test_a_range_without_records_is_an_error(log_writer: LogWriter) -> None:
    last = len(log_writer.records) - 1
    for from_, to in ((Point(seq=last + 1), None), (Point(seq=9), Point(seq=3)), (None, Point(time=1))):
        with pytest.raises(ClientError, match="no record of pool-a is in the requested range") as refused:
            await replayed(log(log_writer), from_=from_, to=to)
        assert refused.value.exit_code == ExitCode.NOT_FOUND


def test_a_log_without_replayed_decisions_is_not_called_identical(bailiff: Run, log_writer: LogWriter, tmp_path: Path) -> None:
    def verdict(messages: list[Message]) -> tuple[int, str]:
        file = tmp_path / "log.jsonl"
        file.write_text(about_line("pool-a", 0) + "".join(map(message_line, messages)))
        found = bailiff("audit", "replay", "--file", str(file))
        return found.exit_code, found.output.splitlines()[0]

    created, begun = log(log_writer)[:1], log(log_writer)[: seq_of(log_writer, "JobSubmitted")]
    assert verdict(created) == (ExitCode.DONE, "pool-a: no decision cycle has ended yet, nothing to replay")
    assert verdict(begun) == (ExitCode.DONE, "pool-a: no decision is recorded, and the replay gives none")
    elsewhere = LogWriter()
    elsewhere.begin(logic=999)
    assert verdict(log(elsewhere)) == (
        ExitCode.ENGINE_MISSING,
        "pool-a: nothing was replayed: the engine of its decisions is not stored here",
    )
    dataset = LogWriter()
    dataset.begin(logic=0)
    assert verdict(log(dataset)) == (
        ExitCode.ENGINE_MISSING,
        "pool-a: folded; of an anonymised log no decision can be computed again",
    )


async def test_a_log_that_changes_between_readings_is_an_error(log_writer: LogWriter) -> None:
    """The second reading must have the bytes of the first, or the replay fails."""
    readings = [log(log_writer), forged(log_writer, last_submission(log_writer), spec_digest="f" * 64)]
    with pytest.raises(ClientError, match="changed between its two readings"):
        await replay("pool-a", lambda: stream(readings.pop(0)))


def last_submission(log_writer: LogWriter) -> int:
    return max(record.seq for record in log_writer.records if isinstance(record.data, facts.JobSubmitted))
