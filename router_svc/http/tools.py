"""Tool definitions and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from kvroute.errors import InvalidArgument
from router_svc.http.fields import Fields, shown, to_json

_MAX_TOOLS = 128
_CHOICES = ("none", "auto", "required")


@dataclass(frozen=True, slots=True)
class Tools:
    """What a chat says of tools. `json` goes to the model's template; with `active` the answer is
    searched for calls, of which only the first counts unless `parallel`.
    """

    json: str = ""
    active: bool = False
    parallel: bool = True


def parse_tools(fields: Fields) -> Tools:
    """`tools`, `tool_choice` and `parallel_tool_calls` of a chat body.

    Raises:
        InvalidArgument: naming the field. A choice that forces a call is refused: the model cannot
        be held to it without constrained decoding.
    """
    fields.refuse("functions", "send tools")
    fields.refuse("function_call", "send tool_choice", "none", "auto")
    given = [_definition(tool) for tool in fields.objects("tools", _MAX_TOOLS)]
    parallel = fields.flag("parallel_tool_calls", True)
    choice = _choice(fields)
    if choice not in ("", "none", "auto"):
        raise InvalidArgument(
            f"tool_choice {choice} is not served: it needs constrained decoding; use auto",
            field="tool_choice",
            value=choice,
            limit="none or auto",
        )
    if choice == "auto" and not given:
        raise InvalidArgument.of("tool_choice", "auto", "absent where there are no tools")
    if not given or choice == "none":
        return Tools()
    return Tools(to_json("tools", given), active=True, parallel=parallel)


def _choice(fields: Fields) -> str:
    value = fields.get("tool_choice")
    if isinstance(value, dict):
        chosen = fields.child("tool_choice")
        function = chosen.child("function") if chosen is not None else None
        return f"function {shown(function.text('name'))}" if function is not None else "object"
    return fields.choice("tool_choice", _CHOICES)


def _definition(tool: Fields) -> dict[str, object]:
    """A definition for the template: without what is no part of it, such as `cache_control`."""
    kind = tool.text("type", "function")
    if kind != "function":
        raise InvalidArgument.of(tool.name("type"), shown(kind), "function")
    function = tool.child("function")
    if function is None:
        raise InvalidArgument.of(tool.name("function"), "missing", "an object with a name")
    name = function.text("name")
    if not name:
        raise InvalidArgument.of(function.name("name"), "empty", "the name of the function")
    function.child("parameters")
    function.text("description")
    return {"type": "function", "function": dict(function.values)}
