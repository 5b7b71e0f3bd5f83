"""python -m dpi_export"""

import sys

from .cli import main

sys.exit(main())
