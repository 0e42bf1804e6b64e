"""A diagnosis service that answers by a script, over real sockets, and the answer that documents print."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# The answer as the service's documents print it; "a | b" stands for one of these.
CONTRACT = """
{"id": "…", "created": "2026-01-01T00:00:00Z", "triage": "urgent | routine | ruled-out",
 "triage_evidence": {"guarantee": "subgroup | global | none", "basis": "split | cross-fitted", "confidence": 0.95, "missed": {"limit": 0.1, "kinds": [{"kind": "melanoma", "n": 113, "missed": 4, "high": 0.08}]}, "false_alarms": {"limit": 0.1, "n": 512, "seen": 38, "high": 0.097}},
 "decision": "report | refer | retake",
 "reasons": [{"code": "confident", "text": "…"}],
 "model": {"name": "…", "version": 3, "subgroup": "V", "digest": "sha256:…", "route": "declared | unknown-tone | other-scale | no-model-for-subgroup"},
 "findings": [{"code": "MEL", "name": "Melanoma", "malignancy": "malignant | premalignant | benign | unknown", "probability": 0.62, "coding": {"icd10": "C43.9"}}],
 "prediction_set": {"codes": ["MEL", "NV"], "coverage": 0.9, "guarantee": "subgroup | global | none", "calibration_n": 412},
 "malignancy": {"probability": 0.71},
 "quality": {"acceptable": true, "issues": []}, "warnings": [], "disclaimer": "…"}
"""  # noqa: E501


def chosen(value: Any, number: int) -> Any:
    """The contract's example with one of the alternatives everywhere."""
    if isinstance(value, dict):
        return {name: chosen(part, number) for name, part in value.items()}
    if isinstance(value, list):
        return [chosen(part, number) for part in value]
    if isinstance(value, str) and " | " in value:
        alternatives = value.split(" | ")
        return alternatives[number % len(alternatives)]
    return value


def example(number: int = 0) -> dict[str, Any]:
    return chosen(json.loads(CONTRACT), number)


class Handler(BaseHTTPRequestHandler):
    """Hands what was sent to `answer`, which a subclass has, and says what that chooses."""

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def say(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Answer until the block ends."""
        with self:
            thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            yield
            self.shutdown()
            thread.join()
