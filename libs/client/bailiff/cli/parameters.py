"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Several = list[str] | None

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
NodeName = Annotated[str, typer.Argument(help="The node's name.")]
TaskIndex = Annotated[int, typer.Option("--task", min=0, help="Index of the task.")]
Reason = Annotated[str, typer.Option(help="Recorded in the audit log.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Refresh whenever it changes.")]
PoolsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="File that declares the pools. Also: BAILIFF_POOLS.")]
OfUsers = Annotated[Several, typer.Option("--user", "-u", metavar="USER,...", help="Only jobs of these users.")]
OfClasses = Annotated[Several, typer.Option("--class", "-c", metavar="CLASS,...", help="Only these priority classes.")]


def each_of(texts: Several) -> list[str]:
    """The values of an option that is repeatable and takes several, separated by commas."""
    return [part.strip() for text in texts or [] for part in text.split(",") if part.strip()]
