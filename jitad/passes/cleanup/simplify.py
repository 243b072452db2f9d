"""Simplifies a function without moving or duplicating work.

Repeats these steps until nothing changes:

* fold ops (``ir.evaluate.fold``, ``peephole``);
* replace branches and switches that are decided, or that have one target, by jumps;
* remove redundant block parameters (``block_params``);
* redirect jumps past empty blocks, and merge blocks.
"""

from __future__ import annotations

from ...ir.evaluate.fold import ARITHMETIC, FOLDED, any_constant, fold
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import result_types
from ...ir.type_rules import TypeRuleError
from ...ir.types import Scalar
from ..analysis.cfg import (
    Mapping,
    go_past,
    merge_chains,
    passes_on,
    remove_unreachable,
    resolve,
    set_term,
    shared_params,
    substitute,
)
from ..analysis.loops import LoopForest, loop_forest
from .block_params import drop_redundant_params
from .peephole import RULES, rewrite

FOLDABLE = frozenset(FOLDED) | RULES.keys()
_BY_CONSTANTS = ARITHMETIC - RULES.keys()
_OF_INTEGERS = frozenset(("add", "sub"))
"""Ops whose rules without constants are about integers."""

ROUNDS = 8
"""The most rounds.  More are rarely of use, and each round leaves valid IR."""


def simplify(module: Module) -> bool:
    """Simplify every function; returns True if anything changed."""
    return any([simplify_function(func) for func in module.functions.values()])


def simplify_function(func: Function) -> bool:
    """Simplify one function; returns True if anything changed."""
    for number in range(ROUNDS):
        changed = _fold_ops(func)
        if _fold_terminators(func):
            changed = True
            remove_unreachable(func)
        if number and not changed:
            return True
        forest = loop_forest(func)
        changed |= bool(drop_redundant_params(func, forest))
        changed |= _thread_empty_blocks(func, forest)
        changed |= merge_chains(func)
        if not changed:
            return number > 0
    return True


# --- ops ------------------------------------------------------------------------------------------

def _fold_ops(func: Function) -> bool:
    mapping: Mapping = {}
    changed, unaffected = False, mapping.keys().isdisjoint
    for b in func.blocks:
        kept = []
        for op in b.ops:
            if mapping and not unaffected(op.operands):
                op.operands = [resolve(mapping, v) for v in op.operands]
            name = op.name
            if (name in _BY_CONSTANTS or name in _OF_INTEGERS and not _is_integer(op)) and \
                    not any_constant(op.operands):               # most ops
                kept.append(op)
                continue
            if name == "check" and op.operands[0].const is True:
                changed = True
                continue
            if name == "pop" and (frame := _frame(op)) is not None:
                mapping |= frame
                changed = True
                continue
            if name not in FOLDABLE:
                kept.append(op)
                continue
            if (known := _known(op)) is not None:
                changed = True
                if known is not op.result:
                    mapping[op.result] = known
                    continue
            kept.append(op)
        b.ops = kept
        if mapping and b.term is not None and not unaffected(b.term.operands):
            b.term.operands = [resolve(mapping, v) for v in b.term.operands]
    substitute(func, mapping)
    return changed


def _is_integer(op: Op) -> bool:
    t = op.results[0].type
    return isinstance(t, Scalar) and t.is_int


def _frame(pop: Op) -> Mapping | None:
    """The values that ``pop`` returns, if the stack is the result of a push."""
    push = pop.operands[0].op
    if push is None or push.name != "push" or [v.type for v in push.operands] != [v.type for v in pop.results]:
        return None
    return dict(zip(pop.results, push.operands))


def _known(op: Op) -> Value | None:
    """Simplify one op in place.

    Returns the value that replaces its result; the result itself if the op has changed; ``None`` if nothing has.
    """
    changed = None
    while True:
        found = fold(op.name, op.operands, op.attrs)
        if isinstance(found, Value):
            return found if found.type == op.result.type else changed
        if found is not None:
            value, type = found
            if type != op.result.type:
                return changed
            op.name, op.operands, op.attrs = "const", [], {"value": value, "type": type}
            return op.result
        better = rewrite(op)
        if isinstance(better, Value):
            return better if better.type == op.result.type else changed
        if better is None or not _fits(op, *better):
            return changed
        op.name, op.operands, op.attrs = better
        changed = op.result
        if op.name == "const":
            return changed


def _fits(op: Op, name: str, operands: list[Value], attrs: dict[str, object]) -> bool:
    try:
        return result_types(name, operands, attrs) == [op.result.type]
    except TypeRuleError:
        return False


# --- terminators ----------------------------------------------------------------------------------

def _fold_terminators(func: Function) -> bool:
    changed = False
    for b in func.blocks:
        term = b.term
        assert term is not None
        if term.name == "branch":
            changed |= _fold_branch(b, term)
        elif term.name == "switch":
            changed |= _fold_switch(b, term)
    return changed


def _fold_branch(b: Block, term: Op) -> bool:
    condition, (then, other) = term.operands[0], term.edges
    if condition.const is not None:
        set_term(b, "jump", edges=[then if condition.const else other])
        return True
    if condition.op is not None and condition.op.name == "not":
        term.operands, term.edges = [condition.op.operands[0]], [other, then]
        return True
    if then.block is other.block:
        pairs = list(zip(then.args, other.args))
        if all(x is y or isinstance(x.type, Scalar) for x, y in pairs):
            set_term(b, "jump", edges=[Edge(then.block, [_choice(b, condition, x, y) for x, y in pairs])])
            return True
    return False


def _choice(b: Block, condition: Value, x: Value, y: Value) -> Value:
    if x is y:
        return x
    op = Op("select", [condition, x, y], [x.type])
    op.block = b
    b.ops.append(op)
    return op.result


def _fold_switch(b: Block, term: Op) -> bool:
    first, number = term.edges[0], term.operands[0].const
    if number is not None:
        chosen = term.edges[number] if 0 <= number < len(term.edges) else term.edges[-1]
        set_term(b, "jump", edges=[chosen])
        return True
    if all(e.block is first.block and e.args == first.args for e in term.edges):
        set_term(b, "jump", edges=[first])
        return True
    return False


# --- empty blocks ---------------------------------------------------------------------------------

def _thread_empty_blocks(func: Function, forest: LoopForest) -> bool:
    """Redirect jumps past empty blocks, and replace forks whose sides are empty and meet again.

    Other forks keep the empty blocks on their edges, so that no edge becomes critical.  Preheaders, latches and exits
    of loops stay.  Returns True if anything changed.
    """
    candidates = {b for b in func.blocks[1:] if passes_on(b)}
    if not candidates:
        return False
    above = set(forest.dom.idom.values())                    # no block reads the parameters of others
    candidates -= shared_params(func, candidates & above)
    heads = {loop.head for loop in forest.loops}
    empty = {b for b in candidates if b not in heads and b.term is not None and b.term.edges[0].block not in heads}
    changed = False
    for b in func.blocks:
        assert b.term is not None
        if b.term.name == "jump":
            while (edge := b.term.edges[0]).block in empty and edge.block is not b:
                go_past(edge)
                changed = True
        elif b.term.name in ("branch", "switch"):
            changed |= _meet_again(b.term, empty, forest)
    if changed:
        remove_unreachable(func)
    return changed


def _meet_again(term: Op, empty: set[Block], forest: LoopForest) -> bool:
    """Redirect all edges of a fork past empty blocks, if they then have one target and the fork becomes a jump."""
    assert term.block is not None
    loop = forest.loop_of(term.block)
    ends = []
    for e in term.edges:
        end = Edge(e.block, list(e.args))
        while end.block in empty and (loop is None or end.block in loop.blocks):
            go_past(end)
        ends.append(end)
    first = ends[0]
    pairs = [(x, y) for e in ends[1:] for x, y in zip(first.args, e.args)]
    together = all(e.block is first.block for e in ends) and all(
        x is y or (isinstance(x.type, Scalar) and term.name == "branch") for x, y in pairs)
    if not together or all(e.block is old.block for e, old in zip(ends, term.edges)):
        return False
    term.edges = ends
    return True
