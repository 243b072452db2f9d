"""Data structures: lists, trees, records, functions as data, pytrees, random numbers."""
