"""Small Parquet files and, beside each, the rows it holds as JSON.

Both are written from the same Python values, the Parquet file by pyarrow, which is not what reads it in Anneal.
Run it in a virtual environment that has pyarrow (made with 26.0.1):

    python tests/parquet/make_parquet.py
"""

import base64
import datetime
import decimal
import json
import math
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

HERE = Path(__file__).parent
TURN = pa.struct([("role", pa.string()), ("content", pa.string()), ("name", pa.string())])
# What a column of pictures looks like in a published data set.
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def turn(role, content, name=None):
    return {"role": role, "content": content, "name": name}


def chat():
    """Conversations of several lengths, in row groups of three rows."""
    rows = []
    for number in range(8):
        messages = [turn("system", "Answer briefly.")] if number % 3 == 0 else []
        for step in range(1 + number % 2):
            messages.append(turn("user", f"Question {number}.{step}: wie heißt 漢字? 🙂", "mira" if step else None))
            messages.append(turn("assistant", f"Answer {number}.{step}\nin two lines"))
        rows.append({"id": f"row-{number}", "messages": messages})
    schema = pa.schema([("id", pa.string()), ("messages", pa.list_(TURN))])
    write("chat", rows, schema, compression="snappy", row_group_size=3)


def pairs():
    """Questions and answers with values that are missing, in pages of the second version."""
    rows = []
    for number in range(60):
        rows.append({
            "question": None if number == 5 else f"How much is {number} + {number}?",
            "answer": None if number == 7 else ["zero", "some", "many"][min(number, 2)],
            "score": None if number % 4 == 0 else number / 8,
            "number": number - 30,
            "good": None if number == 0 else number % 2 == 0,
        })
    schema = pa.schema([
        ("question", pa.string()), ("answer", pa.string()), ("score", pa.float32()),
        ("number", pa.int32()), ("good", pa.bool_()),
    ])
    write("pairs", rows, schema, compression="zstd", data_page_version="2.0")


def text():
    """Texts over many small pages, without a dictionary."""
    source = random.Random(7)
    words = "the metal cools slowly and its grains grow çà et là ünd wieder 鋼 🔥".split()
    rows = [{"text": " ".join(source.choices(words, k=source.randint(5, 40)))} for _ in range(150)]
    schema = pa.schema([pa.field("text", pa.string(), nullable=False)])
    write("text", rows, schema, compression="gzip", use_dictionary=False, data_page_size=512, write_batch_size=10)


def kinds():
    """One column of every kind of value, each with a value that is missing."""
    utc = datetime.timezone.utc
    moment = datetime.datetime(2024, 2, 29, 23, 59, 58, 120_000)
    fields = [
        ("text", pa.large_string(), "plain"),
        ("word", pa.dictionary(pa.int32(), pa.string()), "often"),
        ("small", pa.int8(), -128),
        ("large", pa.int64(), -(2**63)),
        ("largest", pa.uint64(), 2**64 - 1),
        ("half", pa.float16(), 0.5),
        ("single", pa.float32(), 0.25),
        ("double", pa.float64(), 1e300),
        ("not_a_number", pa.float64(), math.nan),
        ("truth", pa.bool_(), True),
        ("day", pa.date32(), datetime.date(1815, 12, 10)),
        ("last_day", pa.date32(), 2**31 - 1),
        ("clock", pa.time64("us"), datetime.time(1, 2, 3, 4)),
        ("millis", pa.timestamp("ms"), moment),
        ("micros", pa.timestamp("us", tz="UTC"), moment.replace(tzinfo=utc)),
        ("nanos", pa.timestamp("ns"), moment),
        ("price", pa.decimal128(9, 2), decimal.Decimal("-1234567.05")),
        ("precise", pa.decimal128(38, 10), decimal.Decimal("-0.0000000001")),
        ("table", pa.list_(pa.list_(pa.int32())), [[1, 2], [], None, [3, None]]),
        ("things", pa.map_(pa.string(), pa.int32()), [("b", 1), ("a", None)]),
        ("deep", pa.struct([("in", pa.struct([("er", pa.list_(pa.string()))]))]), {"in": {"er": ["x", None]}}),
        ("nothing", pa.null(), None),
        ("empty", pa.list_(pa.string()), []),
        ("raw", pa.binary(), b"\x00\xff"),
        ("fixed", pa.binary(4), b"\x00\x01\x02\x03"),
        ("picture", PICTURE, {"bytes": b"\x89PNG", "path": "a.png"}),
        ("pictures", pa.list_(PICTURE), [{"bytes": b"\x89PNG", "path": "b.png"}, None]),
        ("pieces", pa.list_(pa.binary()), [b"\x00"]),
        ("named_bytes", pa.map_(pa.string(), pa.binary()), [("a", b"\x00")]),
    ]
    full = {name: value for name, _, value in fields}
    rows = [full, dict.fromkeys(full), full]
    # Dates that no calendar has are numbers, which only pyarrow's own array takes.
    columns = {}
    for name, kind, value in fields:
        values = [value, None, value]
        if name == "last_day":
            columns[name] = pa.array(values, pa.int32()).cast(kind)
        else:
            columns[name] = pa.array(values, kind)
    table = pa.table(columns)
    pq.write_table(table, HERE / "kinds.parquet", compression="none")
    write_twin("kinds", rows, table.schema)


def encodings():
    """The encodings that are rarer than a dictionary."""
    rows = [{
        "prefix": None if number % 50 == 7 else f"shared beginning {number // 10} {number}",
        "length": "x" * (number % 17),
        "steps": number * number,
        "split": number / 4,
    } for number in range(120)]
    schema = pa.schema([
        ("prefix", pa.string()), ("length", pa.string()), ("steps", pa.int64()), ("split", pa.float64()),
    ])
    encoding = {
        "prefix": "DELTA_BYTE_ARRAY", "length": "DELTA_LENGTH_BYTE_ARRAY",
        "steps": "DELTA_BINARY_PACKED", "split": "BYTE_STREAM_SPLIT",
    }
    write("encodings", rows, schema, compression="snappy", use_dictionary=False, column_encoding=encoding)


def refused():
    """Files that can't be read, each for one reason."""
    words = pa.table({"text": ["a", "b"] * 4})
    pq.write_table(words, HERE / "lz4.parquet", compression="lz4")
    pq.write_table(pa.table({"picture": [b"\x00", b"\xff"]}), HERE / "bytes-only.parquet")
    pq.write_table(words.slice(0, 0), HERE / "no-rows.parquet")
    for name, plaintext_footer in (("encrypted", False), ("encrypted-column", True)):
        config = pe.EncryptionConfiguration(
            footer_key="footer", column_keys={"column": ["text"]}, plaintext_footer=plaintext_footer,
        )
        factory = pe.CryptoFactory(lambda _: Keys())
        properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
        pq.write_table(words, HERE / f"{name}.parquet", encryption_properties=properties)


class Keys(pe.KmsClient):
    """Keeps keys for encryption in the open, which is enough for a file that nobody decrypts."""

    def __init__(self):
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


def pictures():
    """Pictures of 3 x 2 in colour as BMP, in two row groups: one without a label, and one whose file is elsewhere."""
    rows = []
    for number in range(6):
        pixels = b"".join(bytes([number, 10 * row, column]) for row in range(2) for column in range(3))
        rows.append({
            "label": -1 if number == 2 else number % 2,
            "img": {"bytes": None if number == 4 else bmp(pixels), "path": f"{number}.bmp"},
            "id": f"picture {number}",
        })
    features = {"img": {"_type": "Image"}, "label": {"names": ["cat", "dog", "bird"], "_type": "ClassLabel"}}
    about = json.dumps({"info": {"features": features}})
    schema = pa.schema(
        [("img", PICTURE), ("label", pa.int64()), ("id", pa.string())], metadata={"huggingface": about}
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), HERE / "pictures.parquet", row_group_size=4)


def bmp(pixels):
    """A file of 3 x 2 pixels, which are [row][column][red, green, blue]; BMP has the last row first, blue first, and fills lines."""
    lines = [pixels[at : at + 9] for at in (9, 0)]
    lines = [b"".join(line[x : x + 3][::-1] for x in (0, 3, 6)) + bytes(3) for line in lines]
    head = struct.pack("<2sIHHI", b"BM", 54 + 24, 0, 0, 54)
    return head + struct.pack("<IiiHHIIiiII", 40, 3, 2, 1, 24, 0, 24, 0, 0, 0, 0) + b"".join(lines)


def write(name, rows, schema, **options):
    pq.write_table(pa.Table.from_pylist(rows, schema), HERE / f"{name}.parquet", **options)
    write_twin(name, rows, schema)


def write_twin(name, rows, schema):
    values = [{
        field.name: as_json(field.type, row[field.name]) for field in schema if has_text(field.type)
    } for row in rows]
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    (HERE / f"{name}.json").write_text("[" + ",\n".join(lines) + "]\n", encoding="utf-8")


def has_text(kind):
    """Bytes are left out, also inside of other values. A map keeps its keys only with its values."""
    if pa.types.is_map(kind):
        return has_text(kind.item_type)
    if pa.types.is_list(kind):
        return has_text(kind.value_type)
    if pa.types.is_struct(kind):
        return any(has_text(field.type) for field in kind)
    return not (pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def as_json(kind, value):
    if value is None or value != value:
        return None
    if pa.types.is_map(kind):
        return {key: as_json(kind.item_type, one) for key, one in value}
    if pa.types.is_list(kind):
        return [as_json(kind.value_type, one) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: as_json(field.type, value[field.name]) for field in kind if has_text(field.type)}
    if pa.types.is_date(kind):
        return value if isinstance(value, int) else value.isoformat()
    if pa.types.is_time(kind):
        return value.isoformat(timespec="microseconds")
    if pa.types.is_timestamp(kind):
        moment = value.isoformat(sep=" ", timespec="milliseconds" if kind.unit == "ms" else "microseconds")
        return moment.removesuffix("+00:00")
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    return value


if __name__ == "__main__":
    for make in (chat, pairs, text, kinds, encodings, refused, pictures):
        make()
