"""Functions that are compiled separately from the programs that call them."""
