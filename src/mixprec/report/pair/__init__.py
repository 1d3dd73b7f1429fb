"""Two runs side by side: what differs in their settings, then their figures."""

from ._pair_page import PairPage, make_pair_page

__all__ = ["PairPage", "make_pair_page"]
