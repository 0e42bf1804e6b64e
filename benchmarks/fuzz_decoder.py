"""Bytes that a fuzzer makes, through the service's decoder.

    python benchmarks/fuzz_decoder.py --seconds 600
    python benchmarks/fuzz_decoder.py --seconds 600 --kind dicom

Needs atheris (`pip install atheris`). The fuzzer begins with sound and hostile pictures made by code, changes
them by what it learns of the branches taken in `registry.bundle` and in the Python of Pillow and pydicom, and
puts the checksums of PNGs right again half of the time: most changes would get no further.

A finding is any exception that is no `PictureError`, an input that takes more than ten seconds, or memory
beyond 2 GB. Each is told once for each place in the code; its bytes are kept under --out. Exits 1 where there
are any.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import traceback
import zlib
from collections import Counter
from pathlib import Path

from quick import need_module

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

SLOWEST = 10  # seconds that one input may take
MEMORY = 2048  # MB
LONGEST = 8192  # bytes of an input
TELL_EVERY = 500  # inputs between notes of how far it is


def seeds(kind: str) -> list[bytes]:
    """What the fuzzer begins with."""
    if kind == "dicom":
        return dicom_seeds()
    from tests.serving.hostile.corpus import corpus
    from tests.serving.hostile.spoilt import SOUND

    small = [one.content for one in corpus() if len(one.content) <= LONGEST]
    return [whole for _, whole, _ in SOUND.values()] + small


def dicom_seeds() -> list[bytes]:
    """Photographs in each of the ways that the service reads."""
    from pydicom import uid

    from tests.dicom_files import dicom_file, noise, saved

    colour, grey = noise(8, 12, 3), noise(8, 12)
    jpeg = saved(colour, "JPEG")
    return [
        dicom_file(colour),
        dicom_file(colour, planar=1),
        dicom_file(colour, syntax=uid.ImplicitVRLittleEndian),
        dicom_file(colour, syntax=uid.DeflatedExplicitVRLittleEndian),
        dicom_file(colour, "YBR_FULL"),
        dicom_file(grey, "MONOCHROME2"),
        dicom_file(grey.astype("uint16") * 257, "MONOCHROME2", stored=12),
        dicom_file(jpeg, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(12, 8)),
        dicom_file(jpeg, "YBR_FULL_422", uid.JPEGBaseline8Bit, size=(12, 8), fragments=3),
        dicom_file(colour, PatientComments="c" * 300),
    ]


def repaired(png: bytes) -> bytes:
    """The PNG with the checksum of every whole chunk put right."""
    parts, at = [png[:8]], 8
    while at + 12 <= len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        body = png[at + 4 : at + 8 + length]
        if at + 12 + length > len(png):
            break
        parts.append(png[at : at + 4] + body + zlib.crc32(body).to_bytes(4, "big"))
        at += 12 + length
    return b"".join(parts) + png[at:]


def fuzz(inputs: Path, out: Path, seconds: int) -> None:
    """Runs in a process of its own, which the fuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["registry.bundle", "PIL", "pydicom"]):
        from registry.bundle.errors import PictureError
        from registry.bundle.pictures.rule import PictureRule, decode_picture

    rule = PictureRule(size=16, max_pixels=1_000_000)
    told: Counter[str] = Counter()

    def decode(content: bytes) -> None:
        told["inputs"] += 1
        try:
            decode_picture(content, rule)
            told["decoded"] += 1
        except PictureError as error:
            told[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 - each is a finding
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
            if place not in told:
                (out / f"finding-{len(list(out.glob('finding-*')))}").write_bytes(content)
                print(f"FINDING {place}: {error}", flush=True)
            told[place] += 1
        if told["inputs"] % TELL_EVERY == 0:
            (out / "told.json").write_text(json.dumps(told))

    def mutate(content: bytes, longest: int, seed: int) -> bytes:
        changed = atheris.Mutate(content, longest)
        return repaired(changed)[:longest] if seed % 2 and changed.startswith(b"\x89PNG") else changed

    limits = [
        f"-max_total_time={seconds}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MEMORY}",
        f"-max_len={LONGEST}",
    ]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={out}/", "-verbosity=0", str(inputs)],
        decode,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def main() -> int:
    """Runs the fuzzer and tells what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--kind", choices=("pictures", "dicom"), default="pictures")
    parser.add_argument("--out", type=Path, help="where findings are kept; by default a temporary folder")
    parser.add_argument("--inputs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--quick", dest="seconds", action="store_const", const=3, help="three seconds")
    asked = parser.parse_args()
    need_module("atheris", "pip install atheris")
    if asked.inputs:
        fuzz(asked.inputs, asked.out, asked.seconds)
        return 0
    out = asked.out or Path(tempfile.mkdtemp(prefix="fuzz-"))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        given = seeds(asked.kind)
        for number, content in enumerate(given):
            (Path(folder) / f"{number:04}").write_bytes(content)
        command = [sys.executable, "-W", "ignore", __file__, "--inputs", folder, "--out", str(out)]
        ended = subprocess.run(
            [*command, "--seconds", str(asked.seconds)], check=False, stderr=subprocess.PIPE
        )
        kept = len(list(Path(folder).iterdir()))
    told = json.loads((out / "told.json").read_text()) if (out / "told.json").exists() else {}
    (out / "told.json").unlink(missing_ok=True)
    found = [path.name for path in out.iterdir()]
    print(
        f"{asked.kind}, {asked.seconds} seconds: {len(given)} seeds, {kept} inputs with branches of their own"
    )
    from tables import print_table  # PyTorch with it: not into the process that is measured

    print_table(
        ["what", "how often"],
        [(name, f"{told[name]:,}") for name in sorted(told, key=lambda name: -told[name])],
    )
    print(f"findings: {', '.join(sorted(found)) or 'none'}{f' (in {out})' if found else ''}")
    if ended.returncode and not found:
        print(ended.stderr.decode(errors="replace")[-2000:])
    return 1 if found or ended.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
