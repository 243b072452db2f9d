"""Numbers of the strings that a program holds at run time: a string is an i64 in compiled code."""

from __future__ import annotations

import threading


class Strings:
    """All strings that have a number."""

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
