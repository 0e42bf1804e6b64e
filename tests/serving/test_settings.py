import os
from pathlib import Path

import pytest

from serving.machine import cores
from serving.settings import ServeSettings, SettingsError, read_settings, variable_of

GOOD = {
    "alias": ("staging", "staging"),
    "default_model": ("nails", "nails"),
    "max_bytes": ("1000", 1000),
    "max_pixels": ("5000", 5000),
    "threads": ("3", 3),
    "lone_threads": ("4", 4),
    "max_batch": ("8", 8),
    "queue": ("100", 100),
    "deadline_seconds": ("12.5", 12.5),
    "drain_seconds": ("0", 0.0),
    "poll_seconds": ("0.25", 0.25),
    "max_age_seconds": ("1.5", 1.5),
    "patience_seconds": ("10", 10.0),
    "requests_per_minute": ("0", 0),
    "burst": ("7", 7),
    "open_per_minute": ("60", 60),
    "records": ("/srv/records", Path("/srv/records")),
    "records_days": ("30", 30),
    "records_picture_hash": ("yes", True),
    "registry_id": ("0123456789abcdef" * 2, "0123456789abcdef" * 2),
    "decode_memory": ("1000000000", 10**9),
    "decode_seconds": ("5", 5.0),
    "workers": ("4", 4),
    "outcomes_url": ("sqlite:////srv/outcomes.db", "sqlite:////srv/outcomes.db"),
    "explain": ("true", True),
    "burned_in": ("true", True),
    "trusted_keys": (f"/etc/a.pub{os.pathsep}b.pem", (Path("/etc/a.pub"), Path("b.pem"))),
    "header_seconds": ("2.5", 2.5),
    "providers": ("tensorrt", "tensorrt"),
    "device_bytes": ("4000000000", 4_000_000_000),
    "prefix": ("/derm/v2/", "/derm/v2"),
    "cors_origins": ("https://app.example, http://[::1]:8080", ("https://app.example", "http://[::1]:8080")),
}
BAD = {
    "max_bytes": ("0", "-1", "20MB", "", "1.5"),
    "max_pixels": ("0", "many"),
    "threads": ("0", "all"),
    "lone_threads": ("0", "auto"),
    "max_batch": ("0", "none"),
    "queue": ("0", "-1", "long"),
    "deadline_seconds": ("0", "-1", "nan"),
    "drain_seconds": ("-1", "21", "nan"),
    "poll_seconds": ("0", "1.1", "nan", "soon"),
    "max_age_seconds": ("0", "2.5", "inf"),
    "patience_seconds": ("0", "-3", "nan"),
    "requests_per_minute": ("-1", "many"),
    "burst": ("0", "1.5"),
    "open_per_minute": ("-1", ""),
    "records": ("", " "),
    "records_days": ("0", "-1", "1e9"),
    "records_picture_hash": ("perhaps",),
    "registry_id": ("", "mine", "0" * 31),
    "decode_memory": ("0", "1000", "1GB"),
    "decode_seconds": ("0", "-1", "nan", "1000"),
    "workers": ("0", "many"),
    "outcomes_url": ("",),
    "explain": ("maybe", "2"),
    "burned_in": ("maybe", "2"),
    "trusted_keys": ("", f"a.pub{os.pathsep}"),
    "header_seconds": ("0", "-1", "601", "nan"),
    "providers": ("auto", "", "CUDA"),
    "device_bytes": ("0", "4 GB"),
    "prefix": ("derm", "https://a.example/derm", "/a//b", "/a b", "/a?b"),
    "cors_origins": ("*", "", "app.example", "https://app.example/", "https://a.example,", "null"),
}


def test_every_setting_is_tested_and_described():
    assert set(GOOD) == set(ServeSettings.model_fields)
    assert [name for name in ServeSettings.model_fields if f"{name}: " not in ServeSettings.__doc__] == []


@pytest.mark.parametrize("name", GOOD)
def test_each_is_read_from_its_variable(name):
    text, value = GOOD[name]
    assert getattr(read_settings({variable_of(name): text, "OTHER": "1"}), name) == value


def test_without_variables_they_are_what_the_contract_says():
    settings = read_settings({})
    assert settings == ServeSettings()
    assert (settings.alias, settings.max_bytes, settings.threads) == ("production", 20 * 2**20, cores())
    assert settings.trusted_keys == ()
    assert settings.poll_seconds <= 1
    assert settings.max_age_seconds == 2


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_a_wrong_value_is_refused_with_its_variable(name, text):
    variable = variable_of(name)
    with pytest.raises(SettingsError) as caught:
        read_settings({variable: text})
    assert variable in str(caught.value)
    assert repr(text) in str(caught.value)


def test_records_are_next_to_the_registry_unless_there_are_to_be_none(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert read_settings({}).records == tmp_path / "dermfed" / "records"
    assert read_settings({variable_of("records"): "none"}).records is None
    assert read_settings({variable_of("records"): "./none"}).records == Path("none")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("DERMFED_SERVE_DEADLINE", "did you mean `DERMFED_SERVE_DEADLINE_SECONDS`?"),
        ("DERMFED_SERVE_TRUSTED_KEYS", "did you mean `DERMFED_TRUSTED_KEYS`?"),
        ("DERMFED_SERVE_PORTS", "there is no setting DERMFED_SERVE_PORTS"),
        ("DERMFED_SERVE_", "there is no setting DERMFED_SERVE_"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_one(name, said):
    with pytest.raises(SettingsError) as caught:
        read_settings({name: "1"})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_3000_TCP", "PORT_3000_TCP_ADDR"],
)
def test_what_kubernetes_says_of_a_service_of_this_name_is_no_setting(name):
    assert read_settings({f"DERMFED_SERVE_{name}": "tcp://10.0.0.1:3000"}) == ServeSettings()
