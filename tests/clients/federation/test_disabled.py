"""A hospital that the operator has disabled: what is asked and told, and what is believed of FLARE's file."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from clients.federation import admin_client
from clients.federation.errors import FederationError, KitError
from clients.federation.kit import Federation, open_kit
from clients.federation.provision import provision
from clients.federation.status import DISABLED_FILE, DisabledHospitals, SiteStatus, read_site_status
from clients.node.cli import app
from training.engines.calls import ChannelError


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits-to-disable")
    plain = {
        "name": "skin",
        "coordinator": {"host": "localhost", "port": 1},
        "hospitals": [{"name": "north"}, {"name": "south"}],
    }
    provision(Federation.model_validate(plain), folder, folder / "kits")
    return folder / "kits"


@pytest.fixture
def coordinator(monkeypatch):
    """What a coordinator was told; it replies as FLARE does."""
    disabled, asked = set(), []

    class Admin:
        def __init__(self, kit):
            pass

        def change(self, name, how):
            asked.append((how, name))
            was = name in disabled
            if how == "disable":
                disabled.add(name)
                entry = {"state": "disabled", "already_disabled": was, "active_session_removed": not was}
            else:
                disabled.discard(name)
                entry = {"state": "enabled", "was_disabled": was}
            return read_site_status(name, {"clients": [{"client_name": name, **entry}]})

        def close(self):
            asked.append("closed")

    monkeypatch.setattr(admin_client, "AdminClient", Admin)
    return asked


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_disabled_and_enabled_in_words_and_in_json(kits, coordinator):
    admin = kits / "admin"
    first = run("disable", "north", "--kit", admin).output
    assert "no certificate in its name is let in" in first
    assert "It was connected and is dropped" in first
    assert "before" not in first
    assert json.loads(run("disable", "north", "--kit", admin, "--json").output) == {
        "hospital": "north",
        "state": "disabled",
        "changed": False,
        "disconnected": False,
    }
    again = run("enable", "north", "--kit", admin).output
    assert "If its kit was stolen, disable north again" in again
    assert "nothing has changed" in run("enable", "north", "--kit", admin).output
    assert json.loads(run("enable", "north", "--kit", admin, "--json").output)["changed"] is False
    assert coordinator.count("closed") == 5


def test_a_misspelt_name_disables_nobody_and_one_that_left_is_named_as_such(kits, coordinator):
    for command in ("disable", "enable"):
        told = run(command, "nroth", "--kit", kits / "admin").exception
        assert isinstance(told, FederationError)
        assert "north" in str(told)
    assert coordinator == []
    assert run("disable", "east", "--left", "--kit", kits / "admin").exit_code == 0
    assert coordinator == [("disable", "east"), "closed"]


def test_a_hospital_cannot_disable_another(kits, coordinator):
    assert isinstance(run("disable", "south", "--kit", kits / "north").exception, KitError)
    assert coordinator == []


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"clients": []},
        {"clients": [{"client_name": "north", "state": "error", "error": "no space"}]},
        {"clients": [{"client_name": "south", "state": "enabled", "was_disabled": True}]},
    ],
)
def test_a_reply_that_does_not_say_so_is_not_taken_for_done(reply):
    with pytest.raises(FederationError, match="does not say how north stands"):
        read_site_status("north", reply)


def test_what_is_said_of_the_right_one_is():
    entry = {"client_name": "north", "state": "enabled", "was_disabled": True}
    assert read_site_status("north", {"clients": [entry]}) == SiteStatus("north", "enabled", True)


def test_flares_own_file_is_read_anew_and_one_that_cannot_be_read_lets_nobody_in(tmp_path):
    """FLARE's class writes it, so another format of a later version is found here."""
    from nvflare.private.fed.server.client_manager import ClientManager

    disabled = DisabledHospitals(tmp_path)
    disabled.refuse("north")
    flare = ClientManager()
    flare.set_disabled_clients_file(str(tmp_path / DISABLED_FILE))
    flare.disable_client("north")
    with pytest.raises(ChannelError, match="operator has disabled it"):
        disabled.refuse("north")
    disabled.refuse("south")
    flare.enable_client("north")
    disabled.refuse("north")
    for text in ("{", "[]", '{"disabled_clients": "north"}', "{}"):
        (tmp_path / DISABLED_FILE).write_text(text)
        with pytest.raises(ChannelError, match="nobody knows who is disabled"):
            disabled.refuse("south")


def test_the_admin_may_disable_and_no_more_of_what_operators_may(kits, tmp_path):
    """FLARE's own rules, with the file that each site has."""
    from nvflare.fuel.sec.authz import Authorizer, AuthzContext, Person
    from nvflare.security.security import COMMAND_CATEGORIES

    shutil.copytree(kits / "server", tmp_path / "server")
    kit = open_kit(tmp_path / "server", "server")
    authorizer = Authorizer("o", COMMAND_CATEGORIES)
    assert not authorizer.load_policy(json.loads((kit.path / "local" / "authorization.json").read_text()))

    def may(role, right):
        person = Person("x", "o", role)
        return authorizer.authorize(AuthzContext(right, person, person))[0]

    for right in ("disable_client", "enable_client"):
        assert may("lead", right)
        assert not may("member", right)
    for right in ("shutdown", "restart", "remove_client", "sys_info"):
        assert not may("lead", right)
