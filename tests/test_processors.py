"""Under which settings the tests of training run."""

import pytest

from tests.processors import settings

ATEN = "ATEN_CPU_CAPABILITY="


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ("AVX512", [ATEN + "default", ATEN + "avx2", "ONEDNN_MAX_CPU_ISA=AVX2"]),
        ("AVX2", [ATEN + "default"]),
        ("NO AVX", [ATEN + "default"]),
        ("NEON", [ATEN + "default"]),
    ],
)
def test_no_processor_is_asked_for_what_it_lacks(capability, expected):
    assert settings(capability) == expected
