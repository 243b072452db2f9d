"""Analyses and passes, one file each; a pass is a function ``Module -> None`` that works in place."""
