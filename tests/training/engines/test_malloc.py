import subprocess
import sys

import pytest

# Allocates and frees 8 MB a hundred times and counts the pages that the kernel had to hand out for it.
FAULTS = """
import resource, sys
import numpy as np
from training.engines.malloc import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
np.ones(1_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    np.ones(1_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc is asked to keep memory")
def test_freed_memory_that_is_kept_costs_no_page_faults() -> None:
    pages_of_one = 8_000_000 // 4096
    assert page_faults("kept") < pages_of_one
