"""Scientific programs: loops, recurrences, simulations, elementwise functions, bundle adjustment."""
