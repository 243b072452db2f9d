"""NumPy, ``math`` and builtins as rules that emit IR; one file a theme, ``table.py`` has the table."""
