"""From a Python function and argument types to IR, by tracing with virtualised control flow."""
