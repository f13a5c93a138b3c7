"""The chat of `kvroute chat --url`: any server that speaks OpenAI's chat completions, ours or
another's. Standard library only, so that it works wherever the command line does.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from kvroute.errors import InvalidArgument, KvrouteError, Unavailable, from_http

if TYPE_CHECKING:
    from kvroute.cli.chat import Conversation

_CONNECT_S = 10.0


@dataclass(slots=True)
class Answer:
    """One streamed answer: its text so far, and what the server said of it."""

    text: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    explained: dict[str, str] = field(default_factory=dict)


class ChatUrl:
    """Talks to one base URL, such as http://127.0.0.1:8000 (with or without /v1)."""

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument.of("url", url, "http://HOST:PORT or https://HOST")
        self._connect = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._host, self._port = parts.hostname, parts.port
        path = parts.path.rstrip("/")
        self._path = (path if path.endswith("/v1") else path + "/v1") + "/chat/completions"
        self._headers = {"Content-Type": "application/json", "x-kvroute-explain": "1"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    def stream(self, body: Mapping[str, Any], answer: Answer) -> Iterator[str]:
        """Texts as they come; `answer` fills along. Leaving early closes the connection, which ends
        the generation.

        Raises:
            KvrouteError: the server's own error, or that it cannot be reached.
        """
        connection = self._connect(self._host, self._port, timeout=_CONNECT_S)
        try:
            connection.connect()
            # Only connecting is quick: a first token may take long.
            if connection.sock is not None:
                connection.sock.settimeout(None)
            sent = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}})
            connection.request("POST", self._path, sent.encode(), self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise from_http(response.status, _message(response.read()))
            answer.explained = {
                name.lower(): value
                for name, value in response.getheaders()
                if name.lower().startswith("x-kvroute-")
            }
            yield from _texts(response, answer)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"no answer from {self._host}: {error}") from None
        finally:
            connection.close()


def talk(
    chat: ChatUrl,
    conversation: Conversation,
    sampling: Mapping[str, Any],
    read: Callable[[], str | None],
) -> None:
    """Question and answer until `read` returns None."""
    answer = Answer()
    while (line := read()) is not None and line != "/quit":
        if line == "/reset":
            conversation.reset()
        elif line == "/explain":
            for name, value in answer.explained.items():
                click.echo(f"{name.removeprefix('x-kvroute-')}: {value}", err=True)
        elif line:
            conversation.user(line)
            answer = Answer()
            _answer(chat, {"messages": conversation.messages, **sampling}, answer)
            conversation.assistant("".join(answer.text))


def _answer(chat: ChatUrl, body: Mapping[str, Any], answer: Answer) -> None:
    try:
        for text in chat.stream(body, answer):
            answer.text.append(text)
            click.echo(text, nl=False)
    except KvrouteError as error:
        # The next question may well succeed: stay.
        click.echo(f"kvroute: {error}", err=True)
        return
    except KeyboardInterrupt:
        click.echo(" [stopped]", err=True)
        return
    usage = answer.usage
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    click.secho(
        f"\n[{cached} of {usage.get('prompt_tokens', 0)} prompt tokens from cache, "
        f"{usage.get('completion_tokens', 0)} generated]",
        err=True,
        dim=True,
    )


def _texts(response: http.client.HTTPResponse, answer: Answer) -> Iterator[str]:
    for line in response:
        data = line.strip().removeprefix(b"data: ")
        if not line.startswith(b"data: ") or data == b"[DONE]":
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            raise KvrouteError(_message(data))
        answer.usage = chunk.get("usage") or answer.usage
        for choice in chunk["choices"]:
            text = choice["delta"].get("content")
            if text:
                yield text


def _message(body: bytes) -> str:
    """The message of an error body, or the start of whatever it is."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
