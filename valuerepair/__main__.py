"""`python -m valuerepair` is `vr`."""

from valuerepair.cli import main

main()
