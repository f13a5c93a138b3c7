"""The OpenAI HTTP front: bodies in, router requests out, answers back in OpenAI's shapes."""
