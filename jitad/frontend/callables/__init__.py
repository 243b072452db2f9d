"""Objects that can be called in traced code and outside: the base of transforms, and functions with rules.

Imports ``objects`` and ``values``.  Outside traced code, a call is compiled (``traceable.register``).

Files, in reading order::

    traceable      callables that are traced inside compiled code and compile outside
    custom         ``custom_vjp`` and ``custom_jvp``
    trampolines    Python functions that are traced around the user's functions
    compile_cache  compiled code of a function
"""
