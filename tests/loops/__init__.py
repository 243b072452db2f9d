"""Passes on loops: vectorisation, parallel loops, windows, checks."""
