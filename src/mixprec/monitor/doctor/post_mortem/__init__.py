"""One incident on a page: what was seen, what was done, what it cost, and what is to be done now."""

from ._post_mortem import PostMortem, post_mortem

__all__ = ["PostMortem", "post_mortem"]
