"""The body of a message: tensors as safetensors bytes, in memory where they are few, or in a file."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load

from training.errors import MessageError
from training.mapped import map_tensors
from training.messages import Tensors, tensor_bytes
from training.spool import Spool, SpooledTensors
from training.tensor_file import pack_tensors

Body = bytes | Path
GONE = "this message is here no longer: another has taken its place"
PIECE = 4 << 20  # bytes of tensors that stay in memory and travel in one call; more wait in a file


def write_body(tensors: Tensors) -> bytes:
    """Tensors as safetensors bytes; nothing where there are none."""
    return pack_tensors(tensors) if tensors else b""


def write_long_body(tensors: Tensors, spool: Spool) -> Body:
    """The same, in a file of the spool where they are more than `PIECE` bytes.

    Raises:
        CheckpointError: the disk does not take them.
    """
    return write_body(tensors) if tensor_bytes(tensors) <= PIECE else spool.write(tensors)


def read_body(body: Body) -> Tensors:
    """Tensors from safetensors bytes; those of a file are read when they are used.

    Raises:
        MessageError: when they are none.
    """
    try:
        if isinstance(body, Path):
            map_tensors(body)  # so that what is wrong with it is said here
            return SpooledTensors(body)
        tensors: Tensors = load(body) if body else {}
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise MessageError(f"{size_of(body):,} bytes arrived that are no tensors: {error}") from error
    return tensors


def size_of(body: Body) -> int:
    """Its bytes.

    Raises:
        MessageError: its file is gone, since another has taken its place.
    """
    if isinstance(body, bytes):
        return len(body)
    try:
        return body.stat().st_size
    except FileNotFoundError as error:
        raise MessageError(GONE) from error


def part_of(body: Body, offset: int, length: int) -> bytes:
    """At most so many of its bytes from there; raises like `size_of`."""
    if isinstance(body, bytes):
        return body[offset : offset + length]
    try:
        with body.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError as error:
        raise MessageError(GONE) from error
