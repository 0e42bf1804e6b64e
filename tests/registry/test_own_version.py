from importlib.metadata import PackageNotFoundError, version

import pytest

from registry import environment as module
from registry.environment import own_version


@pytest.fixture
def never_installed(monkeypatch):
    def fail(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", fail)


def test_what_is_installed_is_told():
    assert own_version() == version("dermfed")


def test_sources_alone_say_what_they_are(never_installed, monkeypatch, tmp_path):
    project = tmp_path / "pyproject.toml"
    monkeypatch.setattr(module, "_PROJECT", project)
    assert own_version() == "unknown"
    for text in ("", "[project]\n", "[project\n"):
        project.write_text(text)
        assert own_version() == "unknown"
    project.write_text('[project]\nversion = "1.2.3"\n')
    assert own_version() == "1.2.3"


def test_the_sources_say_what_is_installed(never_installed):
    assert own_version() == version("dermfed")
