"""The user's classes: special methods, inheritance, properties, dataclasses, NamedTuples, enums."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import math
import re
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pytest

from jitad import UnsupportedError, checkpoint, custom_jvp, grad, jit, vmap
from tests import tracing
from tests.small_programs import Program, check, check_compiled, refuses

pytestmark = pytest.mark.any_level

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


# --- operators: complex numbers, dual numbers, quaternions --------------------------------------------

@dataclass(frozen=True)
class Complex:
    re: Any
    im: Any = 0.0

    @staticmethod
    def lift(v):
        return v if isinstance(v, Complex) else Complex(v)

    @classmethod
    def polar(cls, radius, angle):
        return cls(radius * math.cos(angle), radius * math.sin(angle))

    def __add__(self, other):
        other = Complex.lift(other)
        return Complex(self.re + other.re, self.im + other.im)

    __radd__ = __add__

    def __neg__(self):
        return Complex(-self.re, -self.im)

    def __sub__(self, other):
        return self + -Complex.lift(other)

    def __rsub__(self, other):
        return Complex.lift(other) - self

    def __mul__(self, other):
        other = Complex.lift(other)
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    __rmul__ = __mul__

    def __truediv__(self, other):
        other = Complex.lift(other)
        out = self * other.conjugate()
        return Complex(out.re / abs(other) ** 2, out.im / abs(other) ** 2)

    def __pow__(self, n):
        out = Complex(1.0)
        for _ in range(n):
            out = out * self
        return out

    def __abs__(self):
        return math.hypot(self.re, self.im)

    def __bool__(self):
        return self.re != 0

    def conjugate(self):
        return Complex(self.re, -self.im)

    @property
    def angle(self):
        return math.atan2(self.im, self.re)


@program
def complex_arithmetic(x):
    z = Complex(x, 1.0)
    w = (2 * z + 1 - z * z) / Complex(1.0, x) + (1 - z) ** 2
    return abs(w) + (-w).angle + (w - 3.0).im + Complex.polar(x, 0.3).re


@program
def julia(x):
    z, n = Complex(x, 0.1), 0
    while abs(z) < 3.0 and n < 20:
        z = z * z + Complex(x, 0.3)
        n += 1
    return abs(z) + n


@program
def comparisons_of_dataclasses(x):
    score = 0.0
    if Complex(x, 2.0) == Complex(x, 2.0):
        score += x
    if Complex(x) != Complex(1.0):
        score += x * x
    if Complex(x) and not Complex(0.0):
        score *= 3.0
    return score


@dataclass
class Dual:
    v: Any
    d: Any

    def __mul__(self, other):
        if isinstance(other, Dual):
            return Dual(self.v * other.v, self.v * other.d + self.d * other.v)
        return Dual(self.v * other, self.d * other)

    __rmul__ = __mul__

    def __add__(self, other):
        if not isinstance(other, Dual):
            return NotImplemented
        return Dual(self.v + other.v, self.d + other.d)

    def __iadd__(self, other):
        self.v += other.v
        self.d += other.d
        return self

    def __lt__(self, other):
        return self.v < other.v


@program
def dual_numbers(x):
    a = Dual(x, 1.0)
    cube = 3 * a * a * a
    return cube.d * cube.v


@program
def in_place_through_an_alias(x):
    a = Dual(x, 1.0)
    b = a
    for _ in range(3):
        a += a * a
    return b.d


@program
def chosen_by_comparison(x):
    a, b = Dual(x, 1.0), Dual(1.0, 2.0)
    least = a if a < b else b
    return least.v * x + (1.0 if a > b else 2.0) + min([a, b]).d * x + max(a, b).v


class Half:
    """Implements only the reflected operator."""

    def __init__(self, v):
        self.v = v

    def __radd__(self, other):
        return other.v + self.v if isinstance(other, Dual) else other + self.v

    def __rpow__(self, other):
        return other ** self.v


@program
def reflected_operators(x):
    return (Dual(x, 1.0) + Half(x)) * (x + Half(2.0)) + sum([Half(x), x]) + 2.0 ** Half(x)


class Base:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return self.v + other.v


class Derived(Base):
    def __radd__(self, other):
        return 10.0 * self.v + other.v


@program
def a_subclass_goes_first(x):
    return Base(x) + Derived(2.0) + (Derived(x) + Base(1.0)) * x


@dataclass
class Quaternion:
    w: Any
    x: Any
    y: Any
    z: Any

    def __mul__(a, b):
        return Quaternion(a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
                          a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w)

    def norm(self):
        return math.sqrt(sum(c * c for c in dataclasses.astuple(self)))

    def normalized(self):
        n = self.norm()
        return Quaternion(*(c / n for c in (self.w, self.x, self.y, self.z)))

    @classmethod
    def rotation(cls, angle, axis):
        s = math.sin(angle / 2)
        return cls(math.cos(angle / 2), *(s * a for a in axis))


@program
def quaternions(x):
    r = Quaternion.rotation(x, (0.0, 0.6, 0.8)) * Quaternion(1.0, x, 0.0, 0.5)
    return r.w + r.x * r.y + r.norm() + Quaternion(x, 1.0, 2.0, x * x).normalized().w


class Odd:
    """Operators that are rarely defined."""

    def __init__(self, v):
        self.v = v

    def __floordiv__(self, other):
        return self.v * other

    def __mod__(self, other):
        return self.v + other

    def __divmod__(self, other):
        return self // other, self % other

    def __invert__(self):
        return self.v

    def __and__(self, other):
        return self.v * 2

    def __ror__(self, other):
        return self.v * other

    def __lshift__(self, other):
        return self.v * other

    def __round__(self, digits=0):
        return self.v * (1 + digits)

    def __float__(self):
        return self.v * 1.0

    def __int__(self):
        return 3

    def __reversed__(self):
        return iter([1.0, self.v])

    def __le__(self, other):
        return self.v <= other

    def __ne__(self, other):
        return True

    def __matmul__(self, other):
        return self.v * other.v


@program
def seldom_written_operators(x):
    d = Odd(x)
    total = d // 2 + d % x + ~d * (d & 1) + (3 | d) + (d << 3) + d @ d + divmod(d, 2)[1]
    total += round(d) + round(d, 2) + float(d) + int(d) * x + list(reversed(d))[1] * x
    return total + (x if d <= 2 else 0.0) + (x if d != d else 0.0) + (x if 2 >= d else 0.0)


# --- containers ---------------------------------------------------------------------------------------

class Vector:
    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z

    def __iter__(self):
        return iter((self.x, self.y, self.z))

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return (self.x, self.y, self.z)[i]

    def __setitem__(self, i, v):
        if i == 0:
            self.x = v
        else:
            self.y = v

    def __delitem__(self, i):
        self[i] = 0.0

    def __contains__(self, v):
        return self.x < v

    def __call__(self, s):
        return Vector(s * self.x, s * self.y, s * self.z)

    def __add__(self, other):
        return Vector(*(a + b for a, b in zip(self, other)))

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self, other))

    def cross(self, other):
        return Vector(self.y * other.z - self.z * other.y, self.z * other.x - self.x * other.z,
                      self.x * other.y - self.y * other.x)


@program
def vectors(x):
    a, b = Vector(x, 1.0, 2.0), Vector(0.5, x * x, x)
    c = a.cross(b) + a(x)
    return c @ c + a[0] * b[-1] + len(a)


@program
def walking_an_object(x):
    a, total = Vector(x, 1.0, x * x), 0.0
    for v in a:
        total += v * x
    for i, v in enumerate(a):
        total += i * v
    u, v, w = a
    return total + u * w + sum(a) + list(a)[2] + max(a) + math.hypot(*a) + sum(v * v for v in a)


@program
def elements_of_an_object(x):
    a = Vector(x, 1.0, x * x)
    a[0] = a[2] * x
    a[1] += x
    value = a[0] * a.y
    del a[1]
    return value + a.y + (x if 5.0 in a else 0.0) + (x if 0.1 not in a else 7.0)


class Matrix:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, index):
        i, j = index
        return self.rows[i][j]

    def __setitem__(self, index, value):
        self.rows[index[0]][index[1]] = value

    def __mul__(self, other):
        return Matrix([[sum(a * b for a, b in zip(row, column)) for column in zip(*other.rows)] for row in self.rows])


@program
def matrices_of_lists(x):
    m = Matrix([[x, 1.0], [0.0, x]])
    m[0, 1] = x * x
    m[0, 0] += 1
    p = m * m
    return p[0, 1] + p[1, 1]


# --- inheritance --------------------------------------------------------------------------------------

class Shape:
    scale = 2.0

    def __init__(self, size):
        super().__init__()
        self.size = size

    def area(self):
        raise NotImplementedError

    def twice(self):
        return self.scale * self.area()

    @classmethod
    def unit(cls):
        return cls(1.0)


class Square(Shape):
    def area(self):
        return self.size ** 2


class Disc(Shape):
    scale = 3.0

    def area(self):
        return math.pi * self.size ** 2

    def twice(self):
        return super().twice() + super(Disc, self).scale       # noqa: UP008


class Ring(Disc):
    def __init__(self, size, hole):
        super().__init__(size)
        self.hole = hole

    def area(self):
        return super().area() - Disc(self.hole).area()

    @classmethod
    def unit(cls):
        return cls.around(Disc.unit())

    @classmethod
    def around(cls, disc):
        return cls(disc.size, 0.5)


class Washer(Ring):
    @classmethod
    def around(cls, disc):
        ring = super().around(disc)
        ring.hole *= 0.5
        return ring


@program
def inheritance(x):
    shapes = [Square(x), Disc(x), Ring(2 * x, x), Square.unit(), Ring.unit(), Washer.unit()]
    total = sum(s.twice() for s in shapes)
    for s in shapes:
        total += s.size if isinstance(s, Ring) else 2.0 * s.size if isinstance(s, (Disc, int)) else x
    return total + sum(x for s in shapes if type(s) is Square)


@dataclass
class Named:
    a: Any

    def f(self):
        return self.a


@dataclass
class Longer(Named):
    b: Any = 1.0

    def f(self):
        return super().f() * self.b


@program
def inherited_dataclass(x):
    return Longer(x, x * x).f() + Longer(x).f()


# --- attributes -----------------------------------------------------------------------------------------

class Account:
    rate: ClassVar[float] = 0.1

    def __init__(self, balance):
        self._balance = balance

    @property
    def balance(self):
        return self._balance

    @balance.setter
    def balance(self, v):
        self._balance = v * (1 + self.rate)

    @functools.cached_property
    def squared(self):
        return self._balance ** 2

    def pay(self, v):
        self.balance += v
        return self

    def __getattr__(self, name):
        return len(name) * self._balance


@program
def properties(x):
    a = Account(x)
    a.balance = x * x
    a.balance += 1.0
    first = a.squared
    a.pay(x).pay(1.0)
    return a.balance * first + a.squared + a.abc + getattr(a, "ab") + Account.rate * x       # noqa: B009


@program
def deleted_attribute(x):
    a = Account(x)
    a.extra = x * x
    kept = a.extra
    del a.extra
    return kept + a.extra


@program
def methods_as_values(x):
    a = Vector(x, 1.0, 2.0)
    f, g = a.__call__, Vector.__matmul__
    return g(f(x), a) + sum(map(Vector(x, 0.0, 0.0).__getitem__, [0, 1]))


class Layer:
    def __init__(self, w, b):
        self.w, self.b = w, b

    def __call__(self, v):
        return math.tanh(self.w * v + self.b)


class Network:
    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, v):
        for layer in self.layers:
            v = layer(v)
        return v


CAPTURED = Network(Layer(0.5, 0.2), math.sin)


@program
def objects_that_are_called(x):
    return Network(Layer(x, 0.1), Layer(0.5, x), math.sin)(x) + CAPTURED(x) + sum(map(Layer(1.0, x), [x, 1.0]))


# --- dataclasses, NamedTuples, enums ----------------------------------------------------------------------

@dataclass
class Spring:
    stiffness: Any
    scale: InitVar[Any] = 2.0
    energy: Any = field(init=False)
    history: list = field(default_factory=list)
    count: ClassVar[float] = 3.0

    def __post_init__(self, scale):
        self.energy = self.stiffness * scale
        self.history.append(scale)


@program
def dataclass_fields(x):
    a, b = Spring(x), Spring(x, scale=x)
    c = dataclasses.replace(a, stiffness=x ** 3, scale=1.0)
    return a.energy + b.energy * Spring.count + c.energy + len(c.history) * x + sum(b.history)


@dataclass(order=True, slots=True)
class Ranked:
    key: Any
    value: Any = field(default=1.0, compare=False)

    def double(self):
        self.value *= 2


@program
def ordered_dataclasses(x):
    a, b = Ranked(x, x * x), Ranked(1.0, 3.0)
    a.double()
    best = max(a, b)
    return best.value * x + (x if a <= b else 1.0) + (x if a == Ranked(x, 9.0) else 1.0)


@program
def taken_apart(x):
    d = dataclasses.asdict(Longer(x, Ranked(x * x)))
    return d["a"] * d["b"]["key"] + sum(getattr(Longer(x, 2.0), f.name) for f in dataclasses.fields(Longer))


@dataclass(kw_only=True, frozen=True)
class Options:
    rate: Any
    steps: Any = 1.0

    def __post_init__(self):
        object.__setattr__(self, "steps", self.steps + 1.0)


@program
def keyword_only_and_frozen(x):
    o = Options(rate=x)
    p = dataclasses.replace(o, rate=x * x)
    return o.rate * o.steps + p.rate * p.steps


class Point(NamedTuple):
    a: Any
    b: Any = 2.0

    def product(self):
        return self.a * self.b if self.a > 0 else self.b

    @property
    def total(self):
        return self.a + self.b

    @classmethod
    def unit(cls):
        return cls(1.0, 1.0)

    def __add__(self, other):
        return Point(self.a + other.a, self.b + other.b)


@program
def named_tuples(x):
    p = Point(x)
    q = p._replace(b=x * x) + Point._make([x, x])
    a, b = q
    d = q._asdict()
    return q.product() * p.total + a * b + Point.unit().a + len(q) + d["a"] + (x if p < q else 3.0)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 4


def shade(c, x):
    match c:
        case Colour.RED:
            return x * x
        case Colour.BLUE:
            return x
    return 0.0


@program
def enums(x):
    weights = {Colour.RED: x, Colour.BLUE: x * x}
    total = sum(shade(c, x) * weights[c] * c.value for c in Colour)
    return total + Level.LOW * x + (Level.HIGH > 3) * x + len(Colour.RED.name) * x + shade(Colour(2), x)


@dataclass
class Tree:
    value: Any
    children: tuple = ()

    def total(self):
        return self.value + sum(c.total() for c in self.children)


@program
def a_tree_made_here(x):
    return Tree(x, (Tree(x * x), Tree(1.0, (Tree(x),)))).total()


@program
def classes_as_values(x):
    made = [kind(x) for kind in (Square, Disc)]
    chosen = Square(x) if x > 1 else Square(2 * x)
    return sum(m.area() for m in made) + chosen.area()


class Scaled:
    """A descriptor with a setter."""

    def __init__(self, factor):
        self.factor = factor

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, cls=None):
        return getattr(obj, self.name) * self.factor

    def __set__(self, obj, value):
        if value < -1.0:
            raise ValueError(f"{self.name} below -1")
        setattr(obj, self.name, value + 1.0)


class Doubled:
    """A descriptor without a setter: the object's own attribute takes precedence."""

    def __get__(self, obj, cls=None):
        return 2.0 * obj.length


class Described:
    length = Scaled(3.0)
    double = Doubled()
    hidden = Doubled()

    def __init__(self, x):
        self.length = x
        self.hidden = x * x

    def power(self, n, factor=1.0):
        return self.length ** n * factor

    square = functools.partialmethod(power, 2, factor=0.5)


@program
def descriptors(x):
    d = Described(x)
    d.length += x
    return d.length + d.double + d.hidden + d.square()


class Counted:
    def __init__(self, x):
        self.x, self.asked = x, 0.0

    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2.0 if name == "x" else value)

    @property
    def shown(self):
        self.asked += 1.0
        return self.x

    @shown.setter
    def shown(self, value):
        self.x = value


@program
def attributes_by_builtins(x):
    c = Counted(x)
    total = getattr(c, "shown", 0.0) + getattr(c, "absent", x) * hasattr(c, "shown")
    object.__setattr__(c, "shown", x)
    return total * c.asked + c.x


@functools.total_ordering
class Ordered:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x if isinstance(other, Ordered) else NotImplemented

    def __lt__(self, other):
        return self.x < other.x


@program
def the_other_comparisons(x):
    a, b = Ordered(x), Ordered(1.0)
    return (a >= b) * x + (a <= b) * x * x + (a > b) + max(a, b).x + (a == x) + (x is not NotImplemented) * x


@functools.singledispatch
def measure(thing, factor=1.0):
    return factor


@measure.register
def _(thing: Point, factor=1.0):
    return thing.a * factor


@measure.register(float)
@measure.register(int)
def _(thing, factor=1.0):
    return thing * thing * factor


@program
def functions_by_class(x):
    return measure(Point(x), factor=x) + measure(x) + measure(3) + measure("") + measure(Point(x) if x > 1 else x)


T = TypeVar("T")


class Sized(Protocol):
    def size(self) -> float: ...


class Held(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


@dataclass
class Measured(Sized):
    value: float

    def size(self) -> float:
        return self.value ** 2


class Thing:
    pass


class Plain(Thing):
    """Not a dataclass, beside one with the same base class."""

    def __init__(self, x):
        self.x = x


@dataclass
class Fielded(Thing):
    x: Any


@program
def generic_classes_and_protocols(x):
    held = Held[float](x)
    return held.value + Measured(x).size() + bool(Quaternion(x, x, x, x)) * list[float]((x, 2.0))[0]


@program
def a_dataclass_with_a_plain_sibling(x):
    return Fielded(x).x * Plain(x).x


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Program) -> None:
    check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


# --- refused ------------------------------------------------------------------------------------------------

class Yielding:
    def __iter__(self) -> Iterator[float]:
        yield 1.0


class Abstract(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


class Remade:
    def __new__(cls, x):
        made = super().__new__(cls)
        made.x = 2.0 * x
        return made


class Chosen(Point):
    def __new__(cls, x):
        return super().__new__(cls, 2.0 * x, x)


class Intercepting:
    def __getattribute__(self, name):
        return 1.0


class Deciding:
    def __getattr__(self, name):
        raise AttributeError(name)


class Stepping:
    def __iter__(self):
        return self

    def __next__(self):
        return 1.0


def test_refused() -> None:
    refuses(lambda x: sum(Yielding()) + x, "generator")
    refuses(lambda x: [v for v in Stepping()][0] + x, "iterator of its own", "while")
    refuses(lambda x: [v * x for v in Square(x)], "no `__iter__`", "give the class")
    refuses(lambda x: {Complex(x): 1.0}[Complex(x)], "as a key of a dict", "number")
    refuses(lambda x: Remade(x).x, "`__new__` of its own", "a function")
    refuses(lambda x: Chosen(x).x, "`__new__` of its own", "a function")
    refuses(lambda x: Intercepting().x, "`__getattribute__` of its own", "properties")
    refuses(lambda x: len(Square(x).__dict__) * x, "the `__dict__` of an object", "name the attributes")
    refuses(lambda x: getattr(Deciding(), "missing", x), "`__getattr__` decides", "__init__")


def test_errors_are_pythons() -> None:
    def frozen(x):
        z = Complex(x)
        z.re = 1.0
        return z.re

    def no_setter(x):
        a = Complex(x)
        object.__setattr__(a, "re", 2.0 * x)
        return a.re + Quaternion(x, x, x, x).missing

    def no_slot(x):
        p = Ranked(x, x)
        object.__setattr__(p, "other", x)
        return x

    for f in (frozen, no_setter, no_slot, lambda x: Abstract().area(), lambda x: Square(x)(x),
              lambda x: Square(x) + 1.0, lambda x: -Square(x), lambda x: Square(x) < Square(x),
              lambda x: Square(x)[0], lambda x: len(Square(x)), lambda x: {[x]: 1.0}[0], lambda x: Square(x).area(1)):
        with pytest.raises((TypeError, AttributeError)) as expected:
            f(0.7)
        with pytest.raises(type(expected.value)):
            tracing.run(tracing.trace(f, 0.7), 0.7)
    for f in (lambda x: Ranked(x, 1.0, x), lambda x: Ranked(), lambda x: Ranked(x, other=x)):
        with pytest.raises(TypeError) as expected:
            f(0.7)
        with pytest.raises(TypeError, match=f"^{re.escape(str(expected.value))}"):
            tracing.trace(f, 0.7)


# --- descriptors ----------------------------------------------------------------------------------------

class Times:
    def __init__(self, k: float) -> None:
        self.k = k

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return -1.0 if obj is None else obj.w * self.k

    def __set__(self, obj: Any, value: float) -> None:
        obj.w = value / self.k


def described(*bases: type) -> Any:
    class Described(*bases):
        thrice = Times(3.0)

        def shifted(self, x: float, by: float) -> float:
            return self.w * x + by
        twice = functools.partialmethod(shifted, 2.0, by=0.5)
        kept = functools.cached_property(lambda self: self.w + 1.0)

        @functools.lru_cache                                         # noqa: B019
        def remembered(self, x: float) -> float:
            return x * 4.0
        __hash__ = object.__hash__
    return Described


@dataclass
class Weight:
    w: float


@dataclass
class Knot:
    w: float
    following: Knot | None = None


DescribedWeight, DescribedKnot = dataclass(described(Weight), eq=False), dataclass(described(Knot), eq=False)


def all_described(d: Any) -> float:
    return d.thrice + d.twice() * 10.0 + d.twice(by=1.0) * 100.0 + d.kept * 1000.0 + d.remembered(2.0) * 10000.0


def described_and_set(x: float) -> float:
    d = DescribedWeight(x)
    d.thrice = x * 6.0
    return d.w + d.thrice


def test_descriptors() -> None:
    """Class attributes are bound to the object; they had been read off the class without binding."""
    for make in (DescribedWeight, DescribedKnot):
        assert jit(all_described)(make(2.0)) == all_described(make(2.0))
        assert grad(all_described)(make(2.0)).w == pytest.approx(3.0 + 20.0 + 200.0 + 1000.0)
    assert jit(described_and_set)(1.5) == described_and_set(1.5)


@dataclass
class Fields:
    size: float = Scaled(3.0)
    plain: float = 2.0


def described_fields(x: float) -> float:
    made = Fields(x)
    made.size += x
    return made.size + Fields(x, plain=x).plain


def test_fields_that_are_descriptors() -> None:
    """The ``__init__`` of a dataclass sets them as an assignment does."""
    @dataclass
    class Given(Fields):
        size: float = dataclasses.field(default=1.0)
    assert jit(described_fields)(1.5) == described_fields(1.5)
    assert jit(lambda x: Given(plain=x).size * x)(1.5) == 1.5


def test_the_table_of_an_object() -> None:
    """The ``__dict__`` of the class was used instead, with the values that are defaults."""
    for make in (DescribedWeight, DescribedKnot):
        with pytest.raises(UnsupportedError, match="the `__dict__` of an object"):
            jit(lambda d: d.__dict__["w"])(make(2.0))


def transformed(*bases: type) -> Any:
    class Transformed(*bases):
        @checkpoint
        def kept(self, x: float) -> float:
            return self.w * x

        @functools.partial(grad, argnums=1)
        def slope(self, x: float) -> float:
            return self.w * x * x

        @jit
        @functools.partial(vmap, in_axes=(None, 0))
        def each(self, x: float) -> float:
            return self.w + x

        @custom_jvp
        def ruled(self, x: float) -> float:
            return self.w * x
        ruled.defjvp(lambda primals, tangents: (primals[0].w * primals[1], 100.0 * primals[0].w * tangents[1]))
    return Transformed


Transformed, TransformedKnot = dataclass(transformed(Weight)), dataclass(transformed(Knot))


def all_transformed(d: Any, x: float) -> float:
    return d.kept(x) + 10.0 * d.slope(x) + d.each(np.array([x, x]))[1]


@pytest.mark.slow
def test_methods_that_are_transformed() -> None:
    """Inside compiled code they lost the object; those with derivative rules also outside."""
    for make in (Transformed, TransformedKnot):
        d = make(3.0)
        assert jit(all_transformed)(d, 2.0) == all_transformed(d, 2.0) == 131.0
        assert jit(lambda x, d=d: all_transformed(d, x))(2.0) == 131.0
        assert grad(all_transformed, 1)(d, 2.0) == 3.0 + 60.0 + 1.0
    ruled = Transformed(3.0)
    assert ruled.ruled(2.0) == jit(lambda d, x: d.ruled(x))(ruled, 2.0) == 6.0
    assert grad(ruled.ruled)(2.0) == grad(lambda d, x: d.ruled(x), 1)(ruled, 2.0) == 300.0


# --- objects that refer to each other without end, of classes that are no dataclasses -----------------

class Link:
    def __init__(self, value, following=None):
        self.value = value
        self.previous = None
        self.following = following


class Search:
    def __init__(self):
        self.root = None
        self.size = 0

    def add(self, value):
        self.size += 1
        if self.root is None:
            self.root = Link(value)
            return
        at = self.root
        while True:
            if value < at.value:
                if at.previous is None:
                    at.previous = Link(value)
                    return
                at = at.previous
            else:
                if at.following is None:
                    at.following = Link(value)
                    return
                at = at.following


class Scaled:
    def __init__(self, inner, by):
        self.inner, self.by = inner, by

    def value(self):
        return self.by * self.inner.value()


class Weight:
    def __init__(self, weight):
        self.weight = weight

    def value(self):
        return self.weight


def _chain(x):
    head = None
    for v in x:
        head = Link(v, head)
    total = 0.0
    while head is not None:
        total = 0.5 * total + head.value
        head = head.following
    return total


def _depths(node, depth):
    if node is None:
        return 0.0
    return node.value / depth + _depths(node.previous, depth + 1) + _depths(node.following, depth + 1)


def _sorted_tree(x):
    found = Search()
    for v in x:
        found.add(v)
    return _depths(found.root, 1) + found.size


def _inserted(node, value):
    if node is None:
        return Link(value)
    if value < node.value:
        node.previous = _inserted(node.previous, value)
    else:
        node.following = _inserted(node.following, value)
    return node


def _tree_by_recursion(x):
    root = None
    for v in x:
        root = _inserted(root, v)
    return _depths(root, 1)


def _of_two_classes(x):
    made = Weight(2.0)
    for v in x:
        made = Scaled(made, v)
    return made.value()


@pytest.mark.slow
@pytest.mark.parametrize("f", [_chain, _sorted_tree, _tree_by_recursion, _of_two_classes])
def test_classes_without_annotations_refer_to_each_other(f):
    compiled = jit(f, grad=True)
    rng = np.random.default_rng(0)
    for n in (7, 4, 1, 0):
        x = rng.normal(size=n)
        value, slope = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        want = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(n)]
        assert slope == pytest.approx(np.array(want), rel=1e-6, abs=1e-7)
        assert compiled(x) == value


def test_an_object_of_such_a_class_is_a_result():
    def made(x):
        head = None
        for v in x:
            head = Link(v, head)
        return head
    found = jit(made)(np.array([1.0, 2.0]))
    assert type(found) is Link
    assert (found.value, found.following.value, found.following.following) == (2.0, 1.0, None)


def test_the_first_refusal_is_told_where_such_classes_do_not_help():
    def f(x):
        head = None
        for v in x:
            head = Link(v, head)
        print(head.value)
        return head.value
    with pytest.raises(UnsupportedError, match="change their types or structure at every iteration"):
        jit(f)(np.ones(3))
