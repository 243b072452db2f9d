"""Images written by hand, for tests of drivers."""

from jitad.lowering.gpu.image import Image, Kernel

from jitad.errors import Loc

LOC = Loc("user.py", 7, 4, 9, "f")

AXPY = Image("""
declare i32 @gpu.thread()
declare i32 @gpu.block()
declare i32 @gpu.block_size()
define void @axpy(ptr %status, ptr %y, ptr %x, double %a, i64 %n) {
  %t = call i32 @gpu.thread()
  %b = call i32 @gpu.block()
  %size = call i32 @gpu.block_size()
  %first = mul i32 %b, %size
  %i32 = add i32 %first, %t
  %i = sext i32 %i32 to i64
  %inside = icmp slt i64 %i, %n
  br i1 %inside, label %body, label %done
body:
  %px = getelementptr double, ptr %x, i64 %i
  %py = getelementptr double, ptr %y, i64 %i
  %vx = load double, ptr %px
  %vy = load double, ptr %py
  %ax = fmul double %vx, %a
  %sum = fadd double %vy, %ax
  store double %sum, ptr %py
  br label %done
done:
  ret void
}
""", (Kernel("axpy", ("ptr", "ptr", "ptr", "f64", "i64"), 128, LOC),))
"""y += a x"""

EVERYTHING = Image("""
declare i32 @gpu.thread()
declare i32 @gpu.block()
declare i32 @gpu.block_size() #0
declare i32 @gpu.grid_size()
declare void @gpu.barrier()
declare double @gpu.shuffle_down.f64(double, i32)
declare float @gpu.shuffle_xor.f32(float, i32)
declare i64 @gpu.shuffle_xor.i64(i64, i32)
declare i32 @gpu.shuffle_down.i32(i32, i32)
declare i32 @gpu.ballot(i1)
declare double @gpu.sin.f64(double)
declare float @gpu.pow.f32(float, float)
@s = internal addrspace(3) global [256 x double] undef
attributes #0 = { nounwind }
define internal double @"d.größe"(double %x) {
  %r = call double @gpu.sin.f64(double %x), !note !0
  ret double %r
}
define void @k(ptr %status, ptr noalias %out, ptr noalias readonly %x, i64 %n) #0 {
  %t = call i32 @gpu.thread()
  %b = call i32 @gpu.block()
  %g = call i32 @gpu.grid_size()
  %size = call i32 @gpu.block_size()
  %o = mul i32 %b, %size
  %i32 = add i32 %o, %t
  %i = zext i32 %i32 to i64
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p
  %w = call double @"d.größe"(double %v)
  %q = getelementptr double, ptr addrspace(3) @s, i32 %t
  store double %w, ptr addrspace(3) %q
  call void @gpu.barrier()
  %q0 = load double, ptr addrspace(3) @s
  %y = call double @gpu.shuffle_down.f64(double %w, i32 16)
  %f = fptrunc double %y to float
  %z = call float @gpu.shuffle_xor.f32(float %f, i32 1)
  %zp = call float @gpu.pow.f32(float %z, float 3.0)
  %fi = fptosi float %zp to i64
  %l = call i64 @gpu.shuffle_xor.i64(i64 %fi, i32 2)
  %l32 = trunc i64 %l to i32
  %m = call i32 @gpu.shuffle_down.i32(i32 %l32, i32 %g)
  %c = icmp slt i32 %m, 3
  %votes = call i32 @gpu.ballot(i1 %c)
  %votes64 = sitofp i32 %votes to double
  %sum = fadd double %votes64, %q0
  %d = getelementptr double, ptr %out, i64 %i
  %old = atomicrmw fadd ptr %d, double %sum monotonic
  ret void
}
!0 = !{!"of the user"}
""", (Kernel("k", ("ptr", "ptr", "ptr", "i64"), 128, LOC),))
"""Every function of the device, an internal function with a name that PTX does not allow, shared memory, an atomic."""
