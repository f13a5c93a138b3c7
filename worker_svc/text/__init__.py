"""Between token ids and text: encoding prompts, decoding streams, stop strings."""
