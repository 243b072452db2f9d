"""Rules that emit IR for NumPy, ``math`` and builtins, one file for each topic; ``table.py`` maps functions to them."""
