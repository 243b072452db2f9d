"""The Python side of a function of ``jit(target="cuda")`` or ``jit(target="cuda-sim")``.

As in ``calling.dispatch``, but code is a host program with kernels, which Python runs for each call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

from .. import compiler, pipeline
from ..calling.compiled import Program, Prototype, Shape
from ..calling.dispatch import ATTEMPTS, Dispatcher, redirected
from ..calling.parameters import name_of
from ..calling.signature import Signature
from ..compiler_threads import with_room
from ..errors import CompileError, switched_on
from ..frontend.captured.leaves import Leaf
from ..frontend.captured.options import Options
from ..frontend.captured.places import Place
from ..frontend.columns.gc_pause import no_collection
from ..frontend.columns.pack import returned
from ..frontend.trace.trace_program import Traced
from ..lowering.gpu.program import DeviceProgram, compile_program
from ..lowering.gpu.ptx import to_ptx
from ..lowering.gpu.tensor_cores import FORMATS
from ..lowering.jit.nvptx import ARCH
from ..lowering.python.exceptions import Failures
from ..pytree import map_leaves
from . import cublas
from .arrays import DeviceArray
from .assembling import sass
from .compiled import DeviceCompiled, kind_for
from .drivers import driver_of, in_use

_LOW, _HIGH = -(1 << 63), 1 << 63
STAGES = ("plan", "llvm", "ptx", "sass", "asm")                # those of kernels; asm is another name of sass


class DeviceDispatcher(Dispatcher):
    """The code of one function for a target."""

    def __init__(self, target: Any, written: Callable[..., Any], options: Options, static: tuple[str | int, ...],
                 derive: tuple[str, Any] | None, prepare: Callable[[], None], cached: bool = False) -> None:
        super().__init__(target, written, options, static, derive, prepare, cached)
        self.kind = kind_for(options.target)
        self._plain: dict[tuple[Any, ...], Signature] = {}       # signatures by ``plain_key``

    # --- calls ------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if redirected():
            args, kwargs = on_host(args), on_host(kwargs)
        return super().__call__(*args, **kwargs)

    def launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call; compiles first if there is no code for it."""
        driver = driver_of(self.options.target)
        key = None if kwargs else self.plain_key(args)
        if key is not None and (known := self._plain.get(key)) is not None:
            sig, leaves = known, list(args)
        else:
            sig, leaves = self.signature(args, kwargs)
        compiled, captured, _ = self._version(sig, leaves)
        for _ in range(ATTEMPTS if compiled is None else 0):
            made = self.compile(sig, leaves, args, kwargs)
            if made.signature != sig:                      # long lists are read element by element
                sig, leaves = self.signature(args, kwargs)
            compiled, captured, _ = self._version(sig, leaves)
            if compiled is not None:
                break
        if compiled is None:
            raise CompileError(f"what {name_of(self.fun)} reads from outside is something else each time: "
                               f"{made.unheld(leaves)}")
        self.last = sig
        if key is not None and all(map(is_, leaves, args)):          # none is converted
            self._plain[key] = sig
            self._seen(compiled, leaves, args, kwargs)
        given = [x for x, leaf in zip(leaves, sig.leaves) if isinstance(leaf, Leaf)]
        found = compiled.call(driver, [*given, *captured])
        return returned(found, (args, kwargs)) if compiled.packs else found

    def plain_key(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """A key that is the same for calls of one signature; None unless all arguments are numbers and arrays.

        It is found in a tenth of the time that ``signature`` takes, and such arguments need no conversion.
        """
        if self.whole or self.parameters.static or self.options.static_shapes:
            return None
        key: list[Any] = []
        for x in args:
            cls = type(x)
            if cls is DeviceArray and x.target == self.options.target and x.shape:
                key.append(x.kind)
            elif cls is float or cls is bool or (cls is int and _LOW <= x < _HIGH):
                key.append(cls)
            elif cls is np.ndarray and x.ndim and x.flags.c_contiguous and x.flags.aligned:
                key += x.dtype, tuple([n == 1 for n in x.shape])
            else:
                return None
        return tuple(key)

    def run_as_python(self, /, *args: Any, **kwargs: Any) -> Any:
        return super().run_as_python(*on_host(args), **on_host(kwargs))

    def translate(self, sig: Signature, shape: Shape, options: Options, leaves: list[Any], widened: frozenset[Place]
                  ) -> DeviceCompiled:
        start = time.perf_counter()
        with no_collection():
            program = compiler.traced(self.fun, sig, options, leaves, widened)
            traced = time.perf_counter()
            code = device_program(program, options)
        root = program.module.functions[program.root]
        made = DeviceCompiled(sig, Prototype(root.name, root.param_types, root.result_types), program.out_structure,
                              compiler.fixed_leaves(program),
                              Program(program.captured, program.captured_leaves, program.guards, program.leaves), "",
                              False, False, Failures(program.module), target=options.target, code=code)
        made.seconds = {"trace": traced - start, "kernels": time.perf_counter() - traced}
        return made

    # --- inspection -------------------------------------------------------------------------------

    def text(self, stage: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The text of a stage; of PTX and SASS for the architecture ``arch=…``, by default the device's."""
        if stage not in STAGES:
            return super().text(stage, args, kwargs)
        arch = self.arch_among(kwargs)

        def look(sig: Signature, options: Options, leaves: Sequence[Any]) -> DeviceProgram:
            return device_program(compiler.traced(self.fun, sig, options, leaves), options)
        program: DeviceProgram = self.looked_at(args, kwargs, look)
        if stage == "plan":
            return program.plan()
        if stage == "llvm":
            return "\n".join(image.text for image in program.images)
        arch = arch or known_arch()
        texts = [to_ptx(image, arch) for image in program.images]
        return "\n".join(texts if stage == "ptx" else [sass(text, arch) for text in texts])


def known_arch() -> str:
    """The architecture of the device in use; ``ARCH`` if none has been used yet."""
    driver = in_use("cuda")
    return driver.arch if driver is not None else ARCH


def device_program(program: Traced, options: Options) -> DeviceProgram:
    """Kernels and host program of a traced function."""
    module, root = program.module, program.root
    pipeline.run(module, [root], compiler.dumper(), gpu=True)
    lines = options.target == "cuda-sim"                # the simulator reports the user's line of an access
    library = cublas.name if options.target == "cuda" else lambda: ""
    lowering = compiler.lowering_options(options, False)
    return with_room(lambda: compile_program(module, root, lowering, lines, is_deterministic(), library,
                                             product_format()))


def is_deterministic() -> bool:
    """True if ``JITAD_GPU_DETERMINISTIC=1`` asks for sums that do not depend on the order of threads."""
    return switched_on("JITAD_GPU_DETERMINISTIC")


def product_format() -> str:
    """The format that ``JITAD_GPU_MATMUL`` lets products of f32 matrices round to; "" without it."""
    found = os.environ.get("JITAD_GPU_MATMUL", "")
    if found not in ("", "f32", *FORMATS):
        raise ValueError(f"JITAD_GPU_MATMUL={found}: expected f32, {', '.join(FORMATS)}")
    return "" if found == "f32" else found


def on_host(x: Any) -> Any:
    """The same value with NumPy arrays in place of device arrays."""
    return map_leaves(lambda leaf: leaf.numpy() if isinstance(leaf, DeviceArray) else leaf, x)

