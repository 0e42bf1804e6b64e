"""Colour profiles that a mutator makes, through LittleCMS as pictures are decoded, in a process of its own.

    python benchmarks/fuzz_profiles.py --seconds 60

It begins with sound profiles of every kind that is accepted, and with the largest and slowest of each,
changes bytes, numbers and lengths, and gives each to the conversion of a small picture. A crash, an
exception, a profile that takes longer than `SLOWEST` or memory beyond `MEMORY` is a finding: the profile is
kept under --out, and the exit status is 1.
"""

import argparse
import faulthandler
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from registry.bundle.pictures import colours  # noqa: E402
from registry.bundle.pictures.colours import ProfileNotUsed  # noqa: E402
from tests import colour_profiles as made  # noqa: E402

SLOWEST = 2.0  # seconds, on a busy machine
MEMORY = 1024  # MB, of the process
NUMBERS = (0, 1, 2, 3, 4, 15, 16, 17, 32, 127, 128, 255, 256, 4096, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1)


def seeds() -> dict[str, bytes]:
    """Profiles to begin with."""
    plain = made.matrix_tags(made.DISPLAY_P3, made.parametric(*made.SRGB_CURVE))
    long = (
        b"curv\0\0\0\0" + struct.pack(">I", 4096) + b"".join(struct.pack(">H", 16 * n) for n in range(4096))
    )
    kept = {name: plain[name] for name in (b"desc", b"cprt", b"wtpt")}
    return {
        "a phone's": made.display_p3(),
        "a camera's": made.adobe_rgb(),
        "grey": made.grey(2.2),
        "a printer's": made.cmyk(),
        "of long curves": made.profile({**plain, b"rTRC": long, b"gTRC": long, b"bTRC": long}),
        "the largest table of colours": made.profile(
            {**kept, b"A2B0": made.table(3, 111)}, connection=b"Lab "
        ),
        "the largest table of inks": made.profile(
            {**kept, b"A2B0": made.table(4, 34)}, space=b"CMYK", kind=b"prtr", connection=b"Lab "
        ),
        "curves, table, matrix, curves": made.profile({**kept, b"A2B0": made.steps(9)}, connection=b"XYZ "),
    }


def changed(profile: bytes, random: Random) -> bytes:
    """A profile with a few of its bytes, numbers or tags changed; those near its beginning most often."""
    found = bytearray(profile)
    for _ in range(random.randint(1, 6)):
        end = len(found) if random.random() < 0.4 else min(len(found), 700)
        at = random.randrange(max(1, end - 4))
        match random.randrange(5):
            case 0:
                found[at] = random.randrange(256)
            case 1:
                found[at : at + 4] = struct.pack(">I", random.choice(NUMBERS))
            case 2:
                found[at : at + 2] = struct.pack(">H", random.choice(NUMBERS) & 65535)
            case 3:  # a tag that lies where another one does
                one, other = (132 + 12 * random.randrange(12) for _ in range(2))
                found[one + 4 : one + 12] = found[other + 4 : other + 12]
            case _:
                del found[at : at + random.choice((1, 4, 12))]
    if random.random() < 0.5:
        found[:4] = struct.pack(">I", len(found))
    return bytes(found)


def fuzz(out: Path, seconds: float, seed: int) -> None:
    """Runs until the time is over, and writes what it saw to `told.json`."""
    faulthandler.enable()
    random, sound = Random(seed), list(seeds().items())
    told: dict[str, float] = {"profiles": 0, "used": 0, "slowest": 0.0}
    end = time.monotonic() + seconds
    queue = list(sound)
    while time.monotonic() < end:
        name, profile = queue.pop() if queue else random.choice(sound)
        candidate = profile if queue or told["profiles"] < len(sound) else changed(profile, random)
        (out / "last").write_bytes(candidate)
        began = time.monotonic()
        for mode in ("RGB", "L", "CMYK"):
            image = Image.new(mode, (224, 224), 90)
            image.info["icc_profile"] = candidate
            try:
                conversion = colours.conversion_of(image)
            except ProfileNotUsed:
                continue
            told["used"] += 1
            if conversion is not None:
                conversion.apply(image if mode == conversion.mode else image.convert(conversion.mode))
        took = time.monotonic() - began
        told["profiles"] += 1
        if took > told["slowest"]:
            told["slowest"] = took
            (out / "slowest").write_bytes(candidate)
        if took > SLOWEST:
            print(f"FINDING {took:.1f} s: made from {name}", flush=True)
            (out / f"finding-{int(told['profiles'])}").write_bytes(candidate)
    told["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (out / "told.json").write_text(json.dumps(told))


def main() -> int:
    """Starts the process that does it, and says what became of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--quick", dest="seconds", action="store_const", const=3, help="three seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="profiles-"))
    out.mkdir(parents=True, exist_ok=True)
    if given.child:
        fuzz(out, given.seconds, given.seed)
        return 0
    command = [sys.executable, __file__, "--child", f"--seconds={given.seconds}", f"--seed={given.seed}"]
    ended = subprocess.run([*command, f"--out={out}"], timeout=given.seconds + 120, check=False)
    if ended.returncode:
        print(f"FINDING the process ended with {ended.returncode}; its profile is {out / 'last'}")
        return 1
    told = json.loads((out / "told.json").read_text())
    from tables import print_table  # PyTorch with it: not into the process that is measured

    print_table(
        ["profiles", "used", "slowest, ms", "memory, MB"],
        [[told["profiles"], told["used"], f"{1000 * told['slowest']:.0f}", f"{told['MB']:.0f}"]],
    )
    return int(told["MB"] > MEMORY or any(out.glob("finding-*")))


if __name__ == "__main__":
    sys.exit(main())
