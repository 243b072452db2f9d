"""The tables of constructs that random programs are made of; ``grammar.py`` describes their language."""
