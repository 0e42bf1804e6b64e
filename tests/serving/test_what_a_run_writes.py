"""The service as it is started, with two workers: what they share, and what none of them writes anywhere."""

import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from registry.outcomes.intake import export_outcomes
from registry.outcomes.store import OutcomeStore

MARKER = "Erika-Musterfrau"
BURST = 15


@pytest.fixture
def home(tmp_path) -> Path:
    """Where everything goes that the service writes, beside the registry."""
    for name in ("home", "temporary"):
        (tmp_path / "run" / name).mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture
def address(places, home):
    """Starts the service; gives its address, and on leaving waits for its end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DERMFED_", "XDG_", "BENTO"))
    }
    environment = {
        **kept,
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "temporary"),
        "DERMFED_SERVE_BURST": str(BURST),
        "DERMFED_SERVE_RECORDS_PICTURE_HASH": "yes",
        "DERMFED_OUTCOMES_URL": f"sqlite:///{home / 'outcomes.db'}",
    }
    started = []

    def start():
        command = [sys.executable, "-c", "from serving.cli import main; main()", "--port", str(port)]
        options = ["--workers", "2", "--url", places.url, "--store", str(places.store)]
        with (home / "log").open("wb") as log:
            where = {"stdout": log, "stderr": log, "cwd": home, "env": environment}
            started.append(subprocess.Popen([*command, *options], **where))
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=60).status_code == 200:
                    return f"http://127.0.0.1:{port}"
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError((home / "log").read_text())

    def stop():
        for process in started:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        started.clear()

    yield start, stop
    stop()


def test_workers_share_records_and_write_nothing_of_a_caller(registry, promote, bundle, home, address, image):
    promote(registry, bundle())
    key, secret = registry.create_key("app", per_minute=BURST)
    other, second = registry.create_key("other", scopes=["diagnose", "outcome", "operate"])
    also = {"Authorization": f"Bearer {second}"}
    file = io.BytesIO()
    painted = image(size=(64, 48))
    painted.putdata([((7 * n) % 251, (11 * n) % 241, (13 * n) % 239) for n in range(64 * 48)])
    painted.save(file, "JPEG", comment=MARKER.encode())
    content = file.getvalue()
    start, stop = address
    url = start() + "/v1/diagnoses"
    bearer = {"Authorization": f"Bearer {secret}"}

    began = time.monotonic()
    answers = []
    for n in range(40):  # each on a connection of its own, so that both workers are asked
        form = {"image": (f"{MARKER}.jpg", content, "image/jpeg")}
        tone = {"skin_tone": "5"} if n % 2 else {}
        answers.append(httpx.post(url, files=form, params=tone, headers=bearer, timeout=60))
    seconds = time.monotonic() - began
    admitted = [one for one in answers if one.status_code == 200]
    assert {one.status_code for one in answers} == {200, 429}
    # Each of two workers admits half of the rate; chance says which is asked.
    assert BURST // 2 <= len(admitted) <= BURST + seconds * BURST / 60 + 2

    card, other_page = (url.replace("diagnoses", path) for path in (f"models/{MARKER}/card", MARKER))
    as_picture = {**also, "Content-Type": "image/jpeg"}
    refused = [
        httpx.post(url, content=content, params={MARKER: MARKER}, headers=as_picture, timeout=60),
        httpx.post(url, content=MARKER, headers={"Authorization": f"Bearer dfk_{MARKER}"}, timeout=60),
        httpx.post(url, content=MARKER, auth=(MARKER, secret), timeout=60),
        httpx.get(card, headers={"Cookie": MARKER}, timeout=60),
        httpx.get(other_page, headers={**also, "User-Agent": MARKER}, timeout=60),
        httpx.post(url, data={"image": MARKER}, headers={**also, "X-Forwarded-For": MARKER}, timeout=60),
    ]
    assert {one.status_code for one in refused} == {401, 404, 415, 422}

    judged, *unjudged = [one.json()["id"] for one in admitted]
    today = datetime.now(UTC).date().isoformat()
    given = {"label": "MEL", "confirmed_by": "histopathology", "date": today}
    named = [{**given, "label": MARKER}, {**given, MARKER: MARKER}, {**given, "confirmed_by": MARKER}]
    told = [
        httpx.post(f"{url}/{judged}/outcome", json=given, headers=also, timeout=60),
        *(httpx.post(f"{url}/{judged}/outcome", json=one, headers=also, timeout=60) for one in named),
    ]
    page = url.replace("/v1", "") + f"/{judged}"
    told += [httpx.post(page, data=one, headers=also, timeout=60) for one in named]
    told += [
        httpx.get(page, headers=also, timeout=60),
        httpx.get(page, params={MARKER: MARKER}, headers=also, timeout=60),
        httpx.get(url.replace("/v1", ""), params={"id": MARKER}, headers=also, timeout=60),
        httpx.get(url.replace("/v1/diagnoses", "/metrics"), headers=also, timeout=60),
        httpx.get(url.replace("/v1/diagnoses", "/operator"), headers=also, timeout=60),
    ]
    assert [one.status_code for one in told] == [200, *[422] * 6, 200, 200, 404, 200, 200]
    for one in told[-2:]:  # metrics and the operator's page
        assert judged not in one.text
    stop()

    log = (home / "log").read_text()
    assert log.count(judged) == log.count(unjudged[0])  # whose outcome is known does not show there
    outcomes = home / "outcomes.db"
    with closing(sqlite3.connect(outcomes)) as database:
        kept = database.execute("SELECT id, day FROM answers").fetchall()
        known = database.execute("SELECT answer, label, key FROM outcomes").fetchall()
    assert dict(kept).keys() == {judged, *unjudged}
    assert known == [(judged, 0, None)]
    with OutcomeStore.open(f"sqlite:///{outcomes}") as store, (home / "exported.csv").open("w") as exported:
        assert export_outcomes(store, exported) == 1
    for answer in (*answers, *refused, *told):
        assert log.count(answer.headers["x-request-id"]) == 1
    found = list((home / "home").rglob("diagnoses-*.jsonl"))
    lines = [json.loads(line) for path in found for line in path.read_text().splitlines()]
    assert {path.parent for path in found} == {home / "home" / ".local" / "share" / "dermfed" / "records"}
    assert {line["key"] for line in lines} == {key.id, other.id}
    answered = {line["request"] for line in lines if line["status"] == 200}
    assert answered == {one.json()["id"] for one in admitted}

    random = secret.split("_", 2)[2]
    sent = [
        secret.encode(),
        random.encode(),
        second.encode(),
        MARKER.encode(),
        content[-200:-100],
        content[:40],
    ]
    written = [path for path in home.rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in written:
        held = path.read_bytes()
        assert [part for part in sent if part in held] == [], path
        assert MARKER.lower().encode() not in held.lower()
    names = "\n".join(map(str, home.rglob("*")))
    assert MARKER not in names
    assert random not in names
