"""Arrays as text in `bundle.json`: little-endian float32 in base64, which comes back to the last bit."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPE = np.dtype("<f4")


def pack(array: NDArray[Any]) -> str:
    """Packs an array, row by row, as base64 text: 16 characters for three numbers."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=_TYPE).tobytes()).decode()


def unpack(text: str, count: int) -> NDArray[np.float32]:
    """Unpacks the `count` numbers of a text, `(count,)`.

    Raises:
        ValueError: the text is not base64, holds another number of numbers, or one that is not finite.
    """
    content = base64.b64decode(text, validate=True)
    if len(content) != count * _TYPE.itemsize:
        raise ValueError(
            f"{len(content):,} bytes of float32 do not make {count:,} numbers; they are {_TYPE.itemsize} each"
        )
    numbers = np.frombuffer(content, dtype=_TYPE).astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError("some of the float32 numbers are not finite; the model has diverged or is damaged")
    return numbers
