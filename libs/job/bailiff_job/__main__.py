"""`python -m bailiff_job`: the same as `bailiff-job`."""

import sys

from .command import main

sys.exit(main())
