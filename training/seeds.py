"""Random draws that depend on what they are for, never on who draws first.

Every draw comes from (job seed, stage, round, client, ...): a run that is repeated, resumed or spread
over more workers draws the same numbers.
"""

import hashlib

import numpy as np


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for `purpose`, e.g. `derive_seed(job.seed, "0-federate", 3, "clinic-a")`."""
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A NumPy generator for `purpose`."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *purpose)))
