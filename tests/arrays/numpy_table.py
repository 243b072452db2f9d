"""Arguments for NumPy's functions in ``test_numpy_matrix``: a line for each function.

A line has the name, the group of operands, and the text of the required arguments.  Other parameters are found in the
function's signature, and tried with the values that ``OPTIONS`` has for parameters of this name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Operands = dict[str, Any]


# --- operands -------------------------------------------------------------------------------------

def numbers(shape: tuple[int, ...], dtype: Any = float, start: int = 0) -> Any:
    """Different numbers between 0.1 and 0.9, or small integers, unordered."""
    n = int(np.prod(shape))
    k = (np.arange(n) * 7 + start) % 11
    dtype = np.dtype(dtype)
    values = k / 13 + 0.1 if dtype.kind == "f" else k % 2 == 0 if dtype.kind == "b" else k - 3
    return np.asarray(values).astype(dtype).reshape(shape)[()]


FLOATS, ALL = ("f8", "f4"), ("f8", "f4", "i8", "i4", "u1", "i2", "u8", "?")
PAIRS = (("f8", "f8"), ("f4", "f4"), ("i8", "i8"), ("i4", "i4"), ("u1", "u1"), ("i1", "u1"), ("u8", "i2"), ("?", "?"),
         ("f4", "f8"), ("i4", "f4"), ("?", "i4"))


def one(letter: str, shapes: Any, dtypes: Any = ALL) -> list[Operands]:
    """All shapes in f64, and the first two in each dtype."""
    return [{letter: numbers(s)} for s in shapes] + [
        {letter: numbers(s, d)} for s in shapes[:2] for d in dtypes if d != "f8"]


def two(x: str, y: str, shapes: Any, dtypes: Any = PAIRS) -> list[Operands]:
    (first, second), *others = dtypes
    return [{x: numbers(m, first), y: numbers(n, second, start=5)} for m, n in shapes] + [
        {x: numbers(m, c), y: numbers(n, d, start=5)} for m, n in shapes[:2] for c, d in others]


def square(shape: tuple[int, ...], dtype: Any = float) -> Any:
    return (numbers(shape, dtype) + 2 * np.eye(shape[-1], dtype=dtype)).astype(dtype)


def definite(shape: tuple[int, ...], dtype: Any = float) -> Any:
    a = square(shape)
    return (a @ np.swapaxes(a, -1, -2)).astype(dtype)


SQUARES = ((3, 3), (2, 2), (1, 1), (2, 3, 3), (0, 0), (0, 2, 2))
GROUPS: dict[str, list[Operands]] = {
    "none": [{}],
    "array": one("a", ((2, 3), (), (3,), (1,), (0,), (1, 3), (0, 3), (2, 1, 3))),
    "floats": one("a", ((2, 3), (), (3,), (0,)), FLOATS),
    "arrays": two("a", "b", (((3,), ()), ((2, 3), (3,)), ((), ()), ((3,), (3,)), ((2, 1, 3), (4, 1)), ((0,), (1,)),
                             ((1,), (3,)), ((0, 3), (3,)), ((2,), (3,)))),
    "vector": one("v", ((5,), (1,), (0,), (2, 3), ())),
    "sorted": [{"v": np.sort(x["v"]), "a": x["a"]} for x in two("v", "a", (
        ((5,), (3,)), ((5,), ()), ((1,), (2, 3)), ((0,), (2,)), ((2, 3), (2,))))],
    "vectors": two("v", "w", (((5,), (3,)), ((3,), (3,)), ((3,), (5,)), ((1,), (1,)), ((0,), (2,)), ((2, 2), (2,)))),
    "matrix": one("m", ((2, 3), (3, 3), (1, 1), (0, 3), (3,), (), (2, 2, 3))),
    "product": two("a", "b", (((2, 2), (2, 2)), ((3,), (3,)), ((2, 3), (3, 2)), ((3,), (3, 2)), ((2, 3), (3,)),
                              ((2, 3), (2, 3)), ((), ()), ((3,), ()), ((4, 2, 3), (3, 2)), ((2, 3), (4, 3, 2)),
                              ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((1, 3), (3, 1)))),
    "lanes": one("a", ((2, 3), (), (0,)), ("f8", "f4", "i8", "?")),
    "sets": two("a", "b", (((2, 3), (3,)), ((), ()), ((0,), (1,))),
                (("f8", "f8"), ("f4", "f4"), ("i8", "i4"), ("?", "?"))),
    "square": [{"s": square(s)} for s in SQUARES] + [{"s": square((3, 3), d)} for d in ("f4", "i8")] + [
        {"s": numbers((2, 3))}, {"s": numbers((3,))}],
    "definite": [{"s": definite(s)} for s in SQUARES] + [{"s": definite((3, 3), "f4")}, {"s": -definite((2, 2))}],
    "system": [{"s": square(s), "b": numbers(b)} for s, b in (
        ((3, 3), (3,)), ((3, 3), (3, 2)), ((1, 1), (1,)), ((2, 3, 3), (3, 2)), ((3, 3), (2,)), ((3, 3), ()))] + [
        {"s": square((3, 3), "f4"), "b": numbers((3,), "f4")}],
    "indices": [{"a": x["a"], "k": np.array([0, 2, -1, 2]) % max(x["a"].size, 1) if x["a"].ndim else np.array([0])}
                for x in one("a", ((5,), (2, 3), (1,)))],
    "masked": [{"a": x["a"], "c": x["a"] > 0.4 if x["a"].dtype.kind == "f" else x["a"] != 1}
               for x in one("a", ((5,), (2, 3), (1,), (0,)))],
    "edges": [{"a": numbers(s, d), "v": np.array([0.2, 0.5, 0.7]).astype(e)} for s in ((5,), (), (2, 3), (0,))
              for d, e in (("f8", "f8"), ("f4", "f4"))],
    "points": [{"a": numbers(s), "v": np.array([0.0, 0.5, 2.0]), "w": np.array([1.0, -1.0, 2.0])}
               for s in ((5,), (), (2, 3), (0,))] + [
        {"a": numbers((2,)), "v": np.zeros(0), "w": np.zeros(0)},
        {"a": numbers((2,)), "v": np.ones(2), "w": np.ones(3)}],
    "counts": [{"k": x} for x in (np.array([0, 3, 1, 3]), np.array([1], "i4"), np.zeros(0, int), np.array([1, -1]),
                                  np.array([0.5]), np.ones((2, 2), int), np.int64(3), np.array([True, False]))],
    "integers": two("a", "b", (((3,), ()), ((2, 3), (3,)), ((), ()), ((0,), (1,)), ((2,), (3,))),
                    (("i8", "i8"), ("i4", "i4"), ("i8", "i4"), ("?", "i8"), ("f8", "i8"))),
    "scales": two("a", "b", (((3,), ()), ((2, 3), (3,)), ((), ()), ((2,), (3,))),
                  (("f8", "i8"), ("f4", "i4"), ("i8", "i8"), ("f8", "f8"))),
    "whole": [{"a": numbers(s, d)} for s in ((5,), (1,), (0,), (2, 3)) for d in ("i8", "i4")],
    "numbers": [{"x": x} for x in (0.5, 3, np.float32(0.5), np.int32(2))],
    "spans": [{"x": x, "y": y} for x, y in ((0.5, 2.5), (1, 4), (np.float32(1), np.float32(3)), (2, -1), (1.0, 1.0))],
}

# --- values of parameters by their names ------------------------------------------------------------

TRUE = ("True",)
OPTIONS: dict[str, tuple[str, ...]] = {
    "axis": ("None", "0", "-1", "1", "5", "(0, 1)", "()", "(0, 0)", "1.0"), "keepdims": TRUE,
    "dtype": ("None", "np.float32", "np.int64", "bool", "float"), "ddof": ("1", "5"), "correction": ("1",),
    "initial": ("2",), "where": ("True",), "k": ("1", "-1", "9"), "offset": ("1", "-1", "9"), "decimals": ("1", "-1"),
    "n": ("0", "2", "-1"), "side": ("'right'", "'both'"), "mode": ("'clip'", "'wrap'", "'valid'", "'same'", "'nope'"),
    "equal_nan": TRUE, "rtol": ("0.5",), "atol": ("0.5",), "nan": ("2.0",), "posinf": ("2.0",), "neginf": ("2.0",),
    "kind": ("'stable'", "'nope'"), "stable": TRUE, "method": ("'hazen'", "'median_unbiased'", "'lower'", "'nope'"),
    "num": ("3", "1", "0", "-1"), "endpoint": ("False",), "retstep": TRUE, "base": ("2.0",), "indexing": ("'ij'",),
    "sparse": TRUE, "invert": TRUE, "assume_unique": TRUE, "return_index": TRUE, "return_inverse": TRUE,
    "return_counts": TRUE, "return_indices": TRUE, "to_end": ("2", "[1, 2]"), "to_begin": ("2",),
    "edge_order": ("2", "3"), "minlength": ("7", "-1"), "bins": ("3", "[0.0, 0.5, 1.0]", "0"),
    "range": ("(0.0, 1.0)", "(1.0, 0.0)"), "density": TRUE, "rowvar": ("False",), "bias": TRUE, "increasing": TRUE,
    "trim": ("'f'", "'b'", "'x'"), "left": ("7.0",), "right": TRUE, "period": ("2.0",), "upper": TRUE,
    "ord": ("1", "2", "np.inf", "-np.inf", "'fro'", "0", "3", "'nope'"), "axis1": ("1", "-1", "7"),
    "axis2": ("0", "-1", "7"), "axisa": ("0",), "axisb": ("0",), "axisc": ("0",), "order": ("'C'", "'F'"),
    "copy": ("True", "False", "None"), "subok": TRUE, "device": ("'cpu'", "'gpu'"), "casting": ("'unsafe'", "'nope'"),
    "deg": TRUE, "start": ("1", "-1", "9"), "shape": ("(2, 2)", "3"), "returned": TRUE, "prepend": ("1.0",),
    "append": ("1.0",), "include_initial": TRUE, "overwrite_input": TRUE, "discont": ("0.5",), "ndmin": ("3",),
    "tol": ("10",), "sections": ("2",), "weights": (), "fweights": (), "aweights": (), "y": (), "default": ("1", "0.5"),
    "axes": (), "ndim": ("3",), "optimize": TRUE, "signature": (), "like": (), "stat_length": (), "reflect_type": (),
    "end_values": (), "constant_values": ("1", "2.5"), "mean": (), "x": (), "dx": ("0.5",), "sorted": TRUE,
    "sorter": (), "ndmax": (), "stop": (), "step": (), "wrap": TRUE, "a_min": (), "a_max": (), "min": ("0.3", "2"),
    "max": ("0.4", "2"), "m": ("2",), "M": ("2", "0"), "value": (), "b": (), "align": (),
    "arr": ("a",), "type": (), "int_type": (), "p": ("1", "2", "-2", "np.inf", "'fro'"), "UPLO": ("'U'", "'l'", "'x'"),
    "rcond": ("0.5",), "hermitian": TRUE, "full_matrices": ("False",), "compute_uv": ("False",),
}
OWN: dict[str, dict[str, tuple[str, ...]]] = {      # for functions with another meaning of the name
    "linalg.matrix_norm": {"ord": ("1", "np.inf", "'fro'", "2")}, "interp": {"right": ("7.0",)},
    "polyint": {"k": ("1.0", "[1.0, 2.0]"), "m": ("0", "2", "-1")}, "polyder": {"m": ("0", "2", "-1")},
    "tensordot": {"axes": ("0", "1", "([0], [0])", "((0, 1), (0, 1))")},
    "linalg.tensordot": {"axes": ("0", "1", "([0], [0])")},
    "transpose": {"axes": ("(0, 1)", "(1, 0)", "(0, 0)", "(-1, 0)")},
    "rot90": {"axes": ("(1, 0)", "(0, 0)"), "k": ("2", "-1")},
    "average": {"weights": ("a", "[1.0, 2.0, 3.0]", "[1.0, 2.0]")}, "quantile": {"weights": ("a",)},
    "histogram": {"weights": ("a",)}, "bincount": {"weights": ("[1.0, 2.0, 3.0, 4.0]", "[1.0]")},
    "diff": {"n": ("0", "2", "5", "-1")}, "unstack": {"axis": ("0", "1", "-1", "5")},
    "clip": {"a_min": (), "a_max": (), "min": (), "max": ()}, "trapezoid": {"x": ("[0.1, 0.4, 0.5]",)},
    "vander": {"N": ("2", "0")}, "eye": {"k": ("1", "-1")}, "tril_indices": {"m": ("2",)},
    "triu_indices": {"m": ("2",)},
    "searchsorted": {"sorter": ("np.argsort(v)",)}, "arange": {"dtype": ("np.float32", "int", "np.int32")},
    "repeat": {"axis": ("None", "0", "-1", "5")}, "where": {"x": (), "y": ()},
    "geomspace": {"axis": ("0", "-1", "3")}, "linspace": {"axis": ("0", "-1", "3")},
    "logspace": {"axis": ("0", "-1", "3")},
    "einsum": {"dtype": ("None",), "order": ("'C'",)}, "empty_like": {"shape": ("(0, 2)", "0")},
    "fromiter": {"count": ("2",)},
    "dtype": {"copy": (), "metadata": ()}, "piecewise": {}, "cov": {"ddof": ("0", "0.5"), "fweights": ("[1, 2, 1]",)},
    "unravel_index": {"order": ("'F'",)}, "ravel_multi_index": {"order": ("'F'",), "mode": ("'clip'", "'wrap'")},
    "nan_to_num": {"copy": ("True", "False")}, "roll": {"axis": ("None", "0", "-1", "5", "(0, 1)")},
    "take": {"mode": ("'clip'", "'wrap'", "'nope'"), "axis": ("None", "0", "-1", "5")},
    "put": {"mode": ("'clip'",)}, "choose": {"mode": ("'clip'", "'wrap'")},
    "rollaxis": {"start": ("1", "-1", "9")}, "linalg.norm": {"axis": ("None", "0", "-1", "(0, 1)", "5")},
    "linalg.qr": {"mode": ("'reduced'", "'complete'", "'r'", "'nope'")}, "linalg.matrix_rank": {"tol": ("0.5",)},
    "polyfit": {"w": ("v",), "full": TRUE, "cov": TRUE},
    "linalg.vector_norm": {"ord": ("1", "2", "np.inf", "0")},
    "asarray": {"dtype": ("None", "np.float32", "np.int64", "bool")},
}

# --- the functions ----------------------------------------------------------------------------------

LINES = """
sum array a; prod array a; max array a; min array a; amax array a; amin array a; any array a; all array a
argmax array a; argmin array a; mean array a; var array a; std array a; average array a; ptp array a
count_nonzero array a; nansum array a; nanprod array a; nanmean array a; nanmax array a; nanmin array a
nanargmax array a; nanargmin array a; nanvar array a; nanstd array a; nancumsum array a; nancumprod array a
cumsum array a; cumprod array a; cumulative_sum array a; cumulative_prod array a; diff array a; trapezoid array a
add.reduce array a; multiply.reduce array a; maximum.reduce array a; minimum.reduce array a
logical_and.reduce array a; logical_or.reduce array a; add.accumulate array a; multiply.accumulate array a
gcd.reduce whole a; lcm.reduce whole a
maximum.accumulate array a; minimum.accumulate array a; fmax.accumulate array a; fmin.accumulate array a
logaddexp.accumulate array a; bitwise_and.accumulate whole a; bitwise_or.accumulate whole a
bitwise_xor.accumulate whole a; add.reduceat array a, [0, 1]; multiply.reduceat array a, [0, 1]
maximum.reduceat array a, [1, 0]; minimum.reduceat array a, [0, 0]
median lanes a; nanmedian lanes a; quantile lanes a, 0.3; percentile lanes a, 30; nanquantile lanes a, 0.3
nanpercentile lanes a, 30; cov matrix m; corrcoef matrix m
reshape array a, -1; ravel array a; transpose array a; swapaxes array a, 0, 1
matrix_transpose array a; moveaxis array a, 0, -1; squeeze array a; expand_dims array a, 0; atleast_1d array a
atleast_2d array a; atleast_3d array a; broadcast_to array a, (2, 2, 3); broadcast_arrays arrays a, b; shape array a
size array a; ndim array a; real array a; imag array a; real_if_close array a; flip array a; flipud array a
fliplr array a; roll array a, 1; rot90 array a; rollaxis array a, 1; repeat array a, 2; tile array a, 2
resize array a, (2, 2); pad array a, 1; trim_zeros vector v; unstack array a; split array a, 1; vsplit array a, 1
hsplit array a, 1; dsplit array a, 1; array_split array a, 2; concatenate arrays (a, b)
stack arrays (a, b); vstack arrays (a, b); hstack arrays (a, b); dstack arrays (a, b); column_stack arrays (a, b)
append arrays a, b; block arrays [a, b]; delete array a, 0; insert array a, 0, 1
zeros none 3; ones none (2, 3); empty none (0,); full none (2, 2), 7; zeros_like array a; ones_like array a
full_like array a, 2; empty_like none np.zeros(0); fromiter none [1.0, 2.0], float
array array a; asarray array a; asanyarray array a
ascontiguousarray array a; copy array a; asarray_chkfinite array a; astype array a, np.float32; arange none 5
linspace spans x, y; logspace spans x, y; geomspace spans x, y; eye none 3; identity none 3; tri none 3
tril matrix m; triu matrix m; meshgrid vectors v, w; diag vector v; diagflat array a; diagonal matrix m
trace matrix m; vander vector v; indices none (2, 3); fromfunction none (lambda i, j: i + j), (2, 3)
tril_indices none 3; triu_indices none 3; tril_indices_from matrix m; triu_indices_from matrix m; diag_indices none 3
diag_indices_from square s; ix_ vectors v, w; unravel_index counts k, (2, 3); ravel_multi_index counts (k,), 4
take indices a, k; take_along_axis lanes a, np.argsort(a, axis=-1); compress masked c, a; choose counts k, (0, 1, 2, 3)
extract masked c, a; where masked c, a, 0; nonzero array a; flatnonzero array a; argwhere array a
select masked [c], [a]; piecewise masked a, [c], [1, 0]; clip array a, 0.3, 0.5; isclose arrays a, b
allclose arrays a, b; array_equal arrays a, b; array_equiv arrays a, b; nan_to_num array a; round array a
around array a; sinc array a; i0 array a; signbit array a; isposinf array a; isneginf array a; isreal array a
iscomplex array a; angle array a; fix array a; unwrap array a; gradient array a; ediff1d array a
sort lanes a; argsort lanes a; partition lanes a, 0; argpartition lanes a, 0; lexsort vector (v,)
searchsorted sorted v, a; digitize edges a, v; interp points a, v, w; unique lanes a; isin sets a, b
intersect1d sets a, b; union1d sets a, b; setdiff1d sets a, b; bincount counts k; histogram array a
histogram_bin_edges array a; convolve vectors v, w; correlate vectors v, w; polyval sorted v, a; polyadd vectors v, w
polysub vectors v, w; polymul vectors v, w; polydiv vectors v, w; poly vector v; polyder vector v; polyint vector v
dot product a, b; vdot product a, b; inner product a, b; outer product a, b; kron product a, b
tensordot product a, b; einsum product "ij,jk->ik", a, b; cross vectors v, w; linalg.norm matrix m
ndindex none 2, 3; ndenumerate array a
linalg.qr matrix m; linalg.eigh definite s; linalg.eigvalsh definite s; linalg.svd matrix m; linalg.svdvals matrix m
polyfit vectors v, w, 2; linalg.pinv matrix m; linalg.lstsq system s, b; linalg.matrix_rank matrix m
linalg.cond square s
linalg.cholesky definite s; linalg.det square s; linalg.inv square s; linalg.matrix_power square s, 2
linalg.multi_dot product [a, b]; linalg.slogdet square s; linalg.solve system s, b; linalg.cross vectors v, w
linalg.diagonal matrix m; linalg.matmul product a, b; linalg.matrix_norm matrix m; linalg.matrix_transpose matrix m
linalg.outer product a, b; linalg.tensordot product a, b; linalg.trace matrix m; linalg.vecdot product a, b
linalg.vector_norm array a; bartlett none 5; blackman none 5; hamming none 5; hanning none 5; kaiser none 5, 2.0
float64 numbers x; float32 numbers x; int64 numbers x; int32 numbers x; bool numbers x; int8 numbers x; int16 numbers x
uint8 numbers x; uint16 numbers x; uint32 numbers x; uint64 numbers x
apply_along_axis array (lambda v: v.sum()), 0, a; apply_over_axes array np.sum, a, 0; broadcast_shapes none (3, 1), (2,)
subtract.at indices a, k, 1; multiply.at indices a, k, 2; divide.at indices a, k, 2.0; maximum.at indices a, k, 1
minimum.at indices a, k, 1; fmax.at indices a, k, 1; fmin.at indices a, k, 1; bitwise_and.at indices a, k, 1
bitwise_or.at indices a, k, 1; bitwise_xor.at indices a, k, 1
add.at indices a, k, 1; copyto arrays a, b; put indices a, k, 1; fill_diagonal matrix m, 1; place masked a, c, [1, 2]
putmask masked a, c, [1, 2]; put_along_axis lanes a, np.argsort(a, axis=-1), 1, 0
add.outer arrays a, b; subtract.outer arrays a, b; multiply.outer arrays a, b; divide.outer arrays a, b
maximum.outer arrays a, b; minimum.outer arrays a, b; power.outer arrays a, b; equal.outer arrays a, b
less.outer arrays a, b; greater.outer arrays a, b
gcd integers a, b; lcm integers a, b; ldexp scales a, b; matmul product a, b; vecdot product a, b
matvec product a, b; vecmat product a, b
iscomplexobj array a; isrealobj array a; isscalar array a; iterable array a; result_type arrays a, b
promote_types none np.float32, np.int64; can_cast none np.float32, np.float64; dtype none float; finfo none float
iinfo none int; isdtype none np.dtype(float), "real floating"; issubdtype none np.float64, np.floating
"""
CHANGES = frozenset((
    "add.at", "subtract.at", "multiply.at", "divide.at", "maximum.at", "minimum.at", "fmax.at", "fmin.at",
    "bitwise_and.at", "bitwise_or.at", "bitwise_xor.at", "copyto", "put", "fill_diagonal", "place", "putmask",
    "put_along_axis", "a.fill", "a.put", "a.sort", "a.partition"))
METHODS = """
sum array; prod array; max array; min array; any array; all array; argmax array; argmin array; mean array; var array
std array; cumsum array; cumprod array; ravel array; reshape array -1; transpose array; swapaxes array 0, 1
squeeze array; repeat array 2; take array [0]; nonzero array; trace array; diagonal array; dot array 2
clip array 0.3, 0.5; round array; copy array; flatten array; astype array np.float32; item array; tolist array
compress array [True]; conj array; conjugate array; fill array 1; put array 0, 1; sort lanes; argsort lanes
partition lanes 0; argpartition lanes 0; searchsorted sorted 0.5
"""


def entries() -> dict[str, tuple[str, str]]:
    """Name → group and required arguments; ufuncs need no line."""
    found = {}
    for line in LINES.replace("\n", ";").split(";"):
        if line.strip():
            name, group, text = line.strip().split(" ", 2)
            found[name] = group, text
    return found


def methods() -> dict[str, tuple[str, str]]:
    found = {}
    for line in METHODS.replace("\n", ";").split(";"):
        if line.strip():
            name, group, text = (*line.strip().split(" ", 2), "")[:3]
            found[name] = group, text
    return found
