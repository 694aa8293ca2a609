"""Streams: what goes in comes out, and nothing damaged is taken for something whole."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result, decompressed, environment

from bertcli import frames, stream
from bertcli import lines as numbered
from bertcli.errors import BadData, IOFailed
from bertcli.lines import Lines, Source
from bertcli.records import Anything, Classification
from bertcli.stream import Reader, Writer, loads, write_all

BOM = b"\xef\xbb\xbf"


class Trickle(io.RawIOBase):
    """A file that gives at most `size` bytes a read, as a pipe may."""

    def __init__(self, data: bytes, size: int) -> None:
        self.rest, self.size = data, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece, self.rest = self.rest[: self.size], self.rest[self.size :]
        return piece


def source(data: bytes, size: int = 1 << 20) -> Source:
    return Source(Trickle(data, size), "in")  # type: ignore[arg-type]


def read(data: bytes, size: int = 1 << 20, **options: object) -> list[dict[str, object]]:
    return list(Reader([source(data, size)], Anything, **options))  # type: ignore[arg-type]


def lines(data: bytes, size: int = 1 << 20) -> list[str]:
    return list(Lines(source(data, size)).map(str))


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def skippable(content: bytes, kind: int = 0) -> bytes:
    return bytes([0x50 + kind]) + b"\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def written(records: list[dict[str, object]], *, plain: bool = False, flush_each: bool = False) -> bytes:
    out = io.BytesIO()
    with Writer(out, plain=plain) as writer:
        for record in records:
            writer.write(record)
            if flush_each:
                writer.flush()
    return out.getvalue()


# -- what goes in comes out ----------------------------------------------------------------------------------

doubles = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**40), 10**40) | doubles | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


def exact(value: object) -> str:
    """Returns a text that tells 1 from 1.0 and from true, keeps the order of keys, and takes -0 for 0."""
    return json.dumps(value).replace("-0.0", "0.0")


@given(st.lists(objects, max_size=6), st.booleans(), st.booleans(), st.integers(1, 50))
def test_any_object_survives_write_and_read(
    records: list[dict[str, object]], plain: bool, flush_each: bool, size: int
) -> None:
    again = read(written(records, plain=plain, flush_each=flush_each), size)
    assert exact(again) == exact(records)


@given(st.binary(max_size=400), st.integers(1, 9), st.sampled_from(["zstd", "gzip", "plain"]))
def test_lines_are_those_between_line_feeds(data: bytes, size: int, kind: str) -> None:
    packed = {"zstd": zstd, "gzip": gzip.compress, "plain": bytes}[kind](data)
    if kind == "plain" and data[:1] in (b"\x28", b"\x1f", b"\x50"):
        return  # may be taken for the beginning of a compressed stream
    expected = data.split(b"\n")
    if expected[-1] == b"":  # the last line has its end
        expected.pop()
    expected = [line.removeprefix(BOM if not n else b"").removesuffix(b"\r") for n, line in enumerate(expected)]
    assert list(Lines(source(packed, size))) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_frames_of_any_kind_are_joined_before_lines_are_cut(size: int) -> None:
    whole = b'{"a": 1}\n{"b": 2}\n{"c": 3}'
    parts = [whole[:4], whole[4:13], b"", whole[13:]]
    frames = [
        zstd(parts[0]),
        skippable(b"index"),
        gzip.compress(parts[1]),
        skippable(b"", 15),
        zstd(b""),
        zstd(parts[3]),
    ]
    assert read(b"".join(frames), size) == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_only_skippable_frames_are_an_empty_stream() -> None:
    assert read(skippable(b"x" * 1000), 7) == []


@pytest.mark.parametrize("pack", [bytes, zstd, gzip.compress])
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_bom_blank_lines_and_crlf(pack: Callable[[bytes], bytes], size: int) -> None:
    data = pack(BOM + b'\r\n{"a": 1}\r\n \t\r\n\n{"b": "\xef\xbb\xbf"}\r\n\n')
    assert read(data, size) == [{"a": 1}, {"b": "\ufeff"}]


def test_line_numbers_count_blank_lines() -> None:
    with pytest.raises(BadData, match=r"^in:4: "):
        read(b'\n{"a": 1}\n\nnonsense\n')


def test_text_or_records_by_the_first_character() -> None:
    assert read(b'\n {"a": 1}\n', text=None) == [{"a": 1}]
    assert read(b'a\n\n{"b"\n', text=None) == [{"text": "a"}, {"text": '{"b"'}]
    assert read(b'{"a": 1}\n', text=True) == [{"text": '{"a": 1}'}]


def test_integers_of_more_than_64_bits_and_unknown_fields_keep_value_and_order() -> None:
    line = b'{"z":123456789012345678901234567890,"a":-9223372036854775809,"d":1e+22,"s":"1234567890123456789"}\n'
    assert decompressed(written(read(line))) == line
    assert loads(b"18446744073709551615") == 2**64 - 1


def test_deep_records_pass_or_are_refused() -> None:
    def nested(depth: int, number: bytes = b"1") -> bytes:
        return b'{"a":' * depth + number + b"}" * depth

    assert decompressed(written(read(nested(980, b"1" * 30)))) == nested(980, b"1" * 30) + b"\n"
    assert decompressed(written(read(nested(400)))) == nested(400) + b"\n"
    assert decompressed(written(read(nested(1020)))) == nested(1020) + b"\n"
    with pytest.raises(BadData, match=r"in:1: not a JSON record"):
        read(nested(100_000))


def test_long_lines() -> None:
    record = {"text": "long " * 2_000_000}
    assert read(written([record], plain=True), 1 << 16) == [record]
    assert read(written([record])) == [record]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered, "LONGEST_LINE", 1000)
    with pytest.raises(BadData, match=r"^in:2: a line is longer than 1000 bytes"):
        read(b"{}\n" + b"x" * 5000, 100)


# -- what is wrong is said -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"a": NaN}', "not a JSON record"),
        (b'{"a": -Infinity, "b": 12345678901234567890123}', "not a JSON record"),
        (b'{"a": "\\ud800"}', "not a JSON record"),
        (b'{"a": "\\ud800", "b": 12345678901234567890123}', "not a JSON record"),
        (b'{"a": 1', "not a JSON record"),
        (b'{"a": "\xff"}', "not UTF-8: byte 0xff at offset 7 of the line"),
        (b"[1]", "found a list, expected a JSON object"),
        (b"null", "found nothing, expected a JSON object"),
        (b"true", "found true, expected a JSON object"),
    ],
)
def test_a_bad_line_is_named(line: bytes, said: str) -> None:
    with pytest.raises(BadData, match=f"^in:3: .*{re.escape(said)}"):
        read(b"{}\n\n" + line + b"\n{}\n")
    reader = Reader([source(b"{}\n\n" + line + b"\n{}\n")], Anything, on_error="skip")
    assert list(reader) == [{}, {}]
    assert reader.read == 2
    assert [message[:5] for message in reader.skipped] == ["in:3:"]


def test_text_that_is_not_utf8_gives_the_byte() -> None:
    with pytest.raises(BadData, match=r"^in:2: not UTF-8: byte 0xff at offset 3 of the line$"):
        lines(b"good\nbad\xff\n")


def test_a_field_of_the_wrong_type_is_named() -> None:
    data = b'{"text": "a"}\n{"text": 5}\n{"label": "1"}\n{"text": "b", "label": null, "extra": [1]}\n'
    reader = Reader([source(data)], Classification, on_error="skip")
    assert list(reader) == [{"text": "a"}, {"text": "b", "label": None, "extra": [1]}]
    assert reader.skipped == [
        "in:2: field 'text': found 5, expected a string",
        "in:3: field 'text': found nothing, expected a string",
    ]


def test_what_a_function_finds_wrong_gets_its_place_and_can_be_skipped() -> None:
    def reciprocal(record: dict[str, float]) -> float:
        if not record["n"]:
            raise BadData(field="n", found=0, expected="not zero")
        return 1 / record["n"]

    data = b'{"n": 2}\n{"n": 0}\n{"n": 4}\n'
    with pytest.raises(BadData, match=r"^in:2: field 'n': found 0, expected not zero$"):
        list(Reader([source(data)], Anything).map(reciprocal))
    reader = Reader([source(data), source(data)], Anything, on_error="skip")
    assert list(reader.map(reciprocal)) == [0.5, 0.25, 0.5, 0.25]
    assert len(reader.skipped) == 2


# -- damage --------------------------------------------------------------------------------------------------

SAMPLE: list[dict[str, object]] = [{"id": str(n), "text": "word " * (n % 7), "n": n * n} for n in range(40)]


@pytest.mark.parametrize("pack", [zstd, gzip.compress])
def test_a_stream_cut_at_any_byte_is_an_error(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(written(SAMPLE, plain=True))
    for end in range(1, len(packed)):
        got: list[object] = []
        with pytest.raises(BadData):
            got.extend(Reader([source(packed[:end])], Anything))
        assert got == SAMPLE[: len(got)]


def test_the_second_frame_cut_at_any_byte_is_an_error() -> None:
    first, second = zstd(b'{"a":1}\n'), zstd(b'{"b":2}\n')
    for end in range(1, len(second)):
        with pytest.raises(BadData, match=r"truncated|corrupted"):
            read(first + second[:end])


def test_a_skippable_frame_cut_at_any_byte_is_an_error() -> None:
    frame = skippable(b"0123456789")
    for end in range(1, len(frame)):
        with pytest.raises(BadData, match=r"truncated|corrupted"):
            read(zstd(b"{}\n") + frame[:end])


@given(st.data(), st.booleans(), st.integers(1, 64))
@settings(max_examples=300)
def test_a_flipped_bit_never_gives_a_wrong_record(data: st.DataObject, flush_each: bool, size: int) -> None:
    packed = bytearray(written(SAMPLE, flush_each=flush_each))
    place = data.draw(st.integers(0, len(packed) * 8 - 1))
    packed[place // 8] ^= 1 << place % 8
    with contextlib.suppress(BadData):
        assert read(bytes(packed), size) == SAMPLE


def test_plain_bytes_after_a_frame_are_an_error() -> None:
    with pytest.raises(BadData, match="belong to no frame"):
        read(zstd(b"{}\n") + b'{"a": 1}\n')


def test_a_busy_writer_hands_on_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, is_there in ((3600, False), (0, True)):
        monkeypatch.setattr(stream, "FLUSH_SECONDS", seconds)
        file = io.BytesIO()
        with Writer(file, plain=False) as out:
            out.write({"a": 1})
            assert (decompressed(file.getvalue()) == b'{"a":1}\n') is is_there


def test_a_writer_left_by_an_exception_hands_on_whole_lines_but_not_an_end() -> None:
    out = io.BytesIO()
    with contextlib.suppress(ZeroDivisionError), Writer(out, plain=False) as writer:
        writer.write({"a": 1})
        raise ZeroDivisionError
    got: list[object] = []
    with pytest.raises(BadData, match="truncated"):
        got.extend(Reader([source(out.getvalue())], Anything))
    assert got == [{"a": 1}]


def test_frames_carry_a_checksum() -> None:
    assert zstandard.get_frame_parameters(written(SAMPLE)).has_checksum


# -- a pipe never starves ------------------------------------------------------------------------------------


@dataclass
class Program:
    """A filter of ours between two pipes."""

    process: subprocess.Popen[bytes]

    def send(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, expected: bytes, decoder: Callable[[bytes], bytes]) -> None:
        """Read until the expected bytes are there; what the program holds back is waited for in vain."""
        got, file = b"", self.process.stdout
        assert file
        while got != expected:
            assert select.select([file], [], [], 20)[0], f"starved after {got!r}"
            data = os.read(file.fileno(), 1 << 16)
            assert data, f"ended after {got!r}"
            got += decoder(data)
            assert expected.startswith(got)


@pytest.mark.parametrize("compressed_in", [False, True])
@pytest.mark.parametrize("plain_out", [False, True])
def test_a_slow_line_comes_through_at_once(compressed_in: bool, plain_out: bool) -> None:
    command = [
        sys.executable,
        "-m",
        "bertcli",
        "read",
        "text",
        "--document",
        "line",
        *["--plain"] * plain_out,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        program = Program(process)
        encoder = zstandard.ZstdCompressor(write_checksum=True).compressobj()
        decoder = (lambda data: data) if plain_out else zstandard.ZstdDecompressor().decompressobj().decompress
        for number, word in enumerate([b"a", b"", b"of two lines", b"b"]):
            line = word + b"\n"
            if compressed_in:
                line = encoder.compress(line) + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            program.send(line)
            if word:
                index = number - (number > 1)
                program.receive(b'{"id":"%d","text":"%b"}\n' % (index, word), decoder)
        assert process.stdin
        process.stdin.write(encoder.flush() if compressed_in else b"")
        process.stdin.close()
        assert process.wait() == 0


# -- the ends of a pipe --------------------------------------------------------------------------------------


def test_the_stage_before_may_work_ahead() -> None:
    """A pipe of 64 KiB would have it wait while this one is busy with a batch."""
    with subprocess.Popen(
        [sys.executable, "-m", "bertcli", "read", "text", "--document", "line", "--plain"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert process.stdout.readline() == b'{"id":"0","text":"a"}\n'
        if hasattr(fcntl, "F_GETPIPE_SZ"):
            assert fcntl.fcntl(process.stdin, fcntl.F_GETPIPE_SZ) >= 1 << 20
        process.stdin.close()


def test_a_full_disk_is_74(shell: Callable[..., Result]) -> None:
    for options in ("", "--plain"):
        result = shell(f"printf 'a\\n' | bertcli read text {options} > /dev/full")
        assert (result.status, result.err) == (74, "bertcli read: writing failed: No space left on device\n")
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(IOFailed, match="No space left"):
        write_all(full, b"x")


def test_a_reader_that_has_gone_is_quiet_and_141(shell: Callable[..., Result]) -> None:
    result = shell("yes | bertcli read text --document line --plain | head -n 1")
    assert result == (141, b'{"id":"0","text":"y"}\n', "")


def test_a_failing_disk_names_the_file() -> None:
    class Broken(Trickle):
        def read(self, size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(IOFailed, match=r"^in: reading failed: Input/output error"):
        list(Lines(Source(Broken(b"", 1), "in")))  # type: ignore[arg-type]


# -- what a hostile stream tries -----------------------------------------------------------------------------------


def test_a_small_file_of_repetition_comes_in_bounded_pieces() -> None:
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(200 << 20))
    assert len(bomb) < 1 << 16
    assert max(map(len, frames.decompressed(io.BytesIO(bomb)))) < 150 << 20


def test_a_large_skippable_frame_is_passed_over_without_being_held() -> None:
    frame = b"\x50\x2a\x4d\x18" + (8 << 20).to_bytes(4, "little") + bytes(8 << 20)
    assert b"".join(frames.decompressed(io.BytesIO(frame + zstandard.compress(b"{}\n")))) == b"{}\n"


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    inlet, outlet = os.pipe()
    os.set_blocking(inlet, False)
    code = "import os, time; time.sleep(0.3); os.write(1, b'{\"a\": 1}\\n')"
    with subprocess.Popen([sys.executable, "-c", code], stdout=outlet) as producer:
        os.close(outlet)
        with open(inlet, "rb", buffering=0) as file:
            assert list(Reader([Source(file, "f")], Anything)) == [{"a": 1}]
    assert producer.returncode == 0
