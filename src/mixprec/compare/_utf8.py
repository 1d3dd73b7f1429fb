"""Text of a user's file, or the byte that is none."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path


def utf8_text(content: bytes, path: Path) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        ValueError: it is not UTF-8; the message names the byte and its offset, and says what to do.

    Example:
        >>> utf8_text("größer".encode(), Path("a.txt"))
        'größer'
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(error, "UTF-8", path) from None


def check_source(content: bytes, path: Path) -> None:
    """Refuse what Python cannot read as source: UTF-8, unless its first lines declare another encoding.

    Raises:
        ValueError: bytes that are not of its encoding, or an encoding that does not exist.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except SyntaxError as error:
        if "unknown encoding" in str(error):
            raise ValueError(f"{path} declares an encoding that Python does not know: {error}") from None
        encoding = "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise _not_text(error, "UTF-8" if encoding.startswith("utf-8") else encoding, path) from None
    if "\0" in text:
        raise ValueError(f"{path} is not Python source: byte 0x00 at offset {content.index(0)}; is it a UTF-16 file?")


def _not_text(error: UnicodeDecodeError, encoding: str, path: Path) -> ValueError:
    return ValueError(
        f"{path} is not {encoding} text: byte 0x{error.object[error.start]:02x} at offset {error.start}; "
        f"convert it first, e.g. `iconv -f latin1 -t utf-8 {path}`"
    )
