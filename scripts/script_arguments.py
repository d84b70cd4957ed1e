"""Arguments of the scripts of this folder."""
import argparse
import pathlib


class OneLineParser(argparse.ArgumentParser):
    """What is wrong is said in one line, as the programs do, with exit code 2; how to call the script, by --help alone."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, f"{pathlib.Path(self.prog).stem}: {message}; see --help\n")
