"""The commands of ``python -m jitad``; one module a command, in the order of ``main.COMMANDS``.

``main``            parses the command line, imports the command that it names, and runs it
``failures``        the error of which only the message is printed
``functions``       arguments that several commands take: a function, its derivative, its signature
``text``            files of IR text as arguments
``inspect``         prints a stage of the compilation
``run``             calls a function with Python literals
``verify``          compiles, and verifies the IR after every stage
``opt``             runs passes on a file of IR
``build``           compiles functions to a library with a C interface
``cache``           describes or empties the disk cache

To add a command: one line in ``main.COMMANDS``, and a module of that name with ``arguments(parser)`` and
``run(options)``.  Nothing but ``jitad.__main__`` imports this folder; it may import all of jitad.
"""
