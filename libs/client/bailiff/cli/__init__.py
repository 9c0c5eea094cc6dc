"""The `bailiff` command. `main` is its entry point; one module per group of commands, each loaded only when it runs.

`session` has what all commands share: options, connection, output, errors. Commands read through the `Client`, convert state
to data with `render.serializers`, and print it as a table, JSON or YAML.
"""

import gc
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .root import app

__all__ = ["app", "main"]

YOUNG_OBJECTS = 500_000  # modules and the state of a pool: many objects, all alive until the command ends


def main() -> None:
    """The entry point of the `bailiff` command."""
    from .closed_pipe import until_its_reader_quits

    if sys.argv[1:] in (["version"], ["--version"]):  # called often by scripts: skips the option parser
        from .version_line import version_text

        until_its_reader_quits(lambda: print(version_text()))
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # plugin discovery reads the metadata of every installed package
    from .root import main as run

    try:
        until_its_reader_quits(run)
    finally:
        gc.freeze()  # the interpreter would look for cycles among all objects again at its end, a fifth of a short command's time


def __getattr__(name: str) -> Any:
    """`app`, loaded on first use."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .root import app as root

    return root
