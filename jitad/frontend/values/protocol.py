"""The trace as a protocol for the rest of the front end: rules, containers, control flow and transforms.

``Trace`` is divided by concern.  ``trace.FunctionTrace`` implements it; its parts (``Choices``, ``Nodes``,
``Operations``, …) are classes in the folders concerned, and use each other through this protocol.  A *user value* is
anything that a variable of the user may hold (``values.py``); its type is ``Any``.
"""

from __future__ import annotations

import functools
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
    """A function specialised for given arguments, to be called (or differentiated) as ``name(params…)``.

    ``result_types``: the result types of the IR function.  ``finish(t, results)``: converts its results to a user
    value.  ``value``: the result in terms of the callee's stand-ins, whose static parts are valid in the caller.
    ``changed``: the caller's objects that it changes.  ``consts``: places of the captured values that are its last
    parameters.
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
    """The IR function under construction, and its numbers, arrays and mutable objects."""

    session: Session
    func: Function

    def value(self, v: Any, type: Scalar | None = None) -> Value:
        """The IR value of a number or stand-in, cast to the scalar type ``type`` if one is given."""

    def sym(self, v: Any) -> Sym:
        """A number as a stand-in."""

    def convert(self, v: Any, type: Type) -> Value:
        """The IR value of ``v`` as an argument for a block parameter of this type."""

    def new_array(self, sym: Sym, readonly: str = "") -> ArrayRef:
        """A new array with the contents ``sym``; ``readonly``: the reason why it must not be written, if any."""

    def new_list(self, items: Sequence[Any]) -> ListObj:
        """A new list."""

    def new_dict(self, items: dict[Any, Any]) -> DictObj:
        """A new dict."""

    def contents(self, obj: Obj) -> Any:
        """The current contents of a mutable object."""

    appends: list[Any]

    def walked_list(self, v: Any) -> Any:
        """What iterating over ``v`` walks, if it is a list of run-time length; otherwise ``v``."""

    def settled_list(self, v: Any) -> Any:
        """The present elements of ``v``, if it is a list of run-time length; otherwise ``v``."""

    def check_fresh(self, obj: Obj) -> None:
        """Refuses to read an object that may be one of several, if one of them has changed since."""

    def overwrite(self, ref: ArrayRef, sym: Sym) -> None:
        """Sets the contents of the array to ``sym``, which has the array's type."""

    def read(self, ref: Any) -> Sym:
        """The current value of an array or view."""

    def wrap(self, v: Any) -> Any:
        """The result of a rule as a user value."""

    def element(self, ref: ArrayRef, it: Sym) -> Any:
        """``ref[it]`` for an index that is in range."""

    def apply_rule(self, rule: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs a rule of ``arrays`` on the current values of the arguments."""


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

    def as_constant(self, v: Any) -> Any:
        """``v`` with captured numbers, lists and dicts in it as Python objects, compiled in and guarded."""

    def trusts(self, v: Any) -> bool:
        """True if a module or class is taken never to change."""

    def is_fixed(self, v: Any) -> bool:
        """True if the attributes of a static object are taken never to change."""

    def in_class(self, cls: type, name: str) -> Any:
        """The entry of a class or one of its bases under a name, not bound; ``MISSING`` if there is none."""

    def function_parts(self, fun: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The defaults of a Python function, by position and by name."""

    def partial_parts(self, fun: functools.partial[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that a ``functools.partial`` holds, by position and by name."""

    def compared(self, x: Any, y: Any) -> None:
        """Note that the program asks whether two values are the same object."""

    def identified(self, obj: Instance) -> Any:
        """The object from outside that this one stands for, which it must be at each call; ``None`` if unknown."""

    def own_rules(self, custom: Any) -> None:
        """Note that the program depends on the derivative rules of a function."""

    def expects(self, obj: Instance, name: str) -> None:
        """Note that the program reads an attribute of an object."""


class Paths(Protocol):
    """The current path and its state; forks, joins and ends of paths."""

    state: State
    result: Slot                                     # the value of an expression whose paths are joined
    returns: list[Edge]
    pinned: list[Obj]                                # objects visible to the caller, which are always live
    depth: int                                       # of run-time conditions around this point
    loop_types: dict[Any, dict[str, tuple[Scalar, bool]]]
    widened: set[Value]                              # each is an f64 since an f32 and Python numbers meet in it

    def on(self, edge: Edge) -> AbstractContextManager[None]:
        """A context in which the trace acts at the end of another path."""

    def here(self) -> Edge:
        """The end of the current path."""

    def enter(self, edge: Edge) -> None:
        """Continues at the end of another path."""

    def path(self, side: Callable[[], None]) -> Edge | None:
        """Traces ``side`` from here; returns its end, or None if it does not complete."""

    def survives(self, side: Callable[[], None]) -> bool:
        """Traces ``side``, which may leave no current block; returns True if it completes."""

    def join(self, edges: Sequence[Edge | None], roots: Sequence[Obj] | None, name: str = "join") -> None:
        """Joins these paths and continues there; ``roots``: the variables that are live (None: all)."""

    def branch(self, cond: Value, then: Callable[[], None], other: Callable[[], None],
               roots: Sequence[Obj] | None) -> None:
        """Traces both sides of a condition known at run time, and joins them."""

    def fork(self, cond: Value, then: str = "then", other: str = "else") -> Edge:
        """Continues on the path on which a condition holds; returns the other path."""

    def choose(self, c: Sym, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``then() if c else other()`` for a condition known at run time."""

    def choose_value(self, c: Any, x: Any, y: Any) -> Any:
        """``x if c else y`` for values that are already evaluated."""

    def keep(self, slot: Slot, v: Any) -> None:
        """Assigns a variable, in the state after ``v`` has been evaluated."""

    def load(self, slot: Slot, own: bool = True) -> Any:
        """The value of a variable; emits a check if it may be unbound."""

    def take_result(self) -> Any:
        """The value of an expression whose paths have been joined."""

    def return_(self, value: Any) -> NoReturn:
        """Ends this path with the function's result."""

    def die(self) -> NoReturn:
        """Abandons this path, which has ended or is unreachable."""

    def native(self, fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Calls a Python function while tracing; an exception that is certain on this path is recorded."""

    def unsupported(self, message: str, hint: str = "") -> NoReturn:
        """Refuses the program; ``hint`` suggests an alternative."""

    def raise_info(self, info: ExcInfo, *values: Any) -> NoReturn:
        """Records that this path raises, and abandons it."""

    def raise_error(self, e: BaseException) -> NoReturn:
        """Records that this path raises an exception that Python has raised, and abandons it."""

    def python_refuses(self, fun: Callable[..., Any], *args: Any) -> None:
        """Raises the error that Python raises for operands of these types, one of which is ``None``, a string, …"""


class Choosing(Protocol):
    """Unions, and facts about their tags on a path (``unions.py``)."""

    def settle(self, v: Any) -> Any:
        """The only possible variant of a union on this path; otherwise the value itself."""

    def settled(self, v: Any) -> Any:
        """``settle`` applied to a value and its parts."""

    def trimmed(self, v: Any) -> Any:
        """The union reduced to the variants that are possible on this path."""

    def first_choice(self, values: Iterable[Any]) -> Choice | None:
        """The first union among the values, or in containers among them, that has several possible variants."""

    def walked_choice(self, v: Any) -> Choice | None:
        """The union that a loop over ``v`` iterates over, or None."""

    def over(self, c: Choice, fun: Callable[[Any], Any]) -> Any:
        """``fun`` applied to the present variant: a switch over the tag."""

    def attempt(self, fun: Callable[[], Any]) -> Any:
        """``fun()`` for one variant; an error that Python would raise is raised on the path of the variant."""

    def over_pair(self, x: Any, y: Any, fun: Callable[[Any, Any], Any]) -> Any:
        """``fun(x, y)`` where either or both may be unions."""

    def dispatch(self, c: Choice, side: Callable[[Any], None], roots: Sequence[Obj] | None) -> None:
        """Traces ``side`` for each possible variant; ``roots``: the variables that are live afterwards."""

    def assume(self, cond: Value, truth: bool) -> None:
        """Records the facts that follow if ``cond`` is ``truth`` on this path."""

    def know(self, tag: Value, indices: Indices) -> None:
        """Records that a tag is one of ``indices`` on this path."""

    def says(self, test: Value, tag: Value, if_true: Indices, if_false: Indices) -> Sym:
        """A truth value, with the facts about a tag that follow from it."""

    def combined(self, op: str, result: Any, *operands: Any) -> Any:
        """Records that ``result`` is ``a and b`` or ``a or b``, computed by control flow."""

    def relies_on(self, cond: Value, truth: bool, ops: Iterable[Op]) -> bool:
        """True if ops may read a variant that is present only if ``cond`` is ``truth``."""

    def from_tag(self, x: Any, fun: Callable[[Any], Any]) -> Any:
        """``fun`` of a number that is determined by a tag, as a test of the tag; None for any other number."""


class Objects(Operating, Protocol):
    """Python's operations on user values."""

    def compare_at(self, loc: Loc, op: str, x: Any, y: Any) -> Any:
        """``compare`` at the given source location."""

    def long_list(self, given: Columns) -> Any:
        """A list whose columns are values of the trace."""

    def in_place(self, op: str, x: Any, y: Any, loc: Loc) -> Any:
        """The new value of the variable after ``x op= y``."""

    def truth(self, v: Any, loc: Loc | None = None) -> Any:
        """The truth of a value: a Python bool if known, otherwise a bool ``Sym``."""

    def not_(self, v: Any, loc: Loc | None = None) -> Any:
        """``not v``."""

    def both(self, op: str, x: Any, y: Any) -> Any:
        """``x and y`` or ``x or y`` for truth values that are already evaluated."""

    def setitem(self, obj: Any, index: Any, value: Any, loc: Loc | None = None) -> None:
        """``obj[index] = value``."""

    def delitem(self, obj: Any, index: Any, loc: Loc) -> None:
        """``del obj[index]``."""

    def setattr(self, obj: Any, name: str, value: Any, loc: Loc | None = None) -> None:
        """``obj.name = value``."""

    def delattr(self, obj: Any, name: str, loc: Loc) -> None:
        """``del obj.name``."""

    def unpack(self, v: Any, n: int, star: int | None, loc: Loc) -> list[Any]:
        """The values that ``x, y = v`` assigns; ``star``: the index of the starred target."""

    def mapping(self, v: Any) -> dict[str, Any]:
        """The items of a dict, traced or captured."""

    def get(self, d: DictObj, number: Sym, default: Any = None) -> Any:
        """``d.get(number, default)`` for a run-time number."""


class Calls(Protocol):
    """Calls, functions as data, and nodes of recursive dataclasses."""

    heaps: dict[Family, Store]                       # the heaps that nodes are made in

    def call_at(self, loc: Loc, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls ``fun`` at the given source location."""

    def call_traced(self, fun: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> FunctionRef:
        """``fun`` as an IR function specialised for these arguments, without calling it."""

    def call_with_rule(self, custom: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function with a derivative of its own (``custom.Custom``)."""

    def made_function(self, fn: Any) -> Any:
        """A function that has just been made: a box if functions of its code are boxed (``boxed_closures.py``)."""

    def box_functions(self, functions: Iterable[Any]) -> NoReturn:
        """Restarts the trace with these functions boxed."""

    def inner(self, func: Function) -> Trace:
        """The trace of another function of the module."""

    def begin_heaps(self) -> list[Obj]:
        """Makes the heaps of a program at its start; returns them, since they are always live."""

    def imported(self, packed: Packed) -> Any:
        """A packed value whose leaves are values of the trace."""

    def argument(self, packed: Packed, readonly: str) -> Any:
        """A packed argument of the program."""

    def make_node(self, family: Family, made: Instance) -> Any:
        """Makes a node with the attributes of a new object."""

    def node_attribute(self, ref: Any, name: str) -> Any:
        """``node.name``."""

    def assign_node(self, ref: Any, name: str, v: Any) -> None:
        """``node.name = v``."""


class Trace(Emitting, Capturing, Paths, Choosing, Objects, Calls, Protocol):
    """The trace of one IR function."""
