"""Python: statements, classes, built-in functions, the standard library, messages."""
