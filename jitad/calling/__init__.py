"""Calls of jitted functions: from the arguments of a call to machine code, by way of Python where that is needed.

Imports all layers but the public face.  The compiler (``jitad/compiler.py``) makes the code that is called here.

Files, in reading order::

    signature    the signature of a call: types of its leaves, constants, structure
    parameters   the parameters of the function that is called
    compiled     machine code for one signature, its entry points and guards
    entry_chain  the entry points that calls go through, in order
    dispatch     the Python side of a jitted function: look-up, compilation, conversion
"""
