"""Objects of recursive dataclasses as columns: an array for each field.

The bottom of the front end: it knows nothing of the trace, and serves callers of compiled functions too.

Files, in reading order::

    recursive_types  families of classes that refer to one another
    layouts          columns of a family: an array for each field
    to_columns       objects to columns
    list_columns     long lists as columns
    pack             columns to objects; ``jitad.pack``
    gc_pause         no cycle collection meanwhile
"""
