"""The `bailiff` command. `main` is its entry point; one module per group of commands.

`session` holds what every command shares: options, connection, output, errors. Commands ask the `Client`, hand what they
find to `present`, and print it as a table or as data.
"""

from .app import app, main

__all__ = ["app", "main"]
