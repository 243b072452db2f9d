"""The text of a module: the functions that it needs from elsewhere, then its own."""

from __future__ import annotations

from ..ir.graph import ExcInfo, Module
from ..ir.text.printer import quoted
from .function import FunctionText, raising


def print_mlir(module: Module) -> str:
    """The MLIR text of a module of the loop level; raises ``NoText``."""
    externals: dict[str, str] = {}
    raises = raising(module)
    own = [FunctionText(module, f, raises, externals).lines() for f in module.functions.values()]
    declared = [f"  func.func private @{name}{made}" for name, made in sorted(externals.items())]
    statuses = [_status(i + 1, info) for i, info in enumerate(module.exceptions)] if raises else []
    return "\n".join([*statuses, "module {", *declared, *(line for lines in own for line in lines), "}"]) + "\n"


def _status(number: int, info: ExcInfo) -> str:
    kind = info.kind or info.cls.__qualname__
    return f"// status {number}: {kind}{'' if info.message is None else f' {quoted(info.message)}'}"
