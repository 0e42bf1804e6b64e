"""HEIC files to read: one that was encoded by libheif with x265, and its boxes changed."""

import base64
import struct

from PIL import Image

SIZE = (64, 48)
CORNERS = ((200, 150, 130), (60, 60, 60), (230, 220, 210), (120, 60, 40))
"""The colours of its quarters: upper left and right, lower left and right."""

_FILE = base64.b85decode(
    b"0000SW^{RQXk}@500000ZE0pPXk}@5ZE0a<0004gZDn*}000000000XXk=`10000000000aA{+700000000000000000000B57=I"
    b"V*mgE07O6l0RRC200001q5uH^0000000A5T001LtX>Mi!000000RR916=`l}WdZ;I000310BCk&F#rGn01j|zbZr0t000010002~"
    b"X>f9I0002qX>en20001YXm(>m0R#vD005pi000009`FGC|M>U-"
    b"01pFT0096OKmiN^|NjIC00093o;Uyi0{{RXx&lC90096hLID8;2mk;B0G>Di00RI39*_hOAhO+Dl-D-"
    b"_4F&`N00RJI000931R!Dn0RRX@0l{+^FbI$U000wXZ)|dIV{CW;0RRmE27mwn02FC+aAg1h0000006+i$06+i$04QT@VQ>Hd06+i"
    b"$0096105AXm009610000000RI2|L_0+00IC201$9#cxeCt0009B2nYZG02pa-ZD9Za00000009621%Uzs1%v<q0VHi?VRQfh0T?I"
    b"&uLijBSj2$;hd=-Su7~J-"
    b"jxpP))9)c;uYb<(_uK$K{&M$eX5H;5#4pk?L!p?Ys>CA^4QpL>TGuS<+<KE*8u5<j^#$YYM&GOwtuporD(j21S8U88@3<3?P9KQO"
    b"6q&?g2-O5Xu(kmX?f3tmZ^^7%{I?shNBY35aT0`$PUHF}apsy{r0-V%&qZSn0%*wfFi2&iEKME02fXsIBtYBPtm&ytNNlgF-"
    b"1>`9Z)oE<VNvNEzjST9W$>lhY|ie`CQz^*Z;WBmsyIy$w})a>kFJRIyZ^#Y?1@8|6SN^#noq2P0r~T>i73Bp`_Wx}pD7U^)K0DAz"
    b"s@_#oBdL`<{bX>`y0+~Y~)LbvHt|T`@j"
)
TURNS = {2: b"\0imir\1", 3: b"\0irot\2", 4: b"\0imir\0", 6: b"\0irot\3", 8: b"\0irot\1"}


def quarters() -> Image.Image:
    """The picture that the file shows."""
    image, (width, height) = Image.new("RGB", SIZE), (SIZE[0] // 2, SIZE[1] // 2)
    for number, colour in enumerate(CORNERS):
        left, upper = number % 2 * width, number // 2 * height
        image.paste(colour, (left, upper, left + width, upper + height))
    return image


def heic(turn: int = 1, nclx: tuple[int, int] | None = None) -> bytes:
    """The file, turned as EXIF counts turns (by irot or imir), and with other code points of its colours."""
    content = _FILE
    if nclx is not None:
        at = content.index(b"colrnclx") + 8
        content = content[:at] + struct.pack(">HH", *nclx) + content[at + 4 :]
    if turn == 1:
        return content
    kind, value = TURNS[turn][1:5], TURNS[turn][5:]
    new = struct.pack(">I", 9) + kind + value
    properties, associations = content.index(b"ipco") - 4, content.index(b"ipma") - 4
    end = properties + int.from_bytes(content[properties : properties + 4], "big")
    count, at = 0, properties + 8
    while at < end:
        count, at = count + 1, at + int.from_bytes(content[at : at + 4], "big")
    last = associations + int.from_bytes(content[associations : associations + 4], "big")
    number = content[associations + 18]
    changed = bytearray(content[:last] + bytes([0x80 | count + 1]) + content[last:])
    changed[associations + 18] = number + 1
    changed[end:end] = new
    for name, more in ((b"ipco", 9), (b"ipma", 1), (b"iprp", 10), (b"meta", 10)):
        place = changed.index(name) - 4
        changed[place : place + 4] = struct.pack(
            ">I", int.from_bytes(changed[place : place + 4], "big") + more
        )
    base = changed.index(b"iloc") + 4 + 4 + 2 + 2 + 2 + 2  # its one item's base
    moved = int.from_bytes(changed[base : base + 4], "big") + 10
    changed[base : base + 4] = struct.pack(">I", moved)
    return bytes(changed)
