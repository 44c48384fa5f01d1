"""Messages of openpi's policy server: msgpack, with arrays as maps of their bytes, type and shape.

What is unpacked comes from outside: only numbers get through, a message larger than its arrays say is refused, and nothing
of it is executed. Arrays are read-only views of the message.
"""

from __future__ import annotations

import math
from typing import Any

import msgpack
import numpy as np

_ARRAY, _NUMBER = b"__ndarray__", b"__npgeneric__"
_KINDS = "biufSU"  # of dtypes: numbers, and text of a fixed width


class BadMessage(ValueError):
    """A message that is not of this format; one line."""


def pack(data: Any) -> bytes:
    """A message of dicts, lists, text, numbers and arrays.

    Raises:
      BadMessage: anything else, such as an array of objects.
    """
    try:
        return bytes(msgpack.packb(data, default=_encode))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadMessage(f"cannot be packed: {error}") from None


def unpack(message: bytes) -> Any:
    """The data of a message.

    Raises:
      BadMessage: bytes that are no such message.
    """
    try:
        return msgpack.unpackb(message, object_hook=_decode, strict_map_key=False)
    except BadMessage:
        raise
    except Exception as error:  # msgpack raises many kinds on garbage, all of them the sender's fault
        raise BadMessage(f"not a packed message: {type(error).__name__}: {error}") from None


def _encode(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in _KINDS:
        raise TypeError(f"an array of type {value.dtype} is not allowed")
    if isinstance(value, np.ndarray):
        return {_ARRAY: True, b"data": value.tobytes(), b"dtype": value.dtype.str, b"shape": value.shape}
    if isinstance(value, np.generic):
        return {_NUMBER: True, b"data": value.item(), b"dtype": value.dtype.str}
    raise TypeError(f"{type(value).__name__} is not allowed")


def _decode(value: dict[Any, Any]) -> Any:
    if _ARRAY in value:
        dtype = _dtype(value)
        shape, data = value.get(b"shape"), value.get(b"data")
        if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
            raise BadMessage(f"an array's shape is {shape!r}, expected sizes")
        if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize:
            have = len(data) if isinstance(data, bytes) else "no"
            raise BadMessage(f"an array of {dtype} {list(shape)} comes with {have} bytes")
        return np.frombuffer(data, dtype).reshape(shape)
    if _NUMBER in value:
        try:
            return _dtype(value).type(value.get(b"data"))
        except (TypeError, ValueError, OverflowError) as error:
            raise BadMessage(f"a number that cannot be read: {error}") from None
    return value


def _dtype(value: dict[Any, Any]) -> np.dtype[Any]:
    name = value.get(b"dtype")
    try:
        dtype = np.dtype(name) if isinstance(name, str) else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in _KINDS or dtype.hasobject:
        raise BadMessage(f"an array's type is {name!r}, which is not allowed")
    return dtype
