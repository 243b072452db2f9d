"""What several threads need, out of the code that runs on one.

A loop that may be divided is there twice: for one thread in the code around it, and for several in a function of its
own, ``{i32, results…} @several(ctx, parameters…)``.  Otherwise the code that makes a job and combines its results
would take registers, and make functions so large that they are cut into regions (``function/region_outlining.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..builder.function_builder import FunctionBuilder
from ..llvm.code import Code
from ..llvm.emit import global_name


def write(fn: FunctionBuilder, name: str, parameters: Iterable[tuple[str, str]], struct: str,
          body: Callable[[], None], attributes: str = "") -> str:
    """Write the function ``name``: its type is ``struct``, and ``body`` emits it, ``leave`` at the end of its paths.

    ``parameters``: types and names; ``attributes``: of the function.  Returns its symbol.  It releases the memory that
    it takes.
    """
    outer = fn.code, fn.body, fn.failure, fn.status, fn.group, fn.allocating
    fn.code = fn.body = code = Code(fn.code.count)
    fn.failure, fn.group, fn.allocating = code.label("fail"), "", set()
    fn.status = code.phi("i32", fn.failure, "status")
    try:
        body()
        code.start(fn.failure)
        leave(fn, struct, fn.status, ())
    finally:
        fn.code, fn.body, fn.failure, fn.status, fn.group, fn.allocating = outer
        fn.code.count = code.count
    given = "".join(f", {type} {name}" for type, name in parameters)
    head = f"define internal {struct} {global_name(name)}(ptr %ctx{given}) nounwind noinline{attributes}"
    return fn.writer.function(name, f"{head} {{\n{code.text()}\n}}\n")


def leave(fn: FunctionBuilder, struct: str, status: str, results: Sequence[tuple[str, str]]) -> None:
    """Return the status and the results, which are types and names."""
    out = fn.code.insert(struct, "poison", "i32", status, 0, hint="r")
    for i, (type, x) in enumerate(results, 1):
        out = fn.code.insert(struct, out, type, x, i, hint="r")
    fn.code.ret(struct, out)
