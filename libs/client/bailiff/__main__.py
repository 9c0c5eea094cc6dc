"""`python -m bailiff` is the `bailiff` command."""

from bailiff.cli import main

main()
