"""Runs ``mlir-opt`` and ``mlir-translate`` on MLIR text, many modules in one process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

SEPARATOR = "\n// -----\n"
TO_LLVM = ("-llvm-request-c-wrappers", "-convert-scf-to-cf", "-convert-math-to-llvm", "-convert-math-to-libm",
           "-expand-strided-metadata", "-lower-affine", "-convert-vector-to-llvm", "-finalize-memref-to-llvm",
           "-convert-func-to-llvm", "-convert-cf-to-llvm", "-convert-arith-to-llvm", "-convert-index-to-llvm",
           "-reconcile-unrealized-casts")


@cache
def tool(name: str) -> str | None:
    """The path of one of MLIR's tools: on the path, or where Debian's ``mlir-*-tools`` has it."""
    for folder in (*os.get_exec_path(), *sorted(map(str, Path("/usr/lib").glob("llvm-*/bin")), reverse=True)):
        found = shutil.which(name, path=folder)
        if found:
            return found
    return None


needs_mlir = pytest.mark.skipif(tool("mlir-opt") is None or tool("mlir-translate") is None,
                                reason="needs mlir-opt and mlir-translate (on Debian: apt install mlir-19-tools)")


def run(name: str, options: Sequence[str], text: str) -> str:
    """The output of a tool; its messages are the failure of the test."""
    path = tool(name)
    assert path is not None
    done = subprocess.run([path, *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: {done.stderr[:3000]}"
    return done.stdout


def accept(texts: Iterable[str]) -> None:
    """Asserts that ``mlir-opt`` parses and verifies each text."""
    run("mlir-opt", ["--verify-each", "--split-input-file", "-o", os.devnull], SEPARATOR.join(texts))


def to_llvm(texts: Sequence[str]) -> list[str]:
    """The LLVM IR of each text."""
    lowered = run("mlir-opt", ["--split-input-file", *TO_LLVM], SEPARATOR.join(texts))
    return [run("mlir-translate", ["--mlir-to-llvmir"], part) for part in lowered.split(SEPARATOR)]
