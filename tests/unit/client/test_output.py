"""Names as output, completion in shells, and the command installed alone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.client.kit import AnsweringBus, LogWriter, Run, command_on, preemption_story

from bailiff.client.errors import ExitCode

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bailiff(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    log_writer = preemption_story(LogWriter())
    return command_on(lambda: AnsweringBus(log_writer), monkeypatch, str(tmp_path / "cache"))


def test_lists_print_one_name_a_line(bailiff: Run) -> None:
    jobs = bailiff("list", "--columns", "job").stdout.split()[1:]
    assert bailiff("list", "-o", "name").stdout.splitlines() == jobs
    assert bailiff("pools", "-o", "name").stdout == "pool-a\n"
    assert bailiff("nodes", "-o", "name").stdout == "gpu-01\ngpu-02\n"
    assert "train" in bailiff("class", "list", "-o", "name").stdout.splitlines()


def test_requests_print_the_names_of_those_that_were_accepted(bailiff: Run) -> None:
    assert bailiff("submit", "--array", "2", "--name", "s", "-o", "name", "--", "x").stdout == "s-0\ns-1\n"
    found = bailiff("cancel", "s-0", "nothing", "-o", "name")
    assert (found.exit_code, found.stdout) == (ExitCode.REJECTED, "s-0\n")
    assert "nothing: rejected" in found.stderr


def test_what_has_no_names_refuses_them_and_does_nothing(bailiff: Run) -> None:
    found = bailiff("policy", "show", "-o", "name")
    assert found.exit_code == ExitCode.USAGE
    assert "'name' is not one of 'table', 'wide', 'json', 'yaml'" in " ".join(found.stderr.replace("│", "").split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "typed"),
    [
        ("bash", lambda words: {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}),
        ("zsh", lambda words: {"_TYPER_COMPLETE_ARGS": " ".join(words)}),
        ("fish", lambda words: {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shells_complete_commands_and_options(shell: str, typed: Callable[[list[str]], dict[str, str]]) -> None:
    command = "import sys; sys.argv = ['bailiff']; from bailiff.cli import main; main()"
    for words, offered in ((["su"], "submit"), (["audit", "ver"], "verify"), (["submit", "--arr"], "--array")):
        env = {"_BAILIFF_COMPLETE": f"complete_{shell}", "PATH": "", **typed(["bailiff", *words])}
        found = subprocess.run([sys.executable, "-c", command], env=env, capture_output=True, text=True)
        assert offered in found.stdout, found.stderr


@pytest.mark.slow
def test_the_command_runs_where_no_service_is_installed(tmp_path: Path) -> None:
    """As `pipx install` does it, but for the distributions of others, which are found where they are."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "fresh"], check=True)
    (into,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", into, ROOT / "libs/core", ROOT / "libs"], check=True, cwd=tmp_path)
    (others,) = {Path(each) for each in sys.path if each.endswith("site-packages")}
    (into / "others.pth").write_text(f"{others}\n")  # its own .pth files, which name our sources, are not read

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        python = tmp_path / "fresh/bin/python"
        return subprocess.run([python, "-c", *command], cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True)

    assert "No module named 'bailiff_admission'" in run("import bailiff_admission").stderr
    assert str(into) in run("import bailiff, bailiff_core; print(bailiff.__file__, bailiff_core.__file__)").stdout
    call = "import sys; sys.argv[0] = 'bailiff'; from bailiff.cli import main; main()"
    for command in (["--help"], ["list", "--help"], ["audit", "verify", "--help"], ["version"]):
        found = run(call, *command)
        assert found.returncode == 0, found.stderr
    assert run(call, "list", "--kafka", "127.0.0.1:1").returncode == ExitCode.UNREACHABLE
