"""IR to machine code."""
