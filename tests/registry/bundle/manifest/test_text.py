import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.bundle.errors import BundleCorrupt, ManifestError, OtherSchema
from registry.bundle.evaluation import Evaluation, GroupCounts
from registry.bundle.manifest import BundleManifest, canonical, read_manifest


def text(record) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_the_text_is_canonical_json(manifest):
    content = canonical(manifest())
    record = json.loads(content)
    assert text(record) == content
    assert record["schema_version"] == 1


def shown(auroc):
    dark = GroupCounts(n=3, right=2)
    return Evaluation(all=GroupCounts(n=3, estimates={"auroc": auroc}), by_subgroup={"dark": dark})


def test_reading_gives_back_what_was_written(manifest):
    whole = manifest(model="Läsion", evaluation=shown(0.1 + 0.2))
    assert read_manifest(canonical(whole)) == whole


@given(value=st.floats(0, 1))
@settings(max_examples=50)
def test_every_figure_comes_back_to_the_last_bit(manifest, value):
    content = canonical(manifest(evaluation=shown(value)))
    assert read_manifest(content).metrics["auroc"] == value
    assert canonical(read_manifest(content)) == content


def test_a_text_that_was_edited_or_formatted_is_refused(manifest):
    record = json.loads(canonical(manifest()))
    with pytest.raises(BundleCorrupt, match="edited after it was written"):
        read_manifest(json.dumps(record, indent=2).encode())
    twice = canonical(manifest()).replace(b'"model":', b'"model":"first","model":', 1)
    with pytest.raises(BundleCorrupt, match="edited"):
        read_manifest(twice)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_refused(content):
    with pytest.raises(BundleCorrupt, match="not JSON"):
        read_manifest(content)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "an object"),
        ({"schema_version": 1, "model": "m"}, "labels: Field required"),
    ],
)
def test_what_is_no_manifest_is_refused(record, message):
    with pytest.raises(ManifestError, match=message):
        read_manifest(text(record))


@pytest.mark.parametrize("version", [None, "1", True, 1.0, 0, 2])
def test_what_is_of_another_version_is_refused(version):
    with pytest.raises(OtherSchema, match=f"schema_version {version!r}; this dermfed reads 1 alone"):
        read_manifest(text({"schema_version": version}))


def test_every_key_is_written(manifest):
    record = json.loads(canonical(manifest()))
    assert set(record) == set(BundleManifest.model_fields)
    assert record["parity"] is None
