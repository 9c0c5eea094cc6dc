"""The root command: loads the module of a command only when that command runs."""

import sys
from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from bailiff.client.errors import ExitCode

from .command_table import COMMANDS
from .session import APPS, HintingGroup, guarded

EPILOG = (
    "Exit codes: 0 done, 1 a check failed, 2 usage, 3 rejected, 4 Kafka unreachable; "
    "all of them: bailiff help-exit-codes. Times are UTC."
)


@cache
def _load(name: str) -> Any:
    """The command, built once per process: its parameters keep the parsers that Typer makes for them."""
    import_module(f"bailiff.cli.{COMMANDS[name].module}")
    return get_command(APPS[name])


class LazyCommands(MutableMapping[str, Any]):
    """The commands of the root by name, each loaded on first access."""

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            self.loaded[name] = _load(name)
        return self.loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self.loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyGroup(HintingGroup):
    """The root group. Its help and completion are written from `COMMANDS`, without loading a command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command if it is loaded, else a placeholder with its name and summary."""
        if cmd_name not in COMMANDS or cmd_name in self.commands.loaded:
            return self.commands.loaded.get(cmd_name)
        entry = COMMANDS[cmd_name]
        return TyperCommand(name=cmd_name, help=entry.summary, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Loads the command that is about to run."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="bailiff",
    cls=LazyGroup,
    help="Schedule GPU jobs with preemption: submit jobs, see which are pending or preempted, verify and replay the audit log.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .version_line import version_text

        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", help="Print what `bailiff version` prints.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Callback: without one, Typer turns an application with one command into that command."""


def main() -> None:
    """Runs the command and exits."""

    def call() -> ExitCode:
        app()
        return ExitCode.DONE

    sys.exit(guarded(call))
