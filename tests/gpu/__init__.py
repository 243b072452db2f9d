"""Drivers, device arrays, and functions compiled for a GPU; all of it runs without one."""
