"""Calls of jitted functions: from the arguments of a call to machine code, through Python if necessary.

Imports all layers except the public modules.  The compiler (``jitad/compiler.py``) generates the code that is called.

Files, in reading order::

    handle       a jitted function before its first call
    jitted       what it offers besides calls: attributes, methods of objects, pickles
    signature    the signature of a call: types of its leaves, constants, structure
    parameters   the parameters of the called function
    compiled     machine code for one signature, its entry points and guards
    entry_chain  the entry points that a call tries, in order
    dispatch     the Python side of a jitted function: look-up, compilation, conversion
"""
