"""Libraries that are built ahead of time, called from C, C++, Fortran and Python."""
