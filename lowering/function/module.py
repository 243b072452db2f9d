"""Lowers a module: the functions that the roots reach, into one LLVM module."""

from __future__ import annotations

from ..builder.module_builder import ModuleBuilder
from ..memory import arena_runtime
from .function import FunctionLowering


class ModuleLowering(ModuleBuilder):
    """A module whose functions are all written by ``lower``."""

    def lower(self) -> None:
        """Write every function.  On a GPU modules cannot share routines, so they are defined here too."""
        for func in self.functions.values():
            FunctionLowering(self, func).lower()
        if self.target.is_gpu:
            arena_runtime.define(self.writer)
