"""Puts the oracles on the path: slow, obvious programs that the fast ones are compared with."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "oracles"))
