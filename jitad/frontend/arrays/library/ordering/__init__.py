"""Sorting, searching, heaps, queues, ranks, quantiles, sets, histograms.

Files, in reading order::

    sorting        merge sort
    searching      search in sorted arrays
    ranking        elements of given ranks
    quantiles      medians, quantiles, percentiles
    sets           ``np.unique`` and set operations
    histograms     counts and sums by bin
    ordered_lists  ``heapq`` and ``bisect``
    deques         ``collections.deque``
"""
