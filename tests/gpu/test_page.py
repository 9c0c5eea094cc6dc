"""The page that `make test-gpu` writes, and that its parts are what they say. No GPU is needed."""

from pathlib import Path

from tests.gpu.bundle import NEEDED, pinned
from tests.gpu.evictions import CASES
from tests.gpu.page import NO_GPU, Row, Section, written

MACHINE = {"GPUs": "1 × NVIDIA H100", "date": "2026-11-24"}


def test_the_page_has_the_distribution_of_all_runs_and_says_what_is_empty() -> None:
    values = [float(number) for number in range(1, 51)]
    eviction = Section("Evictions", [Row("decision to exit", values[::-1]), Row("memory free")], note="With 20 GiB.")
    page = written(MACHINE, [eviction, Section("Telemetry", [Row("memory", outcome=NO_GPU)])], has_card=True)
    assert "| GPUs | 1 × NVIDIA H100 |" in page
    assert "| decision to exit | 50 | 25.0 ms | 48.0 ms | 50.0 ms |" in page
    assert "| memory free | 0 | – | – | – |" in page
    assert "| memory | – (needs a GPU) |" in page
    assert "no GPU" not in page
    assert "This run had **no GPU**" in written(MACHINE, [eviction], has_card=False)


def test_the_page_in_the_repository_has_every_case() -> None:
    page = (Path(__file__).parents[2] / "docs" / "measurements.md").read_text()
    assert [case.title for case in CASES if f"\n## {case.title}\n" not in page] == []
    assert sum(case.runs == 50 for case in CASES) == 1


def test_all_wheels_of_the_bundle_are_pinned_with_hashes() -> None:
    requirements = pinned()
    assert [name for name in NEEDED if "--hash=sha256:" not in requirements.get(name, "")] == []
