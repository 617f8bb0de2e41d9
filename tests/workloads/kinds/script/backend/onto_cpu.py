"""Runs one of accelerate's own test scripts on CPUs, where its launcher would say so by an argument."""

import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

from accelerate import PartialState

PartialState(cpu=True)
scripts = Path(find_spec("accelerate").origin).parent / "test_utils" / "scripts"
runpy.run_path(str(scripts / sys.argv[1]), run_name="__main__")
