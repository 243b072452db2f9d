"""Linear algebra and series.

Files, in reading order::

    solving           ``numpy.linalg`` by triangular factorisation
    factorisations    Cholesky, LU and solves, with derivatives of their own
    stacked_products  products of stacks of vectors and matrices
    covariance        ``np.cov``, ``np.corrcoef``
    convolutions      ``np.convolve``, ``np.correlate``
    polynomials       ``np.poly…``
    differences       ``np.gradient``, ``np.unwrap``, …
    window_functions  ``np.i0`` and windows of signal processing
"""
