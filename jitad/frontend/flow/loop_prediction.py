"""Prediction of what a loop changes, so that its header has parameters before the body has been traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.graph import Value
from ...ir.types import F32, I64
from ..objects.list_elements import is_table
from ..values import lattice
from ..values.closures import Tagged
from ..values.code import Frame
from ..values.growing import Growing
from ..values.lattice import UNBOUND
from ..values.protocol import Trace
from ..values.values import ArrayObj, ArrayRef, Maybe, Obj, Slot, State, Sym, Weak
from .path_merge import changed


def predict(f: Frame, names: Sequence[tuple[str, bool]], known: Mapping[str, Any], entry: State) -> State:
    """The predicted state of the back edge: each name that the body changes holds a new value of its type.

    ``names``: those, and whether the body changes what they hold in place.  ``known``: types that a trace before found.
    """
    out = dict(entry)
    for name, in_place in names:
        slot = f.slots.get(name)
        if slot is None:
            continue
        v = entry.get(slot, UNBOUND)
        if in_place and not lattice.is_scalar(v):
            _guess_contents(out, v)
        elif v is UNBOUND:
            if name in known:
                out[slot] = Maybe(_stand_in(*known[name]), True)
        else:
            out[slot] = _other(out, v, known.get(name))
    return out


def correct(t: Trace, guess: State, back: State, entry: State) -> bool:
    """Corrects a predicted Python number that became a NumPy number, as when an f32 is added to 0.0.

    Where an f32 met the predicted number on one way only, or in an inner loop, it has been widened.  If the first value
    is a constant that is an f32 as well, an f32 is predicted, and True is returned: this trace does not count.
    """
    again = False
    for slot in changed(guess, back):
        v, new, first = guess[slot], back.get(slot), entry.get(slot)
        if isinstance(slot, Slot) and type(v) is Sym and v.weak and lattice.is_scalar(new):
            scalar, weak = lattice.scalar_type(new)
            widened = type(new) is Sym and new.value in t.widened
            if widened and isinstance(first, (int, float)) and lattice.fits(first, F32):
                scalar, widened, again = F32, False, True
                t.loop_types.clear()                                     # inner loops have seen the f64
            if not weak:
                guess[slot] = made = _stand_in(scalar, None if scalar is I64 else False)
                t.widened.update([made.value] if widened else ())
    return again


def _other(out: State, v: Any, known: Any = None) -> Any:
    """Another value of the same type as ``v``."""
    if lattice.is_scalar(v):
        scalar, weak = lattice.scalar_type(v)
        return _stand_in(*(known or (scalar, weak)))
    if isinstance(v, ArrayRef) and not v.steps:
        obj = ArrayObj()
        content = out.get(v.obj)
        if not isinstance(content, Sym):
            return v
        out[obj] = _stand_in(content.type, content.weak)
        return ArrayRef(obj)
    if isinstance(v, tuple):
        return lattice.rebuild(v, tuple(_other(out, x) for x in v))
    return v


def _guess_contents(out: State, v: Any) -> None:
    obj = v.obj if isinstance(v, ArrayRef) else v
    if not isinstance(obj, Obj) or obj.readonly or isinstance(obj, Tagged):
        return
    content = out.get(obj)
    if isinstance(content, Sym):
        out[obj] = _stand_in(content.type, content.weak)
    elif type(content) is Growing:
        length, *columns = (_stand_in(*_typed(x)) for x in (content.length, *content.columns))
        length = content.length if is_table(content.kind) else length        # most loops write into the lists in it
        out[obj] = Growing(content.kind, length, tuple(columns), content.version)
    elif isinstance(content, tuple):
        out[obj] = tuple(_other(out, x) if lattice.is_scalar(x) else x for x in content)
    elif isinstance(content, dict):
        out[obj] = {k: _other(out, x) if lattice.is_scalar(x) else x for k, x in content.items()}


def _typed(x: Any) -> tuple[Any, Weak]:
    return lattice.scalar_type(x) if lattice.is_scalar(x) else (x.type, False)


def _stand_in(type: Any, weak: Weak) -> Sym:
    return Sym(Value(type, None, 0), weak)           # type: ignore[arg-type]  # only its type is used
