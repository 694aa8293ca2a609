"""People's own tables, in and out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.formats import reader, writer
from bertcli.lines import Lines, Source
from bertcli.records import Classification, Regression, checker


def read(name: str, data: str | bytes, on_error: str = "stop", **options: Any) -> list[dict[str, Any]]:
    data = data.encode() if isinstance(data, str) else data
    return list(reader(name)(Lines(Source(io.BytesIO(data), "in"), on_error=on_error), **options))  # type: ignore[arg-type]


def written(name: str, records: list[dict[str, Any]], **options: Any) -> str:
    return b"".join(writer(name)(records, **options)).decode()


# -- reading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "options", "expected"),
    [
        ("csv", 'text,label\n"a, ""b""\nc",x\n', {}, [{"id": "0", "text": 'a, "b"\nc', "label": "x"}]),
        ("tsv", 'label\ttext\nx\t "a\n', {}, [{"id": "0", "text": ' "a', "label": "x"}]),
        (
            "csv",
            "id,text,text_pair,source\n7,a,b,c\n8,,,\n",
            {},
            [
                {"id": "7", "text": "a", "text_pair": "b", "source": "c"},
                {"id": "8", "text": "", "text_pair": "", "source": ""},
            ],
        ),
        (
            "csv",
            "q,a,y,id,n\n1,2,3,4,5\n",
            {"text_column": "q", "pair_column": "a", "label_column": "y", "id_column": "n"},
            [{"id": "5", "text": "1", "text_pair": "2", "label": "3", "column_id": "4"}],
        ),
        (
            "csv",
            "text,clean,column_text\na,b,c\n",
            {"text_column": "clean"},
            [{"id": "0", "text": "b", "column_column_text": "a", "column_text": "c"}],
        ),
        (
            "csv",
            "text,label\na,1\nb,\nc,-2.5e1\n",
            {"number": True},
            [
                {"id": "0", "text": "a", "label": 1.0},
                {"id": "1", "text": "b"},
                {"id": "2", "text": "c", "label": -25.0},
            ],
        ),
        (
            "csv",
            "text,label\na,x|y\nb,\nc,z\n",
            {"several": "|"},
            [
                {"id": "0", "text": "a", "labels": ["x", "y"]},
                {"id": "1", "text": "b", "labels": []},
                {"id": "2", "text": "c", "labels": ["z"]},
            ],
        ),
        (
            "csv",
            "text,labels,label\na,x|y,z\n",
            {"several": "|"},
            [{"id": "0", "text": "a", "labels": ["x", "y"], "column_label": "z"}],
        ),
        (
            "tsv",
            "x\tgood\tw\n",
            {"headerless": True, "text_column": "2", "label_column": "1"},
            [{"id": "0", "text": "good", "label": "x", "3": "w"}],
        ),
        ("csv", "text;n\na,b;1\n", {"delimiter": ";"}, [{"id": "0", "text": "a,b", "n": "1"}]),
        ("csv", "text\n\nb\n", {}, [{"id": "0", "text": "b"}]),
        ("csv", "", {}, []),
        ("tsv", "text\n", {}, []),
    ],
)
def test_columns(name: str, data: str, options: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    found = read(name, data, **options)
    assert [json.dumps(record) for record in found] == [json.dumps(record) for record in expected]
    for record in found:
        checker(Regression if options.get("number") else Classification)(record)


@pytest.mark.parametrize(
    ("name", "data", "options", "said"),
    [
        ("csv", "text,label\na,b,c\n", {}, "in:2: found 3, expected 2 columns"),
        ("csv", 'text,label\n"a\n",x\n"b\nc"\n', {}, "in:4: found 1, expected 2 columns"),
        ("csv", 'text,label\n"a\nb",x\nc,d"\n', {}, r"in:4: column 2; found 'd\"', expected a cell .*"),
        ("csv", 'text,label\n"a\nb",x\n', {"number": True}, "in:2: field 'label': found 'x', expected a finite number"),
        ("csv", "text,label\na,nan\n", {"number": True}, "in:2: field 'label': found 'nan', expected a finite number"),
        ("csv", "\nname,label\n", {}, r"in:2: no column 'text'; found 'name, label', expected a header with it"),
        ("tsv", "a\tb\n", {"headerless": True}, r"in:1: no column 'text'; found '1, 2', expected a header with it"),
        ("tsv", "text\n", {"label_column": "x"}, "in:1: no column 'x'; found 'text', expected a header with it"),
        ("csv", "text,a,a\n", {}, "in:1: two columns have one name; found 'a', expected each name once .*"),
        ("csv", b"text\na\xff\n", {}, "in:2: not UTF-8: byte 0xff at offset 1 of the line"),
    ],
)
def test_what_is_bad(name: str, data: str | bytes, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData, match=f"^{said}$"):
        read(name, data, **options)


def test_bad_rows_can_be_skipped_and_keep_their_number() -> None:
    assert read("csv", 'text,label\na\n"b\nb",x,y\nc,z\n', on_error="skip") == [{"id": "2", "text": "c", "label": "z"}]
    with pytest.raises(BadData, match="no column"):
        read("csv", "name\na\n", on_error="skip")


# -- writing --------------------------------------------------------------------------------------------


def test_predictions() -> None:
    details = {"probabilities": {"x": 0.75, "y": 0.25}}
    records = [
        {"id": "0", "text": "a", "prediction": "x", "details": details, "label": "y", "n": 1.5, "list": [1, None]},
        {"id": "1", "text": 'b "c"', "prediction": "y", "details": details, "label": None, "list": {"é": True}},
    ]
    assert written("csv", records).splitlines() == [
        "id,text,label,n,list,prediction,probability",
        '0,a,y,1.5,"[1,null]",x,0.75',
        '1,"b ""c""",,,"{""é"":true}",y,0.25',
    ]
    assert written("tsv", records).splitlines()[2] == '1\tb "c"\t\t\t{"é":true}\ty\t0.25'


def test_a_written_table_that_is_predicted_anew_has_the_new_probabilities() -> None:
    details = {"probabilities": {"x": 0.75, "y": 0.25}}
    first = written("csv", [{"text": "a", "prediction": "x", "details": details}])
    (record,) = read("csv", first)
    again = written("csv", [record | {"prediction": "y", "details": details}])
    assert again == "id,text,column_probability,prediction,probability\n0,a,0.75,y,0.25\n"
    (record,) = read("csv", again)
    assert (record["column_probability"], record["column_column_probability"]) == ("0.75", "0.25")


@pytest.mark.parametrize(
    ("record", "options", "row"),
    [
        ({"labels": ["x", "y"], "prediction": []}, {"several": "|"}, "labels,prediction\nx|y,\n"),
        ({"labels": ["x"], "prediction": ["y"]}, {}, 'labels,prediction\n"[""x""]","[""y""]"\n'),
        ({"prediction": 1, "details": {"probabilities": [0.25, 0.75]}}, {}, "prediction,probability\n1,0.75\n"),
        ({"prediction": 2.5, "details": {}}, {}, "prediction\n2.5\n"),
        ({"prediction": ["x"], "details": {"probabilities": {"x": 0.5}}}, {"several": "+"}, "prediction\nx\n"),
        ({"text": "a;b,c"}, {"delimiter": ";"}, 'text\n"a;b,c"\n'),
    ],
)
def test_cells(record: dict[str, Any], options: dict[str, str], row: str) -> None:
    assert written("csv", [record], **options) == row
    assert written("csv", [], **options) == ""


@pytest.mark.parametrize(
    ("name", "records", "options", "said"),
    [
        ("csv", [{"a": 1}, {"b": 2}], {}, "field 'b': found '2', expected no field that the first record lacks"),
        ("tsv", [{"a": "x\ty"}], {}, r"field 'a': found 'x\\ty', expected no tab .*"),
        ("tsv", [{"a": "x\ny"}], {}, r"field 'a': found 'x\\ny', expected no tab .*"),
        ("tsv", [{"a": "x\r"}], {}, r"field 'a': found 'x\\r', expected no tab .*"),
        ("tsv", [{"a": " "}], {}, "field 'a': found ' ', expected more than a blank line.*"),
        ("tsv", [{"a\t": "x"}], {}, r"field 'a\t': found 'a\\t', expected no tab .*"),
        ("csv", [{"labels": ["a|b"]}], {"several": "|"}, r"field 'labels': labels that '\|' cannot join; .*"),
        ("csv", [{"labels": [""]}], {"several": "|"}, r"field 'labels': labels that '\|' cannot join; .*"),
    ],
)
def test_what_cannot_be_written(name: str, records: list[dict[str, Any]], options: dict[str, str], said: str) -> None:
    with pytest.raises(BadData, match=f"^{said}$"):
        written(name, records, **options)


# -- there and back -------------------------------------------------------------------------------------

text = st.text(
    st.one_of(st.sampled_from('",;|\t\n\r \ufeff\u2028\x0b\x85'), st.characters(codec="utf-8", exclude_characters="\0"))
).map(lambda value: value.replace("\r\n", "\n"))
label = st.text(st.characters(codec="utf-8", exclude_characters="|\r\0"), min_size=1, max_size=4)
answers = {
    "name": ({"label": label}, {"prediction": label}, {}),
    "number": (
        {"label": st.floats(allow_nan=False, allow_infinity=False)},
        {"prediction": st.floats(allow_nan=False, allow_infinity=False)},
        {"number": True},
    ),
    "several": ({"labels": st.lists(label, max_size=3)}, {"prediction": st.lists(label, max_size=3)}, {"several": "|"}),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    gold, predicted, options = answers[draw(st.sampled_from(sorted(answers)))]
    fields = {"id": text, "text": text, **draw(st.sampled_from([{}, {"text_pair": text}]))}
    fields |= draw(st.sampled_from([{}, gold])) | draw(st.sampled_from([{}, predicted]))
    others = draw(st.lists(text.filter(lambda name: name not in fields and name != "details"), max_size=2, unique=True))
    others = [
        name for name in others if not name.startswith("column_") and name not in ("label", "labels", "text_pair")
    ]
    return draw(st.lists(st.fixed_dictionaries(fields | dict.fromkeys(others, text)), max_size=4)), options


@given(cases())
@example(([{"id": "", "text": ""}], {}))
def test_reading_writing_and_reading_gives_the_same_records(case: tuple[list[dict[str, Any]], dict[str, Any]]) -> None:
    records, options = case
    given_to_write = {name: value for name, value in options.items() if name == "several"}
    for delimiter in (",", ";"):
        file = written("csv", records, delimiter=delimiter, **given_to_write)
        assert read("csv", file, delimiter=delimiter, **options) == records
    cells = [cell for row in csv.reader(io.StringIO(file, newline=""), delimiter=";") for cell in row]
    if any(mark in cell for cell in cells for mark in "\t\r\n"):
        with pytest.raises(BadData, match="no tab and no line end"):
            written("tsv", records, **given_to_write)
    else:
        assert read("tsv", written("tsv", records, **given_to_write), **options) == records


@given(st.lists(st.fixed_dictionaries({"a": text, "b": text}), min_size=1))
def test_python_reads_what_is_written(records: list[dict[str, str]]) -> None:
    file = io.StringIO(written("csv", records), newline="")  # type: ignore[arg-type]
    assert list(csv.DictReader(file, strict=True)) == records


def test_one_column_of_blank_cells() -> None:
    records = [{"text": each} for each in ("", " ", "a", "\n")]
    file = written("csv", records)
    assert file == 'text\n""\n" "\na\n"\n"\n'
    assert [record["text"] for record in read("csv", file)] == [record["text"] for record in records]


def test_what_looks_like_a_bom_is_kept() -> None:
    records = [{"\ufefftext": "\ufeffa"}]
    (found,) = read("csv", written("csv", records), text_column="\ufefftext")
    assert found["text"] == "\ufeffa"


@pytest.mark.parametrize("name", ["csv", "tsv", "glue-sst-2"])
def test_a_record_comes_before_the_next_row(name: str) -> None:
    class Endless(io.RawIOBase):
        sent = 0

        def read(self, size: int = -1) -> bytes:
            self.sent += 1
            return b"a\n" if self.sent > 1 else b"sentence\n"

    source = Endless()
    options = {} if name.startswith("glue") else {"text_column": "sentence"}
    records = reader(name)(Lines(Source(source, "in")), **options)  # type: ignore[arg-type]
    assert [next(records)["id"] for _ in range(3)] == ["0", "1", "2"]
    assert source.sent <= 5


# -- the command ----------------------------------------------------------------------------------------


def test_the_options_of_the_command(shell: Callable[..., Result]) -> None:
    line = (
        "printf 'x;\"a\\nb\";1|2;9\\n' | bertcli read csv --no-header --delimiter ';' --several '|' --text 2 --label 3"
    )
    assert shell(f"{line} --id 1 --text-pair 4").records == [
        {"id": "x", "text": "a\nb", "text_pair": "9", "labels": ["1", "2"]}
    ]
    assert shell("printf 'text,label\\na,2\\n' | bertcli read csv --number").records[0]["label"] == 2
    written = shell("printf 'text,label\\na,b c\\n' | bertcli read csv --several ' ' | bertcli write tsv --several +")
    assert written.out == b"id\ttext\tlabels\n0\ta\tb+c\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("read csv --number --several ,", "--number and --several"),
        ("read csv --several ''", "it is empty"),
        ("read csv --delimiter ab", "'ab' is not one character"),
        ("read csv --delimiter '\"'", "is not one character other than"),
        ("read tsv --delimiter ,", "--delimiter is an option of csv, not of tsv"),
        ("read csv --seed 1", "--seed is an option of swag, not of csv"),
        ("read triviaqa", "triviaqa needs --evidence"),
        ("write glue-rte --several ,", "--several is an option of csv and tsv, not of glue-rte"),
    ],
)
def test_what_cannot_be_meant(shell: Callable[..., Result], line: str, said: str) -> None:
    result = shell(f"bertcli {line}")
    assert (result.status, result.out) == (2, b"")
    assert said in result.err
