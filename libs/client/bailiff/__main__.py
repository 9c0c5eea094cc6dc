"""`python -m bailiff` is the `bailiff` command."""

from .cli import main

main()
