"""Token ids for text and chats, from a worker of the model, remembered for a while.

The router holds no tokenizer (tokenizers are built from Rust, and a second copy could differ from
the workers'): it asks the connected worker with the fewest streams, then others, and keeps the last
results.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from kvroute.errors import Expired, KvrouteError, Unavailable
from kvroute.v1 import router_pb2, worker_pb2
from router_svc.link import Link


class TokenSource:
    """Bounded cache of token ids by (tokenizer identity, input), filled by workers."""

    def __init__(self, *, entries: int, timeout_s: float) -> None:
        self._entries = entries
        self._timeout_s = timeout_s
        self._known: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()

    async def token_ids(
        self, request: router_pb2.GenerateRequest, identity: str, links: Sequence[Link]
    ) -> bytes:
        """Ids of the request's prompt or chat. `identity` covers tokenizer and chat template.

        Raises:
            InvalidArgument: the template refuses the messages, or the model has no tokenizer or
            template. Unavailable, Expired: no worker answered.
        """
        ask = worker_pb2.Tokenize()
        if request.WhichOneof("input") == "chat":
            ask.chat.CopyFrom(request.chat)
        else:
            ask.text = request.prompt
        key = (identity, ask.SerializeToString(deterministic=True))
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        ids = (await self._ask(ask, links)).token_ids
        if self._entries:
            self._known[key] = ids
            if len(self._known) > self._entries:
                self._known.popitem(last=False)
        return ids

    async def text(self, token_ids: bytes, links: Sequence[Link]) -> str:
        """The text of token ids. Errors as above."""
        ask = worker_pb2.Tokenize(token_ids=token_ids)
        return (await self._ask(ask, links)).text

    async def _ask(self, ask: worker_pb2.Tokenize, links: Sequence[Link]) -> worker_pb2.Tokenized:
        failure: KvrouteError = Unavailable("no worker is connected that could tokenize the prompt")
        for link in sorted(links, key=lambda link: link.in_flight)[:3]:
            again = worker_pb2.Tokenize()
            again.CopyFrom(ask)
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await link.tokenize(again)
            except TimeoutError:
                failure = Expired(
                    f"worker {link.worker_id} did not tokenize within {self._timeout_s:g} s"
                )
            except Unavailable as error:
                failure = error
        raise failure
