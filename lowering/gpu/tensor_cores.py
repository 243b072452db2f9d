"""Products of small matrices by the tensor cores of a warp: in PTX, and as the text that emulates them.

``@gpu.mma.tf32(<4 x float> a, <2 x float> b, <4 x float> c)`` is a part of ``a @ b + c`` for 16 × 8 and 8 × 8
elements, of which each lane has some; ``bf16`` and ``f16`` take twice as many, for 16 × 16 and 16 × 8.  Elements of
``a`` and ``b`` are rounded to that format, products are exact, sums are f32.  With g = lane / 4, t = lane % 4, and s
the number of elements beside each other (1, or 2 for 16 bits), a lane has

* of ``a`` rows g and g + 8, columns s t … s t + s − 1 of each half: (g, left), (g + 8, left), (g, right), …;
* of ``b`` column g, the same of rows: upper half, lower half;
* of ``c`` (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).

The emulation gets the elements of other lanes by shuffles.  The simulator runs it, and so do devices before sm_80.
"""

from __future__ import annotations

import re

FORMATS = ("tf32", "bf16", "f16")
"""The formats to which f32 may be rounded: 11, 8 and 11 significant bits; f16 overflows from 65,520 on."""
FIRST = 80
"""The first architecture whose tensor cores have all three: sm_80."""
_CALL = re.compile(r"^declare .*@gpu\.mma\.(\w+)\(.*\n?", re.MULTILINE)


def beside(format: str) -> int:
    """The elements that a lane has beside each other."""
    return 1 if format == "tf32" else 2


def depth(format: str) -> int:
    """The columns of ``a``."""
    return 8 * beside(format)


def has_tensor_cores(arch: str) -> bool:
    """True for the simulator, and for architectures with the instruction."""
    return not arch.startswith("sm_") or int("".join(filter(str.isdigit, arch))) >= FIRST


def defined(text: str, arch: str) -> str:
    """The text of an image with the declared products defined for an architecture, or for the simulator (``"sim"``)."""
    found = list(dict.fromkeys(_CALL.findall(text)))
    if not found:
        return text
    by_instruction = arch != "sim" and has_tensor_cores(arch)
    definitions = [_instruction(f) if by_instruction else _emulation(f) for f in found]
    return "\n".join([_CALL.sub("", text), *definitions, *(() if by_instruction else _used(text))])


def _head(format: str) -> str:
    s = beside(format)
    return (f"define internal <4 x float> @gpu.mma.{format}(<{4 * s} x float> %a, <{2 * s} x float> %b, "
            "<4 x float> %c) convergent nounwind alwaysinline {")


def _elements(name: str, count: int) -> list[str]:
    return [f"  %{name}{k} = extractelement <{count} x float> %{name}, i32 {k}" for k in range(count)]


def _vector(parts: list[str]) -> list[str]:
    """The lines that return four elements."""
    lines = [f"  %v{k} = insertelement <4 x float> {'poison' if k == 0 else f'%v{k - 1}'}, float {x}, i32 {k}"
             for k, x in enumerate(parts)]
    return [*lines, "  ret <4 x float> %v3", "}"]


# --- PTX --------------------------------------------------------------------------------------------------

def _instruction(format: str) -> str:
    s = beside(format)
    given = [f"%a{k}" for k in range(4 * s)] + [f"%b{k}" for k in range(2 * s)]
    words = [f"w{k}" for k in range(6)]
    first = 4                                        # operands 0 … 3 are the results
    if s == 1:
        rounds = [f"cvt.rna.tf32.f32 {w}, ${first + k};" for k, w in enumerate(words)]
    else:
        rounds = [f"cvt.rn.{format}x2.f32 {w}, ${first + 2 * k + 1}, ${first + 2 * k};" for k, w in enumerate(words)]
    sums = ", ".join(f"${first + len(given) + k}" for k in range(4))
    multiply = (f"mma.sync.aligned.m16n8k{depth(format)}.row.col.f32.{format}.{format}.f32 {{$0, $1, $2, $3}}, "
                f"{{{', '.join(words[:4])}}}, {{{', '.join(words[4:])}}}, {{{sums}}};")
    code = " ".join(["{ .reg .b32 " + ", ".join(words) + ";", *rounds, multiply, "}"])
    constraints = ",".join(["=f"] * 4 + ["f"] * (len(given) + 4))
    args = ", ".join(f"float {x}" for x in (*given, "%c0", "%c1", "%c2", "%c3"))
    struct = "{ float, float, float, float }"
    return "\n".join([
        _head(format), *_elements("a", 4 * s), *_elements("b", 2 * s), *_elements("c", 4),
        f'  %r = call {struct} asm sideeffect "{code}", "{constraints}"({args})',
        *(f"  %r{k} = extractvalue {struct} %r, {k}" for k in range(4)), *_vector([f"%r{k}" for k in range(4)])])


# --- emulation --------------------------------------------------------------------------------------------

def _emulation(format: str) -> str:
    """The product as shuffles and sums: lane 4 g + k has the rows of this lane, lanes 8 t + k and 8 t + 4 + k its
    columns."""
    s = beside(format)
    lines = [_head(format), *_elements("a", 4 * s), *_elements("b", 2 * s), *_elements("c", 4)]
    lines += [f"  %{x}{k}.r = call float @gpu.rounded.{format}(float %{x}{k})" for x, n in (("a", 4 * s), ("b", 2 * s))
              for k in range(n)]
    lines += ["  %thread = call i32 @gpu.thread()", "  %lane = and i32 %thread, 31", "  %rows = and i32 %lane, 28",
              "  %t = and i32 %lane, 3", "  %cols = shl i32 %t, 3"]
    sums = [f"%c{k}" for k in range(4)]

    def fetch(x: str, source: str, result: str) -> str:
        lines.append(f"  {result} = call float @gpu.shuffle_xor.f32(float {x}, i32 {source})")
        return result
    for k in range(4):
        sources = {}
        for name, base, more in (("row", "%rows", k), ("left", "%cols", k), ("right", "%cols", 4 + k)):
            lines += [f"  %{name}{k}.lane = or i32 {base}, {more}",
                      f"  %{name}{k} = xor i32 %{name}{k}.lane, %lane"]
            sources[name] = f"%{name}{k}"
        a = [fetch(f"%a{j}.r", sources["row"], f"%a{j}.{k}") for j in range(4 * s)]
        b = [[fetch(f"%b{j}.r", sources[side], f"%b{j}.{side}.{k}") for j in range(2 * s)]
             for side in ("left", "right")]
        for register in range(4):
            for h in range(s):
                for col in range(2):
                    place = 2 * (register % 2) + col
                    x = f"%p{place}.{k}.{register // 2}.{h}"
                    lines += [f"  {x} = fmul float {a[register * s + h]}, {b[col][register // 2 * s + h]}",
                              f"  {x}.s = fadd float {sums[place]}, {x}"]
                    sums[place] = f"{x}.s"
    return "\n".join([*lines, *_vector(sums), _rounding(format)])


def _rounding(format: str) -> str:
    """A number rounded to a format: to nearest, in ties away from 0 (tf32) or to even."""
    lines = {"tf32": _TF32, "bf16": _to_even(16), "f16": _to_even(13) + _F16}[format]
    head = f"define internal float @gpu.rounded.{format}(float %x) alwaysinline nounwind {{\n"
    return (head + "  %bits = bitcast float %x to i32\n" + lines + "  %nan = fcmp uno float %x, %x\n"
            "  %r = select i1 %nan, float %x, float %y\n  ret float %r\n}")


_TF32 = """  %up = add i32 %bits, 4096
  %kept = and i32 %up, -8192
  %y = bitcast i32 %kept to float
"""


def _to_even(dropped: int) -> str:
    name = "y" if dropped == 16 else "normal"
    return f"""  %last = lshr i32 %bits, {dropped}
  %odd = and i32 %last, 1
  %half = add i32 %odd, {(1 << dropped - 1) - 1}
  %up = add i32 %bits, %half
  %kept = and i32 %up, {-(1 << dropped)}
  %{name} = bitcast i32 %kept to float
"""


# Adding a half of the sign of x leaves the multiples of 2**-24, which are the subnormal numbers of f16.
_F16 = """  %sign = and i32 %bits, -2147483648
  %half.bits = or i32 %sign, 1056964608
  %half.x = bitcast i32 %half.bits to float
  %sum = fadd float %x, %half.x
  %small = fsub float %sum, %half.x
  %small.bits = bitcast float %small to i32
  %signed = or i32 %small.bits, %sign
  %subnormal = bitcast i32 %signed to float
  %size = and i32 %bits, 2147483647
  %is.small = icmp ult i32 %size, 947912704
  %finite = select i1 %is.small, float %subnormal, float %normal
  %kept.size = and i32 %kept, 2147483647
  %is.large = icmp uge i32 %kept.size, 1199570944
  %infinite.bits = or i32 %sign, 2139095040
  %infinite = bitcast i32 %infinite.bits to float
  %y = select i1 %is.large, float %infinite, float %finite
"""


def _used(text: str) -> list[str]:
    """Declarations of what the emulation calls, unless they are there."""
    needed = {"@gpu.thread()": "declare i32 @gpu.thread()",
              "@gpu.shuffle_xor.f32(": "declare float @gpu.shuffle_xor.f32(float, i32)"}
    declared = [line for line in text.splitlines() if line.startswith("declare")]
    return [line for name, line in needed.items() if not any(name in d for d in declared)]
