"""Objects of recursive dataclasses as columns: one array for each field.

This is the bottom of the front end: it does not depend on the trace, and also serves callers of compiled functions.

Files, in reading order::

    recursive_types  families of classes that refer to one another
    inferred_types   the same for classes that are no dataclasses
    layouts          columns of a family: one array for each field
    to_columns       objects to columns
    list_columns     long lists as columns
    pack             columns to objects; ``jitad.pack``
    gc_pause         no garbage collection during conversion
"""
