"""What the process of a job imports: whether it is installed is known before the node takes part."""

from importlib.util import find_spec

from clients.federation.errors import KitError

IMPORTED = ("torch", "torchvision", "timm", "onnx", "onnxruntime", "nvflare", "cryptography")


def require_packages() -> None:
    """Looks for packages without importing them.

    Raises:
        KitError: naming those that are missing, and how they are installed.
    """
    missing = [name for name in IMPORTED if find_spec(name) is None]
    if missing:
        raise KitError(
            f"{', '.join(missing)} cannot be imported, and no job could run here; "
            "pip install 'dermfed[node]', or 'dermfed[node-gpu]' on an NVIDIA GPU"
        )
