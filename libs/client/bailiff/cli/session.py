"""Shared by all commands: options, connection, output as tables or data, errors as one line with an exit code.

`command` registers a function. The shared options are added to its own options; the function gets them as a `Session`.
An exception becomes an error line and an exit code.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

from bailiff.client.errors import ClientError, ExitCode, as_client_error
from bailiff.render.plain_text import plain, plain_cells

from .closed_pipe import discard_output
from .command_table import COMMANDS, familiar_hint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType

    from bailiff.client.client import Client
    from bailiff.client.settings import ClientSettings
    from bailiff.render.record_text.line import Line
    from bailiff_bus.port import Bus

PLAIN_WIDTH = 160  # width of a table written to a file or a pipe
LOOK_EVERY = 1.0
AS_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE")  # variables that `rich` reads


class Output(StrEnum):
    """How results are printed. Only what has a name is printed by name."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


OutputOfNameless = StrEnum("OutputOfNameless", {each.name: each.value for each in Output if each is not Output.NAME})  # type: ignore[misc]

CONNECTION = "Connection and output"


def shared_option(kind: Any, *names: str, default: Any = None, metavar: str | None = None, help: str) -> tuple[Any, Any]:  # noqa: A002 - typer's name
    """Annotation and default of a shared option."""
    return Annotated[kind, typer.Option(*names, metavar=metavar, help=help, rich_help_panel=CONNECTION)], default


SHARED: Mapping[str, tuple[Any, Any]] = {
    "pool": shared_option(str | None, "--pool", metavar="POOL", help="The pool. Default: the only pool."),
    "output": shared_option(
        OutputOfNameless,
        "--output",
        "-o",
        default=OutputOfNameless("table"),
        help="Output format: tables, or json and yaml for programs; name, where there are names: one a line.",
    ),
    "kafka": shared_option(
        str | None, "--kafka", metavar="HOST:PORT", help="Address of a Kafka broker. Also: BAILIFF_KAFKA__BOOTSTRAP."
    ),
    "settings": shared_option(
        Path | None, "--settings", metavar="FILE", help="Settings file, TOML or YAML. Also: BAILIFF_SETTINGS."
    ),
    "actor": shared_option(
        str | None,
        "--actor",
        metavar="ID",
        help="Your name in the audit log. Default: that of the key, or your login name. Also: BAILIFF_ACTOR.",
    ),
    "key": shared_option(Path | None, "--key", metavar="FILE", help="Private key that signs requests. Also: BAILIFF_KEY."),
}


def make_bus(settings: ClientSettings) -> Bus:
    """The bus of a command; replaced in tests."""
    from bailiff.client.client import bus_of

    return bus_of(settings)


@dataclass
class Session:
    """One run of one command.

    Attributes:
        names: The field of a result that names it.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    output: Output = Output.TABLE
    names: str = ""
    _day: str = ""

    @cached_property
    def settings(self) -> ClientSettings:
        """The client's settings, overridden by the command line."""
        return settings_of(self.options)

    @cached_property
    def out(self) -> Console:
        """Standard output."""
        return _console(sys.stdout)

    @cached_property
    def err(self) -> Console:
        """Standard error."""
        return _console(sys.stderr)

    @property
    def on_terminal(self) -> bool:
        """Whether standard output is a terminal, or is to be written as if it were one. A pipe does not need `rich` for it."""
        return (sys.stdout.isatty() or any(map(os.environ.get, AS_TERMINAL))) and self.out.is_terminal

    @property
    def pool(self) -> str | None:
        """The pool named by option or setting."""
        return self.settings.pool

    @property
    def for_people(self) -> bool:
        """Whether output is tables and text, not JSON or YAML."""
        return self.output in (Output.TABLE, Output.WIDE)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connected client."""
        from bailiff.client.client import Client

        async with Client.connect(self.settings, make_bus(self.settings)) as client:
            yield client

    def show(self, data: Any, table: Callable[[], RenderableType]) -> None:
        """Prints a result as a table, or as data for JSON and YAML, or its names."""
        if self.output is Output.NAME:
            self.write("".join(f"{name}\n" for name in self.names_of(data)))
            return
        if not self.for_people:
            self.write(as_text(data, self.output))
            return
        shown = table()
        if isinstance(shown, str):
            self.write("".join(f"{plain_cells(line)}\n" for line in shown.removesuffix("\n").split("\n")))
        elif self.out.is_terminal:
            self.out.print(shown, crop=False)
        else:  # in a pipe or a file lines end where their text ends
            with self.out.capture() as captured:
                self.out.print(shown, crop=False)
            self.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def names_of(self, data: Any) -> list[str]:
        """The names of a result or of a list of results; of requests, of those that were accepted."""
        rows = data if isinstance(data, list) else [data]
        return [plain(row[self.names]) for row in rows if row.get(self.names) and row.get("accepted", True)]

    def write(self, text: str) -> None:
        """Writes text unchanged to standard output."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, text: str, style: str = "") -> None:
        """Prints a message; with JSON or YAML output nothing is printed."""
        if self.for_people and style:
            self.out.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)
        elif self.for_people:
            self.write(f"{plain(text)}\n")

    def note(self, text: str, style: str = "") -> None:
        """Prints a line to standard error, in each output format."""
        self.err.print(text, style=style, markup=False, soft_wrap=True)

    def show_lines(self, text_lines: Sequence[Line]) -> None:
        """Prints event lines, with the date before the first of a day."""
        from bailiff.render.record_text.line import styled

        for line in text_lines:
            if line.day != self._day:
                self.out.print(f"── {line.day} (UTC)", style="dim")
                self._day = line.day
            self.out.print(styled(line), soft_wrap=True)

    def one_of_many(self, data: Any) -> None:
        """Prints one result of a stream: a line of JSON, or a YAML document."""
        if self.output is Output.NAME:
            self.show(data, str)
        elif self.output is Output.YAML:
            self.write("---\n" + as_text(data, self.output))
        else:
            self.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")

    async def watch(
        self, look: Callable[[], Awaitable[Any]], table: Callable[[Any], RenderableType], every: float = LOOK_EVERY
    ) -> None:
        """Shows the result of `look` on each change until interrupted. In JSON and YAML, ages do not count as changes."""
        import asyncio

        shown: Any = None
        with self.screen() as draw:
            while True:
                data = await look()
                now = data if self.for_people else self.names_of(data) if self.output is Output.NAME else _without_ages(data)
                if now != shown and self.for_people:
                    draw(table(data))
                elif now != shown:
                    self.one_of_many(data)
                shown = now
                await asyncio.sleep(every)

    @contextmanager
    def screen(self) -> Iterator[Callable[[RenderableType], None]]:
        """What draws on the whole terminal, or below each other where there is none."""
        from rich.console import Group
        from rich.live import Live

        if not (self.for_people and self.out.is_terminal):
            yield lambda shown: self.write(f"{shown}\n") if isinstance(shown, str) else self.out.print(Group(shown, ""))
            return
        with Live(console=self.out, auto_refresh=False, screen=True) as live:
            yield lambda shown: live.update(shown, refresh=True)


def as_text(data: Any, output: Output) -> str:
    """The data as indented JSON or as YAML."""
    if output is Output.YAML:
        import yaml

        without_shared = json.loads(json.dumps(data))  # YAML would print objects that occur twice as anchors

        return yaml.safe_dump(without_shared, sort_keys=False, allow_unicode=True)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


AGES = ("pending_s", "running_s", "head_age_s")


def _without_ages(rows: Any) -> Any:
    return [{name: value for name, value in row.items() if name not in AGES} for row in rows]


def _console(stream: Any) -> Console:
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console


# --- commands


if TYPE_CHECKING:
    Function = Callable[..., Any]  # a coroutine function or a plain one that gives `ExitCode | None`


OFFLINE = ("pool", "kafka", "actor", "key", "settings")
"""What commands leave out that read files only."""
LOCAL = ("pool", "kafka", "actor", "key")
APPS: dict[str, typer.Typer] = {}
"""Each command of the root by its name, so that one of them can be built without the others: a command, or a group of them."""


class HintingGroup(TyperGroup):
    """A group that names the command where one is called otherwise elsewhere, or is in another group."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run."""
        if args and self.get_command(ctx, args[0]) is None:
            hint = familiar_hint(ctx.command_path, args[0], self.commands)
            if hint:
                ctx.fail(f"No such command '{args[0]}'. Use: {hint}")
        return super().resolve_command(ctx, args)


def _app(name: str, *, group: bool) -> typer.Typer:
    """The command of the root with this name."""
    if name not in APPS:
        entry = COMMANDS[name]
        APPS[name] = typer.Typer(
            name=name, cls=HintingGroup, help=entry.summary, rich_markup_mode="rich", no_args_is_help=group, add_completion=False
        )
        if group:  # without a callback, Typer turns a group of one command into that command
            APPS[name].callback(rich_help_panel=entry.panel)(lambda: None)
    return APPS[name]


def command(path: str, *, leave_out: Sequence[str] = (), names: str = "", **options: Any) -> Callable[[Function], Function]:
    """Register a function as the command `path`, such as `key new`, with the shared options, except those in `leave_out`.

    A parameter whose type is a dataclass stands for an option for each of its fields.

    Args:
        names: The field of its results that `--output name` prints; empty: it has no names.
    """
    shared = {option: SHARED[option] for option in SHARED if option not in leave_out}
    if names:
        shared["output"] = Annotated[Output, *get_args(SHARED["output"][0])[1:]], Output.TABLE
    group, _, name = path.rpartition(" ")
    app = _app(group or name, group=bool(group))
    options |= {} if group else {"rich_help_panel": COMMANDS[name].panel}

    def register(function: Function) -> Function:
        own = inspect.signature(function, eval_str=True)
        parameters = list(own.parameters.values())[1:]
        groups = {each.name: kind for each in parameters if (kind := group_of(each)) is not None}

        @functools.wraps(function)
        def run(**given: Any) -> None:
            shared_options = {option: given.pop(option) for option in shared}
            for name, kind in groups.items():
                given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            raise typer.Exit(guarded(lambda: _run(function, shared_options, given, names)))

        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(option, keyword, annotation=annotation, default=default)
            for option, (annotation, default) in shared.items()
        ]
        mine = [option.replace(kind=keyword) for each in parameters for option in options_of(each)]
        run.__signature__ = own.replace(parameters=[*mine, *added], return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*mine, *added]}
        app.command(name, help=_paragraphs(function.__doc__ or ""), **options)(run)
        return function

    return register


def options_of(parameter: inspect.Parameter) -> Iterable[inspect.Parameter]:
    """The parameter itself, or those that make its dataclass."""
    kind = group_of(parameter)
    return [parameter] if kind is None else inspect.signature(kind, eval_str=True).parameters.values()


def group_of(parameter: inspect.Parameter) -> type[Any] | None:
    """The dataclass whose fields the parameter stands for."""
    kind = parameter.annotation
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _paragraphs(text: str) -> str:
    """The text with one line per paragraph; the terminal wraps them."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _run(function: Function, shared_options: Mapping[str, Any], given: Mapping[str, Any], names: str) -> ExitCode:
    from bailiff_service.logs import configure_logs_on_use

    session = Session(shared_options, Output(shared_options.get("output") or Output.TABLE), names)
    configure_logs_on_use("console", "warning" if os.environ.get("BAILIFF_DEBUG") else "error", service="bailiff", instance="cli")
    result = function(session, **given)
    if not inspect.iscoroutine(result):
        return result or ExitCode.DONE
    import asyncio  # imported here: plain functions start without it

    return asyncio.run(result) or ExitCode.DONE


def settings_of(shared_options: Mapping[str, Any]) -> ClientSettings:
    """The settings, overridden by the command line."""
    from bailiff.client.settings import ClientSettings
    from bailiff_service.settings import FILE_VARIABLE, load_settings

    if shared_options.get("settings") is not None:
        os.environ[FILE_VARIABLE] = str(shared_options["settings"])
    values = {name: shared_options[name] for name in ("pool", "actor", "key") if shared_options.get(name) is not None}
    settings = load_settings(ClientSettings, **values)
    if shared_options.get("kafka") is not None:
        settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"bootstrap": shared_options["kafka"]})})
    return settings


def guarded(call: Callable[[], ExitCode]) -> ExitCode:
    """The call's exit code; an exception is printed as an error line and gives its exit code."""
    try:
        return call()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return ExitCode.DONE
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # the last handler before a traceback
        problem = as_client_error(error)
        if problem is None and os.environ.get("BAILIFF_DEBUG"):
            raise
        if problem is None:
            advice = "please report it; BAILIFF_DEBUG=1 prints the traceback"
            problem = ClientError(ExitCode.INTERNAL, f"internal error: {type(error).__name__}: {error}", advice)
    print_error(problem)
    return problem.exit_code


def print_error(problem: ClientError) -> None:
    """Prints the error and its advice to stderr."""
    err = _console(sys.stderr)
    for line in problem.text.splitlines():
        err.print(f"[red]bailiff:[/red] {_escaped(plain(line))}", soft_wrap=True)
    if problem.advice:
        err.print(f"         {_escaped(problem.advice)}", style="dim", soft_wrap=True)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
