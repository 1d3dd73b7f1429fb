"""``python -m mixprec.compare.processes FOLDER``: one run of a comparison, as the comparison itself starts it."""

import sys
from pathlib import Path

from ._worker import work

if __name__ == "__main__":
    work(Path(sys.argv[1]))
