"""What `deployment/` holds, by its parts: no engine runs here, so each line is checked by what it is for."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from serving.settings import PREFIX, SHARED, ServeSettings

ROOT = Path(__file__).parents[2]
DEPLOYMENT = ROOT / "deployment"
PAGE = (ROOT / "docs" / "deployment.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SETTINGS = ServeSettings()


# The container


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Containerfile, its FROM first."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOYMENT / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = [line.split() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    found: list[list[tuple[str, str]]] = []
    for word, *rest in lines:
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, " ".join(rest)))
    return found


def said(stage: list[tuple[str, str]], word: str) -> list[str]:
    return [rest for one, rest in stage if one == word]


def test_nothing_is_fetched_but_packages_and_every_source_is_there_and_let_through():
    ignored = (DEPLOYMENT / "Containerfile.dockerignore").read_text().split("\n")
    assert "*" in ignored
    for stage in stages():
        assert not said(stage, "ADD")
        assert not [rest for word, rest in stage if word != "ENV" and re.search(r"https?://|curl|wget", rest)]
        for copied in said(stage, "COPY"):
            *sources, _ = copied.split()
            if sources[0].startswith("--from="):
                assert sources == ["--from=build", "/opt/dermfed"]
                continue
            for source in sources:
                assert (ROOT / source).exists(), source
                assert f"!{source.removeprefix('./')}" in ignored


def test_what_is_installed_is_the_service_alone_at_tested_versions():
    (installs,) = [rest for rest in said(stages()[0], "RUN") if "pip install" in rest]
    asked = installs.split("&&")
    assert all("--constraint constraints.txt" in one for one in asked if "pip install" in one)
    assert '".[${EXTRAS}]"' in asked[1]
    assert said(stages()[0], "ARG") == ["EXTRAS=serve"]
    assert "serve" in PROJECT["optional-dependencies"]


def test_it_runs_as_nobody_in_particular_and_writes_to_its_volume_alone():
    final = stages()[1]
    (user,) = said(final, "USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    words = [word for word, _ in final]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert not [rest for word, rest in final[words.index("USER") :] if word in ("RUN", "COPY")]
    (volume,) = (json.loads(rest) for rest in said(final, "VOLUME"))
    environment = dict(part.split("=", 1) for rest in said(final, "ENV") for part in rest.split())
    assert volume == [f"{environment['XDG_DATA_HOME']}/dermfed"]
    assert environment["HOME"] == environment["XDG_CACHE_HOME"] == "/tmp"
    for told in ("--read-only", "--tmpfs /tmp", f"{volume[0]}", "--cap-drop=all", "no-new-privileges"):
        assert told in PAGE


def test_its_health_is_whether_the_service_lives(service):
    (health,) = said(stages()[1], "HEALTHCHECK")
    program, *arguments = json.loads(health.partition("CMD ")[2])
    assert program == "python"
    assert ", 3000," in arguments[-1]

    def ask(port: int) -> int:
        asked = [*arguments[:-1], arguments[-1].replace(", 3000,", f", {port},")]
        return subprocess.run([sys.executable, *asked], capture_output=True, check=False).returncode

    assert ask(service.port) == 0
    assert ask(1) != 0


# What is installed


def pins() -> dict[str, Requirement]:
    """The versions of constraints.txt by name."""
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned = [Requirement(line) for line in lines if line]
    return {canonicalize_name(one.name): one for one in pinned}


def everything_for(extra: str) -> set[str]:
    """The names of all distributions that dermfed with this extra brings, on this machine."""

    def ours(extras: set[str]) -> list[Requirement]:
        optional = (PROJECT["optional-dependencies"][one] for one in extras)
        return [Requirement(text) for texts in (PROJECT["dependencies"], *optional) for text in texts]

    found: dict[str, set[str]] = {}
    waiting = ours({extra})
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), {"", *one.extras}
        if name == "dermfed":
            waiting += ours(set(one.extras))
        elif not extras <= found.setdefault(name, set()):
            found[name] |= extras
            for needed in map(Requirement, requires(name) or []):
                marker, needed.marker = needed.marker, None
                if marker is None or any(marker.evaluate({"extra": asked}) for asked in extras):
                    waiting.append(needed)
    return set(found)


def test_a_gpu_brings_the_other_onnx_runtime_at_the_same_version_and_never_both():
    optional, pinned = PROJECT["optional-dependencies"], pins()
    named = {
        extra: {
            canonicalize_name(Requirement(text).name): Requirement(text).extras for text in optional[extra]
        }
        for extra in ("cpu", "gpu", "service", "serve", "serve-gpu")
    }
    assert named["serve"]["dermfed"] == {"cpu", "service"}
    assert named["serve-gpu"]["dermfed"] == {"gpu", "service"}
    assert set(named["cpu"]) == {"onnx", "onnxruntime"}
    assert named["gpu"] == {"onnx": set(), "onnxruntime-gpu": {"cuda", "cudnn"}}
    assert str(pinned["onnxruntime-gpu"].specifier) == str(pinned["onnxruntime"].specifier)
    assert {"nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cuda-runtime"} <= set(pinned)


def test_what_the_service_needs_is_pinned_and_what_a_bento_installs_is_that():
    needed, pinned = everything_for("serve"), pins()
    assert needed <= set(pinned), "add what is missing to constraints.txt"
    assert not needed & {"torch", "torchvision", "timm"}
    lines = (DEPLOYMENT / "requirements.txt").read_text().splitlines()
    assert lines[0].startswith("#")
    expected = [str(pinned[name]) for name in sorted(needed)]
    assert lines[1:] == expected, "write these lines into deployment/requirements.txt"


# systemd


def unit() -> dict[str, list[str]]:
    """The unit's settings; some are given several times."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOYMENT / "dermfed.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_the_service_as_its_own_user_with_room_to_end():
    settings = unit()
    program, *arguments = settings["ExecStart"][0].split()
    assert Path(program).name in PROJECT["scripts"]
    assert arguments == ["--host", "127.0.0.1", "--port", "3000"]
    assert settings["User"] == ["dermfed"]
    assert int(settings["TimeoutStopSec"][0]) > SETTINGS.deadline_seconds + SETTINGS.drain_seconds
    environment = dict(part.split("=", 1) for line in settings["Environment"] for part in line.split())
    assert environment["XDG_DATA_HOME"] + "/" + settings["StateDirectory"][0] == "/var/lib/dermfed"
    assert environment["XDG_CACHE_HOME"] + "/" + settings["CacheDirectory"][0] == "/var/cache/dermfed"


def test_the_unit_shuts_everything_that_the_service_does_not_need():
    settings = unit()
    assert settings["ProtectSystem"] == ["strict"]
    assert settings["CapabilityBoundingSet"] == [""]
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "MemoryDenyWriteExecute"):
        assert settings[name] == ["yes"], name


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze on this machine")
def test_systemd_finds_nothing_wrong_and_little_exposed(tmp_path):
    text = (DEPLOYMENT / "dermfed.service").read_text()
    started = tmp_path / "dermfed.service"
    started.write_text(re.sub(r"(?<=^ExecStart=)\S+", sys.executable, text, flags=re.MULTILINE))
    for asked in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=15"]):
        ended = subprocess.run(
            ["systemd-analyze", *asked, started], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert str(started) not in ended.stderr, ended.stderr


# nginx

Block = list[tuple[list[str], Any]]


def parse(words: Iterator[str]) -> Block:
    """What an nginx file says: each directive's words, with its block where it has one."""
    block: Block = []
    line: list[str] = []
    for word in words:
        if word == "}":
            break
        if word in (";", "{"):
            block.append((line, parse(words) if word == "{" else None))
            line = []
        else:
            line.append(word.strip("'\""))
    assert not line, f"no ; after {line}"
    return block


def find(block: Block, *names: str) -> list[Any]:
    """The words after a directive's name, or the block after the name and words."""
    return [
        words[len(names) :] if inner is None else inner
        for words, inner in block
        if words[: len(names)] == list(names)
    ]


def seconds(text: str) -> float:
    return float(re.fullmatch(r"(\d+)s", text)[1])


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([km])", text).groups()
    return int(number) * {"k": 2**10, "m": 2**20}[unit]


@pytest.fixture(scope="module")
def nginx() -> Block:
    text = re.sub(r"#[^\n]*", "", (DEPLOYMENT / "nginx.conf").read_text())
    return parse(iter(re.findall(r"""'[^']*'|"[^"]*"|[{};]|[^\s{};]+""", text)))


@pytest.fixture(scope="module")
def secure(nginx: Block) -> Block:
    """The server that speaks TLS."""
    (server,) = [one for one in find(nginx, "server") if ["443", "ssl"] in find(one, "listen")]
    return server


def test_nginx_speaks_tls_of_today_alone_and_says_so(nginx, secure):
    assert find(secure, "ssl_protocols") == [["TLSv1.2", "TLSv1.3"]]
    assert find(secure, "ssl_certificate")
    assert find(secure, "ssl_certificate_key")
    assert find(secure, "add_header", "Strict-Transport-Security")
    plain = [one for one in find(nginx, "server") if one is not secure]
    for server in plain:
        assert not find(server, "proxy_pass")
        assert find(find(server, "location", "/")[0], "return") == [["301", "https://$host$request_uri"]]
        refused = find(find(server, "location", "/v1/")[0], "return")[0]
        assert refused[0] == "403"


def test_nginx_takes_what_the_service_takes_and_waits_longer(secure):
    (limit,) = find(secure, "client_max_body_size")
    assert SETTINGS.max_bytes + 64 * 2**10 <= size(limit[0]) <= SETTINGS.max_bytes * 1.1
    for name in ("proxy_read_timeout", "proxy_send_timeout"):
        assert seconds(find(secure, name)[0][0]) > SETTINGS.deadline_seconds
    for name in ("client_body_timeout", "client_header_timeout"):
        assert seconds(find(secure, name)[0][0]) <= SETTINGS.deadline_seconds


def test_nginx_writes_no_picture_to_disk_and_logs_no_query_and_no_header(nginx, secure):
    assert find(secure, "proxy_request_buffering") == [["off"]]
    assert find(secure, "proxy_max_temp_file_size") == [["0"]]
    (written,) = find(nginx, "log_format", "dermfed")
    assert not set(re.findall(r"\$(\w+)", " ".join(written))) & {
        "request",
        "request_uri",
        "args",
        "query_string",
    }
    assert not re.search(r"\$(http|arg|cookie|remote_user)", " ".join(written))
    for server in find(nginx, "server"):
        assert find(server, "access_log")[0][-1] == "dermfed"
        assert find(server, "error_log")[0][-1] == "crit"


def test_nginx_says_who_asks_and_believes_no_caller(secure):
    headers = dict(words for words in find(secure, "proxy_set_header"))
    assert headers["X-Forwarded-For"] == "$remote_addr"
    assert headers["Forwarded"] == ""
    for location in (inner for words, inner in secure if words[0] == "location"):
        assert not find(location, "proxy_set_header"), "a location that sets one loses all others"
    for path in (("=", "/metrics"), ("=", "/operator"), ("=", "/console")):
        (guarded,) = find(secure, "location", *path)
        assert find(guarded, "deny") == [["all"]]


# The page


def test_the_page_names_every_file_and_only_settings_that_there_are():
    node = (ROOT / "docs/running-a-node.md").read_text()
    for path in DEPLOYMENT.iterdir():
        assert path.name in PAGE or path.name in node, path.name
    known = {PREFIX + name.upper() for name in ServeSettings.model_fields} | set(SHARED.values())
    known |= {"DERMFED_SERVE_WORKERS", "DERMFED_REGISTRY_URL", "DERMFED_STORE", "DERMFED_CACHE"}
    texts = [PAGE, node, *(path.read_text() for path in DEPLOYMENT.iterdir())]
    assert {name for text in texts for name in re.findall(r"DERMFED_[A-Z_]+", text)} <= known
