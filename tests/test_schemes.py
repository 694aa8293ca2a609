"""The same entities in three spellings; `conlleval`'s reading of all labels is compared in metrics/test_tagging.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.errors import BadData
from bertcli.schemes import SCHEMES, Entity, converted, entities, fitting, spell_entities

LABELS = st.lists(
    st.one_of(st.just("O"), st.builds("{}-{}".format, st.sampled_from("BIESLUMW"), st.sampled_from(["PER", "A-B"]))),
    max_size=8,
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("", []),
        ("O O", []),
        ("I-A I-A B-A O I-B", [("A", 0, 2), ("A", 2, 3), ("B", 4, 5)]),
        ("B-A I-A B-A I-B", [("A", 0, 2), ("A", 2, 3), ("B", 3, 4)]),
        ("S-A B-A I-A E-A S-A", [("A", 0, 1), ("A", 1, 4), ("A", 4, 5)]),
        ("U-A B-A I-A L-A U-A", [("A", 0, 1), ("A", 1, 4), ("A", 4, 5)]),
        ("W-A B-A M-A E-A O", [("A", 0, 1), ("A", 1, 4)]),
        ("B I B O I", [("", 0, 2), ("", 2, 3), ("", 4, 5)]),
        ("E-A E-A O E-B", [("A", 0, 1), ("A", 1, 2), ("B", 3, 4)]),
        ("B-A-B I-A-B I-A", [("A-B", 0, 2), ("A", 2, 3)]),
    ],
)
def test_entities(labels: str, expected: list[tuple[str, int, int]]) -> None:
    assert entities(labels.split()) == [Entity(*each) for each in expected]


@given(LABELS)
def test_every_scheme_holds_the_same_entities(labels: list[str]) -> None:
    for scheme in SCHEMES:
        again = converted(labels, scheme)
        assert entities(again) == entities(labels)
        assert scheme in fitting(again)
        assert fitting(again) == ({scheme} if entities(labels) else set(SCHEMES))
        assert converted(again, scheme) == again


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("I-A I-A B-A O", "IOB1"),
        ("B-A I-A B-A O", "IOB2"),
        ("B-A E-A S-A O", "BIOES"),
        ("B-A L-A U-A O", "BIOES"),
        ("B I B O", "IOB2"),
        ("B-A O I-A", None),
        ("B-A E-A B-A", None),
        ("O I-A NN", None),
    ],
)
def test_the_scheme_is_told_by_well_formed_labels(labels: str, scheme: str | None) -> None:
    assert fitting(labels.split()) == ({scheme} if scheme else set())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O", False),
        ("", False),
        ("NN VB -LRB- O", False),
        ("S V I NN", False),
        ("O I-PER", True),
        ("B I O", True),
        ("NN S-PER", True),
    ],
)
def test_parts_of_speech_spell_no_entities(labels: str, expected: bool) -> None:
    assert spell_entities(labels.split()) is expected


@pytest.mark.parametrize("label", ["NN", "X-PER", "", "PER-B", "O-PER"])
def test_what_is_no_label_of_a_scheme_is_named(label: str) -> None:
    with pytest.raises(BadData, match=f"^field 'labels': found '{label}', expected O, or one of B I E S and a type"):
        converted(["O", label], "IOB2")
