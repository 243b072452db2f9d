"""Random well-typed Python programs, the properties that are checked, and the reduction of failures.

    constructs/     the tables of constructs, one entry per construct, and their language (grammar.py)
    generate.py     a program from a seed
    plain.py        derivatives by differences, for CPython;  captured.py  restores captured objects
    check.py        the verdict on a program;  slopes.py  on its derivatives;  otherwise.py  compiled in other ways
    comparing.py compare.py values.py   agreement of two values
    shrink.py       a smaller program with the same verdict
    pool.py         worker processes;  coverage.py  counts of constructs and outcomes
    campaign.py     a run: seeds in, findings out;  __main__.py  `make fuzz`
    planted.py      bugs that a run must find
"""
