"""`python -m lrvb` is `lrvb`."""

from .commands.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
