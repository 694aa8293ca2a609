"""What is wrong with a success, as others than the program see its input: Python's own json, csv, zlib and zstandard.

Each function gets the input and what was written, both as bytes, and returns a complaint or "".
"""

from __future__ import annotations

import csv
import json
import math
import zlib
from itertools import groupby
from typing import Any

import zstandard
from program import decompressed


class Damaged(Exception):
    """An input of which no success should have been made."""


def content(data: bytes) -> bytes:
    """Returns what frames hold, or plain bytes; raises `Damaged` where they do not end at the end of a frame."""
    whole, is_plain = b"", True
    while data and (decoder := _decoder(data)):
        is_plain = False
        try:
            whole += decoder.decompress(data)
        except (zlib.error, zstandard.ZstdError) as error:
            raise Damaged(str(error)) from None
        if not decoder.eof:
            raise Damaged("a frame without an end")
        data = decoder.unused_data
    if data and not is_plain:
        raise Damaged("bytes of no frame")
    return whole + data


def size(data: bytes) -> int:
    """Returns how many bytes a command has of an input, up to where it is damaged; no more than a gigabyte."""
    total, decoder = 0, _decoder(data)
    for start in range(0, len(data), 256) if decoder else ():
        try:
            total += len(decoder.decompress(data[start : start + 256]))
        except Exception:  # of whichever library
            break
        if decoder.eof or total > 1 << 30:
            break
    return max(total, len(data))


class _Skipped:
    def decompress(self, data: bytes) -> bytes:
        end = 8 + int.from_bytes(data[4:8], "little")
        self.eof, self.unused_data = len(data) >= max(8, end), data[end:]
        return b""


def _decoder(data: bytes) -> Any:
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31)
    return _Skipped() if data[:1] in b"PQRSTUVWXYZ[\\]^_" and data[1:4] == b"\x2a\x4d\x18" else None


def text(data: bytes) -> str:
    """Returns what an input holds as text with LF at its lines' ends; raises `Damaged` where it is no UTF-8."""
    try:
        return "\n".join(
            line.removesuffix("\r") for line in content(data).removeprefix(b"\xef\xbb\xbf").decode().split("\n")
        )
    except UnicodeDecodeError as error:
        raise Damaged(str(error)) from None


def parsed(line: str) -> Any:
    """Returns a JSON value; raises `Damaged` for one that is none, or cannot be written as UTF-8."""

    def refuse(name: str) -> Any:
        raise Damaged(name)

    try:
        value = json.loads(line, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise Damaged(str(error)) from None
    except RecursionError:
        return {}
    return value


def is_blank(line: str) -> bool:
    return not line.encode() or line.encode().isspace()


def records(data: bytes) -> list[dict[str, Any]] | None:
    """Returns the records of a stream, None where it is lines of text; raises `Damaged`."""
    lines = [line for line in text(data).split("\n") if not is_blank(line)]
    if lines and not lines[0].lstrip().startswith("{"):
        return None
    found = [parsed(line) for line in lines]
    if not all(isinstance(each, dict) for each in found):
        raise Damaged("no object")
    return found


# -- successes ------------------------------------------------------------------------------------------------------


def nothing(data: bytes, out: bytes) -> str:
    """Returns no complaint: whether numbers are the right ones cannot be told by looking at them."""
    return "" if out else "nothing was written"


def is_text(data: bytes, out: bytes) -> str:
    text(data)
    return ""


def lines_are_valid(data: bytes, out: bytes) -> str:
    return "text is no record" if records(data) is None else ""


def one_each(data: bytes, out: bytes) -> str:
    return _count(out, len(records(data) or []))


def valid_or_text(data: bytes, out: bytes) -> str:
    records(data)
    return ""


REPLACED = {"tokens", "ids", "offsets", "prediction", "details", "vectors", "masked_positions", "masked_tokens"}


def added(data: bytes, out: bytes) -> str:
    """Returns a complaint unless each record came out with all that it had."""
    given = records(data)
    made = [json.loads(line) for line in decompressed(out).splitlines()]
    if given is None:
        given = [{"text": line} for line in text(data).split("\n") if not is_blank(line)]
    if len(given) != len(made):
        return f"{len(given)} records became {len(made)}"
    for before, after in zip(given, made, strict=True):
        kept = {name: value for name, value in before.items() if name not in REPLACED}
        if any(name not in after or after[name] != value for name, value in kept.items()):
            return "a field was changed"
    return ""


def text_lines(data: bytes, out: bytes) -> str:
    return _count(out, sum(bool(line.strip()) for line in text(data).split("\n")))


def documents(data: bytes, out: bytes) -> str:
    """Returns a complaint unless there is a record a document, or one for the whole file."""
    blocks = groupby(text(data).split("\n"), key=lambda line: bool(line.strip()))
    count = sum(has_text for has_text, _ in blocks)
    return _count(out, count) and _count(out, min(count, 1))


def sentences(data: bytes, out: bytes) -> str:
    """Returns a complaint unless there is a record a sentence, or one a document at most."""
    lines = [line.strip(" \t") for line in text(data).split("\n")]
    kinds = ["" if not line or line.replace("\t", " ").split(" ")[0] == "-DOCSTART-" else "row" for line in lines]
    count = sum(kind == "row" for kind, _ in groupby(kinds))
    return "" if len(decompressed(out).splitlines()) <= count and (count == 0) == (not out_lines(out)) else "sentences"


def out_lines(out: bytes) -> list[bytes]:
    return decompressed(out).splitlines()


def rows(data: bytes, out: bytes) -> str:
    """Returns a complaint unless there is a record a line, but for a header."""
    count = sum("\t" in line or not is_blank(line) for line in text(data).split("\n"))
    return _count(out, count) and _count(out, max(0, count - 1))


def quoted_rows(data: bytes, out: bytes) -> str:
    """Returns a complaint unless Python's csv finds as many rows."""
    whole = text(data)
    csv.field_size_limit(1 << 30)
    try:
        found = [row for row in csv.reader((f"{line}\n" for line in whole.split("\n")), strict=True) if row]
    except csv.Error as error:
        return "" if "\r" in whole else f"csv: {error}"
    count = sum(len(row) > 1 or not is_blank(row[0]) for row in found)
    return _count(out, max(0, count - 1)) and _count(out, max(0, len(found) - 1))


def json_of_any(data: bytes, out: bytes) -> str:
    """Returns a complaint unless the whole is a JSON document."""
    whole = text(data)
    if not is_blank(whole.replace("\n", "")):
        parsed(whole)
    return ""


def squad(data: bytes, out: bytes) -> str:
    whole = text(data)
    if is_blank(whole.replace("\n", "")):
        return _count(out, 0)
    questions = [
        question
        for article in parsed(whole).get("data", [])
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    return _count(out, len(questions))


def scored(data: bytes, out: bytes) -> str:
    """Returns a complaint unless there is one object of finite numbers that counts all records."""
    given, found = records(data), parsed(out.decode())
    if found.get("total", found.get("pairs")) not in (len(given or []), None):
        return f"{len(given or [])} records, and a total of {found.get('total')}"
    return "" if all(not isinstance(each, float) or math.isfinite(each) for each in found.values()) else "not finite"


def drawn(data: bytes, out: bytes) -> str:
    """Returns a complaint unless lines as wide as a page show records that all have the numbers of a curve."""
    if not all(math.isfinite(each[key]) for each in records(data) or [] for key in ("step", "accuracy")):
        return "not finite"
    return "" if 0 < max(map(len, out.decode().splitlines())) <= 80 else "not as wide as a page"


def vocabulary(data: bytes, out: bytes) -> str:
    """Returns a complaint unless `show` counts the lines."""
    found = json.loads(out) if out.startswith(b"{") else {}
    count = len(text(data).removesuffix("\n").split("\n"))
    if found.get("kind") == "vocabulary" and found["pieces"] != count:
        return f"{count} lines, {found['pieces']} pieces"
    return "" if data.isascii() or text(data) else "not UTF-8"


def _count(out: bytes, expected: int) -> str:
    made = len(out_lines(out))
    return "" if made == expected else f"{expected} expected, {made} records written"
