"""The command's root: its groups, its help, its exit codes."""

import sys

import typer

from bailiff.problem import ExitCode
from bailiff_bus.garbage import look_seldom

from . import (
    admin,
    audit,
    by_hand,
    change,
    classes,
    doctor,
    drain,
    engine,
    events,
    explain,
    jobs,
    notify,
    plan,
    policy,
    pool,
    project,
    simulate,
    submit,
    what_if,
)
from .session import guarded

EPILOG = (
    "Exit codes: 0 done, 1 a check found something wrong, 2 usage, 3 rejected, 4 Kafka not there; "
    "all of them: bailiff help-exit-codes. Times are UTC."
)

app = typer.Typer(
    name="bailiff",
    help="Share GPUs: submit jobs, see who waits and who had to leave, read and replay the record of every decision.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ROOMS = (
    submit, jobs, change, by_hand, project, pool, drain, classes, plan, simulate, policy, events, explain, what_if, audit, engine,
    doctor, notify, admin,
)  # fmt: skip
for room in ROOMS:
    room.register(app)


@app.command("help-exit-codes", rich_help_panel="Help")
def help_exit_codes() -> None:
    """What each exit code means."""
    for code in ExitCode:
        typer.echo(f"{int(code):>3}  {code.name.lower().replace('_', '-'):<14} {code.__doc__}")


def main() -> None:
    """Run the command and end the process."""
    look_seldom()

    def call() -> ExitCode:
        app()
        return ExitCode.DONE

    sys.exit(guarded(call))
