"""Intended deviations of compiled code from NumPy: refusals and differences."""

from __future__ import annotations

_BY_KEYWORD = tuple(f"the argument `{x}` of" for x in (
    "casting", "order", "dtype", "where", "device", "keepdims", "axes", "axis", "subok", "like", "initial"))
_METHOD_OF_NUMBER = ("the array method or attribute",)

# By function ("*": every function, "ufunc": ufuncs and their methods, "a.…": a method), parts of the messages of the
# refusals of calls that NumPy allows.
REFUSALS: dict[str, tuple[str, ...]] = {
    "*": ("int8", "float16", "the order 'F'", "of bools", "a mean or a variance of dtype", "of dtype bool"),
    "ufunc": _BY_KEYWORD,
    **{f"a.{name}": _METHOD_OF_NUMBER for name in ("argsort", "argpartition", "sort", "partition", "searchsorted")},
    **dict.fromkeys(("quantile", "percentile", "nanquantile", "nanpercentile"),
                    ("a quantile by a method that does not interpolate",)),
    **dict.fromkeys(("a.reshape", "reshape"), ("reshape with copy=",)),
    "a.tolist": ("sizes are only known at run time",), "unstack": ("a length that is only known at run time",),
    "argwhere": ("np.argwhere of a number",), "array": ("np.array with copy=",),
    "cross": ("anything but vectors of 3", "another axis than the last"), "fill_diagonal": ("anything but a matrix",),
    **dict.fromkeys(("gcd.reduce", "lcm.reduce", "trim_zeros"), ("anything but a vector",)),
    **dict.fromkeys(("linalg.svd", "linalg.pinv", "linalg.matrix_rank"), ("with hermitian=True",)),
    "polyfit": ("with full= or cov=",), **dict.fromkeys(("ndindex", "ndenumerate"), ("a map as a result",)),
    **dict.fromkeys(("linalg.norm", "linalg.matrix_norm"), ("a matrix with ord=",)),
    "nan_to_num": ("copy=False",), "pad": ("np.pad with mode=",),
    "fromiter": ("the argument `iter`",), "add.at": ("which NumPy adds in float64",),
    "clip": _BY_KEYWORD, "einsum": ("the argument `casting`",),
    **dict.fromkeys(("concatenate", "stack", "vstack", "hstack"), ("the argument `casting`",)),
    **dict.fromkeys(("a.any", "a.all"), ("the argument `dtype`",)),
}

# By function: a part of the call or of the difference, and the reason.
_TIES = ("a: bool(", "a partition puts the element asked for in its place; the order of the others is not promised")
_NOT_EMPTY = ("cannot reshape array of size 0 into shape (0,newaxis)", "no axes of nothing: NumPy fails in a reshape")
_VECTORS = ("a shape with more axes", "polynomials have one axis")
DEVIATIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "*": (("object cannot be interpreted as an integer", "of two things that are wrong, either is told"),
          ("according to the rule 'same_kind'\") for ValueError", "the same"),
          ("'tuple index out of range') for ValueError", "the same")),
    **dict.fromkeys(("argpartition", "partition", "a.argpartition", "a.partition"), (_TIES,)),
    **dict.fromkeys(("median", "nanmedian", "quantile", "percentile", "nanquantile", "nanpercentile"), (_NOT_EMPTY,)),
    **dict.fromkeys(("linalg.svd", "linalg.svdvals"), (("uint64(3, 3)", "a value that is 0 but for rounding"),)),
    "a.dot": (("has no attribute 'dot'", "methods of arrays that NumPy's numbers do not have"),),
    "choose": (("ValueError('np.choose(): ", "`out` of another shape is a ValueError, as in all functions"),),
    **dict.fromkeys(("nanmean", "nanvar", "nanstd"), (("'list' object has no attribute 'dtype'", "a TypeError"),)),
    **dict.fromkeys(("a.item", "a.tolist"), (("int too large", "integers of Python's have 64 bits and a sign here"),)),
    "arange": (("requires stop", "one bound by name, `start=5`, counts as `stop`"),),
    "bincount": (("float64(0,) for int64(0,)", "of nothing, with weights: the dtype does not depend on the length"),),
    "pad": (("got an unexpected keyword argument", "TypeError for ValueError"),),
    "cross": (("incompatible dimensions for cross product", "of vectors of two, which NumPy deprecates"),),
    "gradient": (("for ValueError('Shape", "of two things that are wrong, either is told"),),
    "poly": (("float64(1,) for float64()", "of no roots: the rank does not depend on the length"),
             ("did not return an iterable", "of a number: one root")),
    "polyadd": (_VECTORS,), "polysub": (_VECTORS,),
}
