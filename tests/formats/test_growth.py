"""A new format is one literal: everything that takes a name takes it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from mixprec.formats import Format, decode, describe, encode, register, round
from mixprec.specs import parse_cast

register(Format(name="mine", exponent_bits=3, mantissa_bits=4, bias=3, has_infinity=False, nan="none", max_value=31.0))
register(Format(name="ours", kind="table", exponent_bits=0, mantissa_bits=0, bias=0, has_infinity=False, nan="none",
                max_value=1.0, has_negative_zero=False, values=(0.0, 0.5, 1.0, -1.0)))
assert round("mine", 30.4) == 30.0
assert decode("mine", encode("mine", 0.25)) == 0.25
assert describe("mine").largest == 31.0
assert [round("ours", x) for x in (0.2, -0.4, -9.0)] == [0.0, 0.0, -1.0]
assert decode("ours", encode("ours", 0.6)) == 0.5
assert str(parse_cast("ours[1x64:fp32]")) == "ours[1x64:fp32]"
assert str(parse_cast("mine[1x32:e8m0] rceil")) == "mine[1x32:e8m0] rceil"
"""


def test_a_new_format_is_one_literal():
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
