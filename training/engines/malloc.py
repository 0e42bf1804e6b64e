"""Let the C library keep freed memory instead of giving it back to the kernel after every batch.

Each batch allocates and frees the same large buffers. By default glibc returns them to the kernel and gets
them back as fresh pages, which the kernel must clear: thousands of page faults a step, a tenth to a third
of the time of a small model on a CPU, more on a shared machine. Kept, a step has none. It changes no
result.
"""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT = 1 << 30  # bytes


def keep_freed_memory() -> bool:
    """Ask glibc to keep up to 1 GiB of freed memory; returns whether it agreed.

    Other systems and C libraries are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return (
        mallopt is not None
        and bool(mallopt(M_MMAP_THRESHOLD, KEPT))
        and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
    )
