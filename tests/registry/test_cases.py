"""A model of cases in the registry: added, promoted behind gates, compared and shown."""

import json

import pytest

from registry.bundle.cases import AGE, CaseInput
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import ModelFile
from registry.errors import BundleRefused
from registry.gates import GateSet, SpreadGate
from registry.releases.add import check_bundle
from registry.views.card import Entry, entry_json, release_card
from registry.views.card_page import card_page
from tests.case_bundles import CASE, PATTERNS, case_bundle, case_graph

pytestmark = pytest.mark.sqlite


def test_it_is_added_promoted_and_read_again(registry, tested):
    first = case_bundle(metrics=tested(light=0.82, dark=0.8), parity=1e-6)
    (version,) = registry.add([first])
    registry.set_gates(GateSet(gates=(SpreadGate(),)), reason="of other gates nothing is told here")
    registry.promote("skin-lesion", [version.number], to="production", reason="test")
    (release,) = registry.current("production").values()
    assert release.versions == (version,)
    assert registry.bundle(version).manifest == first.manifest


@pytest.mark.parametrize(
    ("taken", "said"),
    [
        (
            case_graph(CaseInput(slots=1, facts=(AGE,))),
            "for cases with 1 facts, and its manifest for cases with 3",
        ),
        (None, "for single pictures, and its manifest for cases with 3"),
    ],
)
def test_a_graph_that_takes_something_else_is_refused(graph, taken, said):
    model = taken or graph()
    manifest = case_bundle().manifest.model_copy(update={"file": ModelFile.of(model)})
    with pytest.raises(BundleRefused, match=said):
        check_bundle(Bundle(manifest, model, bundle_digest(manifest)))


def test_the_card_tells_what_it_takes_and_how_sure_it_is():
    manifest = case_bundle().manifest
    card = entry_json(Entry(manifest, bundle_digest(manifest)))
    assert json.loads(json.dumps(card)) == card
    assert CaseInput.model_validate(card["case"]) == CASE
    assert [one["pattern"] for one in card["patterns"]] == [one.pattern.name for one in PATTERNS]
    page = card_page(release_card([Entry(manifest, bundle_digest(manifest))]))
    for said in (
        "From pictures of one lesion, and what else is known of it,",
        "1 to 3",
        "close-up, dermoscopic",
        "age (0 to 120 years); sex (female, male)",
        "close-up+dermoscopic+some context",
        "2.40",
        "40 %",
    ):
        assert said in page
