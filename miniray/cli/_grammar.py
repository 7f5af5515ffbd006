"""The grammar that all commands share.

    miniray COMMAND [words and options of the command] [-- script.py [its words]]
    miniray COMMAND [words and options of the command] [-- -m module [its words]]

An error shows the usage of the command, says which words were not understood, and proposes similar ones.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from typing import Any, NoReturn

_CHOICES = re.compile(r"invalid choice: '?([^']*?)'? \(choose from (.*)\)", re.S)


def similar(word: str, known: list[str]) -> str:
    """`; did you mean X?` if one of the known words is similar, otherwise ""."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


class Command(argparse.ArgumentParser):
    """The parser of a command. With `takes_program`, the words after `--` are stored in `args.program`.

    They are cut off before argparse sees the rest: it would take the script's options for the command's own.
    """

    takes_program = False
    late_words = ""  # the argument that also takes words that come after options

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse, but words that were not understood are an error of this command."""
        words = list(sys.argv[1:] if args is None else args)
        program: list[str] = []
        if self.takes_program and "--" in words:
            at = words.index("--")
            words, program = words[:at], words[at + 1 :]
            if not program:
                self.error("name a script, or a module with -m, after --")
            if program == ["-m"]:
                self.error("name a module after -m")
        namespace, rest = super().parse_known_args(words, namespace)
        if self.late_words and not any(word.startswith("-") or word.endswith(".py") for word in rest):
            getattr(namespace, self.late_words).extend(rest)
            rest = []
        if rest:
            self.error(self._about(rest))
        if self.takes_program:
            namespace.program = program
        return namespace, rest

    def _about(self, rest: list[str]) -> str:
        text = f"unrecognized arguments: {' '.join(rest)}"
        if self.takes_program and (rest[0].endswith(".py") or os.path.isfile(rest[0])):
            return f"{text}; put -- before the script: {self.prog} ... -- {' '.join(rest)}"
        if self.takes_program and rest[0] == "-m":
            return f"{text}; put -- before the module: {self.prog} ... -- {' '.join(rest)}"
        options = [name for action in self._actions for name in action.option_strings]
        return text + similar(rest[0].partition("=")[0], options)

    def error(self, message: str) -> NoReturn:
        """As in argparse, with a proposal if a word is similar to one of the choices."""
        found = _CHOICES.search(message)
        if found is not None:
            message += similar(found[1], [word.strip().strip("'") for word in found[2].split(",")])
        super().error(message)
