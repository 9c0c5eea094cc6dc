"""What every command shares: the options, the connection, the two consoles, tables or data, errors as one clear line.

`command` registers an async function. The shared options are added to those of the function, so each command takes them
after its own name; the function gets them as a `Session`. Whatever it raises becomes a sentence and an exit code.
"""

import asyncio
import functools
import inspect
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live

from bailiff.client import Client, bus_of
from bailiff.eventline.line import Line, plain, styled
from bailiff.problem import ExitCode, Problem
from bailiff.settings import ClientSettings
from bailiff_bus.logs import configure_logs
from bailiff_bus.port import Bus, BusUnavailable, OffsetGone
from bailiff_bus.settings import FILE_VARIABLE, SettingsError, load_settings
from bailiff_bus.view import StateDiverged
from bailiff_core.records.wire import UnreadableRecord

PLAIN_WIDTH = 160  # of a table that goes into a file or a pipe
LOOK_EVERY = 1.0


class Output(StrEnum):
    """How results are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


CONNECTION = "Connection and output"


def shared_option(kind: Any, *names: str, default: Any = None, metavar: str | None = None, help: str) -> tuple[Any, Any]:  # noqa: A002 - typer's name
    """The annotation and the default of an option that commands share."""
    return Annotated[kind, typer.Option(*names, metavar=metavar, help=help, rich_help_panel=CONNECTION)], default


SHARED: Mapping[str, tuple[Any, Any]] = {
    "domain": shared_option(str | None, "--domain", "-d", metavar="POOL", help="The pool. Default: the only one."),
    "output": shared_option(Output, "--output", "-o", default=Output.TABLE, help="Tables for people, json or yaml for programs."),
    "kafka": shared_option(str | None, "--kafka", metavar="HOST:PORT", help="Where Kafka is. Also: BAILIFF_KAFKA__BOOTSTRAP."),
    "settings": shared_option(
        Path | None, "--settings", metavar="FILE", help="A settings file, TOML or YAML. Also: BAILIFF_SETTINGS."
    ),
    "actor": shared_option(str | None, "--actor", metavar="ID", help="Who asks, as an opaque id. Also: BAILIFF_ACTOR."),
    "key": shared_option(Path | None, "--key", metavar="FILE", help="The private key that signs requests. Also: BAILIFF_KEY."),
}


def make_bus(settings: ClientSettings) -> Bus:
    """The bus of a command. Tests put another in its place."""
    return bus_of(settings)


@dataclass
class Session:
    """One run of one command."""

    settings: ClientSettings
    output: Output = Output.TABLE
    out: Console = field(default_factory=lambda: _console(sys.stdout))
    err: Console = field(default_factory=lambda: _console(sys.stderr))
    _day: str = ""

    @property
    def domain(self) -> str | None:
        """The pool that was named."""
        return self.settings.domain

    @property
    def for_people(self) -> bool:
        """Whether tables and sentences are wanted."""
        return self.output in (Output.TABLE, Output.WIDE)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connected client."""
        async with Client.connect(self.settings, make_bus(self.settings)) as client:
            yield client

    def show(self, data: Any, table: Callable[[], RenderableType]) -> None:
        """Print a result: the table for people, else the data."""
        if self.for_people:
            self.out.print(table(), crop=False)
        else:
            self.out.out(as_text(data, self.output), highlight=False, end="")

    def say(self, text: str, style: str = "") -> None:
        """A sentence for people; programs are spared it."""
        if self.for_people:
            self.out.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)

    def show_lines(self, told: Sequence[Line]) -> None:
        """Event lines, with the date before the first one of a day."""
        for line in told:
            if line.day != self._day:
                self.out.print(f"── {line.day} (UTC)", style="dim")
                self._day = line.day
            self.out.print(styled(line), soft_wrap=True)

    def one_of_many(self, data: Any) -> None:
        """One result of a stream: a line of JSON, or a YAML document."""
        if self.output is Output.YAML:
            self.out.out("---\n" + as_text(data, self.output), highlight=False, end="")
        else:
            self.out.out(json.dumps(data, ensure_ascii=False, separators=(",", ":")), highlight=False)

    async def watch(
        self, look: Callable[[], Awaitable[Any]], table: Callable[[Any], RenderableType], every: float = LOOK_EVERY
    ) -> None:
        """Show what `look` gives, again and again as it changes, until interrupted. For programs, ages are no change."""
        shown: Any = None
        with self._screen() as draw:
            while True:
                data = await look()
                now = data if self.for_people else _without_ages(data)
                if now != shown and self.for_people:
                    draw(table(data))
                elif now != shown:
                    self.one_of_many(data)
                shown = now
                await asyncio.sleep(every)

    @contextmanager
    def _screen(self) -> Iterator[Callable[[RenderableType], None]]:
        if not (self.for_people and self.out.is_terminal):
            yield lambda shown: self.out.print(Group(shown, ""))
            return
        with Live(console=self.out, auto_refresh=False, screen=True) as live:
            yield lambda shown: live.update(shown, refresh=True)


def as_text(data: Any, output: Output) -> str:
    """The data as indented JSON or as YAML."""
    if output is Output.YAML:
        return yaml.safe_dump(_plain_data(data), sort_keys=False, allow_unicode=True)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


AGES = ("waiting_s", "running_s", "head_age_s")


def _without_ages(rows: Any) -> Any:
    return [{name: value for name, value in row.items() if name not in AGES} for row in rows]


def _plain_data(data: Any) -> Any:
    """Without shared objects, which YAML would print as anchors."""
    return json.loads(json.dumps(data))


def _console(stream: Any) -> Console:
    console = Console(file=stream, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console


# --- commands


Function = Callable[..., Coroutine[Any, Any, ExitCode | None]]


def command(
    app: typer.Typer, name: str | None = None, *, leave_out: Sequence[str] = (), **options: Any
) -> Callable[[Function], Function]:
    """Register an async function with the shared options, but for those to `leave_out`."""
    shared = {option: SHARED[option] for option in SHARED if option not in leave_out}

    def register(function: Function) -> Function:
        own = inspect.signature(function, eval_str=True)

        @functools.wraps(function)
        def run(**given: Any) -> None:
            asked = {option: given.pop(option) for option in shared}
            raise typer.Exit(guarded(lambda: _run(function, asked, given)))

        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(option, keyword, annotation=annotation, default=default)
            for option, (annotation, default) in shared.items()
        ]
        mine = [parameter.replace(kind=keyword) for parameter in list(own.parameters.values())[1:]]
        run.__signature__ = own.replace(parameters=[*mine, *added], return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*mine, *added]}
        app.command(name, help=_paragraphs(function.__doc__ or ""), **options)(run)
        return function

    return register


def _paragraphs(text: str) -> str:
    """The text with one line per paragraph: where lines end is for the terminal to say."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _run(function: Function, asked: Mapping[str, Any], given: Mapping[str, Any]) -> ExitCode:
    session = Session(settings_of(asked), asked.get("output") or Output.TABLE)
    configure_logs("console", "warning" if os.environ.get("BAILIFF_DEBUG") else "error", service="bailiff", instance="cli")
    return asyncio.run(function(session, **given)) or ExitCode.DONE


def settings_of(asked: Mapping[str, Any]) -> ClientSettings:
    """The settings, with what the command line says on top."""
    if asked.get("settings") is not None:
        os.environ[FILE_VARIABLE] = str(asked["settings"])
    values = {name: asked[name] for name in ("domain", "actor", "key") if asked.get(name) is not None}
    settings = load_settings(ClientSettings, **values)
    if asked.get("kafka") is not None:
        settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"bootstrap": asked["kafka"]})})
    return settings


def guarded(call: Callable[[], ExitCode]) -> ExitCode:
    """The call's exit code, or that of what it raised, which is told in a sentence."""
    try:
        return call()
    except (Problem, SettingsError, BusUnavailable, OffsetGone, UnreadableRecord, StateDiverged) as error:
        problem = as_problem(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's last flush does not fail
        return ExitCode.DONE
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # the last place where a person can be spared a traceback
        if os.environ.get("BAILIFF_DEBUG"):
            raise
        advice = "please report it; BAILIFF_DEBUG=1 shows where it happened"
        problem = Problem(ExitCode.INTERNAL, f"an error in this program: {type(error).__name__}: {error}", advice)
    tell(problem)
    return problem.code


def as_problem(error: Exception) -> Problem:
    """What went wrong, for people."""
    match error:
        case Problem():
            return error
        case SettingsError():
            return Problem(ExitCode.USAGE, "\n".join(f"settings: {sentence}" for sentence in error.sentences))
        case BusUnavailable():
            advice = "is it running? say where: --kafka HOST:PORT or BAILIFF_KAFKA__BOOTSTRAP; `bailiff doctor` looks closer"
            text = re.sub(r"KafkaConnectionError: Unable to bootstrap from \[.*\]", "no connection", str(error))
            return Problem(ExitCode.UNREACHABLE, text, advice)
        case OffsetGone():
            return Problem(ExitCode.UNREADABLE, f"the log is cut: {error}", "see: bailiff audit verify")
        case UnreadableRecord():
            return Problem(ExitCode.UNREADABLE, f"the log cannot be read on: {error}", "see: bailiff audit verify")
        case _:
            return Problem(ExitCode.UNREADABLE, str(error), "see: bailiff audit replay")


def tell(problem: Problem) -> None:
    """Print what went wrong and what to do, on stderr."""
    err = _console(sys.stderr)
    for line in problem.text.splitlines():
        err.print(f"[red]bailiff:[/red] {_escaped(plain(line))}", soft_wrap=True)
    if problem.advice:
        err.print(f"         {_escaped(problem.advice)}", style="dim", soft_wrap=True)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
