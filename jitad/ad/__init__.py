"""Differentiation: ``derivatives`` (the table), ``forward``, ``reverse``, ``frames``."""
