"""The IR: text, verifier, interpreter, aliasing, file tests, and the reference semantics."""
