"""Copies between arrays of any strides on a device, by a kernel with one thread an element.

The kernel counts the elements in C order; ``i % size`` and ``i / size``, from the last axis to the first, are its
indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ...errors import NOWHERE
from ...lowering.gpu.driver import Driver
from ...lowering.gpu.image import Image, Kernel

BLOCK = 256

_HEAD = """declare i32 @gpu.thread()
declare i32 @gpu.block()
declare i32 @gpu.block_size()
define void @strided_copy({params}) {{
  %thread = call i32 @gpu.thread()
  %block = call i32 @gpu.block()
  %threads = call i32 @gpu.block_size()
  %thread64 = zext i32 %thread to i64
  %block64 = zext i32 %block to i64
  %threads64 = zext i32 %threads to i64
  %first = mul i64 %block64, %threads64
  %i{rank} = add i64 %first, %thread64
  %inside = icmp slt i64 %i{rank}, %count
  br i1 %inside, label %copy, label %done
copy:
"""
_AXIS = """  %k{axis} = urem i64 %i{after}, %size{axis}
  %i{axis} = udiv i64 %i{after}, %size{axis}
  %to{axis} = mul i64 %k{axis}, %to_stride{axis}
  %from{axis} = mul i64 %k{axis}, %from_stride{axis}
  %at{axis} = add i64 %at{after}, %to{axis}
  %of{axis} = add i64 %of{after}, %from{axis}
"""
_TAIL = """  %p = getelementptr i8, ptr %target, i64 {at}
  %q = getelementptr i8, ptr %source, i64 {of}
  %x = load i{bits}, ptr %q, align {size}
  store i{bits} %x, ptr %p, align {size}
  br label %done
done:
  ret void
}}
"""


@cache
def image(rank: int, size: int) -> Image:
    """The kernel for arrays of this rank, with elements of ``size`` bytes."""
    axes = range(rank)
    names = [*(f"size{a}" for a in axes), *(f"to_stride{a}" for a in axes), *(f"from_stride{a}" for a in axes)]
    params = ["ptr %status", "ptr %target", "ptr %source", "i64 %count", *(f"i64 %{name}" for name in names)]
    text = _HEAD.format(params=", ".join(params), rank=rank)
    for axis in reversed(axes):
        text += _AXIS.format(axis=axis, after=axis + 1)
    text = text.replace(f"%at{rank},", "0,").replace(f"%of{rank},", "0,")
    text += _TAIL.format(at="%at0" if rank else "0", of="%of0" if rank else "0", bits=8 * size, size=size)
    kernel = Kernel("strided_copy", ("ptr", "ptr", "ptr", *["i64"] * (1 + 3 * rank)), BLOCK, NOWHERE)
    return Image(text, (kernel,))


def copy(driver: Driver, size: int, shape: Sequence[int], target: int, to_strides: Sequence[int], source: int,
         from_strides: Sequence[int]) -> None:
    """Queues the copy of an array to another one of the same shape; strides are in bytes."""
    count = 1
    for n in shape:
        count *= n
    if count:
        made = image(len(shape), size)
        driver.launch(driver.load(made), made.kernels[0], -(-count // BLOCK),
                      [0, target, source, count, *shape, *to_strides, *from_strides])
