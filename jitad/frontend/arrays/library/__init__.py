"""Functions of the standard library and of NumPy that are not ops of the IR, written in Python.

They are traced and differentiated like the user's own functions.  ``WRITTEN`` and ``NUMPY`` map each supported function
to its Python version.  Functions in ``WRITTEN`` are evaluated by Python if all arguments are known while tracing;
functions in ``NUMPY`` are always traced, since they make arrays of the program.  Functions in ``LISTS`` may change the
list that is their first argument.  ``ARRAY_METHODS`` maps names of methods in the same way.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .linear_algebra import (
    convolutions,
    covariance,
    differences,
    eigenvalues,
    orthogonal,
    polynomials,
    singular_values,
    solving,
    stacked_products,
    window_functions,
)
from .manipulation import apply_along_axis, choosing, grids, joining, nan_reductions, rearranging, ufunc_methods
from .ordering import histograms, ordered_lists, quantiles, searching, sets, sorting
from .scalar import comparing, exact_sums, floating, floats, integers

WRITTEN: dict[Any, Callable[..., Any]] = {
    **{getattr(math, name): getattr(integers, name) for name in ("gcd", "lcm", "isqrt", "factorial", "perm", "comb")},
    **{getattr(math, name): getattr(floats, name) for name in ("gamma", "modf", "ldexp", "frexp", "remainder")},
    np.broadcast_shapes: comparing.broadcast_shapes,
    **({math.sumprod: exact_sums.sumprod} if hasattr(math, "sumprod") else {}),
}
LISTS: dict[Any, Callable[..., Any]] = {
    **{getattr(heapq, name): getattr(ordered_lists, name) for name in (
        "heappush", "heappop", "heapify", "heapreplace", "heappushpop")},
    **{getattr(bisect, name): getattr(ordered_lists, name) for name in (
        "bisect_left", "bisect_right", "insort_left", "insort_right")},
}
_BY_MODULE: dict[Any, str] = {
    apply_along_axis: "apply_along_axis apply_over_axes",
    choosing: "select choose piecewise extract place putmask put_along_axis",
    comparing: "array_equal array_equiv",
    convolutions: "convolve correlate",
    histograms: "bincount histogram histogram_bin_edges",
    differences: "gradient ediff1d unwrap cumulative_sum cumulative_prod",
    floating: "signbit isposinf isneginf isreal iscomplex imag angle asarray_chkfinite modf ldexp frexp spacing "
              "nextafter gcd lcm",
    grids: "geomspace indices ndindex ndenumerate fromfunction ix_ tril_indices triu_indices tril_indices_from "
           "triu_indices_from diag_indices diag_indices_from unravel_index ravel_multi_index",
    joining: "atleast_3d block dstack",
    stacked_products: "vecdot matvec vecmat",
    nan_reductions: "nanmax nanmin nanargmax nanargmin nancumsum nancumprod nanvar nanstd",
    covariance: "cov corrcoef",
    polynomials: "polyfit polyval polyadd polysub polymul polydiv poly polyder polyint vander trim_zeros",
    quantiles: "median quantile percentile nanmedian nanquantile nanpercentile",
    rearranging: "rot90 rollaxis array_split dsplit unstack resize diagflat delete insert",
    searching: "searchsorted digitize interp",
    sets: "unique isin intersect1d union1d setdiff1d",
    sorting: "sort argsort partition argpartition lexsort",
    window_functions: "i0 bartlett blackman hamming hanning kaiser",
}
NUMPY: dict[Any, Callable[..., Any]] = {
    getattr(np, name): getattr(module, name)
    for module, names in _BY_MODULE.items() for name in names.split() if hasattr(np, name)   # some are newer than 2.0
}
NUMPY.update({getattr(np.linalg, name): getattr(solving, name) for name in (
    "cholesky", "det", "inv", "matrix_power", "multi_dot", "slogdet", "solve")})
NUMPY.update({getattr(np.linalg, name): getattr(module, name) for module, names in {
    orthogonal: "qr", eigenvalues: "eigh eigvalsh", singular_values: "svd svdvals pinv lstsq matrix_rank cond",
}.items() for name in names.split() if hasattr(np.linalg, name)})
NUMPY.update({getattr(np.linalg, name): getattr(stacked_products, name) for name in (
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_transpose", "outer", "tensordot", "trace", "vecdot",
    "vector_norm") if getattr(np.linalg, name, None) not in (None, *NUMPY)})
NUMPY.update({getattr(np, name).accumulate: ufunc_methods.accumulate_of(getattr(np, name), name) for name in (
    "maximum", "minimum", "fmax", "fmin", "logaddexp", "bitwise_and", "bitwise_or", "bitwise_xor")})
NUMPY.update({getattr(np, name).reduceat: ufunc_methods.reduceat_of(getattr(np, whole), name) for name, whole in (
    ("add", "sum"), ("multiply", "prod"), ("maximum", "max"), ("minimum", "min"))})
NUMPY.update({getattr(np, name).at: ufunc_methods.at_of(getattr(np, name)) for name in (
    "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or",
    "bitwise_xor")})
NUMPY.update({np.gcd.reduce: floating.gcd_reduce, np.lcm.reduce: floating.lcm_reduce})
ARRAY_METHODS: dict[str, Callable[..., Any]] = {
    "sort": sorting.sort_in_place, "argsort": sorting.argsort, "partition": sorting.partition_in_place,
    "argpartition": sorting.argpartition, "searchsorted": searching.searchsorted,
}
