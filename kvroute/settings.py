"""Settings of a service: one frozen dataclass, read once, every mistake reported at once.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class RouterSettings:
        listen: str = setting("127.0.0.1:50050", "address to listen on (HOST:PORT)")
        lease_s: float = setting(3.0, "seconds until a silent worker is gone", minimum=0.05)
        model: str = setting(help="model directory or name", required=True)

    settings = load(RouterSettings, "router", flags={}, env=os.environ, file=None)

A value comes from the first of: flag, environment variable `KVROUTE_<SECTION>_<FIELD>`, table
`[section]` of a TOML file, default. The annotation gives the type: bool, int, float, str, Path,
`tuple[str, ...]` (comma-separated where it is text), or one of these `| None`. What nobody defined
(a key, a table, a variable of the section) is refused, because a misspelt setting is one that
silently does not hold.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kvroute.errors import SettingsError

SECTIONS = ("router", "worker", "up", "demo", "client", "control")
"""The tables that a settings file may have."""

MASK = "***"

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})

# Kubernetes puts variables like these into every pod for a service that is called kvroute-router.
_SERVICE_LINK = re.compile(r"(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$")

T = TypeVar("T")
Check = Callable[[Any], str | None]
"""Returns what a value must be, or None when the value is fine."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as its field declares it. `kind` is the type without `| None`."""

    name: str
    kind: type
    optional: bool
    default: object
    required: bool
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    secret: bool
    check: Check | None

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    def variable(self, section: str) -> str:
        return f"{_prefix(section)}{self.name.upper()}"


def setting(
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    required: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    secret: bool = False,
    check: Check | None = None,
) -> Any:
    """Declares a field of a settings dataclass. Without a default it is required.

    `minimum` and `maximum` bound numbers, inclusively; `choices` bounds texts; `check` says what
    else a value must be. A `secret` is masked in dumps and in error messages.
    """
    if required:
        default = dataclasses.MISSING
    metadata = {
        "help": help,
        "minimum": minimum,
        "maximum": maximum,
        "choices": tuple(choices),
        "secret": secret,
        "check": check,
    }
    return dataclasses.field(default=default, metadata=metadata)


def describe(cls: type) -> tuple[Setting, ...]:
    """The settings that a dataclass declares, in order. Raises TypeError for a type not served."""
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        kind, optional = _kind(cls, field.name, hints[field.name])
        required = field.default is dataclasses.MISSING
        found.append(
            Setting(
                name=field.name,
                kind=kind,
                optional=optional,
                default=None if required else field.default,
                required=required,
                help=field.metadata.get("help", ""),
                minimum=field.metadata.get("minimum"),
                maximum=field.metadata.get("maximum"),
                choices=field.metadata.get("choices", ()),
                secret=field.metadata.get("secret", False),
                check=field.metadata.get("check"),
            )
        )
    return tuple(found)


def load(
    cls: type[T],
    section: str,
    flags: Mapping[str, object],
    env: Mapping[str, str],
    file: Path | None = None,
) -> T:
    """Builds settings from all sources. A flag whose value is None was not given.

    Raises SettingsError that names every mistake: its source, its value and what it must be.
    """
    declared = {one.name: one for one in describe(cls)}
    problems: list[str] = []
    table = _read_table(file, section, problems)
    _refuse_unknown(declared, section, flags, env, table, file, problems)
    values: dict[str, object] = {}
    for name, one in declared.items():
        variable = one.variable(section)
        if flags.get(name) is not None:
            source, raw, is_text = one.flag, flags[name], isinstance(flags[name], str)
        elif variable in env:
            source, raw, is_text = variable, env[variable], True
        elif name in table:
            source, raw, is_text = f"{file} [{section}] {name}", table[name], False
        elif one.required:
            problems.append(f"{name} is missing: give {one.flag} or {variable}")
            continue
        else:
            values[name] = one.default
            continue
        try:
            values[name] = _convert(one, raw, is_text)
        except ValueError as wrong:
            shown = MASK if one.secret else repr(raw)
            problems.append(f"{source} is {shown}; it must be {wrong}")
    if problems:
        head = "" if len(problems) == 1 else f"{len(problems)} settings are wrong: "
        raise SettingsError(head + "; ".join(problems))
    return cls(**values)


def dump(settings: object) -> dict[str, object]:
    """Plain values for a log line; secrets that are set are masked."""
    shown: dict[str, object] = {}
    for one in describe(type(settings)):
        value = getattr(settings, one.name)
        if one.secret and value:
            value = MASK
        elif isinstance(value, Path):
            value = str(value)
        elif isinstance(value, tuple):
            value = list(value)
        shown[one.name] = value
    return shown


def _prefix(section: str) -> str:
    return f"KVROUTE_{section.upper()}_"


def _kind(cls: type, name: str, hint: Any) -> tuple[type, bool]:
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kinds = [member for member in members if member is not type(None)]
    kind = tuple if kinds[0] == tuple[str, ...] else kinds[0]
    if len(kinds) != 1 or kind not in (bool, int, float, str, Path, tuple):
        raise TypeError(f"{cls.__name__}.{name}: a setting cannot have the type {hint}")
    return kind, len(members) > 1


def _read_table(file: Path | None, section: str, problems: list[str]) -> dict[str, object]:
    if file is None:
        return {}
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"settings file {file} cannot be read: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"settings file {file} is not TOML: {error}")
        return {}
    for key, value in content.items():
        if key not in SECTIONS:
            problems.append(f"{file} has the unknown table [{key}]{_closest(key, SECTIONS)}")
        elif not isinstance(value, dict):
            problems.append(f"{file} has {key} as a value; it must be a table [{key}]")
    table = content.get(section, {})
    return table if isinstance(table, dict) else {}


def _refuse_unknown(
    declared: Mapping[str, Setting],
    section: str,
    flags: Mapping[str, object],
    env: Mapping[str, str],
    table: Mapping[str, object],
    file: Path | None,
    problems: list[str],
) -> None:
    for name in flags:
        if name not in declared:
            problems.append(f"unknown flag {name}{_closest(name, declared)}")
    prefix = _prefix(section)
    variables = {one.variable(section) for one in declared.values()}
    for variable in sorted(env):
        if not variable.startswith(prefix) or variable in variables:
            continue
        if not _SERVICE_LINK.match(variable.removeprefix(prefix)):
            problems.append(f"unknown variable {variable}{_closest(variable, variables)}")
    for key in table:
        if key not in declared:
            problems.append(
                f"{file} [{section}] has the unknown key {key}{_closest(key, declared)}"
            )


def _closest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _convert(one: Setting, raw: object, is_text: bool) -> object:
    """The value that `raw` stands for; ValueError says what it must be."""
    if one.optional and is_text and raw == "":
        return None
    value = _from_text(one.kind, str(raw)) if is_text else _from_value(one.kind, raw)
    if one.choices:
        for part in value if isinstance(value, tuple) else (value,):
            if part not in one.choices:
                raise ValueError("one of " + ", ".join(one.choices))
    if one.minimum is not None and isinstance(value, int | float) and value < one.minimum:
        raise ValueError(f"{one.minimum:g} or more")
    if one.maximum is not None and isinstance(value, int | float) and value > one.maximum:
        raise ValueError(f"{one.maximum:g} or less")
    if one.check is not None and (wanted := one.check(value)) is not None:
        raise ValueError(wanted)
    return value


def _from_text(kind: type, text: str) -> object:
    if kind is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise ValueError("true or false")
    if kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is int or kind is float:
        try:
            number: int | float = kind(text)
        except ValueError:
            raise ValueError("a whole number" if kind is int else "a number") from None
        return _from_value(kind, number)
    return kind(text)


def _from_value(kind: type, raw: object) -> object:
    """Strict: TOML has types, so a number in quotes is a mistake."""
    if kind is tuple:
        if isinstance(raw, list | tuple) and all(isinstance(part, str) for part in raw):
            return tuple(raw)
        raise ValueError("a list of texts")
    if kind is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        if not math.isfinite(raw):
            raise ValueError("a finite number")
        return float(raw)
    if kind is Path and isinstance(raw, str | Path):
        return Path(raw)
    if isinstance(raw, kind) and (kind is bool or not isinstance(raw, bool)):
        return raw
    words = {bool: "true or false", int: "a whole number", float: "a number"}
    raise ValueError(words.get(kind, "text"))
