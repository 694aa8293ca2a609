"""TensorFlow's checkpoints: we read what it has written, it reads what we write, and hostile ones are refused."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.errors import BadData, BertcliError, NoInput
from bertcli.weights.tensorflow import leveldb
from bertcli.weights.tensorflow.bundle import LONGEST, Entry, read, read_index, write
from bertcli.weights.tensorflow.snappy import decompressed
from bertcli.weights.tensorflow.varint import varint, varints

GOLDEN = Path(__file__).parent.parent.parent / "golden/tensorflow"
FOLDERS = {"classifier": "model.ckpt-20", "pretraining": "bert_model.ckpt", "squad": "model.ckpt-20"}
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
HEADER = b"\x08\x01\x1a\x02\x08\x01"  # one file of numbers, version 1: what TensorFlow writes


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 100).to(dtype)


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape and torch.equal(found, expected)


# -- what TensorFlow writes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "count", "files"), [("classifier", 124, 1), ("pretraining", 46, 2), ("squad", 41, 1)]
)
def test_what_tensorflow_has_written(folder: str, count: int, files: int) -> None:
    entries = read_index(GOLDEN / folder / FOLDERS[folder])
    assert len(entries) == count
    assert len({entry.file for entry in entries.values()}) == files
    config = json.loads((GOLDEN / folder / "bert_config.json").read_text())
    words = entries["bert/embeddings/word_embeddings"]
    assert (words.dtype, words.shape) == ("F32", (config["vocab_size"], config["hidden_size"]))
    assert words.bytes == 4 * words.size
    tensors = {name: read(entry) for name, entry in entries.items()}
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    assert sum(tensor.nbytes for tensor in tensors.values()) == sum(
        file.stat().st_size for file in {entry.file for entry in entries.values()}
    )
    gammas = [tensor for name, tensor in tensors.items() if name.endswith("gamma")]
    assert 0.8 < torch.cat(gammas).mean() < 1.2


def test_moments_and_steps_are_there() -> None:
    entries = read_index(GOLDEN / "classifier" / "model.ckpt-20")
    assert (entries["global_step"].dtype, entries["global_step"].shape) == ("I64", ())
    assert read(entries["global_step"]).item() == 20
    assert read(entries["output_bias/adam_v"]).min() > 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_tensorflow_has_written_is_written_to_the_same_numbers(folder: str, tmp_path: Path) -> None:
    """And to the same bytes, where it has written one file in the order of the names."""
    entries = read_index(GOLDEN / folder / FOLDERS[folder])
    write(tmp_path / "again", ((name, read(entry)) for name, entry in entries.items()))
    again = read_index(tmp_path / "again")
    assert {name: entry.crc for name, entry in again.items()} == {name: entry.crc for name, entry in entries.items()}
    if len({entry.file for entry in entries.values()}) == 1:
        assert [entry[3:] for entry in again.values()] == [entry[3:] for entry in entries.values()]
        assert (tmp_path / "again.data-00000-of-00001").read_bytes() == entries[
            "bert/pooler/dense/bias"
        ].file.read_bytes()


# -- what is written is read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_come_back_bit_for_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    shapes = [(), (0,), (0, 3), (3, 0, 2), (1,), (7,), (2, 3), (2, 1, 4, 3)]
    tensors = {f"shape/{shape}": random(*shape, dtype=dtype) for shape in shapes}
    write(tmp_path / "m.ckpt", tensors.items())
    entries = read_index(tmp_path / "m.ckpt")
    assert entries.keys() == tensors.keys()
    assert all(same(read(entries[name]), tensor) for name, tensor in tensors.items())


def test_the_order_of_writing_is_free_and_views_are_whole(tmp_path: Path) -> None:
    whole = random(6, 5)
    tensors = {"z": whole.T, "a": whole[::2, 1:], "é": whole.clone().requires_grad_(), "Z": whole[3, 3]}
    write(tmp_path / "m", iter(tensors.items()))
    entries = read_index(tmp_path / "m")
    assert list(entries) == ["Z", "a", "z", "é"]
    assert entries["z"].offset == 0
    assert all(same(read(entries[name]), tensor) for name, tensor in tensors.items())


def test_many_names_make_blocks_and_restarts(tmp_path: Path) -> None:
    tensors = {f"bert/encoder/layer_{number}/{'x' * (number % 90)}": torch.tensor(number) for number in range(900)}
    write(tmp_path / "m", tensors.items())
    assert (tmp_path / "m.index").stat().st_size > 4 * leveldb.BLOCK
    entries = read_index(tmp_path / "m")
    assert list(entries) == sorted(tensors)
    assert all(read(entries[name]).item() == tensors[name].item() for name in sorted(tensors)[::97])


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=3000), min_size=1, max_size=60))
def test_any_rows_make_a_table(rows: dict[bytes, bytes]) -> None:
    assert leveldb.rows(leveldb.table(sorted(rows.items())), LONGEST) == rows


def test_infinite_numbers_and_nan_keep_their_bits(tmp_path: Path) -> None:
    bits = torch.tensor([0x7F800000, 0x7FC00001, 0x7F800001, -1, 1], dtype=torch.int32)
    write(tmp_path / "m", [("x", bits.view(torch.float32))])
    assert torch.equal(read(read_index(tmp_path / "m")["x"]).view(torch.int32), bits)


def test_tensorflow_reads_what_we_write(tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    shapes = [(), (0, 3), (7,), (2, 3, 4)]
    tensors = {f"{dtype}/{shape}": random(*shape, dtype=dtype) for dtype in DTYPES for shape in shapes}
    tensors |= {f"many/{number}": torch.tensor(number) for number in range(500)}
    write(tmp_path / "m", tensors.items())
    reader = tensorflow.train.load_checkpoint(str(tmp_path / "m"))
    assert {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()} == {
        name: tuple(tensor.shape) for name, tensor in tensors.items()
    }
    for name, tensor in tensors.items():
        theirs = reader.get_tensor(name)
        assert theirs.dtype.name == str(tensor.dtype).removeprefix("torch.")
        assert theirs.tobytes() == bytes(tensor.reshape(-1).view(torch.uint8).tolist())


# -- Snappy ---------------------------------------------------------------------------------------------------------


def tagged(size: int) -> bytes:
    """Returns the tag of a literal, of the shortest kind."""
    if size <= 60:
        return bytes([size - 1 << 2])
    wide = (size - 1).bit_length() + 7 >> 3
    return bytes([59 + wide << 2]) + (size - 1).to_bytes(wide, "little")


def copied(size: int, offset: int) -> bytes:
    """Returns a copy, of the shortest kind."""
    if 4 <= size <= 11 and offset < 1 << 11:
        return bytes([offset >> 8 << 5 | size - 4 << 2 | 1, offset & 255])
    kind, wide = (2, 2) if offset < 1 << 16 else (3, 4)
    return bytes([size - 1 << 2 | kind]) + offset.to_bytes(wide, "little")


def compressed(text: bytes) -> bytes:
    """Returns a text as Snappy, in the way of the shortest compressor: four bytes that were there before are copied."""
    out, seen, at, start = bytearray(varints(len(text))), {}, 0, 0
    while at < len(text):
        four = text[at : at + 4]
        before = seen.get(four) if len(four) == 4 else None
        seen[four] = at
        if before is None:
            at += 1
            continue
        size = 4
        while size < 64 and at + size < len(text) and text[before + size] == text[at + size]:
            size += 1
        if start < at:
            out += tagged(at - start) + text[start:at]
        out += copied(size, at - before)
        at = start = at + size
    if start < at:
        out += tagged(at - start) + text[start:at]
    return bytes(out)


@given(st.lists(st.tuples(st.binary(max_size=90), st.integers(1, 40)), max_size=12))
def test_snappy_comes_back(parts: list[tuple[bytes, int]]) -> None:
    text = b"".join(part * times for part, times in parts)
    assert decompressed(compressed(text), len(text)) == text


def test_snappy_of_all_kinds_of_pieces() -> None:
    noise = bytes(torch.randint(256, (80_000,), generator=torch.Generator().manual_seed(0)).tolist())
    text = noise + b"a" * 1000 + noise[:50] + noise[-2000:-1900]
    small = compressed(text)
    assert len(small) < 81_000
    assert decompressed(small, 1 << 20) == text


@given(st.binary(max_size=100))
def test_snappy_of_any_bytes_is_a_text_or_a_fault(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert len(decompressed(data, 1000)) <= 1000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        varints(1 << 40) + tagged(1) + b"a",  # longer than what is allowed
        varints(5) + tagged(4) + b"abcd",  # than what is there
        varints(5) + tagged(6) + b"abcdef",
        varints(9) + tagged(4) + b"abcd" + copied(5, 5),  # from before the beginning
        varints(9) + tagged(4) + b"abcd" + copied(5, 0),
        varints(9) + tagged(4) + b"abcd" + b"\x02\x01",  # cut
        varints(900) + b"\xf4\xff",
        varints(64) + tagged(1) + b"a" + copied(64, 1),
    ],
)
def test_snappy_that_lies(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"block|number|length"):
        decompressed(data, 1 << 20)


# -- tables and protobufs built by hand -----------------------------------------------------------------------------


def checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def content(rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns a block's content that shares nothing."""
    plain = b"".join(varints(0, len(key), len(value)) + key + value for key, value in rows)
    return plain + struct.pack("<II", 0, 1)


def table(*blocks: bytes, kind: int = 0, handles: list[bytes] | None = None, magic: bytes = leveldb.MAGIC) -> bytes:
    """Returns a table of blocks, with the handles that they have or with others."""
    written, places = b"", []
    for block in blocks:
        places.append(varints(len(written), len(block)))
        written += block + bytes([kind]) + checksum(block + bytes([kind]))
    index = content((b"\xff%d" % number, place) for number, place in enumerate(handles or places))
    footer = varints(0, 0, len(written), len(index)).ljust(40, b"\0") + magic
    return written + index + b"\0" + checksum(index + b"\0") + footer


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varints(number << 3, value)
    return varints(number << 3 | 2, len(value)) + value


def entry(
    *shape: int, dtype: int = 1, size: int | None = None, shard: int = 0, offset: int = 0, more: bytes = b""
) -> bytes:
    """Returns an entry of zeros."""
    edges = b"".join(field(2, field(1, edge)) for edge in shape)
    size = 4 * torch.Size(shape).numel() if size is None else size
    places = field(3, shard) + field(4, offset) + field(5, size)
    return field(1, dtype) + field(2, edges) + places + b"\x35" + checksum(bytes(min(size, 1 << 10))) + more


def indexed(tmp_path: Path, *rows: tuple[bytes, bytes], header: bytes = HEADER, there: int = 100) -> Path:
    """Returns the prefix of a checkpoint with these entries, and so many bytes of zeros."""
    (tmp_path / "m.index").write_bytes(table(content([(b"", header), *rows])))
    (tmp_path / "m.data-00000-of-00001").write_bytes(bytes(there))
    return tmp_path / "m"


def test_an_index_built_by_hand(tmp_path: Path) -> None:
    prefix = indexed(tmp_path, (b"a", entry(2, 3)), (b"b", entry(dtype=9, size=8, offset=24)))
    entries = read_index(prefix)
    file = tmp_path / "m.data-00000-of-00001"
    crc = int.from_bytes(checksum(bytes(24)), "little")
    assert entries["a"] == Entry("F32", (2, 3), file, 0, 24, crc)
    assert entries["a"].size == 6
    assert same(read(entries["b"]), torch.tensor(0))


def test_blocks_in_snappy(tmp_path: Path) -> None:
    prefix = indexed(tmp_path)
    names = [b"bert/encoder/layer_%02d/dense" % number for number in range(40)]
    halves = [[(b"", HEADER), *((name, entry(2)) for name in names[:20])], [(name, entry(0)) for name in names[20:]]]
    halves[0][1:] = [(name, entry(2, offset=8 * at)) for at, (name, _) in enumerate(halves[0][1:])]
    (tmp_path / "m.data-00000-of-00001").write_bytes(bytes(160))
    blocks = [compressed(content(half)) for half in halves]
    assert len(blocks[0]) < len(content(halves[0])) / 2
    (tmp_path / "m.index").write_bytes(table(*blocks, kind=1))
    assert [name.encode() for name in read_index(prefix)] == names


@pytest.mark.parametrize(("dtype", "name", "size"), [(7, "STRING", 9), (8, "DT_8", 8), (22, "U32", 4), (0, "DT_0", 0)])
def test_what_is_no_number_is_told_of_and_not_read(tmp_path: Path, dtype: int, name: str, size: int) -> None:
    prefix = indexed(tmp_path, (b"_CHECKPOINTABLE_OBJECT_GRAPH", entry(dtype=dtype, size=size)))
    found = read_index(prefix)["_CHECKPOINTABLE_OBJECT_GRAPH"]
    assert (found.dtype, found.bytes) == (name, size)
    with pytest.raises(BadData, match=rf"m\.data-00000-of-00001: numbers of type {name}, which is not read"):
        read(found)


# -- faults ---------------------------------------------------------------------------------------------------------


def told(prefix: Path) -> str:
    with pytest.raises(BadData) as caught:
        read_index(prefix)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (entry(2, size=9), "a tensor of 9 bytes, whose shape tells of 8"),
        (entry(1 << 40, 1 << 40, size=1), "a shape that none can have"),
        (entry(0, 1 << 31, 1 << 31, 1 << 31, size=0), "a shape that none can have"),
        (field(1, 1) + field(2, field(2, field(1, (1 << 64) - 1))) + field(5, 4), "a shape that none can have"),
        (entry(2, shard=1), "file 1 of 1"),
        (entry(2, more=field(7, b"")), "a tensor in slices"),
        (field(1, 1) + field(5, 4), "a tensor without a shape"),
        (field(1, 1) + field(2, field(3, 1)), "a tensor without a shape"),
        (field(1, 1) + field(2, 7), "a field 2 that is a number"),
        (field(1, b"1"), "a field 1 that is no number"),
        (b"\x0b", "a field of kind 3"),
        (b"\x0a\x05a", "a length that leads out"),
        (b"\x08\xff", "a number that does not end"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "a number that does not end"),
        (b"\x0d\x01", "a length that leads out"),
    ],
)
def test_an_entry_that_lies(tmp_path: Path, value: bytes, problem: str) -> None:
    line = told(indexed(tmp_path, (b"a", value)))
    assert line.startswith(f"{tmp_path / 'm.index'}: not a whole index of a TensorFlow checkpoint (")
    assert problem in line


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"", "no header"),
        (HEADER + field(2, 1), "big-endian"),
        (field(1, 1) + field(3, field(1, 7) + field(2, 2)), "for readers of version 2, and this is one of 1"),
        (field(1, b""), "no number"),
    ],
)
def test_a_header_that_is_anothers(tmp_path: Path, header: bytes, problem: str) -> None:
    assert problem in told(indexed(tmp_path, (b"a", entry(2)), header=header))


PLAIN = content([(b"", HEADER), (b"a", entry(2))])


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        (b"", "its end is another's"),
        (table(PLAIN)[:-1], "its end is another's"),
        (table(PLAIN)[1:], "length|damaged"),
        (table(PLAIN, magic=bytes(8)), "its end is another's"),
        (table(PLAIN, kind=2), "unknown compression 2"),
        (table(PLAIN, kind=1), "block|length|number"),
        (table(PLAIN).replace(b"a", b"b", 1), "damaged: a block has another checksum"),
        (table(PLAIN, handles=[varints(1 << 60, 4)]), "leads out of the file"),
        (table(PLAIN, handles=[varints(0, 1 << 60)]), "leads out of the file"),
        (table(PLAIN, handles=[varints(0)]), "does not end"),
        (table(PLAIN, handles=[varints(0, len(PLAIN))] * 2), "blocks that overlap"),
        (table(content([(b"", HEADER), (b"b", entry(2)), (b"a", entry(2))])), "keys that do not ascend"),
        (table(content([(b"", HEADER), (b"a", entry(2)), (b"a", entry(2))])), "keys that do not ascend"),
        (table(content([(b"a", entry(2))])), "no header"),
        (table(content([(b"", HEADER), (b"\xff", entry(2))])), "a name that is not UTF-8"),
        (table(varints(1, 1, 0) + b"a" + struct.pack("<II", 0, 1)), "leads out of its block"),
        (table(varints(0, 0, 99) + struct.pack("<II", 0, 1)), "leads out of its block"),
        (table(struct.pack("<I", 1 << 31)), "more restarts"),
        (table(b"abc"), "leads out of the file"),
        (table(), "no header"),
    ],
)
def test_an_index_that_is_damaged_or_another_file(tmp_path: Path, index: bytes, problem: str) -> None:
    assert_refused(tmp_path, index, problem)


@pytest.mark.parametrize(("are_apart", "problem"), [(False, "a block of"), (True, "keys and values of more than")])
def test_an_index_that_unpacks_to_too_much(tmp_path: Path, are_apart: bool, problem: str) -> None:
    rows = [(bytes([at]), b"x" * (LONGEST // 3)) for at in range(5)]
    blocks = [[row] for row in rows] if are_apart else [rows]
    assert_refused(tmp_path, table(*(compressed(content(block)) for block in blocks), kind=1), problem)


def assert_refused(tmp_path: Path, index: bytes, problem: str) -> None:
    prefix = indexed(tmp_path)
    (tmp_path / "m.index").write_bytes(index)
    with pytest.raises(BadData, match=problem) as caught:
        read_index(prefix)
    assert str(caught.value).startswith(f"{tmp_path / 'm.index'}: not a whole index of a TensorFlow checkpoint (")


def test_an_index_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    prefix = indexed(tmp_path)
    (tmp_path / "m.index").write_bytes(bytes(LONGEST + 1))
    with pytest.raises(BadData) as caught:
        read_index(prefix)
    assert str(caught.value) == f"{tmp_path / 'm.index'}: a file of more than {LONGEST} bytes"


def test_a_file_of_numbers_that_is_cut_or_shared(tmp_path: Path) -> None:
    data = tmp_path / "m.data-00000-of-00001"
    assert told(indexed(tmp_path, (b"a", entry(26)))) == f"{data}: cut: the index tells of 104 bytes, and 100 are there"
    assert "cut" in told(indexed(tmp_path, (b"a", entry(2, offset=(1 << 64) - 1))))
    overlap = indexed(tmp_path, (b"a", entry(4)), (b"b", entry(4, offset=12)))
    assert told(overlap) == f"{data}: the index tells of tensors that overlap"


def test_a_number_that_is_damaged(tmp_path: Path) -> None:
    write(tmp_path / "m", [("a", random(3)), ("b", random(5))])
    entries = read_index(tmp_path / "m")
    data = bytearray(entries["b"].file.read_bytes())
    data[20] ^= 4
    entries["b"].file.write_bytes(data)
    assert same(read(entries["a"]), random(3))
    with pytest.raises(BadData) as caught:
        read(entries["b"])
    place = "20 bytes from byte 12 on have another checksum than the index tells"
    assert str(caught.value) == f"{entries['b'].file}: damaged: {place}"
    entries["b"].file.write_bytes(data[:16])
    with pytest.raises(BadData, match="damaged"):
        read(entries["b"])


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoInput, match=r"m\.index: No such file"):
        read_index(tmp_path / "m")
    with pytest.raises(NoInput, match=r"\.index: No such file"):
        read_index(Path("/"))
    prefix = indexed(tmp_path, (b"a", entry(2)))
    found = read_index(prefix)["a"]
    (tmp_path / "m.data-00000-of-00001").unlink()
    for reading in (lambda: read_index(prefix), lambda: read(found)):
        with pytest.raises(NoInput, match=r"m\.data-00000-of-00001: No such file"):
            reading()


# -- any bytes ------------------------------------------------------------------------------------------------------

WRITTEN = (GOLDEN / "squad" / "model.ckpt-20.index").read_bytes()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a prefix with TensorFlow's numbers beside it."""
    path = tmp_path_factory.mktemp("bundle") / "m"
    data = (GOLDEN / "squad" / "model.ckpt-20.data-00000-of-00001").read_bytes()
    Path(f"{path}.data-00000-of-00001").write_bytes(data)
    return path


def is_read_or_refused(prefix: Path, index: bytes) -> None:
    Path(f"{prefix}.index").write_bytes(index)
    with contextlib.suppress(BertcliError):
        for found in read_index(prefix).values():
            read(found)


def mutated(draw: Any, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed) - 1))
        changed[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(changed) or b"\0"


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_changed_index_is_read_or_refused(prefix: Path, data: st.DataObject) -> None:
    is_read_or_refused(prefix, mutated(data.draw, WRITTEN))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.integers(0, 2))
def test_a_changed_block_with_a_right_checksum_is_read_or_refused(prefix: Path, data: st.DataObject, kind: int) -> None:
    """Past the checksums, so that the lengths and messages within are what is wrong."""
    plain = content(sorted(leveldb.rows(WRITTEN, LONGEST).items())[:12])
    block = compressed(plain) if kind == 1 else plain
    is_read_or_refused(prefix, table(mutated(data.draw, block), kind=kind % 2))


@settings(max_examples=100, deadline=None)
@given(value=st.binary(max_size=40), header=st.binary(max_size=10) | st.just(HEADER))
def test_any_protobufs_are_read_or_refused(prefix: Path, value: bytes, header: bytes) -> None:
    is_read_or_refused(prefix, table(content([(b"", header), (b"a", value)])))


@settings(max_examples=100, deadline=None)
@given(index=st.binary(max_size=200))
def test_any_bytes_are_refused(prefix: Path, index: bytes) -> None:
    Path(f"{prefix}.index").write_bytes(index + leveldb.MAGIC)
    with pytest.raises(BadData):
        read_index(prefix)


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=5))
def test_varints_come_back(numbers: list[int]) -> None:
    data, at, found = varints(*numbers), 0, []
    while at < len(data):
        number, at = varint(data, at)
        found.append(number)
    assert found == numbers
