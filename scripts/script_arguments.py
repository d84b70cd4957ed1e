"""Arguments of the scripts of this folder."""
import argparse
import os
import pathlib

# Reference checkpoints, and the program that runs llama.cpp: beside this repository, or elsewhere.
SHARED = pathlib.Path(os.environ.get("CRIA_SHARED") or pathlib.Path(__file__).resolve().parents[2] / "shared").resolve()


def one_line(message):
    return "".join(c if c.isprintable() else "?" for c in str(message))


class OneLineParser(argparse.ArgumentParser):
    """What is wrong is said in one line, as the programs do, with exit code 2; how to call the script, by --help alone."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, f"{pathlib.Path(self.prog).stem}: {one_line(message)}; see --help\n")

    def add_check(self):
        """For scripts/run_built.sh: a script with --check ends once it has read its arguments."""
        self.add_argument("--check", action="store_true", help="look at these arguments only, before anything is built")


# Types of arguments, for argparse.


def number(least, most):
    """A whole number of a range."""
    def number_of(text):
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
        return int(text)
    return number_of


def numbers(least, most):
    """Numbers with commas; each once, in the order of the text."""
    return lambda text: list(dict.fromkeys(number(least, most)(word) for word in text.split(",")))


def file_name(text):
    if not text:
        raise argparse.ArgumentTypeError("an empty text names no file")
    return pathlib.Path(text)


def existing(text):
    """A file or folder that is there, as an absolute path."""
    path = file_name(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{path} is not there")
    return path.resolve()


def is_program(path):
    return path.is_file() and os.access(path, os.X_OK)


def program(text):
    path = file_name(text).absolute()
    if not is_program(path):
        raise argparse.ArgumentTypeError(f"{path} is no program")
    return path


def output_file(text):
    """A file to write at the end, or again and again: what would prevent it is found out before anything is measured, and
    without leaving an empty file then. A link stays, what it leads to is written; a device or pipe would be replaced."""
    path = file_name(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise argparse.ArgumentTypeError(f"{path} is no regular file; name another")
    path = path.resolve()
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise argparse.ArgumentTypeError(f"cannot write {path}; choose another folder or file")
    return path
