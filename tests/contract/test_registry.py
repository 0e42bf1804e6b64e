"""The registry's commands as a user types them, on SQLite and on PostgreSQL."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.postgres_server import shared_server

LENIENT = "gates:\n  - {name: parity, limit: 0.001}\n"
NOTHING = "0" * 64


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server."""
    with shared_server(tmp_path_factory) as url:
        yield url


class Registry:
    """One registry, asked through `dermfed-registry`."""

    def __init__(self, command: Callable[..., Any], url: str, folder: Path) -> None:
        self.command = command
        self.url = url
        self.folder = folder
        self.environment = {"DERMFED_REGISTRY_URL": url, "DERMFED_STORE": str(folder / "store")}

    def __call__(self, *arguments: object, code: int = 0) -> Any:
        """Give the answer in JSON of a command that ends with `code`; of a refused one what it printed."""
        ended = self.command(
            "registry", *arguments, "--json", environment=self.environment, folder=self.folder
        )
        assert ended.code == code, ended.out[-2000:] + ended.err[-2000:]
        return json.loads(ended.out) if ended.out.startswith(("{", "[")) else ended.out + ended.err

    def plain(self, *arguments: object) -> str:
        """Give what a command prints that has no answer in JSON."""
        ended = self.command("registry", *arguments, environment=self.environment, folder=self.folder)
        assert ended.code == 0, ended.err
        return str(ended.out)

    def lenient(self) -> None:
        """Ask for no more than that ONNX and torch agree."""
        (self.folder / "lenient.yaml").write_text(LENIENT)
        self("gates", "set", "lenient.yaml", "--reason", "drawn pictures, no patients")

    def released(self) -> dict[str, list[int]]:
        """Which versions each alias points to."""
        aliases = self("show", "contract")["aliases"]
        return {
            name: sorted(one["number"] for one in release["versions"]) for name, release in aliases.items()
        }

    def kinds(self) -> list[str]:
        """What was done, the oldest first."""
        return [event["kind"] for event in self("history", "contract")]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def kind(request):
    """The database: PostgreSQL in long runs, and for tests of `BOTH`."""
    return request.param


BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def new(command, request):
    """Makes a registry of a kind in a folder: an empty one, or one as another is."""

    def make(kind: str, folder: Path, like: Registry | None = None) -> Registry:
        if like is None:
            folder.mkdir()
        else:
            shutil.copytree(like.folder, folder)
        if kind == "sqlite":
            return Registry(command, f"sqlite:///{folder / 'registry.db'}", folder)
        import psycopg

        address, database = request.getfixturevalue("postgres"), f"contract_{uuid.uuid4().hex[:12]}"
        template = "template1" if like is None else urlsplit(like.url).path[1:]
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database} TEMPLATE {template}")
        path, mark, query = address.partition("?")
        return Registry(command, f"{path.rpartition('/')[0]}/{database}{mark}{query}", folder)

    return make


@pytest.fixture(scope="module")
def added(new, kind, bundles, tmp_path_factory):
    """A registry that nothing but bundles were added to, which no test changes."""
    made = new(kind, tmp_path_factory.mktemp("added") / "registry")
    made("add", *bundles)
    return made


@pytest.fixture
def registry(new, kind, added, tmp_path):
    """A registry with the versions 1 (global), 2 (light) and 3 (dark) and the default gates."""
    return new(kind, tmp_path / "registry", added)


@pytest.fixture(scope="module")
def bundles(trained):
    """The folders of the bundles of one run: global, light and dark."""
    return [trained.run / "bundles" / name for name in ("global", "light", "dark")]


def test_add_numbers_bundles_once(registry, bundles):
    again = registry("add", *bundles)
    versions = registry("list", "contract")
    assert again
    assert [(one["number"], one["subgroup"]["name"]) for one in versions] == [
        (1, "global"),
        (2, "light"),
        (3, "dark"),
    ]
    assert versions == registry("list")
    shown = registry("show", "contract", "--version", 2)
    assert [one["digest"] for one in shown["versions"]] == [versions[1]["digest"]]


def test_an_altered_bundle_is_refused_and_nothing_is_added(new, bundles, tmp_path):
    registry = new("sqlite", tmp_path / "registry")
    altered = tmp_path / "altered"
    altered.mkdir()
    for path in bundles[0].iterdir():
        (altered / path.name).write_bytes(path.read_bytes())
    with (altered / "model.onnx").open("ab") as model:
        model.write(b"\0")
    registry("add", bundles[1], altered, code=2)
    assert registry("list") == []


def test_fetch_gives_a_bundle_as_it_was_added(registry, bundles):
    registry("fetch", "contract", 3, "--out", "fetched")
    fetched = {path.name: path.read_bytes() for path in (registry.folder / "fetched").iterdir()}
    assert fetched == {path.name: path.read_bytes() for path in bundles[2].iterdir()}


@BOTH
def test_versions_are_found_by_tags_and_notes(registry):
    registry("tag", "contract", 2, "reviewed")
    registry("note", "contract", 3, "weak on the soles of feet")
    tagged = [one["number"] for one in registry("list", "--tag", "reviewed")]
    noted = [one["number"] for one in registry("find", "soles")["found"]]
    registry("untag", "contract", 2, "reviewed")
    assert (tagged, noted, registry("list", "--tag", "reviewed")) == ([2], [3], [])


def test_a_refused_promotion_releases_nothing(registry):
    checked = registry("gates", "check", "contract", 1, 2, 3, "--to", "production", code=1)
    registry("promote", "contract", 1, 2, 3, "--to", "production", code=1)
    assert checked["refused"] is True
    assert "required_subgroups" in {reason["gate"] for reason in checked["reasons"]}
    assert registry.released() == {}


def test_a_gate_set_of_a_models_own_lets_a_release_pass(registry):
    (registry.folder / "gates.yaml").write_text(LENIENT)
    registry(
        "gates", "set", "gates.yaml", "--model", "contract", "--alias", "demonstration", "--reason", "why"
    )
    shown = registry("gates", "show", "contract", "--alias", "demonstration")
    registry("promote", "contract", 1, 2, 3, "--to", "production", code=1)
    promoted = registry("promote", "contract", 1, 2, 3, "--to", "demonstration", "--reason", "first")
    assert [gate["name"] for gate in shown["gates"]] == ["parity"]
    assert registry.released() == {"demonstration": [1, 2, 3]}
    assert promoted["event"]["overridden"] is False
    last = registry("history", "contract")[-1]
    assert (last["kind"], last["reason"], last["alias"]) == ("promoted", "first", "demonstration")


def test_an_override_needs_a_reason_and_stays_in_history(registry):
    promote = ("promote", "contract", 1, 2, 3, "--to", "production", "--override-gates")
    registry(*promote, code=2)
    assert registry.released() == {}
    registry(*promote, "--reason", "board decision 7")
    last = registry("history", "contract")[-1]
    assert (last["overridden"], last["reason"]) == (True, "board decision 7")
    assert "production" in registry("show", "contract")["overridden"]


def test_compare_and_diff_say_what_changes(registry):
    registry.lenient()
    registry("promote", "contract", 1, 2, "--to", "production")
    compared = registry("compare", "contract", 3, "--to", "production")
    assert (sorted(compared["running"]), sorted(compared["candidate"])) == ([1, 2], [1, 2, 3])
    changed = {one["subgroup"]: one["version_changes"] for one in compared["subgroups"]}
    assert (changed["dark"], changed["light"]) == (True, False)
    assert registry.released() == {"production": [1, 2]}
    found = registry("diff", "contract", 1, 2)
    assert (found["before"]["subgroup"], found["after"]["subgroup"]) == ("global", "light")
    assert found["changed"]


@BOTH
def test_a_promotion_carries_over_and_a_rollback_goes_back(registry):
    registry.lenient()
    seen = []
    for arguments in (
        ("promote", "contract", 1, 2, "--to", "production"),
        ("promote", "contract", 3, "--to", "production"),
        ("promote", "contract", "--without", "light", "--to", "production"),
        ("rollback", "contract", "--alias", "production", "--reason", "complaints"),
        ("rollback", "contract", "--alias", "production", "--reason", "complaints"),
    ):
        registry(*arguments)
        seen.append(registry.released()["production"])
    assert seen == [[1, 2], [1, 2, 3], [1, 3], [1, 2, 3], [1, 2]]
    registry("rollback", "contract", "--alias", "production", code=1)
    assert registry.kinds()[-5:] == ["promoted"] * 3 + ["rolled-back"] * 2


def test_a_release_without_a_global_version_is_refused(registry):
    registry.lenient()
    registry("promote", "contract", 2, 3, "--to", "production", "--override-gates", "--reason", "why", code=1)
    assert registry.released() == {}


def test_a_promotion_expects_the_release_that_was_compared(registry):
    registry.lenient()
    first = registry("promote", "contract", 1, "--to", "production", "--expect", 0)["release"]["id"]
    registry("promote", "contract", 2, "--to", "production", "--expect", 0, code=1)
    registry("promote", "contract", 2, "--to", "production", "--expect", first)
    registry("rollback", "contract", "--alias", "production", "--expect", first, code=1)
    assert registry.released() == {"production": [1, 2]}


def test_a_stopped_alias_points_to_nothing(registry):
    registry.lenient()
    registry("promote", "contract", 1, "--to", "production")
    registry("stop", "contract", "--alias", "production", "--reason", "complaints")
    stopped = registry.released()
    registry("rollback", "contract", "--alias", "production", "--reason", "looked at")
    assert (stopped, registry.released()) == ({}, {"production": [1]})


@BOTH
def test_a_withdrawn_version_never_answers_again(registry):
    registry.lenient()
    registry("promote", "contract", 1, 2, "--to", "production")
    registry("promote", "contract", 3, "--to", "production")
    registry("withdraw", "contract", 3, "--reason", "misses melanoma on type VI")
    assert registry.released() == {"production": [1, 2]}
    override = ("--override-gates", "--reason", "all the same")
    registry("promote", "contract", 3, "--to", "production", *override, code=1)
    withdrawn = {one["number"]: "withdrawn" in one for one in registry("list")}
    assert withdrawn == {1: False, 2: False, 3: True}
    registry("withdraw", "contract", 1, "--reason", "all of it")
    assert registry.released() == {}


def test_the_card_tells_of_the_release(registry):
    registry.lenient()
    registry("promote", "contract", 1, 2, "--to", "production")
    card = registry("card", "contract")
    registry.plain("card", "contract", "--out", "card.html")
    assert (card["name"], [one["version"] for one in card["versions"]]) == ("contract", [1, 2])
    assert "<html" in (registry.folder / "card.html").read_text()


def test_verify_finds_a_spoilt_file(registry, bundles):
    assert registry("verify") == {"problems": []}
    digest = hashlib.sha256((bundles[1] / "model.onnx").read_bytes()).hexdigest()
    spoilt = registry.folder / "store" / "objects" / digest[:2] / digest
    spoilt.chmod(0o644)
    spoilt.write_bytes(spoilt.read_bytes()[:-1] + b"\xff")
    assert registry("verify", code=1)["problems"]
    registry.lenient()
    registry("promote", "contract", 1, 2, "--to", "production", code=2)
    registry("add", bundles[1])
    assert registry("verify") == {"problems": []}


def test_a_head_that_was_kept_shows_that_history_is_the_same(registry):
    registry.plain("head", "--out", "head.json")
    head = registry("head")
    registry.lenient()
    registry("verify", "--head", "head.json", "--head", f"{head['events']}:{head['hash']}")
    registry("verify", "--head", f"{head['events']}:sha256:{NOTHING}", code=1)
    registry("verify", "--head", f"{head['events'] + 9}:{head['hash']}", code=1)


def test_the_audit_is_a_chain_that_anybody_can_check(registry):
    registry.lenient()
    registry("promote", "contract", 1, "--to", "production", "--reason", "für alle")
    last, lines = f"sha256:{NOTHING}", registry.plain("audit").splitlines()
    for line in lines:
        event = json.loads(line)
        told = event.pop("hash")
        text = json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert (event["previous"], told) == (last, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
        last = told
    head = registry("head")
    assert (head["events"], head["hash"]) == (len(lines), last)


def test_gc_removes_what_nothing_refers_to(registry):
    digest = hashlib.sha256(b"left behind").hexdigest()
    left = registry.folder / "store" / "objects" / digest[:2] / digest
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"left behind")
    young = registry("gc")
    told = registry("gc", "--dry-run", "--older-than", "0m")
    assert (young["files"], len(told["files"]), told["bytes"], left.exists()) == ([], 1, 11, True)
    registry("gc", "--older-than", "0m")
    assert not left.exists()
    assert registry("verify") == {"problems": []}


def test_an_archive_brings_a_release_elsewhere(registry, new, tmp_path):
    registry.lenient()
    registry("promote", "contract", 1, 3, "--to", "production", "--reason", "the name of a patient")
    archive = registry.folder / "release.dermfed"
    exported = registry("export", "contract", "--alias", "production", "--out", archive)
    registry("export", "contract", "--alias", "production", "--out", "again.dermfed")
    assert archive.read_bytes() == (registry.folder / "again.dermfed").read_bytes()
    assert b"the name of a patient" not in archive.read_bytes()

    other = new("sqlite", tmp_path / "elsewhere")
    other("import", archive, "--to", "production", code=1)
    assert other.released() == {}
    other.lenient()
    imported = other("import", archive, "--to", "production", "--reason", "from the vendor")
    assert imported["digest"] == exported["digest"]
    names = {one["number"]: one["subgroup"]["name"] for one in other("list")}
    assert ([names[each] for each in other.released()["production"]], len(names)) == (["global", "dark"], 2)

    altered = other.folder / "altered.dermfed"
    altered.write_bytes(archive.read_bytes().replace(b"contract", b"contrast", 1))
    other("import", altered, code=1)
    assert other("verify") == {"problems": []}


def test_an_archive_is_trusted_by_signatures(registry, new, tmp_path):
    registry.lenient()
    registry("promote", "contract", 1, "--to", "production")
    key, archive = registry.folder / "vendor.key", registry.folder / "release.dermfed"
    registry.plain("people", "new-key", key)
    other = new("sqlite", tmp_path / "elsewhere")
    trust = ("--trust", key.with_suffix(".pub"))
    registry("export", "contract", "--out", archive)
    other("import", archive, *trust, code=1)
    assert other("list") == []
    registry("sign", "contract", 1, "--key", key)
    registry("verify", *trust)
    archive.unlink()
    registry("export", "contract", "--out", archive)
    other("import", archive, *trust)
    assert len(other("list")) == 1


@BOTH
def test_people_sign_and_approve(registry):
    for name in ("olga", "ben", "chris"):
        registry.plain("people", "new-key", f"{name}.key")
    registry("people", "add", "olga", "--public", "olga.pub", "--role", "operator", "--role", "uploader")
    by_olga = ("--key", "olga.key")
    registry("people", "add", "ben", "--public", "ben.pub", "--role", "approver", code=1)
    registry("people", "add", "ben", "--public", "ben.pub", "--role", "approver", *by_olga)
    registry("people", "add", "chris", "--public", "chris.pub", "--role", "approver", *by_olga)
    assert [one["name"] for one in registry("people", "list")] == ["olga", "ben", "chris"]

    (registry.folder / "two.yaml").write_text("gates:\n  - {name: approvals, people: 1}\n")
    registry("gates", "set", "two.yaml", "--reason", "four eyes", *by_olga)
    release = ("contract", 1, 2, "--to", "production")
    registry("promote", *release, code=1)
    registry("promote", *release, *by_olga, code=1)
    registry("approve", *release, *by_olga, code=1)
    registry("approve", "contract", 1, 3, "--to", "production", "--key", "ben.key")
    registry("promote", *release, *by_olga, code=1)
    registry("approve", *release, "--reason", "seen by the ward", "--key", "ben.key")
    registry("promote", *release, "--key", "ben.key", code=1)
    assert registry.released() == {}
    registry("promote", *release, *by_olga)
    assert registry.released() == {"production": [1, 2]}

    (registry.folder / "lenient.yaml").write_text(LENIENT)
    weaker = ("lenient.yaml", "--reason", "too slow")
    registry("gates", "set", *weaker, *by_olga, code=1)
    registry("gates", "approve", *weaker, "--key", "chris.key")
    registry("gates", "set", *weaker, *by_olga)
    registry("people", "revoke", "ben", "--reason", "left the ward", *by_olga)
    registry("approve", "contract", 3, "--to", "production", "--key", "ben.key", code=1)
    registry("people", "revoke", "olga", "--reason", "the last operator", *by_olga, code=1)
    assert registry("verify") == {"problems": []}


@BOTH
def test_keys_of_the_service_are_shown_once(registry):
    made = registry("keys", "add", "app", "--scope", "diagnose", "--per-minute", 60)
    identifier, secret = made["id"], made["secret"]
    assert secret.startswith(f"dfk_{identifier}_")
    registry("keys", "rotate", identifier, "--grace", 0)
    made_anew = [one for one in registry("keys", "list") if one["id"] != identifier]
    assert [(one["name"], one["per_minute"], one["revoked"]) for one in made_anew] == [("app", 60, None)]
    registry("keys", "revoke", made_anew[0]["id"])
    told = registry("keys", "list")
    assert all(one["revoked"] or one["expires"] for one in told)
    assert secret.removeprefix(f"dfk_{identifier}_") not in json.dumps(told)
    assert registry("verify") == {"problems": []}
