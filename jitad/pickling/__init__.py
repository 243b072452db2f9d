"""Pickles of jitted functions and of what jitad makes from functions.

What an importable module has under its qualified name is pickled by reference.  All else (lambdas, closures, what
``__main__`` defines, results of ``jit`` and of the transforms) is pickled by value, as ``cloudpickle`` does for plain
functions: as a call of ``load`` with bytes that a pickler of this folder wrote.  So any pickler can write them, that of
the standard library included.  Compiled code is not pickled: the first call of the loaded function compiles it.

Files, in reading order::

    places      qualified names under which importable modules have an object
    functions   Python functions by value: code, source, cells, the globals that they read
    reducers    the pickler: functions, what has ``_reduce_by_value``, classes of ``__main__``
    travel      ``reduced`` and ``Value``, which write an object; ``load`` and ``read``, which read it

Imports ``frontend.syntax`` and ``errors``.  ``api`` imports ``travel`` when something is pickled.
"""
