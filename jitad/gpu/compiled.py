"""A function compiled for a device, for one signature: its guards, and calls of its host program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..calling.compiled import Compiled, fitting
from ..calling.signature import Spec, Static, array_leaf, classify
from ..errors import TypeInferenceError
from ..frontend.captured.leaves import Leaf, Opened
from ..frontend.captured.places import MISSING
from ..frontend.columns.list_columns import Columns
from ..frontend.columns.pack import Packed
from ..ir.types import INSTEAD, Array, from_numpy
from ..lowering.gpu.driver import DeviceBuffer, Driver
from ..lowering.gpu.program import DeviceProgram
from ..pytree import Structure
from .arrays import DeviceArray, Memory, as_device, is_foreign, owned


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


class Passed:
    """The arguments of one call in device memory; those of the host are copied, and freed by ``free``."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.addresses: list[int] = []
        self.known: dict[int, DeviceBuffer] = {}           # arrays of the host, by id
        self.owners: list[Any] = []

    def leaf(self, x: Any) -> Any:
        """The argument as a host program takes it."""
        if isinstance(x, DeviceArray):
            whole = x.contiguous()
            self.owners.append(whole.owner)
            return whole.buffer()
        if not isinstance(x, np.ndarray):
            if isinstance(x, Spec):
                raise TypeError("jitad.spec(…) stands for an argument of inspect; a call takes values")
            return x
        found = self.known.get(id(x))
        if found is None:
            address = self.driver.allocate(x.nbytes)
            self.addresses.append(address)
            self.driver.upload(address, x)
            found = self.known[id(x)] = DeviceBuffer(address, x.shape, x.dtype)
        return found

    def free(self) -> None:
        """Frees the copies, and keeps memory of others until the device has read it."""
        for address in self.addresses:
            self.driver.free(address)
        foreign = [owner for owner in self.owners if not isinstance(owner, Memory)]
        keep = getattr(self.driver, "keep_until_done", None)
        if foreign and keep is not None:
            keep(foreign)


@dataclass(eq=False)
class DeviceCompiled(Compiled):
    """A host program and its kernels in place of machine code: it has no entry points, Python makes each call."""

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

    def captured(self, leaves: Sequence[Any]) -> list[Any] | None:
        return super().captured(leaves) if self.program.guards or self.program.captured else []

    def enterable(self) -> bool:
        """False: machine code of the host cannot take a call."""
        return False

    @property
    def call(self) -> Any:
        """Runs the host program on the leaves that are not constants, and the captured values."""
        return self._run

    def _run(self, driver: Driver, given: Sequence[Any]) -> Any:
        passed = Passed(driver)
        try:
            results = self.code.run(driver, [passed.leaf(x) for x in given])
        finally:
            passed.free()
        return self.build(self._leaves(driver, results))

    def _leaves(self, driver: Driver, results: Sequence[Any]) -> tuple[Any, ...]:
        """The leaves of the result: new device arrays, numbers, and what is known at compile time."""
        made = [owned(self.target, driver, x) if isinstance(x, DeviceBuffer) else x for x in results]
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
