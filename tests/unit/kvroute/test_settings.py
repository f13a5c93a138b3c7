"""Settings: order of sources, conversion by type, and that every mistake is named at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kvroute.errors import SettingsError
from kvroute.settings import describe, dump, load, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    listen: str = setting("127.0.0.1:1", "address")
    lease_s: float = setting(3.0, "seconds", minimum=0.05, maximum=60)
    blocks: int = setting(10, "blocks", minimum=1)
    policy: str = setting("a", "policy", choices=("a", "b"))
    audit: bool = setting(True, "audit")
    names: tuple[str, ...] = setting((), "names")
    ready_file: Path | None = setting(None, "file")
    secret: str = setting("", "secret", secret=True, check=lambda v: "long" if v == "x" else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needy:
    model: str = setting(help="model", required=True)


def read(
    flags: dict[str, object] | None = None,
    env: dict[str, str] | None = None,
    file: Path | None = None,
) -> Sample:
    return load(Sample, "router", flags=flags or {}, env=env or {}, file=file)


def toml(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "kvroute.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_hold_when_nothing_is_given() -> None:
    assert read() == Sample()
    assert read().lease_s == 3.0


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = toml(tmp_path, "[router]\nlease_s = 5\nblocks = 5\npolicy = 'b'\n")
    env = {"KVROUTE_ROUTER_LEASE_S": "6", "KVROUTE_ROUTER_BLOCKS": "6"}
    got = read({"lease_s": 7.0, "blocks": None}, env, file)
    assert (got.lease_s, got.blocks, got.policy, got.audit) == (7.0, 6, "b", True)


def test_text_is_converted_by_annotation() -> None:
    env = {
        "KVROUTE_ROUTER_AUDIT": "off",
        "KVROUTE_ROUTER_NAMES": "x, y,",
        "KVROUTE_ROUTER_READY_FILE": "/a/b",
        "KVROUTE_ROUTER_BLOCKS": "12",
    }
    got = read(env=env)
    assert (got.audit, got.names, got.ready_file, got.blocks) == (
        False,
        ("x", "y"),
        Path("/a/b"),
        12,
    )
    assert read(env={"KVROUTE_ROUTER_READY_FILE": ""}).ready_file is None


def test_file_values_are_converted_by_annotation(tmp_path: Path) -> None:
    text = "[router]\nnames = ['x']\naudit = false\nready_file = 'r'\n[worker]\nanything = 1\n"
    got = read(file=toml(tmp_path, text))
    assert (got.names, got.audit, got.ready_file) == (("x",), False, Path("r"))


@pytest.mark.parametrize(
    ("variable", "text", "wanted"),
    [
        ("LEASE_S", "0", "0.05 or more"),
        ("LEASE_S", "61", "60 or less"),
        ("LEASE_S", "nan", "a finite number"),
        ("LEASE_S", "inf", "a finite number"),
        ("LEASE_S", "soon", "a number"),
        ("BLOCKS", "1.5", "a whole number"),
        ("POLICY", "c", "one of a, b"),
        ("AUDIT", "maybe", "true or false"),
    ],
)
def test_wrong_value_is_named_with_its_source_and_bound(
    variable: str, text: str, wanted: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read(env={f"KVROUTE_ROUTER_{variable}": text})
    assert str(caught.value) == f"KVROUTE_ROUTER_{variable} is '{text}'; it must be {wanted}"


@pytest.mark.parametrize("line", ["blocks = '5'", "blocks = true", "names = [1]", "listen = 5"])
def test_file_types_are_strict(tmp_path: Path, line: str) -> None:
    with pytest.raises(SettingsError, match="it must be"):
        read(file=toml(tmp_path, f"[router]\n{line}\n"))


def test_unknown_names_are_refused_with_a_suggestion(tmp_path: Path) -> None:
    file = toml(tmp_path, "[router]\nlease = 1\n[ruter]\nx = 1\n")
    with pytest.raises(SettingsError) as caught:
        read({"polcy": "a"}, {"KVROUTE_ROUTER_LISTN": "x"}, file)
    text = str(caught.value)
    assert text.startswith("4 settings are wrong: ")
    assert "\n" not in text
    for hint in ("lease_s?", "router?", "policy?", "KVROUTE_ROUTER_LISTEN?"):
        assert f"did you mean {hint}" in text


def test_variables_of_other_sections_and_service_links_are_left_alone() -> None:
    env = {
        "KVROUTE_WORKER_WHATEVER": "1",
        "KVROUTE_ROUTER_SERVICE_HOST": "10.0.0.1",
        "KVROUTE_ROUTER_SERVICE_PORT_GRPC": "50050",
        "KVROUTE_ROUTER_PORT": "tcp://10.0.0.1:50050",
        "KVROUTE_ROUTER_PORT_50050_TCP_ADDR": "10.0.0.1",
    }
    assert read(env=env) == Sample()


def test_missing_required_setting_says_how_to_give_it() -> None:
    with pytest.raises(SettingsError, match="model is missing: give --model or KVROUTE_WORKER_MOD"):
        load(Needy, "worker", flags={}, env={})


def test_unreadable_and_broken_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read(file=tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="is not TOML"):
        read(file=toml(tmp_path, "[router\n"))
    with pytest.raises(SettingsError, match="must be a table"):
        read(file=toml(tmp_path, "router = 3\n"))


def test_secrets_are_masked_in_dump_and_errors() -> None:
    assert dump(read({"secret": "hunter2"}))["secret"] == "***"
    assert dump(read())["secret"] == ""
    with pytest.raises(SettingsError) as caught:
        read(env={"KVROUTE_ROUTER_SECRET": "x"})
    assert str(caught.value) == "KVROUTE_ROUTER_SECRET is ***; it must be long"


def test_dump_holds_plain_values() -> None:
    shown = dump(read({"names": "a,b", "ready_file": Path("r")}))
    assert shown["names"] == ["a", "b"]
    assert shown["ready_file"] == "r"


def test_type_that_is_not_served_is_a_programming_error() -> None:
    @dataclass(frozen=True)
    class Odd:
        what: dict[str, str] = setting(None, "odd")

    with pytest.raises(TypeError, match="cannot have the type"):
        describe(Odd)
