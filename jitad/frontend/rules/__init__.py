"""NumPy, ``math`` and builtins as rules that emit IR; one file a theme, ``numpy_api.py`` has the table."""
