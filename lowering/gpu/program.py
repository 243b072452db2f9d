"""Compiled programs for a device: kernels, and the host program that launches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ir.graph import Module
from ...loop_level.build import to_loops
from ..llvm.emit import Writer
from ..math.ops import Options
from ..python.exceptions import Failures
from .device.emitter import Shared
from .device.memory import LOCAL
from .device.thread import define_failed
from .driver import Driver
from .host import partition, runtime
from .host.fuse_rows import fuse_rows
from .host.host_code import HostCode, HostFunction
from .host.launch_builder import LaunchBuilder
from .host.plan import Plan
from .image import Image


@dataclass
class DeviceProgram:
    """A program: ``image`` with its kernels, ``source`` of the host program.

    ``slots``: the results of one kernel at most.  ``may_fail``: a kernel may raise an exception.
    """

    image: Image
    source: str
    types: tuple[Any, ...]
    main: Callable[..., list[Any]]
    failures: Failures
    slots: int
    may_fail: bool
    shown: str
    _loaded: dict[int, tuple[Driver, Any]] = field(default_factory=dict)

    def run(self, driver: Driver, leaves: Sequence[Any]) -> list[Any]:
        """The results for these arguments: Python scalars and ``DeviceBuffer``, whose memory the caller then has."""
        known = self._loaded.get(id(driver))
        if known is None:
            known = self._loaded[id(driver)] = driver, driver.load(self.image)
        rt = runtime.Runtime(driver, known[1], self.slots, self.may_fail, self.failures)
        given = [runtime.received(x, t) for x, t in zip(leaves, self.types, strict=True)]
        try:
            results = self.main(rt, *given)
            rt.finish()
            return runtime.returned(rt, results)
        except BaseException:
            rt.release()
            raise

    @property
    def images(self) -> tuple[Image, ...]:
        """The image that is loaded on a device."""
        return (self.image,)

    def plan(self) -> str:
        """The division of the work: each kernel, and what the host does itself."""
        return self.shown


def compile_program(module: Module, root: str, options: Options, instrumented: bool = False,
                    deterministic: bool = False, library: Callable[[], str] = lambda: "") -> DeviceProgram:
    """Compile a module of the stage "optimized", made by the pipeline for GPUs; ``root`` is called from outside.

    ``instrumented``: kernels announce their accesses to memory (``image``).  ``deterministic``: no result depends on
    the order in which threads run.  ``library()``: the name of the driver's library for products, or "".
    """
    failures = Failures(module)
    loops = to_loops(module, LOCAL)
    host = partition.host_functions(loops, root)
    for name in host:
        fuse_rows(loops.functions[name])
        partition.serial_loops(loops, loops.functions[name], host)
        partition.serial_runs(loops, loops.functions[name], host)
    writer, plan = Writer(), Plan()
    shared = Shared(loops, writer, options, instrumented, partition.recursive(loops))
    launches = LaunchBuilder(shared, plan, deterministic, library)
    code = HostCode(launches, host, plan)
    for name in sorted(host):
        HostFunction(code, loops.functions[name]).write()
    source = code.source()
    space = code.space
    exec(compile(source, f"<host program of {root}>", "exec"), space)
    may_fail = define_failed(writer) if launches.kernels else False
    image = Image(writer.text(), tuple(launches.kernels))
    return DeviceProgram(image, source, tuple(loops.functions[root].param_types), space[code.name(root)], failures,
                         launches.slots, may_fail, plan.text())
