"""Log lines that programs can read, metrics in one list, and a name for the code that decides."""

import json
import logging
from pathlib import Path

import pytest

from bailiff_bus.kafka.client_logging import RateLimitedHandler
from bailiff_log.engine_identity import EngineIdentity, engine_identity, source_digest
from bailiff_service.logs import configure_logs, logger
from bailiff_service.metrics import (
    BRIDGE_METRICS,
    METRICS,
    POOL_METRICS,
    ROLLUP_METRICS,
    Metrics,
    PoolMetricsCollector,
    metrics_table,
)


def test_a_line_is_one_json_object_with_service_instance_and_pool(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", service="admission", instance="one")
    logger(pool="a100").info("turn closed", seq=7)
    logger().debug("not shown")
    (line,) = capsys.readouterr().err.splitlines()
    logged = json.loads(line)
    assert logged.pop("timestamp").endswith("Z")
    assert logged == {
        "service": "admission",
        "instance": "one",
        "pool": "a100",
        "event": "turn closed",
        "seq": 7,
        "level": "info",
    }


def test_libraries_come_through_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", service="admission", instance="one")
    logging.getLogger("aiokafka.conn").info("chatter")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("aiokafka.conn").exception("%s broke", "it")
    (line,) = capsys.readouterr().err.splitlines()
    logged = json.loads(line)
    assert (logged["event"], logged["logger"], logged["level"]) == ("it broke", "aiokafka.conn", "error")
    assert "ValueError" in logged["exception"]


def test_a_console_gets_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("console", "info", service="admission", instance="one")
    logger().warning("Kafka is unreachable", tries=3)
    logged = capsys.readouterr().err
    assert "Kafka is unreachable" in logged
    assert "tries=3" in logged
    assert "\x1b" not in logged


def test_the_kafka_client_does_not_fill_the_disk_while_kafka_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info", service="admission", instance="one")
    time = 1000.0
    handler = RateLimitedHandler(lambda: time)
    for _ in range(1000):
        time += 0.0625  # 62.5 s in all
        for text in ("Unable connect to node with id 1", "Unable to update metadata from [1]"):
            handler.emit(logging.LogRecord("aiokafka.client", logging.ERROR, "", 0, text, None, None))
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line.get("suppressed") for line in logged if line["text"].startswith("Unable connect")] == [None, 479, 479]
    assert len(logged) == 6


def test_every_metric_is_named_described_and_exposed() -> None:
    text = Metrics().text().decode()
    for metric in METRICS:
        assert metric.name.startswith("bailiff_")
        assert f"# HELP {metric.name}" in text or metric in (*ROLLUP_METRICS, *BRIDGE_METRICS)  # of one service each
        assert f"| `{metric.name}" in metrics_table()


def test_two_services_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.orphans.labels("a100").inc()
    assert b'bailiff_orphans_total{pool="a100"} 1.0' in one.text()
    assert b"a100" not in other.text()
    assert b"_created" not in one.text()


def test_an_engine_is_named_by_release_digest_and_logic() -> None:
    assert str(EngineIdentity("0.1.0", "1f3a9c" * 10 + "abcd", 1)) == "0.1.0/1f3a9c1f3a9c/1"
    mine = engine_identity()
    assert len(mine.digest) == 64
    assert mine is engine_identity()


def test_the_digest_is_of_the_sources_and_of_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_bytes(b"x = 1\n")
    (tmp_path / "c.py").write_bytes(b"")
    before = source_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "c.pyc").write_bytes(b"junk")
    (tmp_path / "py.typed").write_bytes(b"")
    assert source_digest(tmp_path) == before
    (tmp_path / "c.py").write_bytes(b"#")
    assert source_digest(tmp_path) != before


def test_moving_bytes_between_files_changes_the_digest(tmp_path: Path) -> None:
    digests = set()
    for name, (first, second) in {"x": (b"ab", b"c"), "y": (b"a", b"bc")}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_bytes(first)
        (tmp_path / name / "b.py").write_bytes(second)
        digests.add(source_digest(tmp_path / name))
    assert len(digests) == 2


def test_a_pool_that_comes_back_before_it_has_quite_gone_is_shown() -> None:
    pools, gauge = PoolMetricsCollector(), POOL_METRICS[0]
    labels = ("x",) * (len(gauge.labels) - 1)

    def shown() -> list[float]:
        return [sample.value for family in pools.collect() for sample in family.samples]

    earlier, later = pools.export("pool-a", lambda: [(gauge, labels, 1)]), pools.export("pool-a", lambda: [(gauge, labels, 2)])
    earlier.__enter__()
    with later:
        earlier.__exit__(None, None, None)
        assert shown() == [2]
    assert shown() == []
