"""What `make up` and `make demo` print and write: the scrape file, and a panel that fits every terminal."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from rich.text import Text
from tests.kits.log_builder import Story, policy

from bailiff_devstack import ports
from bailiff_devstack.demo_screen import EVENTS_SHOWN, Screen
from bailiff_devstack.ports import free_port, persistent_port
from bailiff_devstack.scrape import RULES, metrics_lines, write_scrape_file


def test_the_scrape_file_has_the_job_names_of_the_rules_and_every_address(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    addresses = {"admission": "http://127.0.0.1:1", "api": "http://127.0.0.1:2"}
    write_scrape_file(path, addresses)
    found = yaml.safe_load(path.read_text())
    assert [(each["job_name"], each["static_configs"][0]["targets"]) for each in found["scrape_configs"]] == [
        ("bailiff-admission", ["127.0.0.1:1"]),
        ("bailiff-api", ["127.0.0.1:2"]),
    ]
    assert found["rule_files"] == [str(RULES)]
    assert RULES.exists()
    assert "http://127.0.0.1:2/metrics" in metrics_lines(addresses)


@pytest.mark.parametrize(("width", "height"), [(40, 12), (40, 40), (60, 16), (80, 24), (100, 14), (120, 50), (25, 14)])
def test_the_panel_of_the_demo_fits_the_terminal_and_ends_with_the_newest_event(width: int, height: int) -> None:
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True)
    screen = Screen(console)
    story = Story(policy())
    story.node("node-1", gpus=8)
    screen._state = story.state
    for number in range(EVENTS_SHOWN):
        screen._events.append(Text(f"event {number}"))
    lines = console.render_lines(screen._panel(width, height))
    shown = ["".join(segment.text for segment in line) for line in lines]
    assert len(lines) < height
    assert all(len(line) == width for line in shown)
    assert any(f"event {EVENTS_SHOWN - 1}" in line for line in shown)
    assert sum(line.count("–") for line in shown) == sum(len(node.devices) for node in screen._state.nodes.values())


def test_no_port_is_given_twice_before_its_server_has_bound_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "console.port").write_text("10300")
    monkeypatch.setattr(ports, "_first_ephemeral", lambda: ports._FIRST + 1_002)
    known = {persistent_port(tmp_path / "console.port"), persistent_port(tmp_path / "api.port")}
    given = [free_port() for _ in range(300)]
    assert len(set(given)) == 300
    assert not known & set(given)
