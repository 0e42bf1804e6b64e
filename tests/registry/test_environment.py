"""The version of dermfed, and what is said of addresses, mistyped ones above all: never a password."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from registry import environment as module
from registry.environment import masked, own_version, without_secrets


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


SECRETS = ("hunter2secret", "se-cret", "77ret", "0secret1")

DATABASES = [
    "postgres:/anna:hunter2secret@host/db",
    "postgres://anna:hunter2secret@host/db",
    "postgresql:anna:hunter2secret@host",
    "postgresql:/anna:hunter2secret@host/db",
    "postgresql:///anna:hunter2secret@host/db",
    "postgresql//anna:hunter2secret@host/db",
    "postgresql://anna:hunter2secret@0secret1@host:notaport/db",
    "postgresql://anna:hunter2secret@0secret1@127.0.0.1:1/db",
    "postgresql://anna:hunter2secret/0secret1@host:notaport/db",
    "postgresql://anna/hunter2secret@host/db",
    "postgresql://anna:hunter2secret",
    "postgresql://anna:hunter2secret/db",
    "postgresql://anna:hunter2secret?0secret1@host/db",
    "postgresql://anna:hunter2secret@127.0.0.1:1/db",
    "postgresql://anna:hunter2secret%400secret1@127.0.0.1:1/db",
    "postgresql://anna@127.0.0.1:1/db?password=hunter2secret",
    "postgresql://anna@127.0.0.1:1/db?pasword=hunter2secret",
    "postgresql+psycopg2://anna:hunter2secret@host/db",
    "mysql://anna:hunter2secret@host/db",
    "anna:hunter2secret@host/db",
    "//anna:hunter2secret@host/db",
    "sqlite://anna:hunter2secret@x",
    "sqlite:///anna:hunter2secret@host/db",
    "sqlite:anna:hunter2secret@x",
]
STORES = [
    "s3:/key:hunter2secret@bucket",
    "s3:key:hunter2secret@bucket",
    "s3//key:hunter2secret@bucket",
    "s3:///key:hunter2secret@bucket/models",
    "S3:/key:hunter2secret",
    "key:hunter2secret@s3://bucket",
    "key:hunter2secret@bucket/models",
    "//key:hunter2secret@bucket",
    "https://anna:hunter2secret@host/models",
    "https://anna:hunter2secret@0secret1@host/models",
    "https://anna:hunter2secret/0secret1@host/models",
    "file://anna:hunter2secret@host/models",
    "file:/anna:hunter2secret@host/models",
    "nonsense://key:hunter2secret@bucket",
    "simplecache::s3://key:hunter2secret@bucket",
    "sftp:anna:hunter2secret@host",
    "file://[anna:hunter2secret@host/models",
    "zip://models.zip?password=hunter2secret",
]


def refused(command, *arguments):
    ended = command(*arguments, "list")
    assert ended.code == 2, ended
    assert not [one for one in SECRETS if one in (ended.out + ended.err).lower()], ended.err
    assert ended.err.count("\n") == 1


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A folder to be in, in which nothing must be made."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    assert [*(tmp_path / "here").iterdir()] == []


@pytest.mark.sqlite
@pytest.mark.parametrize("url", DATABASES)
def test_a_mistyped_database_is_refused_without_its_password(command, nowhere, url):
    refused(command, "--url", url)


@pytest.mark.sqlite
@pytest.mark.parametrize("store", STORES)
def test_a_mistyped_store_is_refused_without_its_password_and_nothing_is_made(command, nowhere, store):
    refused(command, "--store", store)


@pytest.mark.sqlite
@pytest.mark.parametrize("name", ["a:b@c", "s3:models"])
def test_a_folder_that_is_there_is_a_folder_whatever_its_name(command, tmp_path, name):
    (tmp_path / name).mkdir()
    assert command("--store", Path(tmp_path / name), "list").code == 0


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3://key:secret@bucket/a/b", "s3://***@bucket/a/b"),
        ("sftp://anna@host:22/a", "sftp://***@host:22/a"),
        ("sftp://host:22/a", "sftp://host:22/a"),
        ("s3://bucket/a?versionId=secret", "s3://bucket/a"),
        ("s3://bucket?x=secret", "s3://bucket"),
        ("s3://k:se@cret@bucket/a", "s3://***@bucket/a"),
        ("s3://k:se/cret@bucket/a", "s3://***@bucket/a"),
        ("postgresql://anna:secret", "postgresql://anna:***"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("memory://", "memory://"),
        ("/data/models", "/data/models"),
        ("/data/a@b/models", "/data/a@b/models"),
        ("sqlite:////data/registry.db", "sqlite:////data/registry.db"),
        ("registry.db", "registry.db"),
    ],
)
def test_what_is_shown_of_an_address(address, shown):
    assert masked(address) == shown


@pytest.mark.parametrize(
    ("said", "address", "repeated"),
    [
        ("no route to host", "sftp://a:password@host/x", True),
        ("of user pg", "postgresql://pg:password@host/x", True),
        ("on socket /tmp/x", "postgresql://a@/x?host=/tmp/x", True),
        ("port 22 is closed", "sftp://host:22/x", True),
        ("bad login a/PassWord", "sftp://a:password@host/x", False),
        ("bad login 'pass word'", "sftp://a:pass%20word@host/x", False),
        ("no host 'ssword@host'", "sftp://a:pa@ssword@host/x", False),
        ("token t0ken is old", "s3://b/x?token=t0ken", False),
        ("no port 'password'", "postgresql://a:password", False),
        ("host p", "s3://a:p@host/x", False),
    ],
)
def test_an_error_that_may_hold_a_secret_of_the_address_is_not_repeated(said, address, repeated):
    shown = without_secrets(said, address)
    assert (shown == said) is repeated
    assert repeated or "may hold the password" in shown
