"""The trace as the rest of the front end sees it: what rules, containers, control flow and transforms ask of it.

``Trace`` has six parts, by concern.  ``trace.FunctionTrace`` implements it; its parts (``Choices``, ``Nodes``,
``Operations``, …) are classes of the folders that deal with the matter, and see each other through this protocol.
A *user value* is anything that a variable of the user's may hold (``values.py``): its type is ``Any``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ...errors import Loc
from ...ir.graph import ExcInfo, Function, Op, Value
from ...ir.types import Scalar, Type
from ..captured.places import Place
from ..columns.list_columns import Columns
from ..columns.pack import Packed
from ..columns.recursive_types import Family
from .session import Session
from .values import ArrayRef, Choice, Context, DictObj, Edge, Instance, ListObj, Obj, Operating, Slot, State, Store, Sym

Indices = frozenset[int]


@dataclass(eq=False)
class FunctionRef:
    """A function for given arguments, to be called (or differentiated) as ``name(params…)``.

    ``result_types`` are the IR function's; ``finish(t, results)`` is what Python sees of its results.
    ``value`` is the result over the callee's own stand-ins, of which the static parts hold.
    ``changed``: the objects of its caller that it changes.  ``consts``: the places of the captured values that it takes
    as its last parameters.
    """

    name: str
    params: list[Value]
    result_types: list[Type]
    finish: Callable[[Trace, list[Value]], Any]
    changed: list[Obj]
    value: Any
    consts: list[Place]

    @property
    def mutates(self) -> bool:
        return bool(self.changed)



# --- the parts of the trace -----------------------------------------------------------------------

class Emitting(Context, Protocol):
    """The IR function in the making; numbers, arrays and mutable objects in it."""

    session: Session
    func: Function

    def value(self, v: Any, type: Scalar | None = None) -> Value:
        """The IR value of a number or stand-in, cast to scalar ``type`` where one is given."""

    def sym(self, v: Any) -> Sym:
        """A number as a stand-in."""

    def convert(self, v: Any, type: Type) -> Value:
        """The IR value of ``v`` as an argument of a block parameter of this type."""

    def new_array(self, sym: Sym, readonly: str = "") -> ArrayRef:
        """A new array that holds ``sym``; ``readonly``: why it may not be written."""

    def new_list(self, items: Sequence[Any]) -> ListObj:
        """A new list."""

    def new_dict(self, items: dict[Any, Any]) -> DictObj:
        """A new dict."""

    def contents(self, obj: Obj) -> Any:
        """What a mutable object holds now."""

    def check_fresh(self, obj: Obj) -> None:
        """Refuse to read what may be one of several objects, one of which has changed since."""

    def overwrite(self, ref: ArrayRef, sym: Sym) -> None:
        """The array now holds ``sym``, of its own type."""

    def read(self, ref: Any) -> Sym:
        """What the user sees of an array now."""

    def wrap(self, v: Any) -> Any:
        """What a rule returned, as a user value."""

    def element(self, ref: ArrayRef, it: Sym) -> Any:
        """``ref[it]`` for an index that is in range."""

    def apply_rule(self, rule: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a rule of ``arrays`` on what the arguments hold now."""


class Capturing(Protocol):
    """Captured state: what the program reads that is none of its arguments (``trace.captured_state``)."""

    consts: dict[Place, Any]                         # captured values that are parameters of this function

    def constant(self, place: Place) -> Any:
        """A captured number or array as a parameter of the IR function."""

    def captured_value(self, place: Place) -> Any:
        """The user value of the object at a place."""

    def global_value(self, table: dict[str, Any], name: str) -> Any:
        """The user value of a global variable; ``MISSING`` if there is none."""

    def cell_value(self, table: dict[str, Any], cell: Any) -> Any:
        """The user value of a closure cell of a function with these globals; ``MISSING`` if it is empty."""

    def lift(self, v: Any) -> Any:
        """The user value of a constant, which is read again at each call where it may change."""

    def opened(self, v: Any) -> Any:
        """``lift``, where a captured list or dict becomes one that may be changed."""

    def trusts(self, v: Any) -> bool:
        """True if a module or class is taken never to change."""

    def is_fixed(self, v: Any) -> bool:
        """True if the attributes of a static object are taken never to change."""

    def in_class(self, cls: type, name: str) -> Any:
        """The entry of a class or one of its bases under a name, not bound; ``MISSING`` if there is none."""

    def function_parts(self, fun: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The defaults of a Python function, by position and by name."""

    def compared(self, x: Any, y: Any) -> None:
        """Note that the program asks whether two values are the same object."""

    def own_rules(self, custom: Any) -> None:
        """Note that the program depends on the derivative rules of a function."""

    def expects(self, obj: Instance, name: str) -> None:
        """Note that the program reads an attribute of an object."""


class Paths(Protocol):
    """Where the trace stands: the path, its state, and how paths part, meet and end."""

    state: State
    result: Slot                                     # the value of an expression whose paths are joined
    returns: list[Edge]
    pinned: list[Obj]                                # objects that the caller can see: always live
    depth: int                                       # of run-time conditions around this point
    loop_types: dict[Any, dict[str, tuple[Scalar, bool]]]

    def on(self, edge: Edge) -> AbstractContextManager[None]:
        """Act at the end of another path."""

    def here(self) -> Edge:
        """The end of the path that is being traced."""

    def enter(self, edge: Edge) -> None:
        """Go on at the end of another path."""

    def path(self, side: Callable[[], None]) -> Edge | None:
        """Trace ``side`` from here; its end, unless it jumps away."""

    def survives(self, side: Callable[[], None]) -> bool:
        """Trace ``side``, which may leave the builder nowhere; true if it came to its end."""

    def join(self, edges: Sequence[Edge | None], roots: Sequence[Obj] | None, name: str = "join") -> None:
        """Go on where these paths meet; ``roots``: the variables that are live there (``None``: all)."""

    def branch(self, cond: Value, then: Callable[[], None], other: Callable[[], None],
               roots: Sequence[Obj] | None) -> None:
        """A condition known at run time: trace both sides and go on where they meet."""

    def fork(self, cond: Value, then: str = "then", other: str = "else") -> Edge:
        """Go on where a condition holds; the path on which it does not."""

    def choose(self, c: Sym, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``then() if c else other()`` for a condition known at run time."""

    def choose_value(self, c: Any, x: Any, y: Any) -> Any:
        """``x if c else y`` of values that are there already."""

    def keep(self, slot: Slot, v: Any) -> None:
        """Assign a variable, in the state that evaluating ``v`` has left."""

    def load(self, slot: Slot, own: bool = True) -> Any:
        """The value of a variable; checked where it may be unbound."""

    def take_result(self) -> Any:
        """The value of an expression whose paths have been joined."""

    def return_(self, value: Any) -> NoReturn:
        """End this path with the function's result."""

    def die(self) -> NoReturn:
        """Abandon this path, which has been ended or cannot be reached."""

    def native(self, fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Let Python do it; an exception that is certain on this path is recorded there."""

    def unsupported(self, message: str, hint: str = "") -> NoReturn:
        """Refuse the program; ``hint``: how to write it instead."""

    def raise_info(self, info: ExcInfo, *values: Any) -> NoReturn:
        """This path raises for certain."""

    def raise_error(self, e: BaseException) -> NoReturn:
        """This path raises what Python has raised."""

    def python_refuses(self, fun: Callable[..., Any], *args: Any) -> None:
        """Raise the error that Python raises for operands of these types, one of which is ``None``, a string, …"""


class Choosing(Protocol):
    """Values of several kinds, and what is known of their tags on a path (``unions.py``)."""

    def settle(self, v: Any) -> Any:
        """The variant, where a choice can only be that one here."""

    def settled(self, v: Any) -> Any:
        """``settle`` of a value and of what is in it."""

    def trimmed(self, v: Any) -> Any:
        """A choice with those variants alone that are possible here."""

    def first_choice(self, values: Iterable[Any]) -> Choice | None:
        """A choice among values that can still be one of several, or inside the containers among them."""

    def walked_choice(self, v: Any) -> Choice | None:
        """A choice that a loop over ``v`` walks."""

    def over(self, c: Choice, fun: Callable[[Any], Any]) -> Any:
        """``fun`` of the variant that is there: a switch over the tag."""

    def attempt(self, fun: Callable[[], Any]) -> Any:
        """``fun()`` of one variant; an error that Python would raise is raised on its path."""

    def over_pair(self, x: Any, y: Any, fun: Callable[[Any, Any], Any]) -> Any:
        """``fun(x, y)`` where one of them, or both, is a choice."""

    def dispatch(self, c: Choice, side: Callable[[Any], None], roots: Sequence[Obj] | None) -> None:
        """Statements for each variant that is possible; ``roots``: what is live afterwards."""

    def assume(self, cond: Value, truth: bool) -> None:
        """This path is taken where ``cond`` is ``truth``."""

    def know(self, tag: Value, indices: Indices) -> None:
        """A tag is one of these on this path."""

    def says(self, test: Value, tag: Value, if_true: Indices, if_false: Indices) -> Sym:
        """A truth value, and what follows from it for a tag."""

    def combined(self, op: str, result: Any, *operands: Any) -> Any:
        """``a and b``, or ``or``, that came about by control flow."""

    def relies_on(self, cond: Value, truth: bool, ops: Iterable[Op]) -> bool:
        """True if ops may look at a variant that is there only where ``cond`` is ``truth``."""

    def from_tag(self, x: Any, fun: Callable[[Any], Any]) -> Any:
        """``fun`` of a number that follows from a tag, as a test of the tag; ``None`` where it is no such number."""


class Objects(Operating, Protocol):
    """Python's operations on user values."""

    def compare_at(self, loc: Loc, op: str, x: Any, y: Any) -> Any:
        """``compare`` at this place in the user's source."""

    def long_list(self, given: Columns) -> Any:
        """A list whose columns are values of the trace."""

    def in_place(self, op: str, x: Any, y: Any, loc: Loc) -> Any:
        """``x op= y``: the new value of the variable."""

    def truth(self, v: Any, loc: Loc | None = None) -> Any:
        """The truth of a value: a Python bool when known, otherwise a bool ``Sym``."""

    def not_(self, v: Any, loc: Loc | None = None) -> Any:
        """``not v``."""

    def both(self, op: str, x: Any, y: Any) -> Any:
        """``x and y``, ``x or y`` of truths that are there already."""

    def setitem(self, obj: Any, index: Any, value: Any, loc: Loc | None = None) -> None:
        """``obj[index] = value``."""

    def delitem(self, obj: Any, index: Any, loc: Loc) -> None:
        """``del obj[index]``."""

    def setattr(self, obj: Any, name: str, value: Any, loc: Loc | None = None) -> None:
        """``obj.name = value``."""

    def delattr(self, obj: Any, name: str, loc: Loc) -> None:
        """``del obj.name``."""

    def unpack(self, v: Any, n: int, star: int | None, loc: Loc) -> list[Any]:
        """The values that ``x, y = v`` assigns; ``star``: the place of the starred name."""

    def mapping(self, v: Any) -> dict[str, Any]:
        """The items of a dict, made here or from outside."""

    def get(self, d: DictObj, number: Sym, default: Any = None) -> Any:
        """``d.get(number, default)`` of a run-time number."""


class Calls(Protocol):
    """Calls, functions as data, and nodes of recursive dataclasses."""

    heaps: dict[Family, Store]                       # where nodes are made

    def call_at(self, loc: Loc, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call ``fun`` from this place in the user's source."""

    def call_traced(self, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> FunctionRef:
        """``fun`` as an IR function for these arguments, traced but not called."""

    def call_with_rule(self, custom: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function with a derivative of its own (``custom.Custom``)."""

    def made_function(self, fn: Any) -> Any:
        """A function that has just been made: a box, if its like are boxed (``boxed_closures.py``)."""

    def box_functions(self, functions: Iterable[Any]) -> NoReturn:
        """Begin the trace anew with these functions boxed."""

    def inner(self, func: Function) -> Trace:
        """The trace of another function of the module."""

    def begin_heaps(self) -> list[Obj]:
        """Make the heaps of a program at its beginning; they are live throughout."""

    def imported(self, packed: Packed) -> Any:
        """A packed value whose leaves are values of the trace."""

    def argument(self, packed: Packed, readonly: str) -> Any:
        """A packed argument of the program."""

    def make_node(self, family: Family, made: Instance) -> Any:
        """The node with the attributes of an object that has just been made."""

    def node_attribute(self, ref: Any, name: str) -> Any:
        """``node.name``."""

    def assign_node(self, ref: Any, name: str, v: Any) -> None:
        """``node.name = v``."""


class Trace(Emitting, Capturing, Paths, Choosing, Objects, Calls, Protocol):
    """One IR function while it is traced."""
