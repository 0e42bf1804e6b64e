"""Whether two ways to compute the same tensor agree, on any processor."""

from collections.abc import Mapping
from typing import Any

import torch


def assert_close_in_norm(found: Any, expected: Any, within: float = 1e-5, of: str = "") -> None:
    """Refuses a tensor with ‖found − expected‖₂ > within · ‖expected‖₂, each summed in double precision.

    Processors add up the terms of a matrix product or a mean in other orders and with other instructions. The
    error of each sum is relative to the terms, not to what is left when they cancel: element by element a
    tolerance has to be fitted to one processor, beside the size of the whole tensor it has not.

    Args:
        found: a tensor or an array, or a mapping of such by name: then each is compared with its own norm.
        expected: the same in shape and names.
        within: the relative error that is allowed; a float32 sum of many terms has some 1e-6.
        of: what this is, for the message.
    """
    if isinstance(expected, Mapping):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close_in_norm(found[name], value, within, name)
        return
    ours, theirs = (torch.as_tensor(one).detach().double() for one in (found, expected))
    assert ours.shape == theirs.shape, f"{of}: {tuple(ours.shape)} beside {tuple(theirs.shape)}"
    distance, size = ((ours - theirs).norm().item(), theirs.norm().item())
    assert distance <= within * size, (
        f"{of}: {distance:.3g} apart, of a norm of {size:.3g}; {within:g} of it may"
    )
