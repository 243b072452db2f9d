"""Objects that are called in traced code and outside: the base of transforms, and functions with rules.

Imports ``objects`` and ``values``; outside traced code what is called is compiled (``traceable.register``).

Files, in reading order::

    traceable      callables that trace inside and compile outside
    custom         ``custom_vjp`` and ``custom_jvp``
    trampolines    programs that are traced around the user's functions
    compile_cache  what has been compiled from a function
"""
