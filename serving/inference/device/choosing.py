"""The device that models run on: the one that was named, or the best that works here; and why that one."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from serving.inference.device.device import Device
from serving.inference.device.kinds import AUTO, NAME, PROVIDER
from serving.inference.device.runtime import OnnxRuntime, Runtime
from serving.inference.device.trial import try_apart
from serving.settings import DeviceKind, ServeSettings

log = logging.getLogger("dermfed.serve")

DRIVER: Final = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""What is there where a machine has the driver of an NVIDIA GPU; of these, one."""

INSTALL: Final = (
    "install the driver and `pip install dermfed[serve-gpu]` in place of `dermfed[serve]` (docs/gpu.md)"
)


class DeviceUnusable(Exception):  # noqa: N818 - a state of the machine
    """The device that was named does not work here."""


def choose_device(
    settings: ServeSettings,
    runtime: Runtime | None = None,
    try_out: Callable[[DeviceKind], str | None] = try_apart,
    has_driver: Callable[[], bool] | None = None,
) -> Device:
    """The device of these settings, tried where it is a GPU.

    Args:
        settings: what an operator set.
        runtime: ONNX Runtime; by default the one that is installed.
        try_out: says why a device does not work, or None.
        has_driver: whether there is a GPU's driver on this machine; by default one is looked for.

    Raises:
        DeviceUnusable: one was named, and does not work.
    """
    runtime = runtime or OnnxRuntime()
    has_driver = has_driver or _has_driver
    if settings.providers == "auto":
        device = _best(settings, runtime, try_out, has_driver)
    else:
        device = _named(settings.providers, settings, runtime, try_out)
    if device.health_issue is None:
        log.info("%s", device.told)
    else:
        log.error("%s", device.health_issue)
    return device


def _named(
    kind: DeviceKind, settings: ServeSettings, runtime: Runtime, try_out: Callable[[DeviceKind], str | None]
) -> Device:
    why_not = None if kind == "cpu" else _why_not(kind, runtime, try_out)
    if why_not is not None:
        raise DeviceUnusable(
            f"DERMFED_SERVE_PROVIDERS is {kind!r}, and {NAME[kind]} does not work here: {why_not}; "
            f"{INSTALL}, or set it to 'auto', which takes the processor where no GPU works, or to 'cpu'"
        )
    why = f"DERMFED_SERVE_PROVIDERS is {kind!r}"
    return Device(kind, why, device_bytes=settings.device_bytes, runtime=runtime)


def _best(
    settings: ServeSettings,
    runtime: Runtime,
    try_out: Callable[[DeviceKind], str | None],
    has_driver: Callable[[], bool],
) -> Device:
    available = runtime.available()
    issues = []
    for kind in AUTO:
        if kind == "cpu":
            break
        if PROVIDER[kind] not in available:
            if has_driver():
                issues.append(
                    f"this machine has a GPU's driver, and the ONNX Runtime that is installed knows no {kind}"
                )
            continue
        if (why_not := _why_not(kind, runtime, try_out)) is None:
            return Device(
                kind,
                f"a small graph ran on it and answered as on the processor ({PROVIDER[kind]})",
                device_bytes=settings.device_bytes,
                runtime=runtime,
            )
        issues.append(f"{NAME[kind]} does not work here: {why_not}")
    if not issues:
        return Device("cpu", "the ONNX Runtime that is installed knows no GPU", runtime=runtime)
    why = "; ".join(issues)
    told = (
        f"models run on the processor: {why}. To use the GPU, {INSTALL}; to do without it and hear nothing "
        "more of this, set DERMFED_SERVE_PROVIDERS=cpu"
    )
    return Device("cpu", why, told, runtime=runtime)


def _has_driver() -> bool:
    return any(path.exists() for path in DRIVER)


def _why_not(kind: DeviceKind, runtime: Runtime, try_out: Callable[[DeviceKind], str | None]) -> str | None:
    """Why a device does not work here; None where it does."""
    available = runtime.available()
    if PROVIDER[kind] not in available:
        return f"the ONNX Runtime that is installed knows {', '.join(available)} alone"
    return try_out(kind)
