"""The model folder without its tensors: config, vocabulary, tokenizer files, `bertcli.json`.

The folder is Hugging Face's; what only bertcli needs is in `bertcli.json`. How its files appear is `publish`'s affair.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcli.errors import BadData, NoInput, many, shown
from bertcli.lines import BOM

PAD, UNK, CLS, SEP, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100  # code points; a longer word is one [UNK]
# What a `tokenizer.json` may say of its model, for other WordPieces would cut texts otherwise.
USUAL = {"continuing_subword_prefix": "##", "unk_token": UNK, "max_input_chars_per_word": LONGEST_WORD}
# What is read whole: a larger file is refused before it is. The largest vocabularies have half a million pieces in 5 MB
# of vocab.txt, or 20 MB of tokenizer.json.
LONGEST_JSON, LONGEST_VOCABULARY = 1 << 26, 1 << 26  # bytes
MOST_PIECES = 1 << 21
DEEPEST = 64  # objects within objects
# Where the versions of transformers keep the tokens that were added to a vocabulary; no field: they are the file's own.
ADDED = {
    "added_tokens.json": (),
    "special_tokens_map.json": ("additional_special_tokens", "extra_special_tokens"),
    "tokenizer_config.json": ("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"),
    "tokenizer.json": ("added_tokens",),
}


@dataclass(frozen=True)
class Casing:
    """The switches of BERT's normaliser, which travel with a vocabulary in `tokenizer_config.json`."""

    lowercase: bool
    strip_accents: bool
    split_cjk: bool = True

    def __str__(self) -> str:
        """Returns the switches as options that give them."""
        names = ("uncased" if self.lowercase else "cased", "strip-accents", "split-cjk")
        on = (True, self.strip_accents, self.split_cjk)
        return " ".join(f"--{name}" if is_on else f"--no-{name}" for name, is_on in zip(names, on, strict=True))


# -- reading --------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """Returns a JSON object from a file; raises `NoInput` or `BadData` naming the file."""
    try:
        value = json.loads(read_whole(path, LONGEST_JSON))
        json.dumps(value, ensure_ascii=False).encode()  # no lone surrogates, which nothing could write again
    except (ValueError, RecursionError) as error:
        raise BadData(f"not JSON ({error})", file=str(path)) from None
    if not isinstance(value, dict):
        raise BadData(file=str(path), found=value, expected="a JSON object")
    level: list[Any] = [value]
    for _ in range(DEEPEST):  # what works on the values goes from one into the next
        level = [inner for each in level for inner in _inner(each)]
    if level:
        raise BadData(f"objects within objects, more than {DEEPEST} deep", file=str(path))
    return value


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def read_whole(path: Path, limit: int) -> bytes:
    """Returns what a file holds; raises `NoInput`, or `BadData` for more bytes than the limit."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise NoInput(f"{path}: {error.strerror}") from error
    if len(data) > limit:
        raise BadData(f"a file of more than {limit} bytes", file=str(path))
    return data


def read_vocabulary(path: Path) -> list[str]:
    """Returns the pieces of a `vocab.txt` (id = line number from 0) or of a `tokenizer.json`.

    Blank and repeated lines keep their ids, CRLF is LF, a BOM is no part of the first. Raises `NoInput`, or `BadData`
    where a special token is missing or a line is not UTF-8.
    """
    if path.name == "tokenizer.json":
        pieces = _pieces_of_tokenizer_json(path)
    else:
        lines = read_whole(path, LONGEST_VOCABULARY).removeprefix(BOM).split(b"\n", MOST_PIECES)
        if len(lines) > MOST_PIECES and lines[-1]:
            raise BadData(f"a vocabulary of more than {MOST_PIECES} pieces", file=str(path))
        if lines[-1] == b"":
            lines.pop()
        pieces = [_decoded(line.removesuffix(b"\r"), path, number) for number, line in enumerate(lines, 1)]
    known = set(pieces)
    if missing := [token for token in SPECIAL if token not in known]:
        raise BadData(f"a vocabulary without {' '.join(missing)}", file=str(path))
    return pieces


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadData(f"not UTF-8 at offset {error.start} of the line", file=str(path), line=number) from None


def _pieces_of_tokenizer_json(path: Path) -> list[str]:
    ids = _ids_of_tokenizer_json(path)
    if {*ids.values()} != {*range(len(ids))}:
        raise BadData(file=str(path), field="model", found=ids, expected="a WordPiece model with ids from 0")
    return sorted(ids, key=ids.__getitem__)


def _ids_of_tokenizer_json(path: Path) -> dict[str, int]:
    model = read_json(path).get("model")
    model = model if isinstance(model, dict) else {}
    ids = model.get("vocab") if model.get("type") == "WordPiece" else None
    if not isinstance(ids, dict) or set(map(type, ids.values())) != {int}:
        raise BadData(file=str(path), field="model", found=model, expected="a WordPiece model with ids from 0")
    if any("\n" in piece or "\r" in piece for piece in ids):
        raise BadData("a piece with the end of a line in it", file=str(path))
    for name, usual in USUAL.items():
        if model.get(name, usual) != usual:
            raise BadData(file=str(path), field=name, found=model[name], expected=repr(usual))
    return ids


def check_alike(file: Path, pieces: list[str]) -> None:
    """Raise `BadData` where a `tokenizer.json` beside a `vocab.txt` gives its pieces other ids: which are meant?"""
    other = file.with_name("tokenizer.json")
    if file.name != "vocab.txt" or not other.exists():
        return
    ids, others = {piece: number for number, piece in enumerate(pieces)}, _ids_of_tokenizer_json(other)
    if ids != others:
        first = next((piece for piece in [*ids, *others] if ids.get(piece) != others.get(piece)), "")
        told = " and ".join(
            f"{shown(own.get(first))} in {name}" for own, name in ((ids, file.name), (others, other.name))
        )
        raise BadData(f"the id of {shown(first)} is {told}", file=str(file.parent))


def vocabulary_file(folder: Path) -> Path:
    """Returns where a folder has its pieces: `vocab.txt` or, as transformers 5 saves it, `tokenizer.json`.

    What is no folder is a vocabulary itself. Raises `NoInput` for a folder without one.
    """
    if not folder.is_dir():
        return folder
    for name in ("vocab.txt", "tokenizer.json"):
        if (folder / name).exists():
            return folder / name
    kind = read_json(folder / "config.json").get("model_type") if (folder / "config.json").exists() else None
    told = "" if kind in (None, "bert") else f", and its config is of model_type {shown(kind)}"
    raise NoInput(f"{folder}: no vocab.txt and no tokenizer.json{told}")


def is_vocabulary(path: Path) -> bool:
    """Returns whether a file is a vocabulary: a `tokenizer.json`, or plain lines with each special token on its own."""
    if not path.is_file():  # a pipe is a stream, and must not be read here
        return False
    with path.open("rb") as file:
        lines = file.read(1 << 24).splitlines()
    return path.name == "tokenizer.json" or {token.encode() for token in SPECIAL} <= set(lines)


def read_max_length(folder: Path) -> int | None:
    """Returns the tokens a sequence of `tokenizer_config.json`, None where it says nothing of use."""
    path = folder / "tokenizer_config.json"
    length = read_json(path).get("model_max_length") if path.exists() else None
    return length if type(length) is int and 2 < length < 1 << 20 else None


def unread(folder: Path) -> str:
    """Returns which tokens, BERT's own aside, transformers looks for in a text before it cuts it, and we do not."""
    tokens = _added_tokens(folder)
    first = ", ".join([*map(shown, tokens[:3]), *["…"] * (len(tokens) > 3)])
    return f"{folder}: {many(len(tokens), 'added token')} ({first}) will not be looked for in texts" if tokens else ""


def _added_tokens(folder: Path) -> list[str]:
    found: list[Any] = []
    for name, fields in ADDED.items():
        values = read_json(folder / name) if (folder / name).exists() else {}
        found += [entry for field in fields for entry in _inner(values.get(field))] if fields else values
    tokens = [entry.get("content") if isinstance(entry, dict) else entry for entry in found]
    return sorted({token for token in tokens if isinstance(token, str)} - {*SPECIAL})


def read_notes(folder: Path) -> dict[str, Any]:
    """Returns what `bertcli.json` holds; an empty dict for a folder that another program made."""
    return read_json(folder / "bertcli.json") if (folder / "bertcli.json").exists() else {}


def read_casing(folder: Path) -> Casing | None:
    """Returns the switches of a folder's `tokenizer_config.json`, else of its `tokenizer.json`, else None.

    As in transformers, `strip_accents` follows the case where it is null or absent.
    """
    config = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    for name, usual in (("word_tokenizer_type", "basic"), ("subword_tokenizer_type", "wordpiece")):
        if (found := config.get(name, usual)) != usual:  # as of Japanese models, whose words MeCab cuts
            raise BadData(file=str(folder / "tokenizer_config.json"), field=name, found=found, expected=usual)
    if "do_lower_case" not in config and (folder / "tokenizer.json").exists():
        normalizer = read_json(folder / "tokenizer.json").get("normalizer") or {}
        if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
            config = {
                "do_lower_case": normalizer.get("lowercase", True),
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
            }
    if "do_lower_case" not in config:
        return None
    lowercase, strip = bool(config["do_lower_case"]), config.get("strip_accents")
    return Casing(
        lowercase,
        lowercase if strip is None else bool(strip),
        bool(config.get("tokenize_chinese_chars", True)),
    )


# -- writing --------------------------------------------------------------------------------------------------------


def write_json(path: Path, value: dict[str, Any] | list[Any]) -> None:
    """Write a JSON object, or list, for people to read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tokenizer(folder: Path, pieces: list[str], casing: Casing, max_length: int) -> None:
    """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`, which transformers reads as a BertTokenizer."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    (folder / "vocab.txt").write_bytes("".join(f"{piece}\n" for piece in pieces).encode())
    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=LONGEST_WORD))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=casing.split_cjk,
        strip_accents=casing.strip_accents,
        lowercase=casing.lowercase,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, ids[CLS]), (SEP, ids[SEP])],
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": casing.lowercase,
            "strip_accents": casing.strip_accents,
            "tokenize_chinese_chars": casing.split_cjk,
            "model_max_length": max_length,
            **dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)),
        },
    )
