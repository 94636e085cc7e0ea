"""The allocators and operations whose bounds ci/targets.py and ci/cycles.py take."""

import pathlib
import re

# Functions of ci/no_std end in these words.
OPERATIONS = {"allocate": "allocate", "aligned": "allocate aligned", "deallocate": "deallocate"}


def names():
    """The allocators of the library's table that the laboratory has: names in code, and on the command line."""
    table = pathlib.Path("crates/rtalloc/src/allocators.rs").read_text()
    entries = re.findall(r'^ {12}(\w+), "([\w-]+)": (.*?)^ {12}\}', table, re.M | re.S)
    return {code: command for code, command, entry in entries if "laboratory:" in entry}
