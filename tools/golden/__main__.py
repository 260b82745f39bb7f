"""`python -m tools.golden`."""

import sys

from tools.golden.commands import main

sys.exit(main())
