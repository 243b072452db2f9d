"""Choices: the smallest or largest of what the iterations of a loop compute, and the iteration that it comes from.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    last_choice          the iteration from which a chosen value comes, before differentiation
    chosen_iteration     its copy of that iteration
    choice_sources       which of several values was chosen last, of loops that data end and around other choices
    undefined_arguments  parameters that are the same wherever both are defined
    unread_choices       the carried value instead, where nothing else needs the iteration, after differentiation
    extreme_places       where smallest and largest values are, looked for in a loop behind
    extreme_reductions   smallest and largest values as reductions, which become vectors
"""
