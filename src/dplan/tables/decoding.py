"""The bytes of a text file as UTF-8: decompressed, and decoded from the encoding that is given or detected."""

from __future__ import annotations

import codecs
import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile
else:
    from backports.zstd import ZstdError, ZstdFile

__all__ = ["AUTO", "TextFile", "uncompressed_name"]

AUTO = "auto"  # detect the encoding

_COMPRESSED = (".gz", ".zst")
_FALLBACK = "cp1252"  # of Western Windows; identical with Latin-1 except for 32 control characters
_SEQUENCE = re.compile(
    rb"[\xc2-\xf4][\x80-\xbf]"
)  # of UTF-8; hardly ever in Western text of one byte per sign
_BLOCK = 1 << 24  # bytes read at a time
_MAX_BLANK = 1 << 26  # bytes of consecutive empty lines


def uncompressed_name(name: str) -> str:
    """Return a file name in lower case, without the suffix of a compression.

    Examples
    --------
    >>> uncompressed_name("T.CSV.zst")
    't.csv'
    """
    lower = name.lower()
    return next((lower.removesuffix(end) for end in _COMPRESSED if lower.endswith(end)), lower)


class TextFile:
    r"""A text file, read once as blocks of UTF-8.

    Parameters
    ----------
    source : path or binary file
        The file; a path that ends in ``.gz`` or ``.zst`` is decompressed.
    name : str
        Name for messages.
    encoding : str
        Its encoding, or "auto": a byte order mark decides; otherwise UTF-16 is recognised by its zeros, and a file that
        is not UTF-8 is read as cp1252.

    Attributes
    ----------
    name : str
        Name for messages.
    encoding : str
        The encoding found so far.
    has_mark : bool
        Whether the file starts with a byte order mark.

    Examples
    --------
    >>> import io
    >>> file = TextFile(io.BytesIO("a,b\n1,é\n".encode("cp1252")), "t.csv", AUTO)
    >>> b"".join(file.blocks()).decode(), file.encoding
    ('a,b\n1,é', 'cp1252')
    """

    def __init__(self, source: Path | BinaryIO, name: str, encoding: str) -> None:
        if encoding != AUTO:
            try:
                codecs.getincrementaldecoder(encoding)
                b" ".decode(encoding, "ignore")  # rejects codecs that are not text encodings, such as zlib
            except LookupError:
                raise ValueError(f"unknown encoding {encoding!r}; try utf-8, utf-16 or cp1252") from None
        self._source, self.name, self._detects = source, name, encoding == AUTO
        self.encoding, self.has_mark = encoding, False
        self._size = source.stat().st_size if isinstance(source, Path) else 0
        self._opened: BinaryIO | None = None

    def share(self) -> float | None:
        """Return the fraction of the file that has been read, if its size is known."""
        if self._opened is None or not self._size:
            return None
        return 1.0 if self._opened.closed else self._opened.tell() / self._size

    def blocks(self, *, may_be_empty: bool = False) -> Iterator[bytes]:
        """Yield blocks of UTF-8, without a byte order mark and trailing line breaks."""
        lines, held, empty = 0, b"", True
        for text in self._texts():
            if "\0" in text:
                line = lines + text.count("\n", 0, text.index("\0")) + 1
                raise ValueError(
                    f"{self.name}, line {line}: null byte, so this is not a text file; check the file name"
                )
            data = held + text.encode()
            lines += text.count("\n")
            body = data.rstrip(b"\r\n")
            held = data[len(body) :]
            empty = empty and not body.strip()
            if len(held) > _MAX_BLANK:
                raise ValueError(
                    f"{self.name} contains more than {_MAX_BLANK >> 20} MB of empty lines up to line {lines}"
                )
            if body:
                yield body
        if empty and not may_be_empty:
            raise ValueError(f"{self.name} is empty; expected a header line and rows")

    def _texts(self) -> Iterator[str]:
        """Yield the decoded blocks."""
        decoder: codecs.IncrementalDecoder | None = None
        lines = size = 0
        ascii_so_far = True
        for block in self._bytes():
            if decoder is None:
                self.has_mark = block.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                if self._detects:
                    self.encoding = _detected(block)
                decoder = codecs.getincrementaldecoder(self.encoding)()
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                pending: bytes = error.object
                decoder = codecs.getincrementaldecoder(_FALLBACK)()
                # With UTF-8 before it, this is a damaged file and not one in another encoding.
                plain = ascii_so_far and pending[: error.start].isascii()
                if not (self._detects and self.encoding == "utf-8" and plain and _readable(pending)):
                    line = lines + pending.count(b"\n", 0, error.start) + 1
                    byte = size + len(block) - len(pending) + error.start + 1
                    wrong = f"0x{pending[error.start]:02x}"
                    raise ValueError(
                        f"{self.name}, line {line}, byte {byte:,} of the file: {wrong} is not valid {self.encoding}; "
                        "save the file as UTF-8, or pass its encoding (--encoding), such as cp1252"
                    ) from error
                self.encoding, text = _FALLBACK, decoder.decode(pending, final=not block)
                self._check_not_mixed(pending, lines)
            else:
                if self._detects and self.encoding == _FALLBACK:
                    self._check_not_mixed(block, lines)
            ascii_so_far = ascii_so_far and text.isascii()
            lines, size = lines + text.count("\n"), size + len(block)
            yield text.removeprefix("\ufeff") if size == len(block) else text

    def _check_not_mixed(self, block: bytes, before: int) -> None:
        """Raise an error if a line of a file that is not UTF-8 is UTF-8: files put together can be like that."""
        end = 0
        for found in _SEQUENCE.finditer(block):
            if found.start() < end:
                continue  # in a line that was looked at
            begin = block.rfind(b"\n", 0, found.start()) + 1
            end = (block.find(b"\n", found.end()) + 1) or len(block)
            try:
                block[begin:end].decode()
            except UnicodeDecodeError:
                continue
            line = before + block.count(b"\n", 0, begin) + 1
            raise ValueError(
                f"{self.name}, line {line} is UTF-8, but other lines are not; save the file in one encoding, or pass "
                f"the one to read all of it with (--encoding), such as {_FALLBACK}"
            )

    def _bytes(self) -> Iterator[bytes]:
        """Yield the bytes of the file, decompressed; the last block is empty."""
        source = self._source
        self._opened = opened = source.open("rb") if isinstance(source, Path) else source
        try:
            file, name = opened, source.name.lower() if isinstance(source, Path) else ""
            if name.endswith(".gz"):
                file = cast(BinaryIO, gzip.GzipFile(fileobj=opened))
            elif name.endswith(".zst"):
                file = cast(BinaryIO, ZstdFile(opened))
            while block := file.read(_BLOCK):
                yield block
            yield b""
        except (EOFError, zlib.error, gzip.BadGzipFile, ZstdError) as error:
            kind = "zstd" if name.endswith(".zst") else "gzip"
            raise ValueError(f"{self.name} is a damaged {kind} file: {error}") from error
        finally:
            if isinstance(source, Path):
                opened.close()


def _detected(start: bytes) -> str:
    """Return the encoding that the first bytes of a file suggest.

    Examples
    --------
    >>> _detected("a,b".encode("utf-16")), _detected("a,b".encode("utf-16-le")), _detected(b"a,b")
    ('utf-16', 'utf-16-le', 'utf-8')
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    some = start[:1000]
    even, odd = some[::2].count(0), some[1::2].count(0)
    if even == 0 and odd > len(some) / 4:
        return "utf-16-le"
    if odd == 0 and even > len(some) / 4:
        return "utf-16-be"
    return "utf-8"


def _readable(text: bytes) -> bool:
    try:
        text.decode(_FALLBACK)
    except UnicodeDecodeError:
        return False
    return True
