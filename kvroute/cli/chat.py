"""`kvroute chat`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvroute.cli.client_settings import ClientSettings
from kvroute.cli.options import click_options, from_options
from kvroute.cli.sampling import given, sampling_options

if TYPE_CHECKING:
    from kvroute.client import Client, Generation

HELP = "/reset starts anew, /explain says why the last answer went where it went, /quit leaves"


@click.command("chat")
@click.option("--system", default="", metavar="TEXT", help="System message.")
@click.option("--url", default="", metavar="URL", help="OpenAI server, instead of a router.")
@click.option("--api-key", default="", envvar="OPENAI_API_KEY", help="Key for the URL.")
@sampling_options
@click_options(ClientSettings, "client")
def command(
    system: str,
    url: str,
    api_key: str,
    config: Path | None,
    address: str | None,
    **sampling: object,
) -> None:
    """Talks to a model. Every turn sends the history, whose blocks are still cached: watch the
    cached tokens grow.

    Ctrl-C stops an answer; Ctrl-D leaves. In the chat: /reset, /explain, /quit.

    \b
    Examples:
      kvroute chat
      kvroute chat --system "Answer in one sentence." --temperature 0.7
      kvroute chat --url http://127.0.0.1:8000
    """
    settings = from_options(ClientSettings, "client", config, {"address": address})
    click.echo(f"{HELP}.", err=True)
    if url:
        from kvroute.cli import chat_url

        # Only we are greedy by default; OpenAI's servers sample.
        options = {"temperature": 0, **given(sampling)}
        chat_url.talk(chat_url.ChatUrl(url, api_key), Conversation(system), options, ask)
        return
    talk(settings.address, Conversation(system), given(sampling), ask)


class Conversation:
    """The messages so far. An unanswered question is taken back, so that roles keep alternating."""

    def __init__(self, system: str = "") -> None:
        self._start = [{"role": "system", "content": system}] if system else []
        self.messages = list(self._start)

    def reset(self) -> None:
        self.messages = list(self._start)

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def assistant(self, text: str) -> None:
        if text:
            self.messages.append({"role": "assistant", "content": text})
        else:
            self.messages.pop()


def ask() -> str | None:
    """The next line of the user; None at the end of input."""
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        return None


def talk(
    address: str,
    conversation: Conversation,
    sampling: Mapping[str, Any],
    read: Callable[[], str | None],
) -> None:
    """Question and answer until `read` returns None."""
    from kvroute.client import Client
    from kvroute.errors import KvrouteError

    last: Generation | None = None
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        client = runner.run(stack.enter_async_context(Client(address)))
        try:
            while (line := read()) is not None and line != "/quit":
                if line == "/reset":
                    conversation.reset()
                elif line == "/explain":
                    _explain(last)
                elif line:
                    conversation.user(line)
                    answer: list[str] = []
                    try:
                        last = runner.run(_answer(client, conversation, sampling, answer))
                    except KvrouteError as error:
                        # The next question may well succeed: stay.
                        click.echo(f"kvroute: {error}", err=True)
                    except KeyboardInterrupt:
                        click.echo(" [stopped]", err=True)
                    conversation.assistant("".join(answer))
        finally:
            runner.run(stack.aclose())


async def _answer(
    client: Client, conversation: Conversation, sampling: Mapping[str, Any], answer: list[str]
) -> Generation:
    """Streams one answer to the screen and, part by part, into `answer`."""
    async with client.generate(messages=conversation.messages, **sampling) as generation:
        async for chunk in generation:
            answer.append(chunk.text)
            click.echo(chunk.text, nl=False)
    usage = generation.usage
    if usage is not None:
        click.secho(
            f"\n[{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens from cache, "
            f"{usage.completion_tokens} generated]",
            err=True,
            dim=True,
        )
    return generation


def _explain(last: Generation | None) -> None:
    from rich.console import Console

    from kvroute.cli.explain_table import explain_table

    if last is None:
        click.echo("nothing to explain yet", err=True)
    else:
        Console(stderr=True).print(explain_table(last.explain))
