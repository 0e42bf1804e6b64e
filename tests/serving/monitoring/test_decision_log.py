import hashlib
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from serving.monitoring import day_files, decision_log

FIELDS = [
    "time", "request", "key", "status", "model", "version", "digest", "subgroup", "route", "triage",
    "decision", "confidence", "milliseconds",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "records"


@pytest.fixture
def secret(registry, promote, bundle, dark):
    promote(registry, bundle(), bundle(dark))
    return registry.create_key("app")[1]


def lines(folder):
    found = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in found]


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def test_a_diagnosis_leaves_a_line_that_says_what_the_answer_said(serve, registry, secret, folder, picture):
    began = datetime.now(UTC)
    with serve(records=folder) as service:
        answer = service.diagnose(picture(), headers=bearer(secret), params={"skin_tone": "5"})
    ended = datetime.now(UTC)
    told = answer.json()
    (line,) = lines(folder)
    assert list(line) == FIELDS
    (key,) = registry.keys()
    model = told["model"]
    assert began <= datetime.fromisoformat(line.pop("time")) <= ended
    assert 0 < line.pop("milliseconds") <= (ended - began) / timedelta(milliseconds=1)
    assert line == {
        "request": answer.headers["x-request-id"],
        "key": key.id,
        "status": 200,
        "model": "skin-lesion",
        "version": model["version"],
        "digest": model["digest"],
        "subgroup": "dark",
        "route": "declared",
        "triage": told["triage"],
        "decision": told["decision"],
        "confidence": told["findings"][0]["probability"],
    }
    (path,) = folder.iterdir()
    assert re.fullmatch(r"diagnoses-\d{4}-\d\d-\d\d\.jsonl", path.name)


def test_what_is_refused_leaves_who_and_why_alone(serve, registry, secret, folder, picture):
    reader, other = registry.create_key("reader", scopes=["read"])
    gone, revoked = registry.create_key("gone")
    registry.revoke_key(gone.id)
    key = registry.keys()[0]
    with serve(records=folder, requests_per_minute=3, burst=3) as service:
        *answers, too_often, other_scope = [
            service.diagnose(b"nothing", headers=bearer(secret)),
            service.diagnose(headers=bearer(secret), params={"skin_tone": "9"}),
            service.diagnose(headers=bearer(secret), params={"model": "other"}),
            service.diagnose(headers=bearer(secret)),
            service.diagnose(headers=bearer(other)),
        ]
        assert too_often.status_code == 429  # counted alone: it costs nothing to be refused like this
        # Nobody knows who they are, or they ask for no diagnosis.
        for headers in ({}, bearer("guess"), bearer(revoked)):
            assert service.diagnose(headers=headers).status_code == 401
        assert service.client.get("/v1/models", headers=bearer(other)).status_code == 200
        assert service.client.get("/v1/diagnoses", headers=bearer(other)).status_code == 405
    told = lines(folder)
    assert [list(line) for line in told] == [["time", "request", "key", "status"]] * 4
    assert [(line["key"], line["status"]) for line in told] == [
        (key.id, 400), (key.id, 422), (key.id, 404), (reader.id, 403),
    ]  # fmt: skip
    assert [line["request"] for line in told] == [
        one.headers["x-request-id"] for one in (*answers, other_scope)
    ]


def test_a_failure_of_ours_is_a_line_too(serve, secret, folder, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("serving.http.diagnoses.decode", fail)
    with serve(records=folder) as service:
        assert service.diagnose(headers=bearer(secret)).status_code == 500
    assert [line["status"] for line in lines(folder)] == [500]


@pytest.mark.parametrize(
    ("path", "accept", "renders"),
    [
        ("/v1/diagnoses", "application/fhir+json", "serving.http.diagnoses.fhir_bundle"),
        ("/", "text/html", "serving.http.pages.picture_page"),
    ],
)
def test_a_diagnosis_that_could_not_be_told_is_no_diagnosis(
    serve, registry, promote, bundle, folder, picture, monkeypatch, path, accept, renders
):
    def fail(*arguments, **options):
        raise RuntimeError("it cannot be rendered")

    promote(registry, bundle())
    monkeypatch.setattr(renders, fail)
    with serve(records=folder) as service:
        files = {"image": ("lesion.jpg", picture(), "image/jpeg")}
        assert service.client.post(path, files=files, headers={"Accept": accept}).status_code == 500
        assert "dermfed_diagnoses_total{" not in service.client.get("/metrics").text
    assert [line["status"] for line in lines(folder)] == [500]


def test_a_pictures_hash_is_there_where_it_is_asked_for(serve, secret, folder, picture):
    content = picture("PNG")
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    with serve(records=folder) as service:
        service.diagnose(content, "image/png", headers=bearer(secret))
    with serve(records=folder, records_picture_hash=True) as service:
        service.diagnose(content, "image/png", headers=bearer(secret))
        service.diagnose(b"nothing", "image/png", headers=bearer(secret))
    without, with_it, refused = lines(folder)
    assert list(without) == FIELDS
    assert list(with_it) == [*FIELDS, "picture"]
    assert with_it["picture"] == digest
    assert list(refused) == ["time", "request", "key", "status"]


@pytest.fixture
def disk(monkeypatch):
    """A disk that can hang: `hanging` tells that a line waits for it, `go` lets it through."""
    found = SimpleNamespace(hanging=threading.Event(), go=threading.Event())
    write = day_files._write

    def hang(file, line):
        found.hanging.set()
        assert found.go.wait(120)
        write(file, line)

    monkeypatch.setattr(day_files, "_write", hang)
    yield found
    found.go.set()


def test_a_disk_that_hangs_stops_nobody_and_loses_nothing(serve, secret, folder, disk, monkeypatch):
    monkeypatch.setattr(decision_log, "PATIENCE", 120.0)
    got = []
    with serve(records=folder) as service:
        asking = threading.Thread(
            target=lambda: got.append(service.diagnose(headers=bearer(secret)).status_code)
        )
        asking.start()
        assert disk.hanging.wait(60)
        assert service.client.get("/livez").status_code == 200  # others are answered meanwhile
        assert service.client.get("/v1/models", headers=bearer(secret)).status_code == 200
        assert got == []  # and its own answer waits for the line
        disk.go.set()
        asking.join(60)
        assert got == [200]
    assert [line["status"] for line in lines(folder)] == [200]


def test_what_a_disk_does_not_take_until_the_end_is_told(serve, secret, folder, disk, monkeypatch, caplog):
    monkeypatch.setattr(decision_log, "PATIENCE", 0.05)
    monkeypatch.setattr(decision_log, "_CLOSING_SECONDS", 0.05)
    with serve(records=folder) as service:
        for _ in range(3):
            service.diagnose(headers=bearer(secret))
    assert "3 records of diagnoses were lost" in caplog.text


def test_a_disk_that_is_full_fails_no_request_and_is_told(serve, secret, folder, caplog, monkeypatch):
    def lost(service):
        found = service.client.get("/metrics", headers=bearer(secret)).text
        return float(re.search(r"^dermfed_records_lost_total (\S+)", found, re.MULTILINE)[1])

    folder.write_text("in the way")
    with serve(records=folder) as service:
        assert service.client.get("/readyz").json()["status"] == "ready"
        answers = [service.diagnose(headers=bearer(secret)) for _ in range(3)]
        assert [one.status_code for one in answers] == [200] * 3
        assert service.diagnose(b"nothing", headers=bearer(secret)).status_code == 400
        assert lost(service) == 4
        ready = service.client.get("/readyz", headers=bearer(secret))
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        (health_issue,) = ready.json()["troubles"]
        assert str(folder) in health_issue
        assert "DERMFED_SERVE_RECORDS" in health_issue
        assert caplog.text.count("cannot be written") == 1

        folder.unlink()
        service.diagnose(headers=bearer(secret))
        assert service.client.get("/readyz").json()["status"] == "ready"
        assert lost(service) == 4
    assert len(lines(folder)) == 1


def test_lines_that_a_hanging_disk_keeps_are_written_in_their_order(serve, secret, folder, disk, monkeypatch):
    """Answers go out meanwhile, the first after `PATIENCE` and others at once, and it is reported."""
    monkeypatch.setattr(decision_log, "PATIENCE", 0.05)
    with serve(records=folder) as service:
        ids = [service.diagnose(headers=bearer(secret)).json()["id"] for _ in range(3)]
        (issue,) = service.client.get("/readyz", headers=bearer(secret)).json()["troubles"]
        assert issue.startswith("3 records of diagnoses wait for")
        disk.go.set()
        service.eventually(lambda: service.client.get("/readyz").json()["status"] == "ready")
    assert [line["request"] for line in lines(folder)] == ids


def test_what_finds_too_many_waiting_is_lost_counted_and_reported(serve, secret, folder, disk, monkeypatch):
    monkeypatch.setattr(decision_log, "PATIENCE", 0.05)
    monkeypatch.setattr(decision_log, "WAITING", 2)
    with serve(records=folder) as service:
        for _ in range(5):  # one is being written, two wait
            assert service.diagnose(headers=bearer(secret)).status_code == 200
        ready = service.client.get("/readyz", headers=bearer(secret)).json()["troubles"]
        assert any("2 of them wait already" in one for one in ready)
        text = service.client.get("/metrics", headers=bearer(secret)).text
        assert "dermfed_records_lost_total 2.0" in text
        disk.go.set()
    assert len(lines(folder)) == 3


def test_an_error_that_was_not_foreseen_does_not_end_the_thread(serve, secret, folder, monkeypatch):
    write, failed = day_files._write, []

    def once(file, line):
        if not failed:
            failed.append(line)
            raise ValueError("a bug")
        write(file, line)

    monkeypatch.setattr(day_files, "_write", once)
    with serve(records=folder) as service:
        assert [service.diagnose(headers=bearer(secret)).status_code for _ in range(2)] == [200, 200]
    assert [line["status"] for line in lines(folder)] == [200]
