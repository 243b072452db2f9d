"""Where the pass ``last_choice`` leaves a loop as it is."""

from __future__ import annotations

from jitad.ir.text.parser import parse_module
from jitad.passes.induction.last_choice import last_choice

NEAREST = """
derived @f.vjp.0 = vjp @f wrt (0,)
func @f(%a: f64[?]) -> (f64) {{
^entry:
  %zero = const 0
  %one = const 1
  %none = const 0.0
  %n = dim {{axis = 0}} %a
  jump ^outer(%zero, %none)
^outer(%k: i64, %sum: f64):
{array}
  jump ^loop(%zero, %none)
^loop(%i: i64, %best: f64):
  %v = get %b, %i
  %c = lt %v, %best
  %next = select %c, %v, %best
  %j = add %i, %one
  %more = lt %j, %n
  branch %more, ^loop(%j, %next), ^exit(%next)
^exit(%r: f64):
  %total = add %sum, %r
  %l = add %k, %one
  %again = lt %l, %n
  branch %again, ^outer(%l, %total), ^end(%total)
^end(%result: f64):
  return %result
}}
"""


def rewritten(text: str) -> bool:
    return last_choice(parse_module(text))


def test_a_choice_among_elements_of_an_argument_is_rewritten():
    assert rewritten(NEAREST.replace("get %b,", "get %a,").format(array=""))


def test_a_choice_among_elements_of_scratch_stays():
    """Its cotangent would be scattered into the scratch array's, which then is not kept in lanes."""
    assert not rewritten(NEAREST.format(array="  %b = mul %a, %a"))


def test_a_choice_in_hundreds_of_steps_stays():
    """It is not followed to its end: a loop with 750 branches overflowed Python's stack."""
    steps = ["%n0 = select %c, %v, %best", *(f"%n{i} = select %c, %v, %n{i - 1}" for i in range(1, 2000))]
    text = NEAREST.replace("get %b,", "get %a,").replace("  %next = select %c, %v, %best", "\n".join(steps))
    assert not rewritten(text.replace("%next", "%n1999").format(array=""))
