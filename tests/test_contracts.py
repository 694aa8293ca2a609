"""What the design promises of every command, for every command that is in the table: a new one need not be named.

A command shows itself by its first example, which names a file to read; here that file is emptied, damaged,
compressed, joined, piped. What is to be seen depends on the command's kind and on the options that it has.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from desk import (
    ADDERS,
    COMMANDS,
    DRAWERS,
    FILTERS,
    JOINERS,
    READERS,
    STREAMERS,
    Desk,
    Outcome,
    has,
    held,
    is_records,
    is_whole,
    piped,
    zstd,
)
from program import environment
from warm import Program

from bertcli.commands.options import Kind


@pytest.fixture
def desk(name: str, house: Path, program: Program, tmp_path: Path) -> Desk:
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    return Desk(name, tmp_path, program)


def assert_failed(desk: Desk, done: Outcome, status: int, said: str = ".+") -> None:
    """A failure is a status and one line; there is no model, and what came out is no whole stream."""
    assert (done.status, done.made) == (status, {})
    assert re.fullmatch(f"bertcli {desk.name}: {said}\n", done.err)
    assert not is_whole(done.raw)
    assert desk.name in FILTERS or done.out == b""


def test_what_reads_says_so_by_its_first_example() -> None:
    alone = {name for name, command in COMMANDS.items() if command.kind is Kind.STANDS_ALONE}
    assert set(READERS) == set(COMMANDS) - alone


# -- what goes in ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help(desk: Desk) -> None:
    for option in ("-h", "--help"):
        done = desk.program.run([desk.name, option], desk.folder)
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith(b"Usage: bertcli %b " % desk.name.encode())


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("empty", [b"", b"\n \r\n\n", zstd(b""), gzip.compress(b"")], ids=["", "blank", "zstd", "gzip"])
def test_empty_input(desk: Desk, empty: bytes) -> None:
    done = desk.run(*desk.quiet, stdin=empty)
    if desk.command.kind in (Kind.LEARNS, Kind.DRAWS):
        assert_failed(desk, done, 65)
    else:
        assert (done.status, done.err) == (0, "")
        assert bool(done.out) == (desk.command.kind is Kind.SUMS_UP)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda data, half: zstd(data),
        lambda data, half: zstd(data[:half]) + zstd(data[half:]),
        lambda data, half: gzip.compress(data[:half]) + gzip.compress(data[half:]),
        lambda data, half: b"\xef\xbb\xbf\n" + data.replace(b"\n\n", b"\n \n\n").replace(b"\n", b"\r\n") + b"\n\n",
    ],
    ids=["frame", "frames", "gzip", "windows"],
)
def test_input_is_the_same_however_it_is_wrapped(desk: Desk, wrapped: Callable[[bytes, int], bytes]) -> None:
    half = desk.content.index(b"\n", len(desk.content) // 2) - 5  # within a line
    data = wrapped(desk.content, half)
    assert desk.run(stdin=data).essence == desk.usual().essence


@pytest.mark.parametrize("name", READERS)
def test_a_dash_is_stdin(desk: Desk) -> None:
    assert desk.run("-", stdin=desk.content).essence == desk.usual().essence


@pytest.mark.parametrize("name", [name for name in JOINERS if any(p.nargs == -1 for p in COMMANDS[name].params)])
def test_several_files_are_their_concatenation(desk: Desk) -> None:
    border = b"}\n" if is_records(desk.content) else b"\n\n"
    half = desk.content.index(border, len(desk.content) // 2) + 2
    first, second = desk.write("first", zstd(desk.content[:half])), desk.write("second", desk.content[half:])
    joined = desk.run(first, "-", second, stdin=b"")
    status, out, made = desk.usual().essence
    assert (joined.status, joined.made) == (status, made)
    numbered = rb'"id":"(first:|second:)?\d+"' if desk.command.kind is Kind.MAKES else rb"(?!)"
    assert re.sub(numbered, b"", joined.out) == re.sub(numbered, b"", out)


@pytest.mark.parametrize("name", ADDERS)
def test_unknown_fields_pass_in_order_with_their_values(desk: Desk) -> None:
    before = {"huge": 2**70, "null": None}
    after = {
        "nested": {"b": [1, {"a": None}], "a": {}},
        'naïve "key"\u2028': "…\U0001f600\u0000\\",
        "double": 0.1,
        "large": -1.7976931348623157e308,
        "long": -(10**30),
        "edge": [2**63, 2**64, -(2**63) - 1],
        "true": True,
    }
    given = [before | json.loads(line) | after for line in desk.content.splitlines()]
    done = desk.run("--plain", stdin=b"".join(json.dumps(record).encode() + b"\n" for record in given))
    assert done.status == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    for old, new, usual in zip(given, records, desk.usual().out.splitlines(), strict=True):
        assert list(new)[: len(old)] == list(old)
        unknown = {name: new.pop(name) for name in before | after}
        assert json.dumps(unknown) == json.dumps(before | after)
        assert new == json.loads(usual)


# -- what is wrong with it ------------------------------------------------------------------------------

AT = 9  # the line that is bad
BAD = {
    True: (b'["no", "object"]\n', "found a list, expected a JSON object"),
    False: (b"caf\xe9\n", "not UTF-8: byte 0xe9 at offset 3 of the line"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_bad_line_stops_the_command(desk: Desk) -> None:
    for content in desk.contents():
        good, (bad, said) = content.splitlines(keepends=True), BAD[is_records(content)]
        desk.write("bad", b"".join([*good[: AT - 1], bad, *good[AT - 1 :]]))
        done = desk.run("bad", *desk.quiet)
        assert_failed(desk, done, 65, f"bad:{AT}: {said}")
        before = desk.run(*desk.quiet, stdin=b"".join(good[: AT - 1])).out if desk.name in FILTERS else b""
        if desk.command.kind is Kind.MAKES:  # the last of the good lines are perhaps part of something larger
            assert done.out
            assert before.startswith(done.out)
        else:
            assert done.out == before


@pytest.mark.parametrize("name", [name for name in READERS if has(name, "--on-error")])
def test_bad_lines_can_be_skipped(desk: Desk) -> None:
    for content in desk.contents():
        good, (bad, said) = content.splitlines(keepends=True), BAD[is_records(content)]
        desk.write("bad", b"".join([*good[: AT - 1], bad, *good[AT - 1 : AT + 3], bad, *good[AT + 3 :]]))
        done = desk.run("bad", "--on-error", "skip", *desk.quiet)
        assert done.err == f"bad lines skipped: 2; the first: bad:{AT}: {said}\n"
        assert done.essence == desk.run(stdin=content).essence


@pytest.mark.parametrize("name", READERS)
def test_a_stream_that_was_cut_is_never_a_short_success(desk: Desk) -> None:
    for pack in (zstd, gzip.compress):
        whole = pack(desk.content)
        cut = desk.write("cut", whole[: len(whole) * 6 // 10])
        done = desk.run(cut, *desk.quiet)
        assert_failed(desk, done, 65, r"cut:\d+: .*\(truncated\)")
        if desk.name == "predict":
            assert_begins(desk.usual().out, done.out)
        else:
            assert desk.usual().out.startswith(done.out)


def assert_begins(whole: bytes, begun: bytes) -> None:
    """What a model answers depends on the others in its batch by a rounding, and by nothing else."""
    number = re.compile(rb"\d\.\d+(?:e-\d+)?")
    assert number.sub(b"", whole).startswith(number.sub(b"", begun))
    found = [float(each) for each in number.findall(begun)]
    assert found == pytest.approx([float(each) for each in number.findall(whole)][: len(found)], abs=1e-5)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1])
def test_a_flipped_byte_is_noticed(desk: Desk, share: float) -> None:
    data = bytearray(zstd(desk.content))
    data[int(share * len(data)) - 1] ^= 0xFF
    done = desk.run(desk.write("flipped", data), *desk.quiet)
    assert_failed(desk, done, 65, r"flipped:\d+: .+")


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_is_said_before_anything_comes_out(desk: Desk) -> None:
    several = any(parameter.nargs == -1 for parameter in desk.command.params)
    for files in [["nowhere"], [*desk.example.files, "nowhere"]] if several else [["nowhere"]]:
        done = desk.run(*files, *desk.quiet)
        assert_failed(desk, done, 66, "nowhere: No such file or directory")
        assert done.raw == b""
    (desk.folder / "folder").mkdir()
    for files, status, said in (
        ([*desk.example.files, "folder"], 66, "folder: Is a directory" if desk.name in JOINERS else "folder/log.jsonl"),
        (["-", "-"], 2, "twice"),
    ):
        if several:
            done = desk.run(*files, *desk.quiet)
            assert (done.status, done.raw) == (status, b"")
            assert said in done.err


@pytest.mark.parametrize(("name", "option"), [(name, o) for name in READERS for o in ("-v", "-m") if has(name, o)])
def test_a_vocabulary_or_model_that_cannot_be_read(desk: Desk, option: str) -> None:
    (desk.folder / "void").mkdir()
    for path, said in (
        ("nowhere", "No such file or directory"),
        ("void", "No such file or directory|no vocab.txt and no tokenizer.json"),
    ):
        done = desk.run(option, path, *desk.example.files, *desk.quiet)
        assert_failed(desk, done, 66, rf"{path}(/[\w.]+)?: ({said})")


# -- what comes out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READERS)
def test_one_input_gives_one_output(desk: Desk) -> None:
    """Also in a process of its own, where Python's hashes are others."""
    command = [sys.executable, "-m", "bertcli", *desk.line(*desk.example.files)]
    variables = environment() | {"PYTHONHASHSEED": "1"}
    done = subprocess.run(command, capture_output=True, cwd=desk.folder, env=variables, check=False)
    assert desk.outcome(done.returncode, done.stdout, done.stderr.decode()).essence == desk.usual().essence


# What `read` makes of the example's format is none of chance.
@pytest.mark.parametrize("name", [name for name in READERS if has(name, "--seed") and name != "read"])
def test_one_seed_gives_one_output(desk: Desk) -> None:
    first, second = (desk.run("--seed", "7", *desk.example.files).essence for _ in range(2))
    assert first == second
    assert first != desk.usual().essence


@pytest.mark.parametrize("name", STREAMERS)
def test_plain_is_what_zstd_holds(desk: Desk) -> None:
    usual = desk.usual()
    assert is_whole(usual.raw)
    assert zstandard.get_frame_parameters(usual.raw).has_checksum
    assert desk.run("--plain", *desk.example.files).raw == usual.out
    assert desk.run(*desk.example.files, BERTCLI_PLAIN="1").raw == usual.out


@pytest.mark.parametrize("name", [name for name in READERS if has(name, "--quiet")])
def test_quiet_says_nothing(desk: Desk) -> None:
    for option in ("-q", "--quiet"):
        done = desk.run(option, *desk.example.files)
        assert (done.err, done.essence) == ("", desk.usual().essence)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk(desk: Desk) -> None:
    with open("/dev/full", "wb") as full:
        done = desk.run(*desk.quiet, *desk.example.files, stdout=full)
    assert done.status == 74
    assert re.fullmatch(f"bertcli {desk.name}: .*No space left on device\n", done.err)


@pytest.mark.parametrize("name", [name for name in COMMANDS if has(name, "-o") and name not in DRAWERS])
def test_a_model_is_not_overwritten(desk: Desk) -> None:
    taken = desk.folder / "taken"
    shutil.copytree(desk.folder / "model", taken)
    shutil.copytree(desk.folder / "model", taken / "model")  # for a command that makes a model within its folder
    before = {path: path.read_bytes() for path in taken.rglob("*") if path.is_file()}
    done = desk.run("-o", "taken", *desk.quiet, *desk.example.files)
    assert done.status == 73
    assert re.fullmatch(rf"bertcli {desk.name}: taken.*: (holds a model already|is not empty) .*\n", done.err)
    assert {path: path.read_bytes() for path in taken.rglob("*") if path.is_file()} == before


# -- the two ends of a pipe -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILTERS)
def test_the_reader_of_a_filter_stops_reading(desk: Desk) -> None:
    """As `| head -n 1` does, whose status in a shell is 141."""
    desk.write("much", desk.content * 10)
    with piped(desk, "--plain", "much") as work:
        assert work.stdout.readline() == desk.usual().out.splitlines(keepends=True)[0]
        work.stdout.close()
        assert work.end() == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("name", READERS)
def test_nobody_reads(desk: Desk) -> None:
    with piped(desk) as work:
        work.stdout.close()
        work.stdin.write(desk.content)
        assert work.end() == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("name", FILTERS)
def test_a_slow_producer_is_answered_at_once(desk: Desk) -> None:
    """A record that comes out in its place comes before the next one goes in; others, before the input ends."""
    each = desk.content.splitlines(keepends=True)[:3] if desk.name in ADDERS else [desk.content]
    decoder, answers = zstandard.ZstdDecompressor().decompressobj(), b""
    decode = decoder.decompress if desk.name in STREAMERS else bytes
    with piped(desk) as work:
        for sent in each:
            work.stdin.write(sent)
            answers += work.wait_for_line(decode)
        assert work.process.is_alive()
    assert len(answers.splitlines()) >= len(each)


@pytest.mark.parametrize("name", READERS)
def test_an_interrupt_ends_a_command_by_its_signal(desk: Desk) -> None:
    with piped(desk) as work:
        work.stdin.write(desk.content)
        work.wait_until(lambda: held(work.stdin) == 0)
        work.process.send_signal(signal.SIGINT)
        status, err = work.end()
    assert status == -signal.SIGINT
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ADDERS)
def test_an_interrupt_does_not_wait_for_a_reader_that_has_stalled(desk: Desk) -> None:
    noise = random.Random(0).randbytes(1 << 16).hex()  # more than fits into the pipe, however it is compressed
    record = json.loads(desk.content.splitlines()[0]) | {"noise": noise}
    with piped(desk) as work:
        work.stdin.write(json.dumps(record).encode() + b"\n")
        work.wait_until(lambda: held(work.stdout) > 0)
        work.process.send_signal(signal.SIGINT)
        assert work.end() == (-signal.SIGINT, "")
