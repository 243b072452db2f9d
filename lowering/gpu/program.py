"""Compiled programs for a device: kernels, and the host program that launches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ir.graph import Module
from ...loop_level.build import to_loops
from ..llvm.emit import Writer
from ..math.options import Options
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
from .index_checks import move_index_checks


@dataclass
class DeviceProgram:
    """A program: ``image`` with its kernels, ``source`` of the host program.

    ``may_fail``: a kernel may raise an exception.
    """

    image: Image
    source: str
    types: tuple[Any, ...]
    main: Callable[..., list[Any]]
    failures: Failures
    may_fail: bool
    shown: str
    _loaded: dict[int, tuple[Driver, Any, list[runtime.Runtime]]] = field(default_factory=dict)

    def run(self, driver: Driver, leaves: Sequence[Any]) -> list[Any]:
        """The results for these arguments: Python scalars, and arrays each of which owns its memory."""
        given = list(map(runtime.received, leaves, self.types))
        return self.run_received(driver, given, runtime.is_recording(driver))

    def run_received(self, driver: Driver, given: Sequence[Any], recording: bool) -> list[Any]:
        """As ``run``, for arguments as host programs take them (``runtime.received``)."""
        rt, left = self.begin(driver)
        try:
            results = rt.finish(self.main(rt, *given), recording)
        except BaseException as error:
            try:
                if isinstance(error, Exception) and not recording:
                    rt.check_before(error)
            finally:
                self.ended_by(error, rt)
            raise
        if not recording:                            # otherwise it belongs to what is recorded
            left.append(rt)
        return results

    def begin(self, driver: Driver) -> tuple[runtime.Runtime, list[runtime.Runtime]]:
        """The resources of a run on a device, and the list to which they are given back after the run."""
        known = self._loaded.get(id(driver))
        if known is None:
            known = self._loaded[id(driver)] = driver, driver.load(self.image), runtime.idle(driver)
        left = known[2]
        if driver.capture is None:
            rt = left.pop() if left else runtime.Runtime(driver)
        elif self.may_fail:                          # its status is cleared, and checked, in each replay
            rt = runtime.Runtime(driver)
        else:
            rt = driver.capture.runtime = driver.capture.runtime or runtime.Runtime(driver)
        rt.begin(self, known[1])
        return rt, left

    def ended_by(self, error: BaseException, rt: runtime.Runtime) -> None:
        """Release the memory of a run that has raised an exception."""
        runtime.forget_locals(error)
        rt.release()
        if rt.driver.capture is not None:
            rt.driver.capture.runtime = None

    @property
    def images(self) -> tuple[Image, ...]:
        """The image that is loaded on a device."""
        return (self.image,)

    def plan(self) -> str:
        """The division of the work: each kernel, and what the host does itself."""
        return self.shown


def compile_program(module: Module, root: str, options: Options, instrumented: bool = False,
                    deterministic: bool = False, library: Callable[[], str] = lambda: "", format: str = ""
                    ) -> DeviceProgram:
    """Compile a module of the stage "optimized", made by the pipeline for GPUs; ``root`` is called from outside.

    ``instrumented``: kernels announce their accesses to memory (``image``).  ``deterministic``: no result depends on
    the order in which threads run.  ``library()``: the name of the driver's library for products, or "".
    ``format``: what products of f32 may round their operands to (``tensor_cores.FORMATS``), or "".
    """
    loops = to_loops(module, LOCAL, device=True)
    return compile_loops(loops, root, options, Failures(module), instrumented, deterministic, library, format)


def compile_loops(loops: Module, root: str, options: Options, failures: Failures, instrumented: bool = False,
                  deterministic: bool = False, library: Callable[[], str] = lambda: "", format: str = ""
                  ) -> DeviceProgram:
    """As ``compile_program``, for a module at the loop level, which it changes."""
    host = partition.host_functions(loops, root)
    for name in host:
        fuse_rows(loops.functions[name])
        move_index_checks(loops.functions[name], loops.exceptions)
        partition.serial_loops(loops, loops.functions[name], host)
        partition.serial_runs(loops, loops.functions[name], host, root)
    writer, plan = Writer(), Plan()
    shared = Shared(loops, writer, options, instrumented, partition.recursive(loops))
    launches = LaunchBuilder(shared, plan, deterministic, library, format)
    code = HostCode(launches, host, plan)
    for name in sorted(host):
        HostFunction(code, loops.functions[name], name == root).write()
    source = code.source()
    space = code.space
    exec(compile(source, f"<host program of {root}>", "exec"), space)
    may_fail = define_failed(writer) if launches.kernels else False
    image = Image(writer.text(), tuple(launches.kernels))
    return DeviceProgram(image, source, tuple(loops.functions[root].param_types), space[code.name(root)], failures,
                         may_fail, plan.text())
