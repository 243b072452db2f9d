"""The typed SSA intermediate representation; see ``types``, ``ops``, ``graph``, ``text``."""
