"""A service that gets pictures which cost a lot: others are answered meanwhile, and it goes on."""

from collections.abc import Callable

import pytest
from PIL import Image

from serving.decoding import decoded as in_process
from tests.serving.hostile.costly import dicom_scan_bomb, memory_bomb, scan_bomb
from tests.serving.hostile.piece import encoded, pixels


@pytest.fixture
def one_thread(places, registry, promote, bundle, serve) -> Callable[..., object]:
    """A service with one thread."""
    promote(registry, bundle())
    return lambda **settings: serve(**{"threads": 1, "requests_per_minute": 0, **settings})


def test_bombs_are_refused_and_told(one_thread, problem):
    with one_thread(decode_memory=200 * 2**20) as service:
        for bomb, kind in ((scan_bomb(), "image/jpeg"), (dicom_scan_bomb(), "application/dicom")):
            assert "scans" in problem(service.diagnose(bomb, kind), 400)["detail"]
        told = problem(service.diagnose(encoded(Image.new("RGB", (7000, 7000)), "PNG"), "image/png"), 413)
        assert told["type"] == "urn:dermfed:problem:too-costly"
        assert "send a smaller copy" in told["detail"].lower()
        problem(service.diagnose(memory_bomb(), "image/webp"), 400)
        assert service.diagnose().status_code == 200


def test_nothing_is_decoded_by_the_service_itself(one_thread, monkeypatch):
    def never(*arguments: object) -> None:
        raise AssertionError("decoded in the service's own process")

    monkeypatch.setattr(in_process, "decode_opened", never)
    monkeypatch.setattr(in_process, "open_picture", never)
    with one_thread() as service:
        for form in ("JPEG", "PNG", "WEBP"):
            assert service.diagnose(encoded(pixels(), form), f"image/{form.lower()}").status_code == 200
