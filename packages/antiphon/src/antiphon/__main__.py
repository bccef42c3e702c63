"""`python -m antiphon` is the `antiphon` command."""

from antiphon.cli import main

main()
