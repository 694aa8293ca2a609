"""A vocabulary that grew: which old pieces a new one is made of, and that all else stays as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import models
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertcli.errors import BadData
from bertcli.folder import SPECIAL, Casing
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.folder import open_folder
from bertcli.weights.grown import Growth, extended, grow, unchanged

OLD = [*SPECIAL, "[unused0]", "[unused1]", "play", "##ing", "##s", "s", "##a", "a", "[X]"]


def written(path: Path, pieces: Sequence[str]) -> Path:
    (path / "new.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    return path / "new.txt"


def grown(path: Path, *new: str, old: Sequence[str] = OLD) -> Growth:
    return extended(WordPiece(list(old), models.UNCASED), written(path, [*old, *new]))


def spelled(growth: Growth) -> dict[str, list[str]]:
    pieces = growth.wordpiece.pieces
    return {pieces[number]: [pieces[part] for part in parts] for number, parts in growth.parts.items()}


def test_a_piece_is_made_of_those_that_its_text_was_cut_into(tmp_path: Path) -> None:
    growth = grown(tmp_path, "playing", "##as", "sing", "plays", "##playing", "q", "[Y]", "playq")
    assert spelled(growth) == {
        "playing": ["play", "##ing"],
        "##as": ["##a", "##s"],
        "sing": ["s", "##ing"],
        "plays": ["play", "##s"],
        "##playing": ["[UNK]"],  # "play" is known at the beginning of a word alone
        "q": ["[UNK]"],
        "[Y]": ["[UNK]"],
        "playq": ["[UNK]"],
    }
    assert growth.figures == {"new_pieces": 8, "parts": 2, "uncut": 4}
    cut = "8 new pieces: the mean of 2.00 old ones each"
    assert str(growth) == f"{cut}; 4 that they do not make, as '##playing', like [UNK]"
    assert growth.warnings() == []


@given(st.lists(st.text("abcq", min_size=1, max_size=6), unique=True, max_size=8))
def test_parts_spell_the_piece(new: list[str]) -> None:
    old = WordPiece([*SPECIAL, *"abc", "##a", "##b", "##c", "ab", "##bc"], models.UNCASED)
    added = [f"{prefix}{text}" for text in new for prefix in ("", "##")]
    added = [piece for piece in added if piece not in old.ids]
    whole = WordPiece([*old.pieces, *added], models.UNCASED)
    for piece in added:
        inside, text = piece.startswith("##"), piece.removeprefix("##")
        cut = old.cut(text, inside=inside)
        assert whole.cut(text, inside=inside) == [whole.ids[piece]]
        if "q" in text:
            assert cut == [old.unk]
        else:
            parts = [old.pieces[part] for part in cut]
            assert "".join(part.removeprefix("##") for part in parts) == text
            assert [part.startswith("##") for part in parts] == [inside] + [True] * (len(parts) - 1)


def test_free_places_may_be_taken(tmp_path: Path) -> None:
    pieces = ["playing" if piece == "[unused1]" else piece for piece in OLD]
    growth = extended(WordPiece(OLD, models.UNCASED), written(tmp_path, pieces))
    assert growth.parts == {OLD.index("[unused1]"): [OLD.index("play"), OLD.index("##ing")]}


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (OLD[:-1], r"new.txt: id 13: found nothing, expected the old piece '\[X\]'"),
        ([*OLD[:7], "new", *OLD[7:]], "new.txt: id 7: found 'new', expected the old piece 'play'"),
        ([*OLD[:-2], "[X]", "a"], r"new.txt: id 12: found '\[X\]', expected the old piece 'a'"),
        ([*OLD, "play"], "new.txt: id 14: the piece 'play' is there already"),
        ([*OLD, "new", "new"], "new.txt: id 15: the piece 'new' is there already"),
        ([*OLD[:5], "play", *OLD[6:]], "new.txt: id 5: the piece 'play' is there already"),
        ([*OLD, "New"], "new.txt: the piece 'New' would never be made with --uncased"),
        ([*OLD, "café"], "new.txt: the piece 'café' would never be made with --uncased --strip-accents"),
    ],
)
def test_what_is_no_old_vocabulary_grown(tmp_path: Path, pieces: list[str], said: str) -> None:
    with pytest.raises(BadData, match=said):
        extended(WordPiece(OLD, models.UNCASED), written(tmp_path, pieces))


def test_another_casing_beside_the_new_vocabulary(tmp_path: Path) -> None:
    written(tmp_path, [*OLD, "new"]).rename(tmp_path / "vocab.txt")
    for cased in (False, True):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not cased}))
        old = WordPiece(OLD, Casing(lowercase=not cased, strip_accents=not cased))
        assert extended(old, tmp_path).wordpiece.casing == old.casing
        with pytest.raises(BadData, match=r"vocab.txt: its casing is .*, that of the old vocabulary --"):
            extended(WordPiece(OLD, Casing(lowercase=cased, strip_accents=cased)), tmp_path)


def test_pieces_that_no_text_is_cut_to_are_told(tmp_path: Path) -> None:
    growth = grown(tmp_path, "new york", "[Z]", "covid-19", "##'s", "fine")
    assert growth.unmade == ["new york", "covid-19", "##'s"]
    assert growth.warnings() == ["3 new pieces that no text is cut to, as 'new york': marks stand apart"]


# -- rows -----------------------------------------------------------------------------------------------------------


def test_rows_of_old_pieces_stay_and_of_new_ones_are_means(tmp_path: Path) -> None:
    """Also where the old table was filled up with rows that belong to no piece."""
    count = len(models.PIECES)
    path = models.save(models.theirs("BertForPreTraining", vocab_size=count + 7), tmp_path / "model")
    _, network = models.opened(path)
    tables = [network.bert.embeddings.word.weight, network.heads["mlm"].bias]
    before = [table.detach().clone() for table in tables]
    growth = grown(tmp_path, "cats", "##ab", "\u4e2d", old=models.PIECES)
    grow(network, growth)
    ids = {piece: number for number, piece in enumerate(models.PIECES)}
    for old, new in zip(before, [network.bert.embeddings.word.weight, network.heads["mlm"].bias], strict=True):
        assert len(new) == network.config.vocab_size == count + 3
        assert torch.equal(new[:count], old[:count])
        assert torch.allclose(new[count], (old[ids["cat"]] + old[ids["##s"]]) / 2)
        assert torch.allclose(new[count + 1], (old[ids["##a"]] + old[ids["##b"]]) / 2)
        assert torch.equal(new[count + 2], old[ids["[UNK]"]])


def test_without_growth_only_what_fills_up_goes(tmp_path: Path) -> None:
    count = len(models.PIECES)
    path = models.save(models.theirs("BertForMaskedLM", vocab_size=count + 7), tmp_path / "model")
    _, network = models.opened(path)
    before = network.bert.embeddings.word.weight.detach().clone()
    grow(network, unchanged(open_folder(path).wordpiece))
    assert torch.equal(network.bert.embeddings.word.weight, before[:count])
    assert network.heads["mlm"].bias.shape == (count,)
