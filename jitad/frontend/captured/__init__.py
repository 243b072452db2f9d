"""Captured state and guards.

*Captured state* is all that a program reads besides its arguments: globals, closure cells, attributes, elements of
captured containers.  A *guard* is a condition on captured state under which a compiled program is valid; calls test it.

Imports ``columns`` and ``ir.types`` only.

Files, in reading order::

    options          the options of ``jit``
    leaves           the types of arguments and captured values
    places           access paths of captured values
    guards           the conditions on captured state under which a program is valid
    contents         snapshots of objects, for comparison
    array_classes    classes of arrays
    user_classes     classes of the user, and those whose objects are read field by field
    attribute_names  the attributes that a function may read
    captures         the captured state that one program has read so far
"""
