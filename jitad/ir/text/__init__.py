"""The text form of modules; ``print_module(parse_module(text)) == text`` for every printed text."""

from .lexer import ParseError
from .parser import parse_module
from .printer import FunctionPrinter, print_function, print_module

__all__ = ["FunctionPrinter", "ParseError", "parse_module", "print_function", "print_module"]
