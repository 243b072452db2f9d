"""Captured state: what a program reads that is no argument of it (globals, closure cells, attributes), and guards.

Imports ``columns`` alone.

Files, in reading order::

    places           access paths from which captured state is read
    guards           what held there when a program was compiled
    contents         the contents of an object, to be compared
    user_classes     classes whose objects are taken apart
    attribute_names  the attributes that a function may read
    captures         what one program has read so far
"""
