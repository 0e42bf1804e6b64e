"""What is asked of a bundle before it becomes a version: that its files and its parts agree."""

from registry.bundle.errors import GraphError, ManifestError
from registry.bundle.folder import Bundle
from registry.bundle.manifest_text import canonical
from registry.bundle.schema import ModelFile, sha256
from registry.errors import BundleRefused
from registry.names import check_name


def check_bundle(bundle: Bundle) -> bytes:
    """The text of the bundle's manifest, if the bundle could answer.

    Raises:
        InvalidName: its model has a name that the registry cannot take.
        BundleRefused: its digests are not those of its files, or its graph does not load or fit.
    """
    manifest = bundle.manifest
    check_name("model", manifest.model)
    try:
        content = canonical(manifest)
    except ManifestError as error:
        raise BundleRefused(f"{_name(bundle)} cannot be written: {error}") from error
    if (actual := sha256(content)) != bundle.digest:
        raise BundleRefused(f"{_name(bundle)} has a manifest of {actual}; read the bundle again")
    if (file := ModelFile.of(bundle.model)) != manifest.file:
        raise BundleRefused(
            f"{_name(bundle)} is for a model with {manifest.file.sha256}, and its model has {file.sha256}; "
            "fetch the bundle again"
        )
    if not manifest.subgroup.name.isprintable():
        raise BundleRefused(f"{_name(bundle)} is for a subgroup whose name cannot be printed; name it anew")
    _check_graph(bundle)
    return content


def _check_graph(bundle: Bundle) -> None:
    from registry.bundle.graph import Graph  # ONNX Runtime takes long to load, and only this needs it

    try:
        graph = Graph(bundle.model)
    except GraphError as error:
        raise BundleRefused(f"{_name(bundle)} has a model that does not load: {error}") from error
    size, classes = bundle.manifest.picture.size, len(bundle.manifest.labels)
    if graph.size != size:
        raise BundleRefused(
            f"{_name(bundle)} has a model for pictures of {graph.size} pixels and a picture rule of {size}; "
            "export it again"
        )
    if graph.num_classes != classes:
        raise BundleRefused(
            f"{_name(bundle)} has {classes} labels and a model of {graph.num_classes} classes; "
            "export it again"
        )


def _name(bundle: Bundle) -> str:
    return f"the bundle {bundle.digest} of {bundle.manifest.model} ({bundle.manifest.subgroup.name})"
