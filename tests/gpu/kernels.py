"""Kernels in LLVM IR for tests of the simulator, correct ones and ones with a planted bug.

In the bodies, ``%t``, ``%b``, ``%n`` are the thread, the block and the size of a block, ``%i`` the number of the thread
in the grid, as i64 ``%t64`` and ``%i64`` too; ``%NAME[%k] as T`` in an address means the address of an element.
"""

from __future__ import annotations

import re

from jitad.lowering.gpu.image import Image, Kernel

from jitad.errors import Loc

DECLARATIONS = """
declare i32 @gpu.thread()
declare i32 @gpu.block()
declare i32 @gpu.block_size()
declare i32 @gpu.grid_size()
declare void @gpu.barrier()
declare double @gpu.shuffle_down.f64(double, i32)
declare float @gpu.shuffle_xor.f32(float, i32)
declare i64 @gpu.shuffle_down.i64(i64, i32)
declare i32 @gpu.shuffle_xor.i32(i32, i32)
declare i32 @gpu.ballot(i1)
declare double @gpu.sin.f64(double)
declare float @gpu.pow.f32(float, float)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
INDICES = """
  %t = call i32 @gpu.thread()
  %b = call i32 @gpu.block()
  %n = call i32 @gpu.block_size()
  %g = call i32 @gpu.grid_size()
  %b.first = mul i32 %b, %n
  %i = add i32 %b.first, %t
  %t64 = zext i32 %t to i64
  %i64 = zext i32 %i to i64
"""
# %p = element ptr %base, i64 %k of double
_ELEMENT = re.compile(r"( *)(%[\w.]+) = element (double|i64|i32|i8|float) (%[\w.]+|@\w+), (\S+)")


def image(body: str, params: str, block: int = 64, outside: str = "", name: str = "kernel", file: str = "") -> Image:
    """An image with one kernel, whose parameters are ``params``: ``ptr x, i64 n``.

    A line ``; N`` at the end of an instruction is the user's line.
    """
    body = _ELEMENT.sub(_element, body)
    body = re.sub(r"  ; (\d+)$", rf" ; {file or 'model.py'}:\1", body, flags=re.M)
    listed = [p.split() for p in params.split(", ") if p]
    heads = ", ".join(f"{_LLVM.get(t, t)} %{n}" for t, n in listed)
    text = f"{DECLARATIONS}{outside}\ndefine void @{name}({heads}) {{\nentry:{INDICES}{body}\n}}\n"
    return Image(text, (Kernel(name, tuple(t for t, _ in listed), block, Loc(file or "model.py", 1)),))


_LLVM = {"f64": "double", "f32": "float"}


def _element(m: re.Match[str]) -> str:
    indent, name, of, base, index = m.groups()
    pointer = "ptr addrspace(3)" if base.startswith("@") else "ptr"
    return f"{indent}{name} = getelementptr inbounds {of}, {pointer} {base}, i64 {index}"


ADD = """
  %inside = icmp slt i64 %i64, %size
  br i1 %inside, label %go, label %done
go:
  %px = element double %x, %i64
  %py = element double %y, %i64
  %pz = element double %z, %i64
  %a = load double, ptr %px, align 8
  %c = load double, ptr %py, align 8
  %s = call double @gpu.sin.f64(double %c)
  %r = fadd double %a, %s
  store double %r, ptr %pz, align 8  ; 7
  br label %done
done:
  ret void"""

TILE = "@tile = internal addrspace(3) global [64 x double] undef, align 8\n"
# Sums by shuffles in a warp, through shared memory in the block, and by an atomic operation in the grid.
SUM = """
  %px = element double %x, %i64
  %v = load double, ptr %px, align 8
""" + "".join(f"""
  %s{k} = call double @gpu.shuffle_down.f64(double %v{'' if k == 16 else 2 * k}, i32 {k})
  %v{k} = fadd double %v{'' if k == 16 else 2 * k}, %s{k}""" for k in (16, 8, 4, 2, 1)) + """
  %lane = and i64 %t64, 31
  %first = icmp eq i64 %lane, 0
  br i1 %first, label %put, label %wait
put:
  %warp = lshr i64 %t64, 5
  %pw = element double @tile, %warp
  store double %v1, ptr addrspace(3) %pw, align 8  ; 5
  br label %wait
wait:
  call void @gpu.barrier()  ; 6
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %loop, label %done
loop:
  %k = phi i64 [ 0, %wait ], [ %k.next, %loop ]
  %sum = phi double [ 0.0, %wait ], [ %sum.next, %loop ]
  %pk = element double @tile, %k
  %part = load double, ptr addrspace(3) %pk, align 8  ; 8
  %sum.next = fadd double %sum, %part
  %k.next = add i64 %k, 1
  %k.32 = mul i64 %k.next, 32
  %n64 = zext i32 %n to i64
  %more = icmp ult i64 %k.32, %n64
  br i1 %more, label %loop, label %end
end:
  %old = atomicrmw fadd ptr %out, double %sum.next monotonic
  br label %done
done:
  ret void"""

# One tile of 8 by 8 elements for a block of 64 threads; a matrix of ``rows`` by ``columns``, multiples of 8.
TRANSPOSE = """
  %b64 = zext i32 %b to i64
  %across = udiv i64 %columns, 8
  %tile.row = udiv i64 %b64, %across
  %tile.column = urem i64 %b64, %across
  %r = udiv i64 %t64, 8
  %c = urem i64 %t64, 8
  %r0 = mul i64 %tile.row, 8
  %c0 = mul i64 %tile.column, 8
  %row = add i64 %r0, %r
  %column = add i64 %c0, %c
  %row.at = mul i64 %row, %columns
  %from = add i64 %row.at, %column
  %px = element double %x, %from
  %v = load double, ptr %px, align 8
  %ps = element double @tile, %t64
  store double %v, ptr addrspace(3) %ps, align 8  ; 4
  call void @gpu.barrier()
  %swap.at = mul i64 %c, 8
  %swap = add i64 %swap.at, %r
  %pt = element double @tile, %swap
  %w = load double, ptr addrspace(3) %pt, align 8  ; 6
  %out.row = add i64 %c0, %r
  %out.column = add i64 %r0, %c
  %out.at = mul i64 %out.row, %rows
  %to = add i64 %out.at, %out.column
  %pz = element double %z, %to
  store double %w, ptr %pz, align 8
  ret void"""

# Counts of the values of bytes, through shared counters of the block.
BINS = "@bins = internal addrspace(3) global [16 x i32] undef\n"
HISTOGRAM = """
  %small = icmp ult i32 %t, 16
  br i1 %small, label %clear, label %cleared
clear:
  %pc = element i32 @bins, %t64
  store i32 0, ptr addrspace(3) %pc, align 4
  br label %cleared
cleared:
  call void @gpu.barrier()
  %px = element i8 %x, %i64
  %v = load i8, ptr %px, align 1
  %v64 = zext i8 %v to i64
  %pb = element i32 @bins, %v64
  %old = atomicrmw add ptr addrspace(3) %pb, i32 1 monotonic, align 4
  call void @gpu.barrier()
  br i1 %small, label %add, label %done
add:
  %count = load i32, ptr addrspace(3) %pc2, align 4
  %po = element i32 %out, %t64
  %before = atomicrmw add ptr %po, i32 %count monotonic, align 4
  br label %done
done:
  ret void""".replace("cleared:\n  call", "cleared:\n  %pc2 = element i32 @bins, %t64\n  call")

# Inclusive scan of a block in shared memory of dynamic size, each step between two barriers.
DYNAMIC = "@dynamic = external addrspace(3) global [0 x i64]\n"
SCAN = """
  %px = element i64 %x, %i64
  %v = load i64, ptr %px, align 8
  %ps = element i64 @dynamic, %t64
  store i64 %v, ptr addrspace(3) %ps, align 8
  %n64 = zext i32 %n to i64
  br label %loop
loop:
  %d = phi i64 [ 1, %entry ], [ %d.next, %stored ]
  %sum = phi i64 [ %v, %entry ], [ %sum.next, %stored ]
  call void @gpu.barrier()
  %far = icmp uge i64 %t64, %d
  br i1 %far, label %look, label %looked
look:
  %back = sub i64 %t64, %d
  %pb = element i64 @dynamic, %back
  %add = load i64, ptr addrspace(3) %pb, align 8
  br label %looked
looked:
  %more = phi i64 [ 0, %loop ], [ %add, %look ]
  %sum.next = add i64 %sum, %more
  call void @gpu.barrier()  ; 9
  store i64 %sum.next, ptr addrspace(3) %ps, align 8  ; 10
  br label %stored
stored:
  %d.next = mul i64 %d, 2
  %going = icmp ult i64 %d.next, %n64
  br i1 %going, label %loop, label %done
done:
  %pz = element i64 %z, %i64
  store i64 %sum.next, ptr %pz, align 8
  ret void"""

# Sums of a warp in every lane (float, xor), the ballot of odd values, and each lane's right neighbour.
WARPS = """
  %px = element float %x, %i64
  %v = load float, ptr %px, align 4
""" + "".join(f"""
  %s{k} = call float @gpu.shuffle_xor.f32(float %v{'' if k == 16 else 2 * k}, i32 {k})
  %v{k} = fadd float %v{'' if k == 16 else 2 * k}, %s{k}""" for k in (16, 8, 4, 2, 1)) + """
  %pz = element float %z, %i64
  %square = call float @gpu.pow.f32(float %v1, float 2.0)
  store float %square, ptr %pz, align 4
  %bit = and i32 %i, 3
  %flag = icmp eq i32 %bit, 1
  %mask = call i32 @gpu.ballot(i1 %flag)
  %pm = element i32 %masks, %i64
  store i32 %mask, ptr %pm, align 4
  %next = call i64 @gpu.shuffle_down.i64(i64 %i64, i32 1)
  %pn = element i64 %neighbours, %i64
  store i64 %next, ptr %pn, align 8
  ret void"""

# A local array, a recursive function, and a loop.
RECURSIVE = """define internal i64 @depth(i64 %k) {
  %end = icmp sle i64 %k, 0
  br i1 %end, label %stop, label %more
stop:
  ret i64 0
more:
  %less = sub i64 %k, 1
  %rest = call i64 @depth(i64 %less)
  %odd = mul i64 %rest, 3
  %sum = add i64 %odd, 1
  %low = and i64 %sum, 65535
  ret i64 %low
}
"""
DEPTH = """
  %local = alloca [4 x i64], align 8
  %p0 = element i64 %local, 3
  store i64 %k, ptr %p0, align 8
  %k.again = load i64, ptr %p0, align 8
  %d = call i64 @depth(i64 %k.again)
  %pz = element i64 %z, %i64
  store i64 %d, ptr %pz, align 8
  ret void"""
