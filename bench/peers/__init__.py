"""The competitors: how their programs are compiled, called and checked."""
