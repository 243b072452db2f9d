"""The strings that a program holds at run time, each by its number: an i64 to compiled code."""

from __future__ import annotations

import threading


class Strings:
    """Each string that a node has held, by number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.number: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self, text: str) -> int:
        found = self.number.get(text)
        if found is not None:
            return found
        with self._lock:
            if text not in self.number:
                self.all.append(text)
                self.number[text] = len(self.all) - 1
            return self.number[text]


strings = Strings()
