"""The schema is the one judge of a record, and a record's randomness hangs on its id alone."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli import records
from bertcli.errors import BadData
from bertcli.randomness import randomness
from bertcli.records import Answer, Document, MaskedPair, Words, checker, key

SCHEMAS = [kind for kind in vars(records).values() if is_dataclass(kind) and isinstance(kind, type)]

GOOD: dict[Any, Any] = {
    str: "a",
    int: 3,
    bool: True,
    list[str]: ["a"],
    list[int]: [1],
    float: 2.5,
    str | list[str]: ["a"],
    list[Answer]: [{"text": "a", "start": 0}],
    list[str | list[str]]: ["a", ["b", "c"]],
    list[list[dict[str, Any]]]: [[{}]],
    dict[str, Any]: {},
}
BAD: dict[Any, list[Any]] = {
    str: [1, ["a"]],
    int: ["3", True, 3.0],
    bool: [1, "true"],
    list[str]: ["a", [1], {}],
    list[int]: [[True], ["1"], 1],
    float: ["3", True],
    str | list[str]: [1, [1]],
    list[Answer]: [[{"text": "a"}], ["a"], {"text": "a", "start": 0}],
    list[str | list[str]]: ["a", [1], [["a", 1]]],
    list[list[dict[str, Any]]]: [[{}], "a"],
    dict[str, Any]: [[], "a"],
}


def kinds(schema: type) -> dict[str, Any]:
    """Returns the type that each field asks for, without its None."""
    hints = get_type_hints(schema)
    return {
        field.name: next((kind for kind in GOOD if hints[field.name] in (kind, kind | None)), None)
        for field in fields(schema)  # type: ignore[arg-type]
    }


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_every_field_is_checked(schema: type) -> None:
    good = {name: GOOD[kind] for name, kind in kinds(schema).items() if kind is not None}
    checker(schema)(good | {"unknown": object()})
    assert set(kinds(schema)) - set(good) <= {"id"}, "a field that nothing checks"
    for field in fields(schema):  # type: ignore[arg-type]
        if field.name not in good:
            continue
        for bad in BAD[kinds(schema)[field.name]]:
            with pytest.raises(BadData, match=f"^field '{field.name}': found .*, expected "):
                checker(schema)(good | {field.name: bad})
        alone = {name: value for name, value in good.items() if name != field.name}
        for absent in (alone, alone | {field.name: None}):
            if field.default is MISSING:
                with pytest.raises(BadData, match=f"^field '{field.name}': found nothing, expected "):
                    checker(schema)(absent)
            else:
                checker(schema)(absent)


def test_the_first_bad_element_is_named() -> None:
    for schema, record, said in (
        (Words, {"words": ["a", 1, None]}, "field 'words': found 1, expected a string at [1]"),
        (
            Document,
            {"sentences": ["a", ["b", {"c": 1}]]},
            "field 'sentences': found an object, expected a string at [1][1]",
        ),
        (Document, {"sentences": ["a", 2]}, "field 'sentences': found 2, expected a string or a list of words at [1]"),
    ):
        with pytest.raises(BadData) as caught:
            checker(schema)(record)
        assert str(caught.value) == said


@pytest.mark.parametrize("schema", [Document, Words])
def test_one_of_several_fields_is_needed(schema: type) -> None:
    with pytest.raises(BadData, match="found nothing, expected one of "):
        checker(schema)({"id": "1"})


def test_a_masked_pair_is_a_pair() -> None:
    assert {field.name for field in fields(records.Pair)} < {field.name for field in fields(MaskedPair)}


@given(st.integers(0, 2**62), st.integers(0, 99), st.text(max_size=5), st.integers(0, 99))
def test_randomness_hangs_on_seed_epoch_and_id_alone(seed: int, epoch: int, identity: str, index: int) -> None:
    first = randomness(seed, epoch, key({"id": identity, "more": 1}, index)).random()
    assert first == randomness(seed, epoch, key({"id": identity}, index + 1)).random()
    others = [(seed + 1, epoch, identity), (seed, epoch + 1, identity), (seed, epoch, identity + "x")]
    assert first not in [randomness(s, e, key({"id": i}, index)).random() for s, e, i in others]


def test_randomness_is_the_same_on_every_machine() -> None:
    assert randomness(0, 0, key({"id": "0"}, 5)).random() == 0.8929135588514424
    assert key({"id": {"b": 1, "a": [2]}}, 0) == '{"a": [2], "b": 1}'
    assert key({}, 3) == key({"id": None}, 3) == "#3"
    assert key({"id": 3}, 0) != key({"id": "3"}, 0)
