"""IR to machine code.

``module`` lowers the functions that the roots reach, ``function`` one of them: ``control`` has blocks and
terminators, ``polling`` interrupts, ``ops`` the table of scalar ops, ``arrays`` (and the files it names) what has
arrays; ``memory``, ``places``, ``stack`` and ``runtime`` are about where arrays and frames live.  ``emit`` writes
LLVM's text, ``types`` says how values look there.  ``cpu`` makes native code of it and ``nvptx`` PTX; ``pycall`` and
``callable`` are how Python calls it.
"""
