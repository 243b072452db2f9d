"""Random well-typed Python programs, what must hold of each, and how a failure is made small.

    grammar.py      the language of the tables of constructs
    numbers.py edges.py narrow.py arrays.py nests.py control.py functions.py data.py objects.py derivatives.py
                    the tables: one entry a construct
    features.py     which constructs the compiler has
    generate.py     a program from a seed
    plain.py        derivatives by differences, for CPython;  captured.py  what they put back
    check.py        the verdict on a program;  slopes.py  on its derivatives;  otherwise.py  compiled in other ways
    comparing.py compare.py values.py   when two values agree
    shrink.py       a smaller program with the same verdict
    pool.py         worker processes;  coverage.py  what was generated and what came of it
    campaign.py     a run: seeds in, findings out;  __main__.py  `make fuzz`
    planted.py      bugs that a run must find
"""
