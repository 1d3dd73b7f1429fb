"""The extension belongs to these sources: a stale one would take addresses for what they are not, and abort."""

from __future__ import annotations

from . import _native

#: Raised with every change of what a function of the extension takes or gives; the same number is in csrc/bind.
BINDINGS = 3


def check_bindings(found: int) -> None:
    """Refuse an extension that was compiled from other sources; 0: from those before there was a number.

    Raises:
        ImportError: saying how to compile it again.
    """
    if found != BINDINGS:
        raise ImportError(
            f"mixprec's compiled extension has bindings {found}, and its Python sources expect {BINDINGS}: it was "
            "compiled from another version; compile it again: pip install --no-deps --force-reinstall mixprec, or "
            "pip install --no-deps --no-build-isolation -e . in a checkout"
        )


check_bindings(getattr(_native, "BINDINGS", 0))
