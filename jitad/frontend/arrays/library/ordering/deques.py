"""``collections.deque``: a list with spare room in front.

The elements are ``held[start:]``.  An element that is taken from the left leaves its place unused; once half of the
places are, the list is moved.  So each operation at an end takes constant time on average.
"""

from __future__ import annotations

from typing import Any

LEAST_UNUSED = 16


class Deque:
    """A deque while a program is traced, which takes it for an object of a class of the user's."""

    held: Any
    start: Any
    maxlen: Any

    def __init__(self, iterable: Any = (), maxlen: Any = None) -> None:
        if maxlen is not None and maxlen < 0:
            raise ValueError("maxlen must be non-negative")
        self.held, self.start, self.maxlen = [], 0, maxlen
        self.extend(iterable)

    def __len__(self) -> Any:
        return len(self.held) - self.start

    def __iter__(self) -> Any:
        return self._elements()

    def __reversed__(self) -> Any:
        return reversed(self._elements())

    def __contains__(self, x: Any) -> Any:
        return x in self._elements()

    def __getitem__(self, index: Any) -> Any:
        return self.held[self._place(index)]

    def __setitem__(self, index: Any, x: Any) -> None:
        self.held[self._place(index)] = x

    def __delitem__(self, index: Any) -> None:
        del self.held[self._place(index)]

    def __iadd__(self, iterable: Any) -> Any:
        self.extend(iterable)
        return self

    def __add__(self, other: Any) -> Any:
        out = self.copy()
        out.extend(other)
        return out

    def __eq__(self, other: Any) -> Any:
        return isinstance(other, type(self)) and self._elements() == other._elements()

    def _elements(self) -> Any:
        return self.held[self.start:]

    def _place(self, index: Any) -> Any:
        n = len(self)
        if index < -n or index >= n:
            raise IndexError("deque index out of range")
        return self.start + index + n if index < 0 else self.start + index

    def append(self, x: Any) -> None:
        self.held.append(x)
        if self.maxlen is not None and len(self) > self.maxlen:
            self._drop_first()

    def appendleft(self, x: Any) -> None:
        if self.start == 0:
            gap = len(self.held) + 1
            self.held[:0] = [x] * gap
            self.start = gap
        self.start -= 1
        self.held[self.start] = x
        if self.maxlen is not None and len(self) > self.maxlen:
            self.held.pop()

    def pop(self) -> Any:
        if len(self) == 0:
            raise IndexError("pop from an empty deque")
        return self.held.pop()

    def popleft(self) -> Any:
        if len(self) == 0:
            raise IndexError("pop from an empty deque")
        first = self.held[self.start]
        self._drop_first()
        return first

    def _drop_first(self) -> None:
        self.start += 1
        if 2 * self.start > len(self.held) + LEAST_UNUSED:
            self._move()

    def _move(self) -> None:
        """Leaves no place unused."""
        if self.start > 0:
            del self.held[:self.start]
            self.start = 0

    def extend(self, iterable: Any) -> None:
        for x in list(iterable) if iterable is self else iterable:
            self.append(x)

    def extendleft(self, iterable: Any) -> None:
        for x in list(iterable) if iterable is self else iterable:
            self.appendleft(x)

    def clear(self) -> None:
        del self.held[:]
        self.start = 0

    def copy(self) -> Any:
        return type(self)(self._elements(), self.maxlen)

    def count(self, x: Any) -> Any:
        return self._elements().count(x)

    def index(self, x: Any, *bounds: Any) -> Any:
        return self._elements().index(x, *bounds)

    def insert(self, index: Any, x: Any) -> None:
        if self.maxlen is not None and len(self) >= self.maxlen:
            raise IndexError("deque already at its maximum size")
        self._move()
        self.held.insert(index, x)

    def remove(self, x: Any) -> None:
        self._move()
        self.held.remove(x)

    def reverse(self) -> None:
        self._move()
        self.held.reverse()

    def rotate(self, n: Any = 1) -> None:
        if len(self) > 0:
            self._move()
            k = -n % len(self.held)
            self.held[:] = self.held[k:] + self.held[:k]


Deque.__name__ = Deque.__qualname__ = "deque"
Deque.__module__ = "collections"
