"""Functions of scalars, element by element.

Files, in reading order::

    floats      ``math`` of floats
    integers    ``math`` and methods of integers
    floating    parts, signs and neighbours of floats
    exact_sums  ``math.fsum``, ``math.sumprod``
    comparing   comparisons of whole arrays
"""
