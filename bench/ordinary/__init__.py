"""Ordinary programs from many fields, each written as a user would write it the first time.

``program.py`` describes a program: its Python text, other formulations of it, plain C that follows the Python, and
an adjoint by hand where there is one.  The other files hold the programs, a field each; their C is in
``bench/c/ordinary``, in a file of the same name.
"""

# The fields, in the order in which they are run and reported.
FIELDS = ("signals", "particles", "dynamic", "sparse", "linear_algebra", "iterations", "statistics", "likelihoods",
          "finance", "portfolio", "images", "rendering", "differential_equations", "grids", "layers", "sequences")
