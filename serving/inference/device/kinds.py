"""The kinds of device that models run on, and what ONNX Runtime is told for each."""

from typing import Final

from registry.bundle.model_file.session import PROCESSOR, Providers
from serving.settings import DeviceKind

PROVIDER: Final[dict[DeviceKind, str]] = {
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "cpu": PROCESSOR,
}
"""ONNX Runtime's execution provider of each."""

NAME: Final[dict[DeviceKind, str]] = {
    "cuda": "a GPU (CUDA)",
    "tensorrt": "a GPU (TensorRT)",
    "cpu": "the processor",
}
"""What people call each."""

AUTO: Final[tuple[DeviceKind, ...]] = ("cuda", "cpu")
"""What `auto` tries, in this order.

TensorRT is taken by name only: it builds an engine for each model while a release loads, which takes minutes,
and where CUDA does not work it does not either.
"""


def providers_of(kind: DeviceKind, device_bytes: int | None, *, tf32: bool) -> Providers:
    """The providers of a session on a device, the preferred first, and each one's options.

    What a provider cannot run goes to the next one; the last is the processor.

    Args:
        kind: the device.
        device_bytes: how much memory of the device the session may take; None for all there is.
        tf32: whether products may be of TensorFloat-32, which is faster and has ten bits of mantissa.
    """
    processor: Providers = ((PROCESSOR, {}),)
    if kind == "cpu":
        return processor
    cuda = {
        # The arena grows by what is asked for, not to the next power of two: versions come and go beside it.
        "arena_extend_strategy": "kSameAsRequested",
        # An exhaustive search, the default, runs every algorithm anew for each size of batch.
        "cudnn_conv_algo_search": "HEURISTIC",
        "use_tf32": str(int(tf32)),
        **({} if device_bytes is None else {"gpu_mem_limit": str(device_bytes)}),
    }
    if kind == "cuda":
        return ((PROVIDER["cuda"], cuda), *processor)
    tensorrt = {
        "trt_fp16_enable": "False",
        **({} if device_bytes is None else {"trt_max_workspace_size": str(device_bytes)}),
    }
    return ((PROVIDER["tensorrt"], tensorrt), (PROVIDER["cuda"], cuda), *processor)
