#!/usr/bin/env python3
"""The `openai` client talks to a server: `openai_client.py http://HOST:PORT`.

Chat and responses, whole and as a stream, and the list of models. Prints a line for each and exits 1
at the first that is not as it should be. tests/openai.rs runs it against the mock."""

import sys

from openai import NotFoundError, OpenAI

TOKENS = 6


def check(name, told, expected):
    if told != expected:
        sys.exit(f"{name}: {told!r} in place of {expected!r}")
    print(f"{name}: ok")


def words(text):
    return len(text.split())


def chat(client):
    ask = {
        "model": "m",
        "messages": [{"role": "user", "content": "Say something."}],
        "max_completion_tokens": TOKENS,
    }
    whole = client.chat.completions.create(**ask)
    choice = whole.choices[0]
    check("chat", (words(choice.message.content), choice.finish_reason), (TOKENS, "length"))
    check("chat usage", whole.usage.completion_tokens, TOKENS)
    text, usage = "", None
    options = {"include_usage": True}
    for chunk in client.chat.completions.create(**ask, stream=True, stream_options=options):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    check("chat stream", text, choice.message.content)
    check("chat stream usage", usage.completion_tokens, TOKENS)


def responses(client):
    ask = {"model": "m", "input": "Say something.", "max_output_tokens": TOKENS}
    whole = client.responses.create(**ask)
    check("responses", (words(whole.output_text), whole.status), (TOKENS, "incomplete"))
    check("responses usage", whole.usage.output_tokens, TOKENS)
    text, last = "", None
    for event in client.responses.create(**ask, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        last = event
    check("responses stream", text, whole.output_text)
    check("responses stream usage", last.response.usage.output_tokens, TOKENS)


def main():
    client = OpenAI(base_url=sys.argv[1].rstrip("/") + "/v1", api_key="none", max_retries=0)
    check("models", [model.id for model in client.models.list()], ["m"])
    chat(client)
    responses(client)
    try:
        client.chat.completions.create(model="other", messages=[])
    except NotFoundError as error:
        check("a model that is not there", "other" in str(error), True)
    else:
        sys.exit("a model that is not there: no error")


if __name__ == "__main__":
    main()
