from __future__ import annotations

import threading

import pytest

from kvroute.errors import InvalidArgument, Unsupported
from tests.tiny_tokenizer import tokenizer
from worker_svc.text.tokenizer import TextService

CHAT = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("adds_bos", [False, True])
def test_completions_get_the_tokens_that_the_tokenizer_adds(adds_bos: bool) -> None:
    text = TextService(tokenizer(adds_bos=adds_bos))
    assert (text.encode("hi")[0] == 0) == adds_bos
    assert text.decode(text.encode("hé 漢")) == "hé 漢"


@pytest.mark.parametrize("adds_bos", [False, True])
@pytest.mark.parametrize("prefix", ["", "{{ bos_token }}", "{{ bos_token }}{{ bos_token }}"])
def test_a_chat_starts_with_exactly_one_bos(adds_bos: bool, prefix: str) -> None:
    template = prefix + "{{ messages[0]['content'] }}"
    ids = TextService(tokenizer(adds_bos=adds_bos, template=template)).encode_chat(CHAT)
    assert ids.count(0) == (1 if adds_bos or prefix else 0)
    assert 0 not in ids[1:]


def test_template_arguments_reach_the_template() -> None:
    text = TextService(tokenizer())
    ids = text.encode_chat(CHAT, template_kwargs={"extra": "!"})
    assert text.decode(ids) == "<user>hello\n<assistant>!"


def test_a_template_that_refuses_is_the_senders_fault() -> None:
    with pytest.raises(InvalidArgument, match="no such role") as caught:
        TextService(tokenizer()).encode_chat([{"role": "bad", "content": ""}])
    assert caught.value.field == "chat.messages"


def test_without_tokenizer_or_template_the_refusal_says_what_to_send() -> None:
    with pytest.raises(Unsupported, match="token ids"):
        TextService(None).encode("x")
    with pytest.raises(Unsupported, match="chat template"):
        TextService(tokenizer(template=None)).encode_chat(CHAT)
    assert TextService(None).fingerprint() == TextService(None).template_fingerprint() == ""


def test_fingerprints_follow_content_not_use() -> None:
    one, two = TextService(tokenizer()), TextService(tokenizer())
    two.encode("changes truncation state")
    assert one.fingerprint() == two.fingerprint() and len(one.fingerprint()) == 16
    assert one.fingerprint() != TextService(tokenizer(adds_bos=True)).fingerprint()
    other = TextService(tokenizer(template="{{ messages }}"))
    assert other.fingerprint() == one.fingerprint()
    assert other.template_fingerprint() != one.template_fingerprint()


def test_many_threads_may_encode_at_once() -> None:
    text = TextService(tokenizer())
    wrong: list[str] = []

    def work(word: str) -> None:
        for _ in range(50):
            if text.decode(text.encode(word)) != word:
                wrong.append(word)

    threads = [threading.Thread(target=work, args=(f"word {i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
