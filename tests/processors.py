"""Prints the settings under which this processor computes as lesser ones do, a line each.

`make check` runs the tests of training once more under each. ATEN_CPU_CAPABILITY is that of PyTorch's own
kernels; one that the processor lacks would end the process. ONEDNN_MAX_CPU_ISA is that of convolutions and
products.
"""

import torch

CAPABILITIES = ("DEFAULT", "AVX2", "AVX512")


def settings(capability: str) -> list[str]:
    """The settings below a processor of this capability, as PyTorch names it; of an unknown one the least."""
    known = CAPABILITIES[: CAPABILITIES.index(capability)] if capability in CAPABILITIES else ("DEFAULT",)
    limits = ["ONEDNN_MAX_CPU_ISA=AVX2"] if capability == CAPABILITIES[-1] else []
    return [*(f"ATEN_CPU_CAPABILITY={name.lower()}" for name in known), *limits]


if __name__ == "__main__":
    print("\n".join(settings(torch.backends.cpu.get_cpu_capability())))
