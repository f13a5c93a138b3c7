"""Load against a live router, over gRPC or over OpenAI HTTP, and what it measures."""
