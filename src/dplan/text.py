"""Make text from files and tables safe and short, for messages, terminals and pages."""

__all__ = ["first_line", "one_line", "printable", "shortened", "shown", "visible"]

_QUOTED = 60  # characters of a value in a message
_MESSAGE = 300  # characters of a message that may quote a file
_VALUE = 500  # characters of a value on a page
_ON_PAGES = "\n\t\xa0\u2007\u202f\u200c\u200d"  # line breaks, no-break spaces and joiners do no harm there


def shortened(text: str, most: int) -> str:
    """Return text of at most this many characters; an ellipsis stands for the rest.

    Examples
    --------
    >>> shortened("Nuremberg", 5), shortened("Essen", 5)
    ('Nure…', 'Essen')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str, *, keep: str = "") -> str:
    r"""Escape control and direction characters, which a terminal or a page would interpret, except those to keep.

    Examples
    --------
    >>> printable("a\x1b[2Jb\nc\u202ed–é")
    'a\\x1b[2Jb\\nc\\u202ed–é'
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """Return a value for a message: quoted, with control characters escaped, and shortened.

    Examples
    --------
    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'"
    """
    return repr(_cut(value, _QUOTED) if isinstance(value, str) else value)


def one_line(message: object) -> str:
    r"""Return a message that may quote a file on one line, shortened and without control characters.

    Examples
    --------
    >>> print(one_line("there is no 'a\nb'"))
    there is no 'a\nb'
    """
    return printable(_cut(str(message), _MESSAGE))


def first_line(error: object) -> str:
    r"""Return the first line of another library's message; the others are its advice.

    Examples
    --------
    >>> first_line(ValueError("no such column\n\nHint: check the spelling"))
    'no such column'
    """
    return (str(error).splitlines() or [""])[0]


def visible(text: str, most: int = _VALUE) -> str:
    r"""Return text for a page: control and direction characters are escaped, and long text says how long it is.

    Examples
    --------
    >>> visible("a\u202eb\x00"), visible("word " * 1000, most=10)
    ('a\\u202eb\\x00', 'word word … (5,000 characters)')
    """
    safe = printable(text[:most], keep=_ON_PAGES)
    return safe if len(text) <= most else f"{safe.rstrip()} … ({len(text):,} characters)"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
