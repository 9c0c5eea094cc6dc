"""The command that generates the event reference."""

import sys

from bailiff_service import generated_files

from .files import REMOVABLE, generated

if __name__ == "__main__":
    sys.exit(generated_files.main("Writes the event reference.", generated(), REMOVABLE))
