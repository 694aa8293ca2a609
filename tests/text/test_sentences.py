"""Sentences: lines always end one, and the rules know what a full stop may mean."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.commands import options
from bertcli.errors import UsageError
from bertcli.text.sentences import SPLITS, by_lines, by_rules

# A bar is where a sentence ends.
EXAMPLES = [
    "It rained. | We left! | Why? | Nobody knew... | So be it.",
    "Mr. Smith met Dr. J. K. Rowling at 3.14 p.m. on Jan. 5. | It was No. 7.",
    "“Stop!” he cried. | “Go!” | She left. | 'Why?' he asked.",
    "The U.S. Army came. | He lived in the U.S. | The end.",
    "See Fig. 3 and e.g. Foo, i.e. Bar, etc. and so on. | He said no. | Then he left.",
    "Was that all?! | Yes... no. | (Really.) | And version 2.0.1 is at example.com.",
    "1. The first of them. | It was I. | He got a B. | Then a C.",
    "你好。 | 我是谁？ | 他说：“走！” | 然后走了。",
    "안녕하세요. | 반갑습니다.",
    "The price was $3. | It rose to $5.",
    "We asked Mr. He of Kent. | We took plan b. | Nobody minded. | It was I. | Nobody else came.",
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_rules(example: str) -> None:
    sentences = example.split(" | ")
    text = ("" if "。" in example else " ").join(sentences)
    assert by_rules(text) == sentences


@given(st.text(st.sampled_from("aB1 .!?…\"”'。\n\t()") | st.characters(exclude_categories=["Cs"])))
def test_nothing_but_white_space_is_lost_and_lines_end_sentences(text: str) -> None:
    for split in (by_lines, by_rules):
        sentences = split(text)
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentence.strip() and len(sentence.splitlines()) == 1 for sentence in sentences)


def test_line_breaks_split_without_any_mark() -> None:
    assert by_rules("Chapter one\r\n\n It rained. It\nstopped") == ["Chapter one", "It rained.", "It", "stopped"]


def test_sentencex_where_it_is_installed_else_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(UsageError, match=r"pip install 'bertcli\[split\]'"):
        SPLITS["sentencex"]("One. Two.")


def test_the_options_name_every_way() -> None:
    assert list(options.SPLIT.choices) == list(SPLITS)


def test_sentencex() -> None:
    pytest.importorskip("sentencex")
    assert SPLITS["sentencex"]("Mr. Fox ran. He won.\nThe end") == ["Mr. Fox ran.", "He won.", "The end"]


def test_a_long_run_of_marks_takes_no_longer_than_other_text() -> None:
    """Quadratic, it would take minutes."""
    assert by_rules("." * 300_000) == ["." * 300_000]
    assert by_rules("a" + "!" * 300_000 + " B.") == ["a" + "!" * 300_000, "B."]
