"""Handlers of `/tokenize` and `/detokenize`, in the shapes that vLLM introduced."""

from __future__ import annotations

from aiohttp import web

from kvroute.errors import InvalidArgument
from kvroute.tokens import unpack_tokens
from kvroute.v1 import router_pb2
from router_svc.http.call import Context
from router_svc.http.chat import parse_chat
from router_svc.http.fields import Fields, check_text
from router_svc.http.front import FRONT, read_object
from router_svc.http.prompts import pack_ids


async def tokenize(request: web.Request) -> web.Response:
    """Token ids of `prompt` or `messages`, with what the model's tokenizer and template add."""
    front = request.app[FRONT]
    values = await read_object(request)
    fields = Fields(values)
    fields.refuse("add_special_tokens", "the tokenizer's own rule is used", True)
    if fields.has("prompt") == fields.has("messages"):
        raise InvalidArgument("give either prompt or messages", field="prompt")
    if fields.has("messages"):
        context = Context(max_messages=front.settings.http_max_messages)
        asked = parse_chat(values, context).requests[0]
    else:
        asked = router_pb2.GenerateRequest(prompt=check_text("prompt", values["prompt"]))
        asked.model = fields.text("model")
    found = await front.backend.tokenize(asked, front.settings.tokenize_timeout_s)
    tokens = unpack_tokens(found.token_ids)
    return web.json_response(
        {
            "count": len(tokens),
            "max_model_len": found.identity.max_context,
            "tokens": tokens,
            "token_strs": None,
        }
    )


async def detokenize(request: web.Request) -> web.Response:
    """Text of `tokens`."""
    front = request.app[FRONT]
    fields = Fields(await read_object(request))
    model = fields.text("model")
    ids = pack_ids("tokens", fields.array("tokens", front.settings.max_prompt_bytes))
    text = await front.backend.detokenize(model, ids, front.settings.tokenize_timeout_s)
    return web.json_response({"prompt": text})
