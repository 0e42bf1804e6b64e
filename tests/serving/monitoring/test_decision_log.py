import hashlib
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from serving.monitoring import decision_log

REFUSED = ["time", "request", "key", "status"]
FIELDS = [
    *REFUSED, "model", "version", "digest", "subgroup", "route", "triage", "decision", "confidence",
    "milliseconds",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "records"


@pytest.fixture
def keyed(registry, promote, bundle, dark):
    """The headers of a caller with a key, for a registry with a release."""
    promote(registry, bundle(), bundle(dark))
    return bearer(registry.create_key("app")[1])


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def lines(folder):
    found = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in found]


def ready(service, headers):
    return service.client.get("/readyz", headers=headers).json()


def lost(service, headers):
    found = service.client.get("/metrics", headers=headers).text
    return float(re.search(r"^dermfed_records_lost_total (\S+)", found, re.MULTILINE)[1])


def test_a_diagnosis_leaves_a_line_that_says_what_the_answer_said(serve, registry, keyed, folder, picture):
    began = datetime.now(UTC)
    with serve(records=folder) as service:
        answer = service.diagnose(picture(), headers=keyed, params={"skin_tone": "5"})
    ended = datetime.now(UTC)
    said = answer.json()
    (line,) = lines(folder)
    assert list(line) == FIELDS
    (key,) = registry.keys()
    assert began <= datetime.fromisoformat(line.pop("time")) <= ended
    assert 0 < line.pop("milliseconds") <= (ended - began) / timedelta(milliseconds=1)
    assert line == {
        "request": answer.headers["x-request-id"],
        "key": key.id,
        "status": 200,
        "model": "skin-lesion",
        "version": said["model"]["version"],
        "digest": said["model"]["digest"],
        "subgroup": "dark",
        "route": "declared",
        "triage": said["triage"],
        "decision": said["decision"],
        "confidence": said["findings"][0]["probability"],
    }


def test_what_is_refused_leaves_who_and_why_alone(serve, registry, keyed, folder):
    reader, other = registry.create_key("reader", scopes=["read"])
    gone, revoked = registry.create_key("gone")
    registry.revoke_key(gone.id)
    key = registry.keys()[0]
    with serve(records=folder, requests_per_minute=3, burst=3) as service:
        answers = [
            service.diagnose(b"nothing", headers=keyed),
            service.diagnose(headers=keyed, params={"skin_tone": "9"}),
            service.diagnose(headers=keyed, params={"model": "other"}),
            service.diagnose(headers=bearer(other)),
        ]
        # Counted alone: it costs nothing to be refused like this.
        assert service.diagnose(headers=keyed).status_code == 429
        # Who they are is not known, or they ask for no diagnosis.
        for headers in ({}, bearer("guess"), bearer(revoked)):
            assert service.diagnose(headers=headers).status_code == 401
        assert service.client.get("/v1/models", headers=bearer(other)).status_code == 200
        assert service.client.get("/v1/diagnoses", headers=bearer(other)).status_code == 405
    found = lines(folder)
    assert [list(line) for line in found] == [REFUSED] * 4
    assert [(line["key"], line["status"]) for line in found] == [
        (key.id, 400), (key.id, 422), (key.id, 404), (reader.id, 403),
    ]  # fmt: skip
    assert [line["request"] for line in found] == [one.headers["x-request-id"] for one in answers]


@pytest.mark.parametrize(
    ("path", "accept", "breaks"),
    [
        pytest.param("/v1/diagnoses", "*/*", "diagnoses.decode", id="decoding"),
        pytest.param("/v1/diagnoses", "application/fhir+json", "diagnoses.fhir_bundle", id="writing FHIR"),
        pytest.param("/", "text/html", "pages.picture_page", id="drawing the page"),
    ],
)
def test_where_we_fail_there_is_no_diagnosis_but_a_line(
    serve, registry, promote, bundle, folder, picture, monkeypatch, path, accept, breaks
):
    def fail(*arguments, **options):
        raise RuntimeError("a secret of the inside")

    promote(registry, bundle())
    monkeypatch.setattr(f"serving.http.{breaks}", fail)
    with serve(records=folder) as service:
        files = {"image": ("lesion.jpg", picture(), "image/jpeg")}
        assert service.client.post(path, files=files, headers={"Accept": accept}).status_code == 500
        assert "dermfed_diagnoses_total{" not in service.client.get("/metrics").text
    assert [line["status"] for line in lines(folder)] == [500]


def test_a_pictures_hash_is_there_where_it_is_asked_for(serve, keyed, folder, picture):
    content = picture("PNG")
    with serve(records=folder) as service:
        service.diagnose(content, "image/png", headers=keyed)
    with serve(records=folder, records_picture_hash=True) as service:
        service.diagnose(content, "image/png", headers=keyed)
        service.diagnose(b"nothing", "image/png", headers=keyed)
    without, with_it, refused = lines(folder)
    assert list(without) == FIELDS
    assert list(with_it) == [*FIELDS, "picture"]
    assert with_it["picture"] == "sha256:" + hashlib.sha256(content).hexdigest()
    assert list(refused) == REFUSED


# A disk that hangs, or is full


@pytest.fixture
def disk(monkeypatch):
    """A disk that hangs: `hanging` is set once a line waits for it, `go` lets it through."""
    found, write = SimpleNamespace(hanging=threading.Event(), go=threading.Event()), decision_log._write

    def hang(file, line):
        found.hanging.set()
        assert found.go.wait(120)
        write(file, line)

    monkeypatch.setattr(decision_log, "_write", hang)
    monkeypatch.setattr(decision_log, "PATIENCE", 0.05)
    yield found
    found.go.set()


def test_an_answer_waits_for_its_line_and_no_other_request_does(serve, keyed, folder, disk, monkeypatch):
    monkeypatch.setattr(decision_log, "PATIENCE", 120.0)
    with serve(records=folder) as service, ThreadPoolExecutor(1) as callers:
        asking = callers.submit(service.diagnose, headers=keyed)
        assert disk.hanging.wait(60)
        assert service.client.get("/livez").status_code == 200
        assert service.client.get("/v1/models", headers=keyed).status_code == 200
        assert not asking.done()
        disk.go.set()
        assert asking.result(60).status_code == 200
    assert [line["status"] for line in lines(folder)] == [200]


def test_lines_that_a_hanging_disk_keeps_are_written_in_their_order(serve, keyed, folder, disk):
    """Answers go out meanwhile, the first after `PATIENCE` and others at once, and it is reported."""
    with serve(records=folder) as service:
        ids = [service.diagnose(headers=keyed).json()["id"] for _ in range(3)]
        (issue,) = ready(service, keyed)["troubles"]
        assert issue.startswith("3 records of diagnoses wait for")
        disk.go.set()
        service.eventually(lambda: ready(service, keyed)["status"] == "ready")
    assert [line["request"] for line in lines(folder)] == ids


def test_what_finds_too_many_waiting_is_lost_counted_and_reported(serve, keyed, folder, disk, monkeypatch):
    monkeypatch.setattr(decision_log, "WAITING", 2)
    with serve(records=folder) as service:
        for _ in range(5):  # one is being written, two wait
            assert service.diagnose(headers=keyed).status_code == 200
        assert any("2 of them wait already" in one for one in ready(service, keyed)["troubles"])
        assert lost(service, keyed) == 2
        disk.go.set()
    assert len(lines(folder)) == 3


def test_what_a_disk_does_not_take_until_the_end_is_logged(serve, keyed, folder, disk, monkeypatch, caplog):
    monkeypatch.setattr(decision_log, "_CLOSING_SECONDS", 0.05)
    with serve(records=folder) as service:
        for _ in range(3):
            service.diagnose(headers=keyed)
    assert "3 records of diagnoses were lost" in caplog.text


def test_a_disk_that_is_full_fails_no_request_and_is_reported(serve, keyed, folder, caplog):
    folder.write_text("in the way")
    with serve(records=folder) as service:
        assert ready(service, keyed)["status"] == "ready"
        assert [service.diagnose(headers=keyed).status_code for _ in range(3)] == [200] * 3
        assert service.diagnose(b"nothing", headers=keyed).status_code == 400
        assert lost(service, keyed) == 4
        answer = ready(service, keyed)
        assert answer["status"] == "degraded"
        (issue,) = answer["troubles"]
        assert str(folder) in issue
        assert "DERMFED_SERVE_RECORDS" in issue
        assert caplog.text.count("cannot be written") == 1

        folder.unlink()
        service.diagnose(headers=keyed)
        assert ready(service, keyed)["status"] == "ready"
        assert lost(service, keyed) == 4
    assert len(lines(folder)) == 1


def test_an_error_that_was_not_foreseen_does_not_end_the_thread(serve, keyed, folder, monkeypatch):
    write, failed = decision_log._write, []

    def once(file, line):
        if not failed:
            failed.append(line)
            raise ValueError("a bug")
        write(file, line)

    monkeypatch.setattr(decision_log, "_write", once)
    with serve(records=folder) as service:
        assert [service.diagnose(headers=keyed).status_code for _ in range(2)] == [200, 200]
    assert [line["status"] for line in lines(folder)] == [200]
