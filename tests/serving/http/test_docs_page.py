"""The documentation page: what may be sent in a form, as the description says it."""

from html.parser import HTMLParser

import pytest

from serving.http.docs_page import docs_page
from serving.http.form_fields import ONE_OF_THESE, OPTIONAL, REQUIRED, form_fields, kind_of
from serving.http.openapi import describe
from serving.settings import ServeSettings


@pytest.fixture(scope="module")
def api():
    """The OpenAPI document."""
    return describe(ServeSettings(max_bytes=1_000_000))


def fields(api):
    return {one.name: one for one in form_fields(api, api["paths"]["/v1/diagnoses"]["post"])}


def test_every_field_of_the_form_is_listed_with_what_it_means(api):
    listed = fields(api)
    assert set(listed) - {"(any other name)"} == set(
        api["components"]["schemas"]["DiagnosisForm"]["properties"]
    )
    assert all(one.meaning for one in listed.values())


def test_a_file_says_how_many_of_which_formats_and_that_one_is_needed(api):
    found = fields(api)["close_up"]
    assert (found.kind, found.required) == ("1 to 8 files", ONE_OF_THESE)
    assert found.allowed[:2] == ["image/jpeg", "image/png"]


def test_parameters_and_facts_say_their_values_and_that_they_may_be_left_out(api):
    listed = fields(api)
    assert listed["skin_tone_scale"].allowed == ["fitzpatrick", "monk", "milk10k", "ddi"]
    assert listed["top"].kind == "whole number from 1 to 1000"
    assert "declared skin tone" in listed["skin_tone"].meaning
    assert listed["age"].kind == "text of at most 200 characters"
    assert {listed[name].required for name in ("skin_tone", "top", "age", "(any other name)")} == {OPTIONAL}


def test_a_required_field_is_called_so():
    form = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
    body = {"content": {"multipart/form-data": {"schema": form}}}
    (found,) = form_fields({"components": {"schemas": {}}}, {"requestBody": body})
    assert (found.required, found.kind) == (REQUIRED, "text")


def test_what_takes_no_form_has_no_fields(api):
    assert form_fields(api, api["paths"]["/livez"]["get"]) == []


def test_a_kind_that_is_not_known_is_any():
    assert kind_of({"type": "object"}) == "any"


class Rows(HTMLParser):
    """The words of each row of a page's tables."""

    def __init__(self, html):
        super().__init__()
        self.rows = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        if self.rows and data.strip():
            self.rows[-1].append(" ".join(data.split()))


def test_the_page_shows_them(api):
    html = docs_page(api, "http://localhost")
    rows = [" ".join(row) for row in Rows(html).rows]
    assert any(row.startswith("dermoscopic at least one of these 1 to 8 files image/jpeg") for row in rows)
    assert any(row.startswith("image_kind no text close-up dermoscopic overview unknown") for row in rows)
    assert "a file of at most 1,000,000 bytes" in html
