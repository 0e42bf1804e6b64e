"""The payload of a message: its tensors as safetensors bytes, in memory, or in a file where they are many."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load

from training.errors import MessageError
from training.messages.message import Tensors, tensor_bytes
from training.messages.spool import Spool, SpooledTensors
from training.messages.tensor_file import map_tensors, pack_tensors

Payload = bytes | Path
GONE = "this message is here no longer: another has taken its place"
CHUNK_BYTES = 4 << 20  # bytes of tensors that stay in memory and travel in one call; more wait in a file


def write_payload(tensors: Tensors) -> bytes:
    """Tensors as safetensors bytes; nothing where there are none."""
    return pack_tensors(tensors) if tensors else b""


def write_long_payload(tensors: Tensors, spool: Spool) -> Payload:
    """Tensors as safetensors bytes, in a file of the spool where they are more than `CHUNK_BYTES` bytes.

    Raises:
        CheckpointError: the disk does not take them.
    """
    return write_payload(tensors) if tensor_bytes(tensors) <= CHUNK_BYTES else spool.write(tensors)


def read_payload(payload: Payload) -> Tensors:
    """Tensors from safetensors bytes; those of a file are read when they are used.

    Raises:
        MessageError: when they are none.
    """
    try:
        if isinstance(payload, Path):
            map_tensors(payload)  # so that what is wrong with it is reported here
            return SpooledTensors(payload)
        tensors: Tensors = load(payload) if payload else {}
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise MessageError(f"{size_of(payload):,} bytes arrived that are no tensors: {error}") from error
    return tensors


def size_of(payload: Payload) -> int:
    """The size of a payload in bytes.

    Raises:
        MessageError: its file is gone, since another has taken its place.
    """
    if isinstance(payload, bytes):
        return len(payload)
    try:
        return payload.stat().st_size
    except FileNotFoundError as error:
        raise MessageError(GONE) from error


def part_of(payload: Payload, offset: int, length: int) -> bytes:
    """At most `length` bytes of a payload from `offset` on; raises like `size_of`."""
    if isinstance(payload, bytes):
        return payload[offset : offset + length]
    try:
        with payload.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError as error:
        raise MessageError(GONE) from error
