"""`python -m bertcli` is `bertcli`."""

from bertcli.cli import main

main()
