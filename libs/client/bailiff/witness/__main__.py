"""`python -m bailiff.witness`: settings from `BAILIFF_*` and from the file that `BAILIFF_SETTINGS` names."""

import sys

from bailiff_service.main import main

from .service import build
from .settings import WitnessSettings

if __name__ == "__main__":
    sys.exit(main(WitnessSettings, build))
