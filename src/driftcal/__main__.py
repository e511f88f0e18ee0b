"""``python -m driftcal`` is the command ``driftcal``."""

from driftcal.cli import main

main()
