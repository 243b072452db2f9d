"""Calls: arguments, entry points, captured state, threads, limits, exceptions."""
