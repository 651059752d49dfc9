"""`python -m lrvb` is `lrvb`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
