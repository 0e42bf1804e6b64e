"""What is refused at the door, each with a made file and a message that says what to do."""

import pickle

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from registry.bundle.errors import FolderError
from registry.errors import BundleRefused, InvalidName
from registry.releases import validate_bundle
from registry.releases.validate_bundle import MAX_MANIFEST_BYTES, check_bundle, read_folder_manifest

pytestmark = pytest.mark.sqlite  # nothing here depends on the database


def changed(graph, change):
    """The graph with something changed in it, by the onnx package."""
    model = onnx.load_from_string(graph)
    change(model)
    return model.SerializeToString()


def custom(model):
    model.graph.node[1].domain = "my.domain"
    model.opset_import.append(helper.make_opsetid("my.domain", 1))


def vendors(model):
    model.graph.node.append(helper.make_node("Gelu", ["logits"], ["unused"], domain="com.microsoft"))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def too_new(model):
    model.opset_import[0].version = 25


def far_weights(model):
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "weights.bin"


def renamed_input(model):
    model.graph.input[0].name = model.graph.node[0].input[0] = "pixels_in"


def renamed_output(model):
    model.graph.output[0].name = model.graph.node[3].output[0] = "scores"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (custom, ("my.domain::ReduceMean", "allowed are those of ai.onnx", "export it without custom")),
        (vendors, ("com.microsoft::Gelu", "allowed are those of ai.onnx", "export it without custom")),
        (too_new, ("opset 25 of ai.onnx", "allowed are 7 to 21", "export it with opset_version=20")),
        (far_weights, ("weights in other files", "save the model with all weights inside")),
        (renamed_input, ("takes pixels_in", "a bundle's graph takes one input `images`")),
        (renamed_output, ("scores", "a bundle's graph answers probabilities, logits, embedding")),
    ],
)
def test_a_graph_that_other_machines_might_not_run_is_refused(registry, bundle, graph, change, said):
    with pytest.raises(BundleRefused) as caught:
        registry.add([bundle(seed=1), bundle(graph=changed(graph(), change))])
    for text in said:
        assert text in str(caught.value)
    assert registry.versions() == ()


@pytest.mark.parametrize("change", [vendors, custom])
def test_the_header_is_looked_at_before_anything_loads(bundle, graph, change, monkeypatch):
    monkeypatch.setattr(
        "registry.bundle.model_file.graph.Graph", lambda content: pytest.fail("it was loaded")
    )
    with pytest.raises(BundleRefused):
        check_bundle(bundle(graph=changed(graph(), change)))


def test_a_pickle_is_refused_and_not_unpickled(registry, bundle):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    with pytest.raises(BundleRefused, match=r"it is a pickle, and no ONNX; export the model"):
        registry.add([bundle(graph=pickle.dumps(Trap()))])


@pytest.mark.parametrize("name", ["weights.bin", "model.pkl", "notes.txt", "more/"])
def test_what_lies_beside_the_two_files_is_refused(registry, bundle, folders, name):
    (folder,) = folders(bundle())
    (folder / name).mkdir() if name.endswith("/") else (folder / name).write_bytes(b"1")
    with pytest.raises(
        BundleRefused, match=f"holds '{name.strip('/')}' beside model.onnx and bundle.json"
    ) as caught:
        registry.add_folders([folder])
    assert "move what else there is out of the folder" in str(caught.value)


def test_many_files_beside_are_counted(bundle, folders):
    (folder,) = folders(bundle())
    for number in range(5):
        (folder / f"{number}.bin").touch()
    with pytest.raises(BundleRefused, match=r"'0.bin', '1.bin', '2.bin', ... \(5 in all\)"):
        read_folder_manifest(folder)


def test_what_a_desktop_leaves_is_never_read(bundle, folders):
    (folder,) = folders(bundle())
    (folder / ".DS_Store").write_bytes(pickle.dumps(1))
    assert read_folder_manifest(folder)[0] == bundle().manifest


def test_a_model_over_the_limit_is_refused_before_it_is_read(bundle, folders, monkeypatch):
    (folder,) = folders(bundle())
    size = len(bundle().model)
    monkeypatch.setenv("DERMFED_MAX_MODEL_BYTES", str(size))
    assert read_folder_manifest(folder)[0] == bundle().manifest
    assert check_bundle(bundle())
    monkeypatch.setenv("DERMFED_MAX_MODEL_BYTES", str(size - 1))
    monkeypatch.setattr(validate_bundle, "read_file", lambda file: pytest.fail("it was read"))
    for refuse in (lambda: read_folder_manifest(folder), lambda: check_bundle(bundle())):
        with pytest.raises(BundleRefused, match=f"has {size:,} bytes; allowed are {size - 1:,}") as caught:
            refuse()
        assert "set DERMFED_MAX_MODEL_BYTES" in str(caught.value)


def test_the_default_limit_is_a_gibibyte(bundle, folders):
    (folder,) = folders(bundle())
    with (folder / "model.onnx").open("r+b") as file:
        file.truncate(2**30 + 1)  # sparse: it takes no space
    with pytest.raises(BundleRefused, match="has 1,073,741,825 bytes; allowed are 1,073,741,824"):
        read_folder_manifest(folder)


def test_a_manifest_over_the_limit_is_refused_before_it_is_read(bundle, folders):
    (folder,) = folders(bundle())
    with (folder / "bundle.json").open("r+b") as file:
        file.truncate(MAX_MANIFEST_BYTES + 1)
    with pytest.raises(BundleRefused, match=r"bundle\.json has 67,108,865 bytes; allowed are 67,108,864"):
        read_folder_manifest(folder)


@pytest.mark.parametrize("text", ["0", "-1", "1GB", "", "1.5", str(2**31)])
def test_a_limit_that_is_none_is_refused(bundle, monkeypatch, text):
    monkeypatch.setenv("DERMFED_MAX_MODEL_BYTES", text)
    with pytest.raises(InvalidName, match="DERMFED_MAX_MODEL_BYTES is ") as caught:
        check_bundle(bundle())
    assert "from 1 to 2,147,483,647" in str(caught.value)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FolderError, match="cannot be read"):
        read_folder_manifest(tmp_path / "nothing")


def test_the_command_refuses_with_exit_code_1(command, bundle, folders):
    (folder,) = folders(bundle())
    (folder / "optimizer.pt").write_bytes(b"PK\x03\x04")
    ended = command("add", folder)
    assert ended.code == 1
    assert "BundleRefused: " in ended.err
    assert "optimizer.pt" in ended.err


def test_an_operator_of_the_standard_that_is_not_one_is_refused_by_the_runtime(registry, bundle, graph):
    def unknown(model):
        model.graph.node[1].op_type = "Telepathy"

    with pytest.raises(BundleRefused, match="does not load"):
        registry.add([bundle(graph=changed(graph(), unknown))])


def test_weights_inside_are_no_reason_to_refuse(registry, bundle, graph):
    def larger(model):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(10_000, np.float32), "spare"))

    (version,) = registry.add([bundle(graph=changed(graph(), larger))])
    assert version.number == 1
