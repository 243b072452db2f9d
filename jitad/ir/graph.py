"""The graph: modules of functions of blocks of operations.

::

    module    ::= exception* external* derived* rule* function*
    exception ::= "exception" number (kind | "class" string) [message] ["args" literal] ["at" file ":" line]
    external  ::= "external" "@" name "(" (["own"] type)* ")" "->" "(" type* ")"     ; in another module (``External``)
    derived   ::= "derived" "@" name "=" kind "@" name "wrt" literal      ; a derivative asked for (``Derived``)
    rule      ::= "rule" "@" name "=" kind "@" name ("," "@" name)* "wrt" literal    ; its derivative (``Rule``)
    function  ::= "func" "@" name "(" param* ")" "->" "(" type* ")" attrs? "{" block+ "}"
    param     ::= "%" id ":" ["own"] type
    block     ::= "^" id ["(" (value ":" type)* ")"] ":" op* terminator   ; the first: the function's parameters
    op        ::= [value ("," value)* "="] opcode [literal] attrs? operands [":" type ("," type)*]
    terminator::= "jump" edge | "branch" value "," edge "," edge
                | "switch" value "," edge ("," edge)*          ; i64; the last edge is the default
                | "call" attrs? "@" name "(" value* ")" "->" edge         ; results are the edge's first values
                | "return" value* | "raise" attrs value*
    edge      ::= "^" id ["(" value* ")"]
    attrs     ::= "{" (id "=" literal)* "}"                    ; Python literals and types

Lists have commas between their items; ``;`` begins a comment; an op is on one line.  The literal of ``const`` is its
value.  Attributes that the result types imply are not written (``printer.IMPLIED``), and result types that the op's
rule gives may be omitted.

A block is a continuation, with the block's parameters; there are no phi nodes.  ``call`` names the continuation to
which it returns: its edge's block takes the callee's results as its first parameters and the edge's arguments as the
rest.

Arrays are values: ``set`` returns a new array.  ``set`` and similar ops *consume* their first operand, which must not
be used afterwards (``ops.OpDef.consumes``, checked by ``verify``), so machine code works in place.  A parameter marked
``own`` may be consumed by the callee; others are borrowed.  ``stack`` values are immutable linked lists of frames (an
array that was pushed counts as still in use).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import NOWHERE, Loc
from .types import Type


class Value:
    """The result of an operation or the parameter of a block; compared by identity.

    ``op``: the operation that defines it, or None for a block parameter.
    """

    __slots__ = ("type", "owner", "op", "index", "hint")

    def __init__(self, type: Type, owner: Op | Block, index: int, hint: str = "") -> None:
        self.type, self.owner, self.index, self.hint = type, owner, index, hint
        self.op = owner if owner.__class__ is Op else None

    @property
    def block(self) -> Block:
        """The block in which this value is defined."""
        op = self.op
        if op is None:
            return self.owner    # type: ignore[return-value]
        assert op.block is not None
        return op.block

    @property
    def const(self) -> Any:
        """The Python value of a ``const``, else None."""
        op = self.op
        return op.attrs["value"] if op is not None and op.name == "const" else None

    @property
    def undefined(self) -> bool:
        """True for an ``undef``, whose value does not matter."""
        return self.op is not None and self.op.name == "undef"

    def __repr__(self) -> str:
        return f"%{self.hint or hex(id(self))[-5:]}:{self.type}"


@dataclass(slots=True, eq=False)
class Edge:
    """A jump to a block with arguments for its last parameters; the first parameters receive the results of a call."""

    block: Block
    args: list[Value] = field(default_factory=list)

    @property
    def offset(self) -> int:
        """The number of parameters that are results of a call, which come first."""
        return len(self.block.params) - len(self.args)

    @property
    def results(self) -> list[Value]:
        """The parameters that receive the results of the call that the edge leaves; empty for other terminators."""
        return self.block.params[:self.offset]

    def passed(self) -> Iterator[tuple[Value, Value]]:
        """Pairs of parameter and argument."""
        params, args = self.block.params, self.args
        first = len(params) - len(args)
        return zip(params[first:] if first else params, args)

    def argument(self, param: Value) -> Value | None:
        """The argument for ``param``, or None if that receives a result of a call."""
        index = param.index - self.offset
        return self.args[index] if index >= 0 else None


class Op:
    """An operation or a terminator.  ``edges`` is empty unless it is a terminator with targets.

    ``regions``: blocks that the op runs itself, as a ``for`` does; only the loop level (``loop_level/``) has such ops.
    """

    __slots__ = ("name", "operands", "attrs", "results", "edges", "regions", "loc", "block")

    def __init__(self, name: str, operands: Iterable[Value], result_types: Iterable[Type] = (),
                 attrs: dict[str, Any] | None = None, edges: Iterable[Edge] = (), loc: Loc = NOWHERE) -> None:
        self.name = name
        self.operands = list(operands)
        self.attrs: dict[str, Any] = attrs or {}
        results: list[Value] = []
        self.results = results
        for t in result_types:                               # mostly one; a comprehension is a call
            results.append(Value(t, self, len(results)))
        self.edges: Sequence[Edge] = list(edges) if edges else ()            # most ops have none
        self.regions: Sequence[Block] = ()
        self.loc = loc
        self.block: Block | None = None

    @property
    def result(self) -> Value:
        (result,) = self.results
        return result

    def define(self, v: Value) -> None:
        """Make ``v``, which was a block parameter or another op's result, the only result: its readers read this op."""
        self.results = [v]
        v.owner = v.op = self
        v.index = 0

    def used(self) -> Sequence[Value]:
        """Every value that the op reads: operands, then edge arguments."""
        if not self.edges:
            return self.operands
        found = [*self.operands]
        for edge in self.edges:
            found += edge.args
        return found

    def replace_uses(self, mapping: dict[Value, Value]) -> None:
        """Rewrite operands and edge arguments through ``mapping`` (other values are unchanged)."""
        unaffected, get = mapping.keys().isdisjoint, mapping.get
        if not unaffected(self.operands):
            self.operands = [get(v, v) for v in self.operands]
        for edge in self.edges:
            if not unaffected(edge.args):
                edge.args = [get(v, v) for v in edge.args]

    def __repr__(self) -> str:
        return f"<{self.name} {self.attrs or ''} {self.operands}>"


class Block:
    """A continuation: parameters, operations, one terminator."""

    __slots__ = ("name", "params", "ops", "term", "func")

    def __init__(self, func: Function, name: str = "") -> None:
        self.func = func
        self.name = name
        self.params: list[Value] = []
        self.ops: list[Op] = []
        self.term: Op | None = None

    def add_param(self, type: Type, hint: str = "") -> Value:
        value = Value(type, self, len(self.params), hint)
        self.params.append(value)
        return value

    def remove_param(self, index: int) -> None:
        """Remove one parameter; the caller removes the argument of every incoming edge."""
        del self.params[index]
        for i, p in enumerate(self.params):
            p.index = i

    def successors(self) -> list[Block]:
        edges = self.term.edges if self.term is not None else ()
        if len(edges) == 1:                                  # most blocks; a comprehension is a call
            return [edges[0].block]
        if len(edges) == 2:
            return [edges[0].block, edges[1].block]
        return [e.block for e in edges] if edges else []

    @property
    def call(self) -> Op | None:
        """The terminator if it calls a function, else None."""
        return self.term if self.term is not None and self.term.name == "call" else None

    def all_ops(self) -> Iterator[Op]:
        """The operations, then the terminator."""
        yield from self.ops
        if self.term is not None:
            yield self.term

    def nested_ops(self) -> Iterator[Op]:
        """As ``all_ops``, with the ops in the regions of each op after it."""
        for op in self.all_ops():
            yield op
            for region in op.regions:
                yield from region.nested_ops()

    def __repr__(self) -> str:
        return f"^{self.name}"


class Function:
    """A function; the first block is the entry, and its parameters are the function's.

    ``own``: indices of array (and stack) parameters that the function may consume.
    ``attrs``: free-form facts (``"inline"``: "always" | "never", ``"py_name"``, …); values print as Python literals.
    ``control``: cache for an analysis of control flow, with the control flow analysed (``ir/dominance.py``).
    """

    def __init__(self, name: str, param_types: Iterable[Type] = (), result_types: Iterable[Type] = (),
                 param_names: Iterable[str] = ()) -> None:
        self.name = name
        self.blocks: list[Block] = []
        self.result_types: list[Type] = list(result_types)
        self.own: set[int] = set()
        self.attrs: dict[str, Any] = {}
        self.loc: Loc = NOWHERE
        self.control: tuple[list[Any], Any] | None = None
        entry = self.new_block("entry")
        names = list(param_names)
        for i, t in enumerate(param_types):
            entry.add_param(t, names[i] if i < len(names) else "")

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    @property
    def params(self) -> list[Value]:
        return self.blocks[0].params

    @property
    def param_types(self) -> list[Type]:
        return [p.type for p in self.params]

    def new_block(self, name: str = "") -> Block:
        block = Block(self, name)
        self.blocks.append(block)
        return block

    def all_ops(self) -> Iterator[Op]:
        for block in self.blocks:
            yield from block.ops
            if block.term is not None:
                yield block.term

    def callees(self) -> list[str]:
        """The names of the functions that are called, once for each call."""
        return [call.attrs["callee"] for block in self.blocks if (call := block.call) is not None]

    def defined(self) -> Iterator[Value]:
        """Every value of the function."""
        for block in self.blocks:
            yield from block.params
            for op in block.ops:
                yield from op.results

    def predecessors(self) -> dict[Block, list[tuple[Block, Edge]]]:
        """For each block the incoming edges, with their source blocks."""
        preds: dict[Block, list[tuple[Block, Edge]]] = {b: [] for b in self.blocks}
        for b in self.blocks:
            for e in b.term.edges if b.term else ():
                preds[e.block].append((b, e))
        return preds

    def __repr__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True)
class Operand:
    """In ``ExcInfo.args``: the operand of the op with this number."""

    number: int


@dataclass(frozen=True)
class Filled:
    """In ``ExcInfo.args``: a ``str.format`` template over the operands of the op, by number."""

    text: str


@dataclass(frozen=True)
class ExcInfo:
    """The exception that a ``raise`` or a failed ``check`` throws.

    ``kind`` names a builtin exception, or is ``""`` if ``cls`` is the user's own class.  ``message`` is a
    ``str.format`` template over the operands of the op (at most four scalars).  If it is None there is no argument, or
    ``args``, which hold ``Operand`` and ``Filled`` for parts that are known only at run time, inside tuples and lists
    too.  ``calls``: the user's calls that lead there, as far as they are known, the outermost first.  ``texts``: the
    operands that are strings, by their numbers in ``strings``.
    """

    kind: str
    message: str | None
    loc: Loc = NOWHERE
    cls: Any = None
    args: tuple[Any, ...] | None = None
    texts: tuple[int, ...] = ()
    calls: tuple[Loc, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Derived:
    """A function that differentiation makes from another function.

    ``kind`` is ``"vjp"``: (params…, result cotangents…) → (results…, param cotangents of ``wrt``…);
    ``"jvp"``: (params…, tangents of ``wrt``…) → (results…, tangents of the float results…); or ``"fwd"``, ``"bwd"`` or
    ``"keep"`` (see ``ad``).  Only float results have cotangents and tangents; ``wrt`` lists float parameters by index.
    """

    base: str
    kind: str
    wrt: tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """The derivative of a function whose body does not define it; it is inlined only after differentiation.

    ``kind`` and ``functions``:

    * ``"vjp"``: forward (params…) → (results…, residuals…) and backward (params…, residuals…, result cotangents…) →
      (cotangents of ``wrt``…); forward mode is a third function, like that of ``"jvp"``, or there is none;
    * ``"jvp"``: (params…, tangents of ``wrt``…) → (results…, tangents of the float results…), linear in the tangents;
      reverse mode is its transpose;
    * ``"checkpoint"``: a function with the same results; the reverse sweep recomputes it, and only arguments are saved.

    ``wrt``: the float parameters, in ascending order, that the rule covers.  There is no derivative by others.
    """

    kind: str
    functions: tuple[str, ...]
    wrt: tuple[int, ...]


@dataclass
class External:
    """A function of another module, which is compiled separately.

    Its derivatives, which ``Module.derived`` names, are external too.  ``symbol``, ``exceptions`` and ``code`` are set
    when it has been compiled: its name for the linker, the number of its first exception in this module, and its
    machine code.  ``recursive``: it may call itself.
    """

    params: tuple[Type, ...]
    results: tuple[Type, ...]
    own: frozenset[int] = frozenset()
    recursive: bool = False
    symbol: str = ""
    exceptions: int = 0
    code: Any = None


class Module:
    """Functions by name, exceptions by number, derivatives still to be made, and rules for making them."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.external: dict[str, External] = {}
        self.exceptions: list[ExcInfo] = []
        self.shortages: list[ExcInfo] = []           # exceptions for memory and stack, added by lowering
        self.derived: dict[str, Derived] = {}
        self.rules: dict[str, Rule] = {}
        self.parallel = False                        # loops may run on several threads
        self.gpu = False                             # each iteration of such a loop has a thread of its own
        self.fast_gathers = False                    # the processor has fast vectors of 512 bits at any indices
        self.fast_roots = False                      # it takes four roots in the time of one
        self.fastmath = False                        # formulas may be transformed as if numbers were exact
        self.notes: list[tuple[Loc, str]] = []       # loops that run in parallel, and why others do not

    def add(self, func: Function) -> Function:
        assert func.name not in self.functions, func.name
        self.functions[func.name] = func
        return func

    def unique_name(self, stem: str) -> str:
        name, n = stem, 1
        while name in self.functions or name in self.derived or name in self.external:
            name, n = f"{stem}.{n}", n + 1
        return name

    def exception(self, info: ExcInfo) -> int:
        """Enter an exception and return its number (``loc`` makes it distinct)."""
        self.exceptions.append(info)
        return len(self.exceptions) - 1

    def is_external(self, name: str) -> bool:
        """True for a function of another module, and for its derivatives."""
        while name in self.derived and name not in self.functions and name not in self.external:
            name = self.derived[name].base
        return name in self.external

    def underived(self) -> list[str]:
        """The derivatives that are still to be made."""
        return [n for n in self.derived if n not in self.functions and not self.is_external(n)]

    def derive(self, base: str, kind: str, wrt: Iterable[int]) -> str:
        """The name of a derivative of ``base``; the ``ad`` pass makes every function that was requested."""
        key = Derived(base, kind, tuple(wrt))
        for name, known in self.derived.items():
            if known == key:
                return name
        name = self.unique_name(".".join([base, kind, *map(str, key.wrt)]))
        self.derived[name] = key
        return name
