"""A cache of recently used values, limited by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values computed once for a key; the least recently used are dropped above a number of bytes.

    The last one is kept even if it exceeds the limit alone. For one thread.
    """

    def __init__(self, most_bytes: int, bytes_of: Callable[[Value], int]) -> None:
        self._most_bytes, self._bytes_of = most_bytes, bytes_of
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of the key, made if it is not cached."""
        if key in self._values:
            self._values.move_to_end(key)
        else:
            value = make()
            self._values[key] = value, self._bytes_of(value)
            self._bytes += self._values[key][1]
            while self._bytes > self._most_bytes and len(self._values) > 1:
                self._bytes -= self._values.popitem(last=False)[1][1]
        return self._values[key][0]

    def peek(self, key: Key) -> Value | None:
        """The value of the key, None if it is not cached."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values[key][0] if key in self._values else None

    def clear(self) -> None:
        self._values.clear()
        self._bytes = 0
