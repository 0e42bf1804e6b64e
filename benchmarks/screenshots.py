"""What the README shows: the report of a run, the page that answers, the operator's view, as pictures.

They are taken of what `make demo` leaves in `runs/demo`, in a headless Chromium, and go to `docs/pictures`.

    make demo && python benchmarks/screenshots.py
"""

import io
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from PIL import Image
from quick import lack, need_module, start
from services import TwoWorkers, running

from clients.api import DermFed
from clients.data.manifests.csv_file import read_manifest
from clients.data.manifests.manifest import Row

VIEW = {"width": 1400, "height": 900}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COLOURS = 128  # of a picture: a page has few, and a file of them is small
TRIAGE = "ruled-out"  # of the lesion that is shown: the first that was answered so
ALIAS = "production"


def keep(page: Any, path: Path, height: int = VIEW["height"]) -> None:
    """The upper part of what the page shows, as a small PNG."""
    taken = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": VIEW["width"], "height": height})
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def first_answered(demo: Path, url: str, triage: str) -> Row | None:
    """The first of the pictures that the demo asked about whose lesion gets this triage."""
    rows = read_manifest(demo / "pictures" / "manifest.csv").rows
    with DermFed(url) as service:
        for row in rows:
            answer = service.diagnose(demo / "pictures" / row.image, skin_tone=row.skin_tone)
            if answer.triage == triage:
                return row
    return None


def take(browser: Any, demo: Path, url: str, out: Path) -> None:
    """All three."""
    page = browser.new_context(viewport=VIEW, base_url=url).new_page()
    page.goto((demo / "run" / "report.html").resolve().as_uri())
    keep(page, out / "report.png")
    page.goto(url)
    if (shown := first_answered(demo, url, TRIAGE)) is None:
        lack(f"no lesion of {demo / 'pictures'} is {TRIAGE}")
    page.set_input_files("#image", str(demo / "pictures" / shown.image))
    page.select_option("#tone", f"{shown.skin_tone_scale} {shown.skin_tone}")
    page.click("#submit")
    page.wait_for_selector(".answer")
    keep(page, out / "page.png")
    page.goto(f"{url}/operator")
    keep(page, out / "operator.png")


def main(
    demo: Annotated[Path, typer.Option(help="What `make demo` left.")] = Path("runs/demo"),
    out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("docs/pictures"),
) -> None:
    """Serve what the demonstration released, and take the pictures."""
    need_module("playwright", "pip install playwright")
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        lack(f"no browser on this machine (looked for {', '.join(BROWSERS)})")
    if not (demo / "registry.db").exists():
        lack(f"{demo} holds no registry; `make demo` makes one")
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        service = TwoWorkers.on_a_free_port(demo.resolve(), DERMFED_SERVE_ALIAS=ALIAS)
        service.environment["DERMFED_SERVE_RECORDS"] = f"{scratch}/records"
        with (
            running(service.command, f"{service.address}/readyz", Path(scratch) / "log", service.environment),
            sync_playwright() as driver,
        ):
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            take(browser, demo, service.address, out)
            browser.close()


if __name__ == "__main__":
    start(main, "--out {scratch}/pictures")
