"""Differentiation: modes, orders, rules, checkpoints, ``vmap``."""
