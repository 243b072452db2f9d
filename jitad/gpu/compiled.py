"""A function compiled for a device, for one signature: its guards, and calls of its host program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..calling.compiled import Compiled, Shape, fitting
from ..calling.signature import Spec, Static, array_leaf, classify
from ..errors import TypeInferenceError, shown
from ..frontend.captured.leaves import Leaf, Opened
from ..frontend.captured.places import MISSING
from ..frontend.columns.list_columns import Columns
from ..frontend.columns.pack import Packed
from ..ir.types import INSTEAD, Array, from_numpy
from ..lowering.gpu.driver import Driver
from ..lowering.gpu.host.device_array import DeviceArray as Passed
from ..lowering.gpu.host.device_array import Owner
from ..lowering.gpu.host.runtime import is_recording
from ..lowering.gpu.program import DeviceProgram
from ..lowering.python.entry import Entry
from ..pytree import Structure
from .arrays import DeviceArray, as_device, is_foreign, result
from .drivers import driver_of
from .entry import entry_point, readable


def kind_for(target: str) -> Any:
    """``classify`` for calls of functions of a target: arrays of other libraries are leaves too."""
    def kind(x: Any, static_shapes: bool = False) -> tuple[Leaf | Static | Opened, Any]:
        if not is_foreign(type(x)):
            return classify(x, static_shapes)
        found = as_device(x, target)
        if not isinstance(found, DeviceArray) or not found.shape:
            return classify(found if isinstance(found, np.ndarray) else found.numpy(), static_shapes)
        dtype = from_numpy(found.dtype)
        if dtype is None:
            raise TypeInferenceError(f"arrays of dtype {found.dtype} have no place in compiled code",
                                     hint=f"convert to {INSTEAD} first")
        return array_leaf(dtype.np, tuple(n if static_shapes or n == 1 else None for n in found.shape)), found
    return kind


class Arguments:
    """The arguments of one call in device memory; those of the host are copied, and freed by ``free``."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.copies: list[Owner] = []
        self.known: dict[int, Passed] = {}                 # arrays of the host, by id
        self.foreign: list[Any] = []

    def leaf(self, x: Any) -> Any:
        """The argument as a host program takes it."""
        if type(x) is DeviceArray:
            return x.passed or self._other(x)
        if not isinstance(x, np.ndarray):
            if isinstance(x, Spec):
                raise TypeError("jitad.spec(…) stands for an argument of inspect; a call takes values")
            return x
        found = self.known.get(id(x))
        if found is None:
            copy = Owner(self.driver, x.nbytes)
            self.copies.append(copy)
            self.driver.upload(copy.address, x)
            found = self.known[id(x)] = Passed(None, copy.address, x.shape, None, x.dtype)
        return found

    def _other(self, x: DeviceArray) -> Passed:
        """An array of another library, or one that is not contiguous."""
        whole = x.contiguous()
        if type(whole.owner) is not Owner:
            self.foreign.append(whole.owner)
        elif whole is not x:
            self.copies.append(whole.owner)
        return Passed(None, whole.address, whole.shape, None, whole.dtype)

    def free(self) -> None:
        """Frees the copies, and keeps memory of others until the device has read it."""
        for copy in self.copies:
            copy.release()
        keep = getattr(self.driver, "keep_until_done", None)
        if self.foreign and keep is not None:
            keep(self.foreign)


@dataclass(eq=False)
class DeviceCompiled(Compiled):
    """A host program and its kernels in place of machine code: Python makes each call."""

    target: str = "cuda"
    code: DeviceProgram = field(default=None)              # type: ignore[assignment]

    def fit(self, leaf: Leaf, value: Any) -> Any:
        """A captured value, read anew for this call, or ``MISSING`` if its type is not that of ``leaf``."""
        if not is_foreign(type(value)):
            return fitting(leaf, value)
        found = as_device(value, self.target)
        if isinstance(found, DeviceArray) and isinstance(leaf.type, Array):
            fits = from_numpy(found.dtype) == leaf.type.dtype and len(found.shape) == leaf.type.rank and all(
                n != 1 if known is None else n == known for n, known in zip(found.shape, leaf.type.dims))
            return found if fits else MISSING
        return fitting(leaf, found)

    def _entered(self) -> Callable[..., Any]:
        """The function that makes a call which machine code has recognised.

        It takes the captured values behind the arguments.  It does what ``_run`` does, for arguments that are on the
        device, with as few calls of Python as it can.
        """
        target, code, main, is_one = self.target, self.code, self.code.main, self._is_one

        def enter(*given: Any) -> Any:
            driver = driver_of(target)
            recording = driver.capture is not None
            if recording:
                driver.capture.keep([x.lender for x in given if type(x) is Passed])
            rt, left = code.begin(driver)
            try:
                results = rt.finish(main(rt, *given), recording)
            except BaseException as error:
                code.ended_by(error, rt)
                error.__traceback__ = shown(error)
                raise
            if not recording:
                left.append(rt)
            if is_one:
                x, = results
                return result(target, driver, x) if type(x) is Passed else x
            return self._result(driver, results)
        return enter

    def _copied(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """As ``run``, for arguments among which are arrays of NumPy."""
        target = self.target

        def copy_and_run(*given: Any) -> Any:
            arguments = Arguments(driver_of(target))
            try:
                return run(*[arguments.leaf(x) if type(x) is np.ndarray else x for x in given])
            except BaseException as error:
                error.__traceback__ = shown(error)
                raise
            finally:
                arguments.free()
        return copy_and_run

    def captured(self, leaves: Sequence[Any]) -> list[Any] | None:
        return super().captured(leaves) if self.program.guards or self.program.captured else []

    def enterable(self) -> bool:
        """True if machine code can recognise calls (``entry``)."""
        return not self.packs and readable(self.signature.leaves, self.program.captured_leaves)

    def add_shape(self, shape: Shape, names: Sequence[str]) -> Entry | None:
        """An entry point for calls of this shape, if there can be one."""
        run = self._entered()
        entry = None if shape.keywords else entry_point(self, self.target, run, self._copied(run))
        if entry is not None:
            self.entries[shape] = entry
        return entry

    @property
    def call(self) -> Any:
        """Runs the host program on the leaves that are not constants, and the captured values."""
        return self._run

    def _run(self, driver: Driver, given: Sequence[Any]) -> Any:
        if is_recording(driver):
            driver.capture.keep(given)
        arguments = Arguments(driver)
        try:
            results = self.code.run(driver, [arguments.leaf(x) for x in given])
        finally:
            arguments.free()
        return self._result(driver, results)

    def _result(self, driver: Driver, results: Sequence[Any]) -> Any:
        made = [result(self.target, driver, x) if type(x) is Passed else x for x in results]
        if self._is_flat:
            return made[0] if self.result.is_leaf else tuple(made)
        return self.build(self._leaves(made))

    @property
    def _is_one(self) -> bool:
        """True if the result is a number or an array."""
        return self.result.is_leaf and not self.fixed

    @cached_property
    def _is_flat(self) -> bool:
        """True if the result is a number or an array, or a tuple of these."""
        s = self.result
        return not self.fixed and (s.is_leaf or s.type is tuple and bool(s.children) and all(
            c.is_leaf for c in s.children))

    def _leaves(self, made: Sequence[Any]) -> tuple[Any, ...]:
        """The leaves of the result: new device arrays, numbers, and what is known at compile time."""
        left = iter(made)
        leaves = [self.fixed[i] if i in self.fixed else next(left) for i in range(self.result.count)]
        return tuple(x.numpy() if host and isinstance(x, DeviceArray) else x
                     for x, host in zip(leaves, self._on_host))

    @cached_property
    def _on_host(self) -> list[bool]:
        """For each leaf of the result, True if it is part of a Python object that is made on the host."""
        def walk(s: Structure, inside: bool) -> list[bool]:
            inside = inside or s.type in (Columns, Packed)
            return [inside] * s.count if s.is_leaf or inside else [x for c in s.children for x in walk(c, inside)]
        return walk(self.result, False)
