import base64
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.manifest import pack, unpack


def test_the_text_is_little_endian_float32_in_base64():
    assert pack(np.array([[1.5, -2.0], [0.1, 3.0]])) == base64.b64encode(
        struct.pack("<4f", 1.5, -2.0, 0.1, 3.0)
    ).decode("ascii")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=50))
@settings(max_examples=50)
def test_numbers_come_back_to_the_last_bit(numbers):
    array = np.array(numbers, dtype=np.float32)
    assert unpack(pack(array), len(numbers)).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("AAAA", "3 bytes of float32 do not make 2 numbers"),
        ("AAAAAAAAAA", "padding"),
        ("AAAA AAAAAAA=", "non-base64|Only base64"),
        (base64.b64encode(struct.pack("<2f", 1, float("nan"))).decode(), "not finite"),
    ],
)
def test_what_is_no_array_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        unpack(text, 2)
