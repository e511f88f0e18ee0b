"""``python -m driftcal`` is the command ``driftcal``."""

from driftcal.cli import main

if __name__ == "__main__":
    main()
