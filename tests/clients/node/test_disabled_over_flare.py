"""A hospital is disabled, over real processes: in mid-run, over restarts, and in another's name.

One federation, one course of events; the controls are what comes in before and after, and who else does.
"""

import json
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from benchmarks.loopback.federated import ADMIN, ROOT, SERVER
from clients.federation.errors import ConnectionLostError
from clients.federation.status import DISABLED_FILE, SiteStatus
from tests.clients.node.federated import start_another

pytestmark = pytest.mark.long
PICTURES = {"north": 26, "south": 29, "east": 32, "west": 35}
ROUNDS = 40
OTHERS = {"south", "east", "west"}
REJECTED = "client_registration Client 'north' is disabled"
JOINED = "Successfully registered client"


@pytest.fixture(scope="module")
def net(federated):
    return federated(PICTURES)


@pytest.fixture(scope="module")
def link(net):
    made = net.link()
    yield made
    made.close()


@pytest.fixture(scope="module")
def connected(link):
    """Who is connected, as the coordinator tells an admin; nobody while it is not reached."""

    def look():
        with suppress(ConnectionLostError):
            return set(link.connected())
        return set()

    return look


def change(net, how, name="north"):
    """What the command answers, in JSON."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "clients.node.cli", how, name),
            *("--kit", str(net.kits / ADMIN), "--json"),
        ],
        env=net.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def joined(net, name):
    return (net.kits / name / "log.txt").read_text().count(JOINED)


@pytest.fixture(scope="module")
def disabled_in_a_run(net, own_job, link, connected, wait_until):
    """North is connected and trains; it is disabled. The run is left where it waits for its last test."""
    wait_until(lambda: connected() == OTHERS | {"north"}, "all four", pause=0.5)
    job = own_job(net, rounds=ROUNDS, min_clients=3, network={"heartbeat_timeout": 6})
    net.send(job, net.folder / "there")
    wait_until(lambda: net.metrics_log("tiny"), "the first round")
    told = link.change("north", "disable")  # as the command does, which takes seconds to start
    before = len(net.metrics_log("tiny"))
    # The last round's line is written after the last test, which waits for everybody.
    wait_until(lambda: len(net.metrics_log("tiny")) == ROUNDS - 1, "the last round")
    return job, told, before


def test_it_is_dropped_and_the_run_goes_on_as_without_a_site_that_is_away(net, disabled_in_a_run, connected):
    _, told, before = disabled_in_a_run
    assert told == SiteStatus("north", "disabled", changed=True, disconnected=True)
    again = change(net, "disable")
    assert again == {"hospital": "north", "state": "disabled", "changed": False, "disconnected": False}
    assert connected() == OTHERS
    lines = net.metrics_log("tiny")
    assert "north" in lines[0]["answered"], "the control: it took part before"
    assert before + 2 < ROUNDS, "it was not disabled in time"
    # The round that was under way may have had its answer; none after it has.
    assert all(set(line["answered"]) == OTHERS for line in lines[before + 1 :])
    assert "operator has disabled it" in json.dumps(lines[before + 1 :])


def test_over_restarts_of_both_sides_it_stays_out_and_another_comes_in(
    net, disabled_in_a_run, connected, wait_until
):
    before = {name: joined(net, name) for name in ("north", "south")}
    log = net.kits / "north" / "node.log"
    assert before["north"] == 1
    net.kill("north")
    net.start("north")
    wait_until(lambda: REJECTED in log.read_text(), "the refusal")
    net.kill(SERVER)
    refusals = log.read_text().count(REJECTED)
    net.start(SERVER)
    net.kill("south")
    net.start("south")
    wait_until(lambda: joined(net, "south") > before["south"], "south")
    wait_until(
        lambda: log.read_text().count(REJECTED) > refusals, "the refusal of the coordinator's second start"
    )
    wait_until(lambda: connected() == OTHERS, "the others", pause=0.5)
    assert joined(net, "north") == 1
    assert json.loads((net.kits / SERVER / DISABLED_FILE).read_text()) == {"disabled_clients": ["north"]}


def test_its_key_does_not_get_in_under_the_name_of_another(net, disabled_in_a_run, tmp_path, wait_until):
    kit = tmp_path / "south"
    shutil.copytree(net.kits / "south", kit, ignore=shutil.ignore_patterns("*.log", "log.txt*", "private"))
    for name in ("client.crt", "client.key"):
        shutil.copyfile(net.kits / "north" / "startup" / name, kit / "startup" / name)
    log = net.kits / SERVER / "log.txt"
    process = start_another(net, kit, net.folder / "south.csv")
    try:
        told = "authenticated as 'north' but claimed endpoint 'south'"
        wait_until(lambda: told in log.read_text(), "the refusal")
        assert JOINED not in (kit / "log.txt").read_text()
    finally:
        process.terminate()
        process.wait(60)


def test_once_it_is_enabled_it_comes_in_and_the_run_ends_with_it(
    net, disabled_in_a_run, connected, wait_until, ended, same_as_here
):
    assert change(net, "enable")["changed"]
    wait_until(lambda: "north" in connected(), "north", pause=0.5)
    ended(net)
    same_as_here(net, disabled_in_a_run[0])
    summary = json.loads((net.folder / "there" / "summary.json").read_text())
    assert "dismissed" not in summary
