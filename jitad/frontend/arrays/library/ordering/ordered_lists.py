"""``heapq`` and ``bisect``: lists that are heaps, and lists in ascending order.

A heap has the same order as CPython's: to remove the least element, its place is filled from the smaller child at each
level down to a leaf, and the last element of the list then rises from there.  Two elements are compared by ``<`` only.
"""

from __future__ import annotations

from typing import Any


def _rise(heap: Any, place: Any, top: Any) -> None:
    """Moves the element at ``place`` up until its parent is not larger, at most to ``top``."""
    item = heap[place]
    while place > top:
        parent = (place - 1) >> 1
        if not item < heap[parent]:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


def _settle(heap: Any, top: Any) -> None:
    """Moves the element at ``top`` down to a leaf, and up again to its place."""
    item, place, end = heap[top], top, len(heap)
    child = 2 * place + 1
    while child < end:
        if child + 1 < end and not heap[child] < heap[child + 1]:
            child += 1
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    _rise(heap, place, top)


def heappush(heap: Any, item: Any, /) -> None:
    heap.append(item)
    _rise(heap, len(heap) - 1, 0)


def heappop(heap: Any, /) -> Any:
    last = heap.pop()                                # IndexError if the heap is empty
    if len(heap) == 0:
        return last
    least = heap[0]
    heap[0] = last
    _settle(heap, 0)
    return least


def heapify(x: Any, /) -> None:
    for k in range(len(x) // 2):
        _settle(x, len(x) // 2 - 1 - k)


def heapreplace(heap: Any, item: Any, /) -> Any:
    least = heap[0]                                  # IndexError if the heap is empty
    heap[0] = item
    _settle(heap, 0)
    return least


def heappushpop(heap: Any, item: Any, /) -> Any:
    if len(heap) > 0 and heap[0] < item:
        least = heap[0]
        heap[0] = item
        _settle(heap, 0)
        return least
    return item


def bisect_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            end = middle
    return lo


def bisect_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            end = middle
        else:
            lo = middle + 1
    return lo


def insort_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)
