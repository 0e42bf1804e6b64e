import logging
import re

import pytest

# The asking side, and the server of the tests: `dermfed-serve` keeps no access log.
NOT_OURS = ("httpx", "httpcore", "uvicorn.access", "python_multipart")
SECRETS = ("Marker-In-The-Picture", "marker-file-name", "markerquery", "marker_tone", "markeragent")


def served_lines(caplog):
    """What the service has logged."""
    return [record.getMessage() for record in caplog.records if record.name == "dermfed.serve"]


def test_a_line_says_who_what_and_how_long_and_nothing_else(service, picture, caplog):
    sent = picture(comment=SECRETS[0].encode())
    headers = {"User-Agent": SECRETS[4], "Authorization": "Bearer markerkey"}
    with caplog.at_level(logging.DEBUG):
        answers = [
            service.diagnose(sent, params={"skin_tone": "5"}, headers=headers),
            service.form({}, files={"image": (SECRETS[1], sent, "image/jpeg")}, headers=headers),
            service.diagnose(sent, params={SECRETS[2]: "1"}, headers=headers),
            service.diagnose(sent, params={"skin_tone": SECRETS[3]}, headers=headers),
            service.diagnose(SECRETS[0].encode(), headers=headers),
            service.form({"image": SECRETS[0]}, files={}, headers=headers),
            service.form(
                {SECRETS[2]: SECRETS[0]}, files={"markerfield": (SECRETS[1], sent)}, headers=headers
            ),
            service.client.get(f"/{SECRETS[2]}", headers=headers),
            service.client.get(f"/v1/models/{SECRETS[2]}/card", headers=headers),
        ]
        ids = {answer.headers["x-request-id"] for answer in answers}
        # What the asking side logs has the ids too: it is the service's own lines that have to come.
        service.eventually(lambda: ids <= {line.partition(" ")[0] for line in served_lines(caplog)})
    assert [answer.status_code for answer in answers] == [200, 200, 422, 422, 400, 415, 422, 404, 404]
    told = [record for record in caplog.records if not record.name.startswith(NOT_OURS)]
    assert "marker" not in "\n".join(record.getMessage() for record in told).lower()
    for answer in answers:  # a line is written once its answer has left: not always in their order
        [line] = [line for line in served_lines(caplog) if answer.headers["x-request-id"] in line]
        known = re.fullmatch(r"[0-9a-f-]{36} (GET|POST) (\S+) (\d{3}) \d+\.\d ms", line)
        assert known, line
        assert int(known[3]) == answer.status_code
        assert known[2] in ("/v1/diagnoses", "/v1/models/{name}/card", "other")


def test_the_id_is_the_diagnosis_own_and_no_senders(service):
    answer = service.diagnose(headers={"X-Request-Id": "chosen"})
    assert answer.json()["id"] == answer.headers["x-request-id"] != "chosen"
    assert answer.headers.get_list("x-request-id") == [answer.headers["x-request-id"]]


@pytest.mark.parametrize("path", ["/v1/models", "/livez", "/docs", "/nothing"])
def test_every_answer_is_kept_by_nobody_and_guessed_by_nobody(service, path):
    headers = service.client.get(path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_no_header_comes_from_a_sender(service):
    answer = service.client.get("/v1/models/a%0d%0aSet-Cookie:%20a=b/card?x=%0d%0aSet-Cookie:%20a=b")
    assert answer.status_code == 404
    assert "set-cookie" not in answer.headers
