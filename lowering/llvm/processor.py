"""The processor for which code is compiled: this machine's, or the one that ``JITAD_CPU`` names.

LLVM knows the features of each processor by name, but llvmlite does not expose them.  LLVM is queried through its
inliner instead: it inlines a call only if the caller's processor has every feature of the callee.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
# In 32-bit mode LLVM takes any name; in 64-bit mode it aborts at a processor without 64-bit instructions.
_ASKED = "i686-unknown-linux-gnu"
_OLDEST, _BASELINE = "i386", ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2")       # features that x86-64 adds to i386
# Features that code generation never uses: instructions for systems and intrinsics only.  Virtual machines often hide
# some of them, which makes no difference here.
_ASIDE = re.compile(r"amx-.*|cl(demote|flushopt|wb|zero)|enqcmd|fsgsbase|hreset|invpcid|kl|lwp|mwaitx|pconfig|pku|"
                    r"prefetchi|prfchw|ptwrite|rdp(id|ru)|rdrnd|rdseed|rtm|serialize|sgx|shstk|tsxldtrk|uintr|usermsr|"
                    r"waitpkg|wbnoinvd|widekl|xsave.*")

_PROBE = """
define internal i32 @"has.{which}"(i32 %x) "target-cpu"="{oldest}" "target-features"="+{feature}" {{
  %y = add i32 %x, 1
  ret i32 %y
}}
define i32 @"ask.{which}"(i32 %x) "target-cpu"="{name}" {{
  %y = call i32 @"has.{which}"(i32 %x)
  ret i32 %y
}}
"""
_NAMES = """
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.Target.from_default_triple().create_target_machine(cpu="help")
"""


@dataclass(frozen=True)
class Processor:
    """LLVM's name of a processor, and its list of features (``"+avx2,-avx512f"``)."""

    name: str
    features: str


@uninterrupted
def chosen() -> Processor:
    """The processor that ``JITAD_CPU`` names; by default this machine's.

    Raises ``ValueError`` if this machine cannot run code for it.
    """
    name = os.environ.get("JITAD_CPU", "")
    if name in ("", "native"):
        return Processor(llvm.get_host_cpu_name(), str(llvm.get_host_cpu_features().flatten()))
    if not llvm.get_default_triple().startswith("x86_64"):
        raise ValueError(f"JITAD_CPU={name}: on this machine only 'native' is known; processors are named on x86-64")
    have, host = features(name), _host()
    if not have.issuperset(_BASELINE):
        raise ValueError(f"JITAD_CPU={name}: LLVM knows no 64-bit processor of this name; valid names are native, "
                         f"{', '.join(LEVELS)} and LLVM's own{_own_names()}")
    missing = have - host
    if lacking := sorted(f for f in missing if not _ASIDE.fullmatch(f)):
        runs = ", ".join(level for level in LEVELS if features(level) <= host)
        raise ValueError(f"JITAD_CPU={name}: this machine ({llvm.get_host_cpu_name()}) cannot run code for it, as it "
                         f"lacks {', '.join(lacking)}; it runs native, {runs}")
    listed = ["+64bit", *(f"+{f}" for f in sorted(have - missing)), *(f"-{f}" for f in sorted(missing))]
    return Processor(name, ",".join(listed))


@cache
def features(name: str) -> frozenset[str]:
    """The features of an x86 processor, without those of the 64-bit mode only; empty for an unknown name."""
    if not re.fullmatch(r"[\w.-]+", name):
        return frozenset()
    return _differences((name,), _host_map())[name]


@uninterrupted
def _differences(names: Sequence[str], asked: Iterable[str]) -> dict[str, frozenset[str]]:
    """For each processor, the features by which it differs from the oldest."""
    llvm.initialize_native_target()
    machine = llvm.Target.from_triple(_ASKED).create_target_machine(cpu=_OLDEST)
    everyone, asked = list(enumerate((_OLDEST, *names))), tuple(asked)
    probes = [_PROBE.format(which=f"{i}.{f}", feature=f, name=n, oldest=_OLDEST) for i, n in everyone for f in asked]
    head = f'target triple = "{_ASKED}"\ntarget datalayout = "{machine.target_data}"\n'
    unit = llvm.parse_assembly(head + "".join(probes))
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes.getModulePassManager().run(unit, passes)
    left = {function.name for function in unit.functions}
    oldest, *others = (frozenset(f for f in asked if f"has.{i}.{f}" not in left) for i, _ in everyone)
    return {n: have - oldest for n, have in zip(names, others)}


@cache
@uninterrupted
def _host_map() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def _host() -> frozenset[str]:
    return frozenset(f for f, there in _host_map().items() if there)


def _own_names() -> str:
    """LLVM's names of 64-bit processors, as text for a message.

    LLVM prints its names on the process's standard error, so a subprocess is run.
    """
    try:
        told = subprocess.run([sys.executable, "-c", _NAMES], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return ""
    names = [n for n in re.findall(r"^  (\S+) +- Select the \1 processor", told, re.MULTILINE) if "_" not in n]
    useful = [n for n, have in _differences(names, _BASELINE).items() if have.issuperset(_BASELINE) and n not in LEVELS]
    return ": " + ", ".join(useful) if useful else ""
