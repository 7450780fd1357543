"""Print the handbook's pages as one HTML page; `sdc docs`, once installed, adds every command, verb and key."""

from __future__ import annotations

import argparse
import sys

from sdc.handbook import handbook

argparse.ArgumentParser(prog="python -m sdc.handbook", description=__doc__).parse_args()
sys.stdout.buffer.write(handbook().encode())
