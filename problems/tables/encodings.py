"""The encoding of a text file: stated, or told by its first bytes, or else UTF-8 or Windows-1252, which is said.

A byte order mark leaves no doubt. Without one a file whose every other byte is zero is UTF-16. What is no UTF-8 is read
as Windows-1252 (cp1252), the encoding of spreadsheets of western languages, in which nearly all bytes are letters: that
is a guess, and a remark names the option that decides.
"""

import codecs

from substrate.errors import DataError

__all__ = ["decode_text"]

#: Byte order marks, the longer ones first, since that of UTF-32 begins like one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Bytes that are looked at, and the share of zeros among every other of them that is UTF-16.
_LOOKED_AT, _MANY = 4096, 0.4


def decode_text(name: str, content: bytes, encoding: str | None = None) -> tuple[str, str]:
    """Return the text of a file, and a remark on its encoding, which is empty for UTF-8."""
    if encoding is not None:
        try:
            text = content.decode(codecs.lookup(encoding).name)
        except LookupError as error:
            raise DataError(
                f"--encoding {encoding} is none that Python has; it has utf-8, cp1252, utf-16, latin-1 and others"
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name} is not in the encoding {encoding}: byte {error.start + 1}, {content[error.start]:#04x}, has "
                "no meaning in it; give another --encoding, or leave it out"
            ) from error
        _refuse_narrow(name, content, encoding)
        return text, ""
    marked = next((found for mark, found in _MARKS if content.startswith(mark)), None)
    if marked is not None:
        return _decode_marked(name, content, marked)
    if (wide := _wide(content)) is not None:
        return content.decode(wide, "replace"), f"encoding: {wide}, since every other byte is zero (--encoding, if not)"
    try:
        return content.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        place = error.start
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} is text in no encoding that is recognised (byte {place + 1} is no UTF-8, byte {error.start + 1} "
            "no Windows-1252); name it by --encoding, or save the table again as CSV (UTF-8)"
        ) from error
    line = content.count(b"\n", 0, place) + 1
    return text, f"encoding: cp1252 (Windows), since line {line} is no UTF-8 (--encoding, if not)"


def _refuse_narrow(name: str, content: bytes, encoding: str) -> None:
    """Refuse to read bytes of one letter each as letters of two or four: commas and line ends, of which a table is
    made, have zeros there.
    """
    if 0 in ",".encode(encoding) and content and 0 not in content:
        raise DataError(f"{name} is not in the encoding {encoding}: none of its bytes is zero; leave --encoding out")


def _decode_marked(name: str, content: bytes, encoding: str) -> tuple[str, str]:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name} begins with the byte order mark of {encoding} and is damaged from byte {error.start + 1} on; save "
            "it again as CSV (UTF-8)"
        ) from error
    return text, "" if encoding == "utf-8-sig" else f"encoding: {encoding}, by its byte order mark"


def _wide(content: bytes) -> str | None:
    """Return the order of the bytes of UTF-16 without a mark, or None."""
    first = content[:_LOOKED_AT]
    half = max(len(first) // 2, 1)
    if len(first) < 2 or len(content) % 2:
        return None
    if first[1::2].count(0) > _MANY * half and not first[0::2].count(0):
        return "utf-16-le"
    return "utf-16-be" if first[0::2].count(0) > _MANY * half and not first[1::2].count(0) else None
