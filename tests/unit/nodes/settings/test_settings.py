"""Settings: precedence of the sources, refused keys and values, origins, secrets."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from nodes.errors import SettingsError
from nodes.settings.kafka_properties import PASSED_THROUGH
from nodes.settings.renamed import RENAMED
from nodes.settings.settings import Settings, known_keys, load_settings

DOCS = Path(__file__).parents[4] / "docs" / "settings.md"


@pytest.fixture
def load(tmp_path: Path):
    """Load with an empty environment and an empty directory, unless given."""

    def _load(*definitions: str, toml: str | None = None, environ: dict[str, str] | None = None) -> Settings:
        if toml is not None:
            (tmp_path / "holon.toml").write_text(toml)
        return load_settings(definitions=definitions, environ=environ or {}, directory=tmp_path)

    return _load


def refused(load, *definitions: str, **sources) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*definitions, **sources)
    return str(caught.value)


def test_defaults_hold_where_nothing_is_set(load):
    settings = load()
    assert settings.node.heartbeat_interval_ms == 80
    assert settings.log.path == "./holon-log"
    assert settings.origin("log.path") == "default"


def test_each_source_outranks_the_next(load, tmp_path: Path):
    toml = "[node]\ncheckpoint_interval_ms = 2\nbatch_max_records = 7\nfunction_timeout_ms = 5\n"
    environ = {"HOLON__NODE__CHECKPOINT_INTERVAL_MS": "3", "HOLON__NODE__BATCH_MAX_RECORDS": "8"}
    settings = load("node.checkpoint_interval_ms=4", toml=toml, environ=environ)
    node = settings.node
    assert (node.checkpoint_interval_ms, node.batch_max_records, node.function_timeout_ms) == (4, 8, 5)
    assert settings.origin("node.checkpoint_interval_ms") == "-D node.checkpoint_interval_ms"
    assert settings.origin("node.batch_max_records") == "environment variable HOLON__NODE__BATCH_MAX_RECORDS"
    assert settings.origin("node.function_timeout_ms") == str(tmp_path / "holon.toml")


def test_the_last_of_equal_definitions_wins(load):
    assert load("node.checkpoint_interval_ms=2", "node.checkpoint_interval_ms=3").node.checkpoint_interval_ms == 3


def test_a_named_file_is_read_instead_of_the_default_one(load, tmp_path: Path):
    (tmp_path / "holon.toml").write_text("[node]\ncheckpoint_interval_ms = 9\n")
    (tmp_path / "other.toml").write_text("[log]\npath = '/data'\n")
    settings = load_settings(config=tmp_path / "other.toml", environ={}, directory=tmp_path)
    assert (settings.log.path, settings.node.checkpoint_interval_ms) == ("/data", 1000)


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        load_settings(config=tmp_path / "nowhere.toml", environ={})


@pytest.mark.parametrize(
    ("sources", "origin"),
    [
        ({"toml": "[log]\npaht = 'x'\n"}, "holon.toml"),
        ({"environ": {"HOLON__LOG__PAHT": "x"}}, "HOLON__LOG__PAHT"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name_and_its_origin(load, sources, origin):
    message = refused(load, **sources)
    assert "'log.paht'" in message and "nearest: log.path" in message and origin in message


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_name_is_refused_with_the_new_one(load, old):
    section, key = old.split(".")
    for sources in ({"toml": f"[{section}]\n{key} = 3\n"}, {"environ": {f"HOLON__{section}__{key}".upper(): "3"}}):
        assert f"{old} " in refused(load, **sources) and f"is called {RENAMED[old]} now" in refused(load, **sources)
    assert RENAMED[old] in known_keys() and RENAMED[old] in refused(load, f"{old}=3")


def test_an_unknown_definition_is_refused(load):
    assert "nearest: node.checkpoint_interval_ms" in refused(load, "node.checkpoint_interval=2")


def test_a_key_outside_a_section_is_refused(load):
    assert "'checkpoint_interval_ms'" in refused(load, toml="checkpoint_interval_ms = 2\n")


@pytest.mark.parametrize("definition", ["node.checkpoint_interval_ms", "=3", "checkpoint_interval_ms=3"])
def test_a_definition_of_another_form_is_refused_with_the_form(load, definition):
    assert "section.key=value" in refused(load, definition)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("node.checkpoint_interval_ms", "two"),
        ("node.checkpoint_interval_ms", "0"),
        ("log.fsync", "always"),
        ("node.heartbeat_interval_ms", "1.5"),
    ],
)
def test_a_wrong_value_names_key_value_and_origin(load, key, value):
    message = refused(load, f"{key}={value}")
    assert key in message and repr(value) in message and "-D" in message


@pytest.mark.parametrize("toml_value", ["true", '"3"', "1.0"])
def test_a_number_in_a_file_must_be_a_number(load, toml_value):
    assert "node.checkpoint_interval_ms" in refused(load, toml=f"[node]\ncheckpoint_interval_ms = {toml_value}\n")


def test_invalid_toml_names_the_file(load):
    assert "holon.toml: not valid TOML" in refused(load, toml="[node\n")


def test_none_switches_an_optional_setting_off(load):
    settings = load("node.on_error=none", toml="[node]\non_error = 'fail'\n")
    assert settings.node.on_error is None


def test_suspicion_must_take_longer_than_a_heartbeat(load):
    message = refused(load, "node.heartbeat_interval_ms=300")
    assert "node.failure_timeout_ms = 250 (from default)" in message


def test_kafka_needs_a_broker(load):
    assert "log.bootstrap" in refused(load, "log.kind=kafka")


def test_settings_are_immutable(load):
    settings = load()
    with pytest.raises(FrozenInstanceError):
        settings.node.checkpoint_interval_ms = 2
    with pytest.raises(TypeError):
        settings.log.kafka["client.id"] = "x"


def test_librdkafka_properties_pass_through_from_every_source(load):
    toml = '[log.kafka]\nsecurity.protocol = "SASL_SSL"\n"socket.keepalive.enable" = true\n'
    environ = {"HOLON__LOG__KAFKA__SASL_USERNAME": "ann"}
    settings = load(
        "log.kind=kafka", "log.bootstrap=b:9092", "log.kafka.sasl.mechanism=PLAIN", toml=toml, environ=environ
    )
    assert settings.kafka_properties() == {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "security.protocol": "SASL_SSL",
        "socket.keepalive.enable": "true",
    }


def test_a_property_that_loads_foreign_code_is_refused(load):
    assert "foreign code" in refused(load, "log.kafka.plugin.library.paths=/tmp/x.so")


def test_secrets_come_by_reference_and_are_never_shown(load, tmp_path: Path):
    (tmp_path / "password").write_text("hunter2\n")
    toml = f'[log.kafka]\n"sasl.password" = "file:{tmp_path / "password"}"\n[checkpoints]\nurl = "env:STORE"\n'
    settings = load(toml=toml, environ={"STORE": "redis://ann:swordfish@store:6379/0"})
    assert settings.kafka_properties()["sasl.password"] == "hunter2"
    assert settings.checkpoint_url() == "redis://ann:swordfish@store:6379/0"
    shown = repr(settings) + str(settings) + str(settings.items())
    assert "hunter2" not in shown and "swordfish" not in shown
    assert "store:6379" in shown


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem",
    ],
)  # fmt: skip
def test_every_secret_of_librdkafka_is_hidden_and_taken_by_reference(load, tmp_path: Path, name: str):
    (tmp_path / "secret").write_text("hunter2\n")
    by_file = load(f"log.kafka.{name}=file:{tmp_path}/secret")
    by_variable = load(f"log.kafka.{name}=env:MINE", environ={"MINE": "hunter2"})
    for settings in (by_file, by_variable):
        assert settings.kafka_properties()[name] == "hunter2"
        assert "hunter2" not in repr(settings) + str(settings.items())


@pytest.mark.parametrize("name", ["sasl.pasword", "ssl.passphrase", "broker.api_key", "my-token", "client.secrets"])
def test_an_unknown_property_is_refused_without_its_value(load, name: str):
    message = refused(load, f"log.kafka.{name}=hunter2")
    assert name in message and "hunter2" not in message


def test_an_unknown_property_is_refused_with_the_nearest(load):
    assert "nearest: sasl.password" in refused(load, "log.kafka.sasl.pasword=hunter2")
    assert "nearest: ssl.ca.location" in refused(load, "log.kafka.ssl.ca.locations=/tmp/ca")


@pytest.mark.parametrize(
    "text", ["passwordhunter2", "log.kafka.sasl.password hunter2", "log.kafka.sasl.password:hunter2"]
)
def test_a_definition_without_a_value_does_not_show_what_may_be_secret(load, text: str):
    assert "hunter2" not in refused(load, text)


@pytest.mark.parametrize("name", sorted(PASSED_THROUGH))
def test_properties_that_pass_through_are_those_of_librdkafka(name: str):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    try:
        confluent_kafka.Producer({"log_level": 0, name: "odd"}).flush(0)
    except confluent_kafka.KafkaException as error:
        assert "No such configuration property" not in str(error)


def test_a_reference_that_leads_nowhere_names_key_and_reference(load):
    message = refused(load, "checkpoints.url=env:STORE")
    assert "checkpoints.url" in message and "STORE" in message


def test_checkpoints_are_beside_the_log_by_default(load):
    assert load("log.path=/data/log").checkpoint_url() == "/data/log/checkpoints"


def test_a_child_process_gets_equal_settings_through_its_environment(load, tmp_path: Path):
    toml = '[log]\nkind = "kafka"\nbootstrap = "b:1"\n[log.kafka]\n"sasl.password" = "pw"\n'
    toml += "[node]\ncheckpoint_interval_ms = 2\n"
    parent = load("node.on_error=none", "log.kafka.socket.keepalive.enable=true", toml=toml)
    child = load_settings(environ=parent.environment(), directory=tmp_path / "elsewhere")
    assert child.items() == parent.items()
    assert child.kafka_properties() == parent.kafka_properties()


@pytest.mark.parametrize(
    ("definitions", "word"),
    [
        (["log.bootstrap=broker.example:9092"], "unencrypted"),
        (["log.bootstrap=localhost:1,broker.example:1"], "unencrypted"),
        (["log.bootstrap=b:1", "log.kafka.security.protocol=SASL_PLAINTEXT"], "unencrypted"),
        (["log.bootstrap=b:1", "log.kafka.security.protocol=ssl",
          "log.kafka.enable.ssl.certificate.verification=false"], "certificate.verification"),
        (["log.bootstrap=b:1", "log.kafka.security.protocol=ssl",
          "log.kafka.ssl.endpoint.identification.algorithm=none"], "identification"),
    ],
)  # fmt: skip
def test_an_unsafe_connection_is_warned_of(load, definitions, word):
    (warning,) = load("log.kind=kafka", *definitions).warnings()
    assert word in warning


@pytest.mark.parametrize("bootstrap", ["localhost:9092", "127.0.0.1:9092", "[::1]:9092"])
def test_plain_text_on_this_machine_is_fine(load, bootstrap):
    assert load("log.kind=kafka", f"log.bootstrap={bootstrap}").warnings() == []


def test_every_setting_and_its_default_is_documented():
    text = DOCS.read_text()
    defaults = dict(load_settings(environ={}, directory=Path("/nowhere")).items())
    for key in known_keys():
        if key != "log.kafka":
            shown = "none" if defaults[key] is None else str(defaults[key])
            shown = shown.lower() if isinstance(defaults[key], bool) else shown
            assert f"| `{key}` | `{shown}` |" in text, f"docs/settings.md lacks a row for {key} with default {shown}"
