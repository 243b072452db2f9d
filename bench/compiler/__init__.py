"""The compiler itself: calls, compile time, start, cost against size, threads."""
