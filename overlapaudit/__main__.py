"""`python -m overlapaudit`."""

from overlapaudit.cli.main import main

main()
