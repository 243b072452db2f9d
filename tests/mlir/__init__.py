"""The MLIR text of the loop level: exact text, acceptance by ``mlir-opt``, and results of the lowered code."""
