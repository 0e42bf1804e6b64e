"""A model is loaded and asked in a process of its own; what misbehaves there is refused, and named."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from registry.bundle.cases import CaseInput
from registry.bundle.folder import Bundle, bundle_digest
from registry.bundle.manifest import ModelFile, OutOfDistribution
from registry.bundle.model import Gaussians
from registry.errors import BundleRefused
from registry.gates import GateSet, SpreadGate
from registry.releases import probe
from registry.releases.probe import probe_model
from tests.case_bundles import CASE, case_bundle
from tests.registry.bad_models import MADE, MADE_OF_CASES
from tests.thorough import mostly_long

pytestmark = pytest.mark.sqlite  # nothing here depends on the database

QUICK = 1  # second of a core


@pytest.fixture(autouse=True)
def nothing_passed(monkeypatch):
    """No model has passed before, so that each test asks a child."""
    monkeypatch.setattr(probe, "_passed", set())


def statistics(width):
    made = Gaussians(np.zeros((3, width), np.float32), np.eye(width, dtype=np.float32))
    return OutOfDistribution.of(made, ("MEL", "NV", "AK"), trained_on=9, rate=0.1)


SAID = {
    "nan_weights": ("misbehaves: shown noise, black, white", "not finite", "export it again"),
    "huge_constant": ("needs more memory than the 1,07", "a constant in it may be huge", "smaller network"),
    "large_constant": ("needs more memory than the 1,07", "a constant in it may be huge", "smaller network"),
    "huge_expansion": ("needs more memory than the 1,07", "a constant in it may be huge", "smaller network"),
    "endless_loop": ("after 1 seconds of one core, or 4 by the clock", "Choose a smaller network"),
    "endless_folding": ("after 1 seconds of one core, or 4 by the clock", "Choose a smaller network"),
    "dropout_in_use": ("that differ", "evaluation mode"),  # twice, or alone and among others
    "random_numbers": ("is refused: it uses the operators RandomNormalLike", "evaluation mode"),
    "by_the_batch": ("alone and among others", "differ by up to", "evaluation mode"),
    "no_softmax": ("shown noise, the graph answers probabilities from", "export the model with its softmax"),
    "out_of_unit": ("probabilities from -1 to 3 that sum to 1;", "export the model with its softmax"),
    "other_width": ("does not load", "a fixed width"),
    "fails_in_batches": ("shown noise, black, white, the graph fails", "export the model again"),
    "stack_traces": (
        "is refused: it holds texts that compute nothing (metadata_props of NodeProto: ",
        "clear these",
    ),
    "empty_slots_count": ("shown a case of 1 picture alone and among others", "or in empty slots"),
    "missing_facts_spread": ("shown a case of 1 picture, ", "not finite"),
}


def bundle_of(name, bundle):
    if name in MADE:
        return bundle(graph=MADE[name]())
    model = MADE_OF_CASES[name]()
    manifest = case_bundle().manifest.model_copy(update={"file": ModelFile.of(model)})
    return Bundle(manifest, model, bundle_digest(manifest))


@pytest.fixture(scope="module")
def passed():
    """The sound models that have passed before in these tests."""
    return set()


@pytest.mark.parametrize("name", mostly_long(SAID, *(SAID.keys() - {"huge_constant"})))
def test_a_model_that_misbehaves_becomes_no_version(registry, bundle, monkeypatch, name, passed):
    monkeypatch.setattr(probe, "_passed", passed)
    monkeypatch.setattr(probe, "SECONDS", QUICK)
    with pytest.raises(BundleRefused) as caught:
        registry.add([bundle(seed=1), bundle_of(name, bundle)])
    for text in SAID[name]:
        assert text in str(caught.value)
    assert registry.versions() == ()


CASES = [
    None,
    CASE,
    CaseInput(slots=1),
    CaseInput(slots=8, kinds=("close-up", "dermoscopic", "overview")),
    CaseInput(slots=1, kinds=("close-up",), facts=CASE.facts[:1]),
]


@pytest.mark.parametrize("case", mostly_long(CASES, None, CASE, CASES[-1]))
def test_a_model_that_behaves_passes(bundle, case, monkeypatch):
    monkeypatch.setattr("tests.case_bundles.BY_KIND", np.array([1.0, 1.3, 0.6, 0.8]))
    made = bundle() if case is None else case_bundle(case=case)
    probe_model(made.model, made.manifest, "the bundle")


def test_the_same_bytes_are_asked_once_and_others_anew(bundle, graph, monkeypatch):
    asked = []
    run = probe._run
    monkeypatch.setattr(probe, "_run", lambda *given: asked.append(given) or run(*given))
    for one in (bundle(), bundle(seed=1), bundle(graph=graph(name="another"))):
        probe_model(one.model, one.manifest, "the bundle")
    assert len(asked) == 2


def test_what_was_refused_is_asked_again(bundle, monkeypatch):
    one = bundle()
    monkeypatch.setattr(probe, "PROGRAM", "print('busy')")
    with pytest.raises(BundleRefused):
        probe_model(one.model, one.manifest, "the bundle")
    monkeypatch.undo()
    probe_model(one.model, one.manifest, "the bundle")


def test_a_file_is_probed_where_it_lies_and_is_the_one_of_the_manifest(bundle, graph, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(bundle().model)
    probe_model(path, bundle().manifest, "the bundle")
    path.write_bytes(graph(name="another"))
    with pytest.raises(BundleRefused, match="the bundle has a model that cannot be read: it was changed"):
        probe_model(path, bundle(graph=graph(name="a third")).manifest, "the bundle")


def test_the_embedding_is_as_long_as_the_statistics_say(bundle):
    sound = bundle(out_of_distribution=statistics(3))
    probe_model(sound.model, sound.manifest, "the bundle")
    wrong = bundle(out_of_distribution=statistics(4))
    with pytest.raises(
        BundleRefused, match="embedding of 3 numbers, and its manifest for an embedding of 4 numbers; export"
    ):
        probe_model(wrong.model, wrong.manifest, "the bundle")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashes .* ended by SIGSEGV"),
        ("import os; os.abort()", "crashes .* ended by SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed .* has no more"),
        ("import sys; sys.exit(3)", "ended with 3 and no answer"),
        ("print('{}')", "ended with 0 and no answer"),
        ("print('NaN')", "ended with 0 and no answer"),
        ('print(\'{"refused": null, "text": "", "more": 1}\')', "ended with 0 and no answer"),
        ('print(\'{"refused": "no such", "text": ""}\')', "ended with 0 and no answer"),
        ('print(\'{"text": ""}\')', "ended with 0 and no answer"),
        ("while True: print('much ' * 1000)", "was killed"),
        ("import signal; signal.pause()", "by the clock"),
    ],
)
def test_a_child_that_ends_without_an_answer_is_told_and_the_parent_goes_on(
    bundle, monkeypatch, program, said
):
    monkeypatch.setattr(probe, "SECONDS", QUICK)
    monkeypatch.setattr(probe, "WALL", 1)
    monkeypatch.setattr(probe, "PROGRAM", program)
    with pytest.raises(BundleRefused, match=rf"the bundle has a model that (?s:.*)({said})"):
        probe_model(bundle().model, bundle().manifest, "the bundle")


def test_what_a_child_says_clears_no_screen(bundle, monkeypatch):
    answer = json.dumps({"refused": "load", "text": "\x1b[2J" + "a" * 5000})
    monkeypatch.setattr(probe, "PROGRAM", f"print({answer!r})")
    with pytest.raises(BundleRefused) as caught:
        probe_model(bundle().model, bundle().manifest, "the bundle")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


SPY = """
import json, sys
sys.path += json.loads(sys.argv.pop(1))
from registry.releases.probe_child import main
from registry.bundle import model

def spy(content):
    import os, socket
    told = [sorted(os.environ), sys.flags.isolated, os.listdir()]
    for attempt in (lambda: socket.socket(), lambda: open("new", "w"), lambda: open("/etc/hostname")):
        try:
            attempt()
            told.append("done")
        except OSError as error:
            told.append(error.strerror)
    limits = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_AS)
    told += [resource.getrlimit(limit) for limit in limits]
    raise model.GraphError(f"{told}")

import os, resource, socket
listed, os.listdir = os.listdir("."), lambda: listed
model.Graph = spy
main()
"""


def test_where_it_is_loaded_there_is_no_environment_no_network_and_no_file(bundle, monkeypatch):
    monkeypatch.setenv("DERMFED_REGISTRY_URL", "sqlite:///secret.db")
    monkeypatch.setattr(probe, "SECONDS", QUICK)
    monkeypatch.setattr(probe, "PROGRAM", SPY)
    with pytest.raises(BundleRefused) as caught:
        probe_model(bundle().model, bundle().manifest, "the bundle")
    refused = ", ".join(["'Too many open files'"] * 3)
    memory = probe.MEMORY + 6 * len(bundle().model) + 2048 * 3 * 8 * 8
    limits = f"(1, 2), (0, 0), (0, 0), ({memory}, {memory})"
    assert f"'ORT_DISABLE_TELEMETRY'], 1, [], {refused}, {limits}" in str(caught.value)
    assert "DERMFED" not in str(caught.value)


def test_a_file_of_millions_of_nodes_does_not_hold_the_parent_up(bundle, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", QUICK)
    slow = bundle(graph=b"\x3a\x80\xda\xc4\x09" + b"\x0a\x00" * 10_000_000)
    with pytest.raises(BundleRefused, match=r"after 1 seconds of one core|needs more memory"):
        probe_model(slow.model, slow.manifest, "the bundle")


def test_who_adds_loads_no_model(bundle, folders, tmp_path):
    (folder,) = folders(bundle())
    program = (
        "import sys; from pathlib import Path; from registry.registry import Registry\n"
        f"with Registry.open('sqlite:///{tmp_path}/registry.db', '{tmp_path}/store') as registry:\n"
        f"    print(registry.add([Path('{folder}')])[0].number, 'onnxruntime' in sys.modules)"
    )
    root = str(Path(__file__).parents[3])
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["1", "False"]


@pytest.fixture
def unprobed(registry, bundle, tested, monkeypatch, tones):
    """Versions that were added without a probe: 1 and 3 sound, 2 of NaN weights for the dark subgroup."""
    registry.set_gates(GateSet(gates=(SpreadGate(),)), reason="of other gates nothing is told here")
    figures = tested(light=0.8, dark=0.8)
    broken = bundle(tones("dark", "6"), figures, graph=MADE["nan_weights"]())
    with monkeypatch.context() as before:
        before.setattr("registry.releases.add.probe_model", lambda *given: None)
        registry.add([bundle(None, figures), broken, bundle(None, figures, seed=1)])
    return registry


def test_a_version_that_was_never_probed_is_before_it_answers(unprobed):
    unprobed.promote("skin-lesion", [1], to="production")
    for override in (False, True):
        with pytest.raises(BundleRefused, match="version 2 of skin-lesion has a model that misbehaves"):
            unprobed.promote("skin-lesion", [2], to="production", reason="now", override_gates=override)
    assert [one.number for one in unprobed.current()["skin-lesion"].versions] == [1]


def test_a_version_that_is_carried_over_keeps_no_other_out(unprobed, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("registry.releases.promote.probe_model", lambda *given: None)
        unprobed.promote("skin-lesion", [1, 2], to="production")
    unprobed.promote("skin-lesion", [3], to="production")
    assert {one.number for one in unprobed.current()["skin-lesion"].versions} == {2, 3}
