import inspect
import logging

import numpy as np
import pytest

from serving.protocol import problems
from serving.protocol.problems import ProblemResponse, problem_response

KINDS = [
    kind for kind in vars(problems).values() if inspect.isclass(kind) and issubclass(kind, ProblemResponse)
]


def test_each_kind_has_its_own_name_and_is_in_the_tree_of_the_docstring():
    assert len({kind.name for kind in KINDS}) == len(KINDS) > 7
    for kind in KINDS[1:]:
        assert f"{kind.__name__:<20}{kind.status}" in problems.__doc__.replace("─", "")
        assert kind.title != ProblemResponse.title


def test_what_a_sender_wrote_is_cut_and_made_writable():
    body = problem_response(ProblemResponse("\ud800" + "x" * 5000), "id").body.decode()
    assert "?xxx" in body
    assert len(body) < 1300


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "//", 404),
        ("GET", "//livez", 404),
        ("GET", "/v1/models/a%2Fb/card", 404),
        ("GET", "/v1/models/../card", 404),
        ("GET", "/v1/models/..%2f..%2fetc%2fpasswd/card", 404),
        ("GET", "/v1/models/%00/card", 404),
        ("GET", "/v1/models/skin-lesion%0a/card", 404),
        ("GET", "/v1/models/%ff/card", 404),
        ("GET", "/static/../../etc/passwd", 404),
        ("OPTIONS", "/v1/diagnoses", 405),
        ("BREW", "/v1/models", 405),
        ("TRACE", "/v1/models", 405),
    ],
)
def test_odd_paths_and_methods_are_refused(service, problem, method, path, status):
    answer = service.client.send(service.client.build_request(method, service.url + path))
    problem(answer, status)
    assert (status == 405) == ("allow" in answer.headers)


@pytest.mark.parametrize("path", ["/v1/models", "/livez", "/readyz", "/metrics", "/openapi.json", "/docs"])
def test_head_is_get_without_the_body(service, path):
    got, head = service.client.get(path), service.client.head(path)
    assert (head.status_code, head.headers["content-type"]) == (200, got.headers["content-type"])
    assert head.content == b""


def test_a_bug_is_reported_in_the_log_and_not_to_the_sender(service, problem, monkeypatch, caplog):
    def fail(*arguments, **options):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("serving.http.diagnoses.build_diagnosis", fail)
    answer = service.diagnose()
    assert "secret" not in answer.text
    assert "RuntimeError" not in answer.text
    body = problem(answer, 500)
    failed = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in failed] == [f"{body['request_id']} failed"]
    assert str(failed[0].exc_info[1]) == "a secret of the inside"
    monkeypatch.undo()
    assert service.diagnose().status_code == 200


def test_a_picture_for_which_a_graph_overflows_has_no_diagnosis(
    serve, registry, promote, bundle, picture, problem, monkeypatch
):
    # A probe would find it: this is a model that fails on a picture which no probe has.
    for place in ("add", "promote"):
        monkeypatch.setattr(f"registry.releases.{place}.probe_model", lambda *given: None)
    # The sum of a white picture's colours times this is not finite; that of a darker one is.
    promote(registry, bundle(weights=np.full((3, 3), 8e35)))
    with serve() as service:
        assert (
            "finite"
            not in problem(service.diagnose(picture("PNG", (255, 255, 255)), "image/png"), 500)["detail"]
        )
        assert service.diagnose().status_code == 200
        assert service.client.get("/readyz").status_code == 200
