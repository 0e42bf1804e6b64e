import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_dataset
from pydicom.sequence import Sequence

from registry.bundle.errors import DamagedPicture, PictureError, TruncatedPicture, UnsupportedPicture
from registry.bundle.pictures.dicom.elements import MAX_DEPTH, MAX_ELEMENTS, Walk, tag_text

UNDEFINED = b"\xff\xff\xff\xff"
ITEM, ITEM_END, SEQUENCE_END = (
    b"\xfe\xff\x00\xe0",
    b"\xfe\xff\x0d\xe0" + bytes(4),
    b"\xfe\xff\xdd\xe0" + bytes(4),
)


def element(tag: int, vr: bytes, value: bytes, length: bytes | None = None) -> bytes:
    head = struct.pack("<HH", tag >> 16, tag & 0xFFFF) + vr
    if vr in (b"SQ", b"OB", b"UN", b"UT"):
        return head + b"\0\0" + (length or struct.pack("<L", len(value))) + value
    return head + (length or struct.pack("<H", len(value))) + value


def walked(content: bytes, explicit: bool = True):
    return list(Walk(content).elements(0, len(content), explicit=explicit))


def nested(depth: int) -> bytes:
    opened = element(0x00080100, b"SQ", b"", UNDEFINED) + ITEM + UNDEFINED
    return opened * depth + (ITEM_END + SEQUENCE_END) * depth


def test_elements_by_hand():
    content = element(0x00080016, b"UI", b"1.2\0") + element(0x7FE00010, b"OB", b"abcd")
    first, second = walked(content)
    assert (first.tag, first.vr, content[first.start : first.end]) == (0x00080016, b"UI", b"1.2\0")
    assert (second.tag, second.vr, content[second.start : second.end]) == (0x7FE00010, b"OB", b"abcd")
    assert not first.in_items
    assert tag_text(second.tag) == "(7FE0,0010)"


def test_a_data_set_that_leaves_out_what_values_are():
    content = struct.pack("<HHL", 0x28, 0x10, 2) + b"\x05\0" + struct.pack("<HHL", 0x7FE0, 0x10, 0)
    rows, pixels = walked(content, explicit=False)
    assert (rows.tag, rows.vr, content[rows.start : rows.end]) == (0x00280010, b"", b"\x05\0")
    assert pixels.start == pixels.end == len(content)


def test_items_are_given_and_stepped_over():
    value = ITEM + bytes(4) + ITEM + b"\x02\0\0\0ab" + SEQUENCE_END
    content = element(0x7FE00010, b"OB", value, UNDEFINED) + element(0xFFFCFFFC, b"OB", b"")
    pixels, padding = walked(content)
    assert pixels.in_items
    assert Walk(content).items(pixels) == [b"", b"ab"]
    assert padding.tag == 0xFFFCFFFC


def test_in_a_value_of_unknown_kind_elements_are_implicit():
    """PS3.5, 6.2.2: a sequence of unknown value representation and length."""
    inside = struct.pack("<HHL", 8, 0x60, 2) + b"XX"
    content = element(0x00091001, b"UN", ITEM + UNDEFINED + inside + ITEM_END + SEQUENCE_END, UNDEFINED)
    assert [one.tag for one in walked(content + element(0x00280010, b"US", b"\1\0"))] == [
        0x00091001,
        0x00280010,
    ]


NAMES = (
    "Rows",
    "Columns",
    "PatientID",
    "Manufacturer",
    "ImageComments",
    "PixelData",
    "ReferencedFrameNumber",
)
SEQUENCES = ("ReferencedSeriesSequence", "IconImageSequence", "AnatomicRegionSequence")


@st.composite
def data_sets(draw, depth: int = 3) -> Dataset:
    dataset = Dataset()
    for name in draw(st.sets(st.sampled_from(NAMES))):
        if name in ("Rows", "Columns"):
            setattr(dataset, name, draw(st.integers(0, 65535)))
        elif name == "PixelData":
            dataset.PixelData = bytes(draw(st.integers(0, 40)) * 2)
            dataset["PixelData"].VR = "OB"
        elif name == "ReferencedFrameNumber":
            dataset.ReferencedFrameNumber = draw(st.lists(st.integers(0, 999), max_size=4))
        else:
            setattr(dataset, name, draw(st.text("ABC ", max_size=30)))
    if draw(st.booleans()):
        block = dataset.private_block(0x0009, "SOMEBODY", create=True)
        block.add_new(1, "UN", bytes(draw(st.integers(0, 10)) * 2))
    if depth:
        for name in draw(st.sets(st.sampled_from(SEQUENCES), max_size=2)):
            items = draw(st.lists(data_sets(depth=depth - 1), max_size=3))
            for item in items:
                item.is_undefined_length_sequence_item = draw(st.booleans())
            setattr(dataset, name, Sequence(items))
            dataset[name].is_undefined_length = draw(st.booleans())
    return dataset


def written(dataset: Dataset, explicit: bool) -> bytes:
    file = DicomBytesIO()
    file.is_little_endian, file.is_implicit_VR = True, not explicit
    write_dataset(file, dataset)
    return file.getvalue()


@given(dataset=data_sets(), explicit=st.booleans())
@settings(max_examples=25)
def test_the_walk_finds_what_pydicom_wrote(dataset, explicit):
    content = written(dataset, explicit)
    found = walked(content, explicit)
    assert [one.tag for one in found] == [int(one.tag) for one in dataset]
    assert (found[-1].end if found else 0) == len(content)


@given(dataset=data_sets(), explicit=st.booleans(), share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=25)
def test_the_beginning_of_a_data_set_is_one_only_where_an_element_ends(dataset, explicit, share):
    content = written(dataset, explicit)
    ends = {0, *(one.end for one in walked(content, explicit))}
    cut = int(len(content) * share)
    if cut in ends:
        walked(content[:cut], explicit)
    else:
        with pytest.raises(TruncatedPicture):
            walked(content[:cut], explicit)


@given(content=st.binary(max_size=300), explicit=st.booleans())
@settings(max_examples=200)
def test_any_bytes_end_in_elements_or_a_refusal(content, explicit):
    try:
        found = walked(content, explicit)
    except PictureError:
        return
    assert all(0 <= one.start <= one.end <= len(content) for one in found)


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (
            element(0x00080016, b"UI", b"", b"\x10\0"),
            TruncatedPicture,
            r"\(0008,0016\) promises 16 bytes, and 0",
        ),
        (
            element(0x7FE00010, b"OB", b"", b"\xfe\xff\xff\xff"),
            TruncatedPicture,
            "promises 4,294,967,294 bytes",
        ),
        (b"\x08\0\x16", TruncatedPicture, "ends within an element"),
        (b"\x08\0\x16\0OB\0\0", TruncatedPicture, "ends within an element"),
        (element(0x00080016, b"UI", b"") * 2, DamagedPicture, "stands where it must not"),
        (
            element(0x00280010, b"US", b"") + element(0x00080016, b"UI", b""),
            DamagedPicture,
            "where it must not",
        ),
        (ITEM + bytes(4), DamagedPicture, "no value representation"),
        (element(0x00080016, b"XX", b""), DamagedPicture, "no value representation"),
        (element(0x00080100, b"SQ", b"", UNDEFINED), TruncatedPicture, "ends within an element"),
        (element(0x00080100, b"SQ", b"12345678", UNDEFINED), DamagedPicture, "what are no items"),
        (element(0x00080100, b"SQ", ITEM + b"\x09\0\0\0", UNDEFINED), TruncatedPicture, "promises 9 bytes"),
        (element(0x00080100, b"SQ", ITEM + UNDEFINED, UNDEFINED), TruncatedPicture, "ends within an element"),
    ],
)
def test_what_is_no_data_set_is_refused(content, error, said):
    with pytest.raises(error, match=said):
        walked(content)


def test_an_item_among_implicit_elements_is_refused():
    with pytest.raises(DamagedPicture, match="where it must not"):
        walked(ITEM + bytes(4), explicit=False)


def test_fragments_are_no_data_sets():
    content = element(0x7FE00010, b"OB", ITEM + UNDEFINED + ITEM_END + SEQUENCE_END, UNDEFINED)
    with pytest.raises(DamagedPicture, match="no row of fragments"):
        Walk(content).items(walked(content)[0])


def test_depth_has_a_ceiling():
    assert len(walked(nested(MAX_DEPTH // 2))) == 1
    for depth in (MAX_DEPTH // 2 + 1, 200_000):
        with pytest.raises(UnsupportedPicture, match=f"more than {MAX_DEPTH} deep"):
            walked(nested(depth))


def test_numbers_have_a_ceiling():
    def of(items: int) -> bytes:
        return element(0x00080100, b"SQ", (ITEM + bytes(4)) * items + SEQUENCE_END, UNDEFINED)

    assert len(walked(of(MAX_ELEMENTS - 2))) == 1
    for items in (MAX_ELEMENTS - 1, 2_000_000):
        with pytest.raises(UnsupportedPicture, match=f"more than {MAX_ELEMENTS:,} elements"):
            walked(of(items))


def test_the_last_element_may_reach_past_what_was_inflated():
    content = element(0x00080016, b"UI", b"") + element(0x7FE00010, b"OB", b"ab", b"\0\0\0\x01")
    found = list(Walk(content).elements(0, len(content), explicit=True, unread=0x7FE00010))
    assert found[-1].end - found[-1].start == 2**24
