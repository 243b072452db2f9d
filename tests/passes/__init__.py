"""The optimiser, pass by pass, but for loops."""
