"""A file that is two models: one to a reader of ONNX, another to ONNX Runtime, which looks for its own first.

Protocol buffers skip fields that they do not know; ONNX Runtime's format is a flatbuffer, whose first four
bytes tell where its root lies and whose next four say `ORTM`. So:

    08 00                field 1, ir_version, as a number: 0; the ONNX at the end says it again
    09 00 O R T M 0 0 0  field 1 as eight bytes, which is of the wrong kind and skipped; the first of them is
                         the last of the root's place, 0x00090008
    7A <length> …        field 15, which there is not: at 0x00090008 the flatbuffer's root, then all of it
    …                    the ONNX
"""

import struct
import tempfile
from pathlib import Path

import onnxruntime

ROOT = 0x0009_0008
BODY = ROOT + 64  # 64 is more than a root has; the flatbuffer is aligned to 8 bytes


def ort_format(onnx_file: bytes) -> bytes:
    """The same model in ONNX Runtime's own format."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.save_model_format", "ORT")
        options.optimized_model_filepath = f"{folder}/model.ort"
        onnxruntime.InferenceSession(onnx_file, options, providers=["CPUExecutionProvider"])
        return Path(folder, "model.ort").read_bytes()


def two_models(to_onnx: bytes, to_ort: bytes) -> bytes:
    """One file: the model `to_onnx` to a reader of ONNX, that of the flatbuffer `to_ort` to ONNX Runtime."""
    (root,) = struct.unpack_from("<I", to_ort)
    described = root - struct.unpack_from("<i", to_ort, root)[0]
    size, length = struct.unpack_from("<HH", to_ort, described)
    table = bytearray(to_ort[root : root + length])
    struct.pack_into("<i", table, 0, ROOT - (BODY + described))
    for place in struct.unpack_from(f"<{size // 2 - 2}H", to_ort, described + 4):
        if place:  # a field that is there: how far on its value lies
            (far,) = struct.unpack_from("<I", to_ort, root + place)
            struct.pack_into("<I", table, place, BODY + root + place + far - (ROOT + place))
    head = b"\x08\x00\x09\x00ORTM\x00\x00\x00"
    end = BODY + len(to_ort)
    rest = end - len(head) - 4
    head += bytes([0x7A, rest & 0x7F | 0x80, rest >> 7 & 0x7F | 0x80, rest >> 14])
    content = bytearray(end)
    content[: len(head)] = head
    content[ROOT : ROOT + length] = table
    content[BODY:] = to_ort
    return bytes(content) + to_onnx
