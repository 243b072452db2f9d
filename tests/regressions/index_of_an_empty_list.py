"""An empty list indexed at run time failed while tracing, on a path that is not taken."""


def main(x, n):
    if x < 1.0:
        places = []
        x = places[n % 2]
    elif x < 2.0:
        places = ()
        x = x * places[n]
    return x * x


INPUTS = [(2.5, 1), (0.5, 1), (1.5, 0)]
